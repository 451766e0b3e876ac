"""Modes of ours: a function that is called in place of each operator, and a watch over a model in its trace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch.export._trace
from torch._export.non_strict_utils import _NonStrictTorchFunctionHandler
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from shapeproof.export.shim.replaced import replaced


class in_place_of_each_call(TorchDispatchMode):  # noqa: N801 - used as a function
    """Inside this block, call `run` with each operator and its arguments; its result is the operator's.

    Under a mode that is not torch's own, torch.compile compiles nothing, and torch.cond, which it compiles, fails.
    """

    supports_higher_order_operators = True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """As the modes of torch itself are."""
        return True

    def __init__(self, run: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._run = run

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Leave the call to `run`."""
        return self._run(func, args, kwargs or {})


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
