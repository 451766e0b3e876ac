"""Keeps the process from work that does nothing for an export.

*Garbage.* An export creates hundreds of thousands of objects, so Python's collector keeps walking everything that the
process holds: torch, sympy and the model. This walk takes a tenth of an export's time and finds no garbage.

*Compiled branches.* Dynamo compiles the branches of `torch.cond`, in eager too, and its caches hold the model for ever.

*Threads.* A kernel on few elements ends before other threads have begun, and OpenMP's threads wait for each other in a
busy loop. Where other processes use the cores, the wait takes ten times the work.

*Code.* Torch generates the code of a graph after each of its passes, and runs none of it. With torch's own flag it
generates the code of a graph only where the graph is called or its code is read. No graph is changed here.

*Logs.* Torch logs and warns of what it does on our behalf.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar

import torch
from threadpoolctl import ThreadpoolController
from torch._C._dynamo.eval_frame import reset_code
from torch._dynamo.convert_frame import output_codes
from torch._dynamo.eval_frame import cached_backends
from torch._dynamo.utils import get_metrics_context, orig_code_map
from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module

from shapeproof.export.limits import THREADS_WORK
from shapeproof.export.shim.replaced import bound
from shapeproof.solver.ledger import QUESTIONS, heard_by


@contextlib.contextmanager
def only_new_garbage() -> Iterator[None]:
    """Collect only objects created inside the block; objects frozen by other code stay frozen."""
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def compiled_code_forgotten() -> Iterator[None]:
    """Forget what Dynamo compiled inside this block; what it had compiled of the same functions is compiled again."""
    backends, noted = cached_backends.keys(), get_metrics_context()._edits
    compiled, held, known = len(output_codes.seen), frozenset(backends), len(noted)
    try:
        yield
    finally:
        del noted[known:]  # tracebacks, which hold the code in C++
        for backend in backends - held:
            del cached_backends[backend]
        made = (code() for code in output_codes.seen[compiled:])
        for source in {orig_code_map[code] for code in made if code is not None and code in orig_code_map}:
            reset_code(source)


@contextlib.contextmanager
def few_threads(work: int = 0) -> Iterator[None]:
    """Inside this block, kernels of this thread run on one thread, unless runs multiply much: then on all again.

    Law: other threads keep theirs. A thread that uses torch for the first time would keep `torch.set_num_threads(1)`.

    >>> import torch
    >>> with few_threads():
    ...     torch.get_num_threads()
    1
    """
    threads = _threads.get() or torch.get_num_threads()
    limit = 1 if work <= THREADS_WORK else threads
    with bound(_threads, threads), _pools().limit(limits=limit, user_api="openmp"):
        yield


_threads: ContextVar[int] = ContextVar("threads", default=0)
"""The threads that kernels had outside of all these blocks; 0 there."""

_pools = functools.cache(ThreadpoolController)
"""The thread pools of the process, sought once: torch brings its own with it."""


def code_deferred() -> AbstractContextManager[None]:
    """Inside this block, torch defers the code of the graphs that it makes. The flag is the process's."""
    return _use_lazy_graph_module(should_use=True)


def code_generated(module: torch.fx.GraphModule) -> None:
    """Generate all code that was deferred, of bodies too, so that nobody finds a trace of the flag."""
    for each in module.modules():
        if isinstance(each, _LazyGraphModule):
            plain = type(torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph()))  # each module has its own class
            plain.__name__ = type(each).__name__
            each.__class__ = plain  # type: ignore[assignment]
            each.recompile()


_NOISY = (
    "torch.fx.experimental.symbolic_shapes",
    "torch.fx.experimental.sym_node",
    "torch.export",
    "torch._export.non_strict_utils",
    "torch._subclasses.fake_tensor",
    "torch.onnx",
)


class _AsTorch(logging.Handler):
    """Passes records to whoever listens to torch's logger, at whatever level that is while torch is silenced."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a record on."""
        logging.getLogger(_NOISY[0]).handle(record)


@contextlib.contextmanager
def as_torch_logs() -> Iterator[None]:
    """Inside this block, `TORCH_LOGS="+dynamic"` shows our questions in place of torch's guards."""
    heard = any(isinstance(each, _AsTorch) for each in QUESTIONS.handlers)
    if heard or not logging.getLogger(_NOISY[0]).isEnabledFor(logging.DEBUG):
        yield
        return
    with heard_by(_AsTorch()):
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence torch inside the block: it logs and warns about guards that this package handles itself."""
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
