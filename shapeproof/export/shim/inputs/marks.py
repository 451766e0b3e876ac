"""Reads the marks that torch._dynamo sets on a tensor's dimensions, as torch.export does, and writes them again.

Torch's precedence: `maybe_mark_dynamic`, `mark_dynamic`, then `mark_unbacked`. Torch's non-strict exporter ignores
`mark_unbacked`; here it counts. `mark_static`, and a mark on a missing dimension, leave a size static.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.export import Dim

_MARKING = ("_dynamo_weak_dynamic_indices", "_dynamo_dynamic_indices", "_dynamo_unbacked_indices")
_STRICT = "_dynamo_strict_unbacked_indices"


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of one dimension: the function that set it, and its arguments."""

    function: Literal["maybe_mark_dynamic", "mark_dynamic", "mark_unbacked"]
    lower: int | None = None
    upper: int | None = None
    shape_id: str | None = None
    """Sizes marked with the same id are equal."""

    @property
    def floor(self) -> int | None:
        """The claimed lower bound; `mark_unbacked` is a claim even without bounds."""
        return max(self.lower or 0, 0) if self.lower is not None or self.function == "mark_unbacked" else None

    @property
    def hint(self) -> Any:
        """The equivalent Dim hint."""
        if self.function == "maybe_mark_dynamic":
            return Dim.AUTO
        dynamic: Any = Dim.DYNAMIC
        return dynamic if self.floor is None and self.upper is None else dynamic(min=self.floor, max=self.upper)

    def within(self, lower: int | None, upper: int | None) -> Mark:
        """Return the mark with bounds; `maybe_mark_dynamic` takes none and becomes `mark_dynamic`."""
        function = "mark_dynamic" if self.function == "maybe_mark_dynamic" else self.function
        return Mark(function, lower or None, upper, self.shape_id)

    def text(self, name: str, index: int) -> str:
        """Return the call that sets the mark.

        >>> Mark("mark_unbacked", 3, None, "batch").text("x", 0)
        'mark_unbacked(x, 0, shape_id="batch", min=3)'
        """
        more = [] if self.shape_id is None else [f'shape_id="{self.shape_id}"']
        more += [f"{key}={end}" for key, end in (("min", self.lower), ("max", self.upper)) if end is not None]
        return f"{self.function}({', '.join([name, str(index), *more])})"


def mark_of(tensor: torch.Tensor, index: int) -> Mark | None:
    """Return the mark that makes the size of a dimension dynamic, if any."""
    weak, dynamic, unbacked = (index in getattr(tensor, name, ()) for name in _MARKING)
    if weak:
        return Mark("maybe_mark_dynamic")
    if dynamic:
        ranges = _ranges(tensor, index)
        lower = max((each.min for each in ranges if each.min is not None), default=None)
        upper = min((each.max for each in ranges if each.max is not None), default=None)
        return Mark("mark_dynamic", lower, upper)
    if unbacked:
        bounds = getattr(tensor, "_dynamo_unbacked_bounds", {}).get(index, (None, None))
        shape_id = getattr(tensor, "_dynamo_shape_ids", {}).get(index)
        return Mark("mark_unbacked", bounds[0], bounds[1], shape_id)
    return Mark("mark_unbacked") if index in getattr(tensor, _STRICT, ()) else None


def _ranges(tensor: torch.Tensor, index: int) -> list[Any]:
    """The bounds marked at a dimension: of each call, or of the last call only from torch 2.15 on."""
    return [each for each in getattr(tensor, "_dynamo_dynamic_range", ()) if each.dim == index]


def hint_override(tensor: torch.Tensor, index: int) -> int | None:
    """Return the size for which compilers should tune, if a mark gives one; dynamic_shapes does not override it."""
    return getattr(tensor, "_dynamo_hint_overrides", {}).get(index)


def is_marked(tensor: torch.Tensor) -> bool:
    """True if a dimension of a tensor has a mark that makes its size dynamic."""
    return any(mark_of(tensor, index) for index in range(tensor.dim()))


def without_effect(tensor: torch.Tensor, name: str) -> Iterator[str]:
    """Describe the marks without effect: missing dimensions, unclaimed bounds, and special cases of a dynamic size."""
    named = set[int]().union(*(getattr(tensor, each, ()) for each in (*_MARKING, _STRICT)))
    for index in sorted(named - set(range(tensor.dim()))):
        yield f"`{name}` is marked at dimension {index}, which torch passes over: it has {tensor.dim()}"
    for index in sorted(getattr(tensor, _MARKING[0], ())):
        if _ranges(tensor, index):
            yield f"the bounds marked at `{name}.shape[{index}]` have no effect: maybe_mark_dynamic makes no claim"
    for index, conditions in getattr(tensor, "_specialize_on", {}).items():
        if conditions and index in range(tensor.dim()) and mark_of(tensor, index):
            yield f"specialize_on of `{name}.shape[{index}]` is left to torch.compile: one program serves every size"
