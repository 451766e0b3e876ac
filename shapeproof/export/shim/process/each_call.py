"""A function that is called before each operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


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
