"""Reads and writes one entry of dynamic_shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
        bounds: the bounds of the root; None for no upper bound.
        root_text: the root as source code.
        text: the Dim as source code.
        shown: torch's own repr of the Dim.
    """

    root: str
    step: int
    offset: int
    bounds: tuple[int, int | None]
    root_text: str
    text: str
    shown: str


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
        line = derive(1) - derive(0), derive(0)
        return NamedDim(
            root.__name__, *line, _bounds(root), declaration_text(root), declaration_text(entry), repr(entry)
        )
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
    return {_derivation(each)[0].__name__ for each in pytree.tree_leaves(entries, is_leaf=is_dim) if is_dim(each)}


def _bounds(dim: Any) -> tuple[int, int | None]:
    """Return the bounds of a named Dim; None for no upper bound."""
    return int(dim.min), None if dim.max == int_oo else int(dim.max)
