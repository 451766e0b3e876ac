"""Holds the flat inputs of a run against what was declared of them: kind, dtype, device, layout, rank, sizes.

A guard knows one input and refuses whatever its program was not proved for. Torch's own guards know sizes alone, and
speak of `args`; these take their place in `module()`. What a saved program can hold of them is written as text
(`code`), which torch compiles when it makes a module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.evaluate import true_at
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term
from shapeproof.constraints.text import format_formula
from shapeproof.export.build.outside import OutsideDomain, refusal
from shapeproof.export.graph.emit import Reading, plainly, readings
from shapeproof.export.shim import guarding
from shapeproof.solver.compiled import compiled
from shapeproof.solver.points import has_meaning


class Guard(Protocol):
    """Holds one flat input against its declaration."""

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is of another kind."""

    def code(self, source: str) -> list[str]:
        """What a saved program can check of it, as Python over the input's name."""


@dataclass(frozen=True)
class TensorGuard:
    """A tensor of one dtype, device, layout and rank; `fixed` has its constant sizes."""

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    rank: int
    fixed: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, name: str, noted: torch.Tensor) -> TensorGuard:
        """The guard of an input as a program notes it."""
        fixed = tuple((index, size) for index, size in enumerate(noted.shape) if isinstance(size, int))
        return cls(name, noted.dtype, noted.device, noted.layout, noted.dim(), fixed)

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is no such tensor."""
        if not isinstance(value, torch.Tensor):
            raise refusal({self.name: value}, "a tensor")
        if value.dtype != self.dtype:
            raise self._refusal("dtype", value.dtype, self.dtype)
        if value.device != self.device:
            raise self._refusal("device", value.device, self.device)
        if value.layout != self.layout:
            raise self._refusal("layout", value.layout, self.layout)
        if value.dim() != self.rank:
            raise self._refusal("dim()", value.dim(), self.rank)
        for index, size in self.fixed:
            if value.shape[index] != size:
                raise self._refusal(f"shape[{index}]", value.shape[index], size)

    def _refusal(self, what: str, given: Any, expected: Any) -> OutsideDomain:
        return refusal({f"{self.name}.{what}": given}, f"{self.name}.{what} == {expected}")

    def code(self, source: str) -> list[str]:
        """That it has data. The graph holds the rest; a meta tensor answers none of its assertions."""
        return [] if self.device.type == "meta" else [f"{source}.device.type != 'meta'"]


@dataclass(frozen=True)
class IntGuard:
    """An int whose value is a symbol of the domain."""

    name: str

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is no int; a bool is none."""
        if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
            raise refusal({self.name: value}, "an int")

    def code(self, source: str) -> list[str]:
        """That it is no bool, and no float."""
        return [f"type({source}) is not bool", f"type({source}) is not float"]


@dataclass(frozen=True)
class ConstantGuard:
    """A value that the trace took as it was: None, a bool, an int, a float, a text."""

    name: str
    expected: Any

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is another one, or one of another type that is only equal."""
        if _same(value, self.expected):
            return
        if not guarding.is_traced() or value != self.expected:  # AOTAutograd hands a 1 to a program for a True
            formula = "None" if self.expected is None else f"{self.name} == {self.expected!r}"
            raise refusal({self.name: value}, formula)

    def code(self, source: str) -> list[str]:
        """What torch does not check by itself: that nothing is given for None, and the type of a number."""
        if self.expected is None:
            return [f"{source} is None"]
        return [f"type({source}) is {type(self.expected).__name__}"]


def _same(value: Any, expected: Any) -> bool:
    if type(value) is not type(expected):
        return False
    if isinstance(expected, float):
        equal = value == expected and math.copysign(1, value) == math.copysign(1, expected)
        return equal or (math.isnan(value) and math.isnan(expected))
    return bool(value == expected)


@dataclass(frozen=True)
class NoGuard:
    """An object of a class of its own, of which nothing is known."""

    def check(self, value: Any) -> None:
        """Take whatever is given."""

    def code(self, source: str) -> list[str]:  # noqa: ARG002 - what it says of a source
        """Nothing."""
        return []


def guard_of(name: str, noted: Any) -> Guard:
    """The guard of one flat input, as a program notes it."""
    match noted:
        case torch.Tensor():
            return TensorGuard.of(name, noted)
        case torch.SymInt():
            return IntGuard(name)
        case None | bool() | int() | float() | str():
            return ConstantGuard(name, noted)
        case _:
            return NoGuard()


@dataclass(frozen=True)
class Relation:
    """An input size that is a function of the symbols: size `index` of flat input `leaf`, and what it is equal to."""

    name: str
    leaf: int
    index: int
    formula: Formula


def relations(sizes: Sequence[Sequence[Term]]) -> list[Relation]:
    """The sizes that are neither constants nor where a symbol is read.

    >>> n = t.symbol("n")
    >>> [(each.name, str(each.formula)) for each in relations([[n, t.constant(4)], [2 * n]])]
    [('#1.0', '-2*n + #1.0 == 0')]
    """
    read = {(place.leaf, place.index) for place in readings(sizes).values() if place.offset == 0 and place.step == 1}
    found = []
    for leaf, terms in enumerate(sizes):
        for index, term in enumerate(terms):
            if not term.is_constant and (leaf, index) not in read:
                name = f"#{leaf}.{index}"
                found.append(Relation(name, leaf, index, f.eq(t.symbol(name), term)))
    return found


class SizeGuard:
    """Holds sizes against the domain, as one compiled function.

    Args:
        sizes: the terms of the sizes of each flat input.
        formulas: what must hold of their symbols.
        declared: those among them that the user wrote; the others are what the model was found to need.
        names: what the user calls symbols, and `size_name(leaf, index)` a size.
    """

    def __init__(
        self,
        sizes: Sequence[Sequence[Term]],
        formulas: Sequence[Formula],
        declared: frozenset[Formula],
        names: Mapping[str, str],
        size_name: Callable[[int, int], str],
    ) -> None:
        related = relations(sizes)
        self._places = [*readings(sizes).items(), *((each.name, Reading(each.leaf, each.index)) for each in related)]
        known = {name for name, _ in self._places}
        kept = [each for each in formulas if each.symbols <= known and has_meaning(each)]
        self._formulas = [*(each.formula for each in related), *kept]
        self._declared = declared | {each.formula for each in related}
        self._names = {**names, **{each.name: size_name(each.leaf, each.index) for each in related}}
        self._hold = compiled(self._formulas, [name for name, _ in self._places])

    def check(self, given: Sequence[Any]) -> None:
        """Raise OutsideDomain if the sizes do not satisfy a formula."""
        values = [place.value(_size(given[place.leaf], place.index), plainly) for _, place in self._places]
        try:
            inside = self._hold(*values)
        except Unevaluable:
            inside = False
        if not inside:
            raise self._refusal(self.point(given))

    def point(self, given: Sequence[Any]) -> dict[str, int]:
        """The value of each symbol."""
        return {name: place.value(_size(given[place.leaf], place.index), plainly) for name, place in self._places}

    def _refusal(self, point: Mapping[str, int]) -> OutsideDomain:
        formula = next(each for each in self._formulas if true_at(each, point) is not True)
        shown = {self._names.get(name, name): point[name] for name in sorted(formula.symbols)}
        because = "declared" if formula in self._declared else "required"
        return refusal(shown, format_formula(formula, rename=self._names), because)


def _size(value: Any, index: int) -> Any:
    return value.shape[index] if isinstance(value, torch.Tensor) else value
