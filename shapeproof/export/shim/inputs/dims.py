"""Reads and writes one entry of dynamic_shapes.

Also reads the marks that torch._dynamo sets on a tensor's dimensions, as torch.export does, and writes them again.

Torch's precedence: `maybe_mark_dynamic`, `mark_dynamic`, then `mark_unbacked`. Torch's non-strict exporter ignores
`mark_unbacked`; here it counts. `mark_static`, and a mark on a missing dimension, leave a size static.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.utils._pytree as pytree
from torch.export import Dim
from torch.export.dynamic_shapes import _DerivedDim, _Dim, _DimHint, _DimHintType
from torch.utils._sympy.numbers import int_oo


@dataclass(frozen=True, slots=True)
class NamedDim:
    """A named or derived Dim as data.

    Attributes:
        root: the name of the Dim itself, or of the one that it is derived from.
        step, offset: the size of the Dim is `step*root + offset`.
        bounds: the bounds of the root; None for no bound.
        liftable: True if the lower bound of the root may rise to 1 or 2: a Dim without written bounds.
        root_text: the root as source code.
        text: the Dim as source code.
        shown: torch's own repr of the Dim.
    """

    root: str
    step: int
    offset: int
    bounds: tuple[int | None, int | None]
    liftable: bool
    root_text: str
    text: str
    shown: str


@dataclass(frozen=True, slots=True)
class Expression:
    """A size, or an int, that equals an expression over the names of Dims: `a*b`."""

    text: str


@dataclass(frozen=True, slots=True)
class Hint:
    """Dim.AUTO or Dim.DYNAMIC as data; the latter forbids specialization to a constant."""

    bounds: tuple[int | None, int | None]
    text: str
    stays_dynamic: bool


def read(entry: Any) -> Any:
    """Return an entry as data: a NamedDim or a Hint, and None for Dim.STATIC; every other entry is returned as it is.

    >>> read(2 * Dim("n", max=4)).root, read(Dim.AUTO(min=1)).bounds, read(Dim.STATIC), read(7)
    ('n', (1, None), None, 7)
    """
    if is_dim(entry):
        root, derive = _derivation(entry)
        line, bounds = (derive(1) - derive(0), derive(0)), _bounds(root)
        texts = declaration_text(root), declaration_text(entry), repr(entry)
        return NamedDim(root.__name__, *line, bounds, bounds == (0, None), *texts)
    if not is_hint(entry):
        return entry
    if entry.type == _DimHintType.STATIC:
        return None
    return Hint((entry.min, entry.max), declaration_text(entry), must_stay_dynamic(entry))


def declaration_text(entry: Any) -> str:
    """Return a dim, a hint or an int as source code; torch's own repr of a Dim leaves out `min=2`.

    >>> declaration_text(Dim("n", min=2, max=8)), declaration_text(Dim.AUTO(min=1)), declaration_text(2 * Dim("n") + 1)
    ('Dim("n", min=2, max=8)', 'Dim.AUTO(min=1)', '2*n + 1')
    """
    if is_hint(entry):
        ends = _ends(entry.min, entry.max)
        return f"Dim.{entry.type.name}({', '.join(ends)})" if ends else f"Dim.{entry.type.name}"
    if not is_dim(entry):
        return repr(entry)
    if _derivation(entry)[0] is not entry:
        return str(entry.__name__)
    lower, upper = _bounds(entry)
    ends = _ends(None if lower == 0 and upper is None else lower, upper)
    named = [f'"{entry.__name__}"', *ends]
    return f"Dim({', '.join(named)})"


def _ends(lower: int | None, upper: int | None) -> list[str]:
    return [f"{name}={value}" for name, value in (("min", lower), ("max", upper)) if value is not None]


def hint_within(hint: Any, lower: int | None, upper: int | None) -> Any:
    """Return the same hint with these bounds."""
    kind: Any = Dim.DYNAMIC if must_stay_dynamic(hint) else Dim.AUTO
    return kind(min=lower, max=upper)


def is_dim(entry: Any) -> bool:
    """True if the entry is a named or derived Dim."""
    return isinstance(entry, _Dim)


def is_hint(entry: Any) -> bool:
    """True if the entry is Dim.AUTO, Dim.DYNAMIC or Dim.STATIC."""
    return isinstance(entry, _DimHint)


def must_stay_dynamic(hint: Any) -> bool:
    """True if the hint forbids specialization to a constant (Dim.DYNAMIC)."""
    return bool(hint.type == _DimHintType.DYNAMIC)


def _derivation(dim: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the named root of a Dim, and the function from the root to the Dim: torch derives by `+`, `-` and `*`."""
    if isinstance(dim, _DerivedDim):
        return dim.root, dim.fn
    return dim, lambda x: x


def root_names(entries: Any) -> set[str]:
    """Return the names of the Dims in nested entries."""
    read_entries = map(read, pytree.tree_leaves(entries, is_leaf=is_dim))
    return {each.root for each in read_entries if isinstance(each, NamedDim)}


def _bounds(dim: Any) -> tuple[int, int | None]:
    """Return the bounds of a named Dim; None for no upper bound."""
    return int(dim.min), None if dim.max == int_oo else int(dim.max)


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
    """Describe the marks without effect: missing dimensions and unclaimed bounds."""
    named = set[int]().union(*(getattr(tensor, each, ()) for each in (*_MARKING, _STRICT)))
    for index in sorted(named - set(range(tensor.dim()))):
        yield f"`{name}` is marked at dimension {index}, which torch passes over: it has {tensor.dim()}"
    for index in sorted(getattr(tensor, _MARKING[0], ())):
        if _ranges(tensor, index):
            yield f"the bounds marked at `{name}.shape[{index}]` have no effect: maybe_mark_dynamic makes no claim"


def specializations(tensor: torch.Tensor, index: int) -> list[Callable[[Any], Any]]:
    """Return the conditions on a marked size for which torch.compile makes programs of their own, in order."""
    return list(getattr(tensor, "_specialize_on", {}).get(index) or ())
