"""The modes of torch that a model may switch and no graph shows: a program runs in those of its caller.

Random numbers count, too: a model that seeds them, or sets their state back, draws others than its program does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

_SEED = 7_046_029_254_386_353_131
"""The seed of a trace's first random operator; no model is thought to set it, nor one of those after it."""
without_fake_mode = unset_fake_temporarily
"""A block in which no fake mode of the user's is active; it would make every tensor fake, those of an export, too."""


def unwatched() -> AbstractContextManager[None]:
    """A block in which no function mode is told of calls: it is not the model that reads a tensor."""
    found: AbstractContextManager[None] = torch._C.DisableTorchFunction()
    return found


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    """Inside this block, operators of plain tensors run as outside of any mode: nothing is traced."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


_OURS = ("torch.", "shapeproof.")
"""The packages whose dispatch modes trace; others are the model's."""


def generators_restored() -> AbstractContextManager[None]:
    """Inside this block, random numbers may be drawn on any device; those after it are as if there had been none."""
    devices = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
    return torch.random.fork_rng(devices=range(devices))


def modes() -> tuple[Any, ...]:
    """Return the modes of the process that affect the results of operators, and that no node of a graph shows."""
    attention = torch.backends.cuda
    return (
        *(torch.is_inference_mode_enabled(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()),
        *(attention.flash_sdp_enabled(), attention.math_sdp_enabled(), attention.mem_efficient_sdp_enabled()),
        *(attention.cudnn_sdp_enabled(), torch.get_float32_matmul_precision()),
        *(type(mode) for mode in _get_current_dispatch_mode_stack() if not type(mode).__module__.startswith(_OURS)),
    )


def fills_memory() -> bool:
    """True if torch fills uninitialized memory itself: with NaN, where algorithms are deterministic."""
    return torch.are_deterministic_algorithms_enabled() and torch._C._get_deterministic_fill_uninitialized_memory()


def casts(kind: str) -> bool:
    """True if autocast is on for a kind of device; torch raises where a kind has none, as `meta`.

    >>> with torch.autocast("cpu"):
    ...     casts("cpu"), casts("meta")
    (True, False)
    """
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def precision() -> tuple[Any, ...]:
    """Return the settings of the process that affect how kernels multiply, up to rounding."""
    of = torch._C._get_fp32_precision_getter
    onednn = torch.backends.mkldnn
    rounding = of("mkldnn", "matmul"), of("mkldnn", "conv"), onednn.enabled, onednn.deterministic
    return *rounding, torch.get_num_threads()


class Switches:
    """Watches for operators that a model runs in other modes than those in which its trace began.

    No operator of a trace draws a number. So each random one is given a seed of its own: where a model sets another, or
    an earlier one again, the next operator shows it.
    """

    def __init__(self) -> None:
        self._modes = modes()
        self._seed: int | None = None
        self.seen: list[tuple[Any, Hashable]] = []
        """The operators, each with the modes or the seed."""

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch random operators, too, inside the block; the random numbers after it are as if there had been none."""
        with torch.random.fork_rng(devices=()):
            self._next(_SEED)
            try:
                yield
            finally:
                self._seed = None

    def note(self, func: Any) -> None:
        """Note an operator that is about to be run."""
        if (now := modes()) != self._modes:
            self.seen.append((func, now))
        if self._seed is not None and torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()):
            if (seed := torch.default_generator.initial_seed()) != self._seed:
                self.seen.append((func, seed))
            self._next(self._seed + 1)

    def _next(self, seed: int) -> None:
        self._seed = seed
        torch.default_generator.manual_seed(seed)
