"""Modes of ours: a function that is called before each operator, and a watch over what a model does in its trace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch.export._trace
from torch._export.non_strict_utils import _NonStrictTorchFunctionHandler
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from shapeproof.export.shim.replaced import replaced


class before_each_call(TorchDispatchMode):  # noqa: N801 - used as a function
    """Inside this block, call `check` with each operator and its positional arguments before torch runs it."""

    def __init__(self, check: Callable[[Any, Sequence[Any]], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._check = check

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Check, then run."""
        self._check(func, args)
        return func(*args, **kwargs or {})


@contextlib.contextmanager
def while_the_model_runs(watch: TorchFunctionMode) -> Iterator[None]:
    """Inside this block, a mode is active while torch.export runs the model, beneath the mode that torch enters then.

    It is not called while torch makes the fakes of the parameters, which takes some eighty calls for each.
    """

    @contextlib.contextmanager
    def both() -> Iterator[None]:
        with watch, _NonStrictTorchFunctionHandler():
            yield

    with replaced(torch.export._trace, _NonStrictTorchFunctionHandler=both):
        yield
