"""Read the symbols of a domain off the sizes of inputs, and check the symbols against its formulas.

A symbol is read off the first size that equals it, otherwise solved from a derived size such as `2*n + 1`. Every other
size is a requirement on the symbols that were read. Inputs may be tensors of any library, or numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.compiled import compiled
from shapeproof.constraints.meaning.evaluate import has_meaning, linear, true_at
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import Term
from shapeproof.contract.outside import OutsideDomain, refusal


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a symbol is read: size `index` of flat input `leaf` is `offset + step*symbol`."""

    leaf: int
    index: int
    offset: int = 0
    step: int = 1

    def value(self, size: Any, call: Callable[..., Any]) -> Any:
        """Return the symbol's value for this size."""
        shifted = call(operator.sub, size, self.offset) if self.offset else size
        return call(operator.floordiv, shifted, self.step) if self.step != 1 else shifted

    @property
    def is_plain(self) -> bool:
        """True if the size equals the symbol."""
        return self.offset == 0 and self.step == 1


def readings(sizes: Sequence[Sequence[Term]]) -> dict[str, Reading]:
    """Return where each symbol is read: the first size that equals it, otherwise a derived size.

    >>> n = t.symbol("n")
    >>> readings([[2 * n + 1, t.constant(4)]])["n"]
    Reading(leaf=0, index=0, offset=1, step=2)
    """
    found: dict[str, Reading] = {}
    derived: dict[str, Reading] = {}
    for leaf, terms in enumerate(sizes):
        for index, term in enumerate(terms):
            form = linear(term)
            if form is not None:
                place = Reading(leaf, index, form.offset, form.step)
                (found if place.is_plain else derived).setdefault(form.name, place)
    return derived | found


def plainly(target: Callable[..., Any], *args: Any) -> Any:
    """Apply an operator to the sizes themselves."""
    return target(*args)


def further_sizes(sizes: Sequence[Sequence[Term]]) -> dict[str, tuple[Reading, Formula]]:
    """Return the sizes that are neither constants nor read for a symbol, by a name, each with the equation for it.

    >>> n = t.symbol("n")
    >>> further_sizes([[n, t.constant(4)], [2 * n]])["#1.0"][1] is f.eq(t.symbol("#1.0"), 2 * n)
    True
    """
    read = {(place.leaf, place.index) for place in readings(sizes).values() if place.is_plain}
    return {
        (name := f"#{leaf}.{index}"): (Reading(leaf, index), f.eq(t.symbol(name), term))
        for leaf, terms in enumerate(sizes)
        for index, term in enumerate(terms)
        if not term.is_constant and (leaf, index) not in read
    }


class SizeGuard:
    """Checks sizes against the domain with one compiled function.

    Args:
        sizes: the terms of the sizes of each flat input.
        formulas: the requirements on their symbols.
        declared: the formulas that the user declared; the model was found to require the others.
        names: symbol -> the user's name; `size_name(leaf, index)` names a size.

    Attributes:
        places: where each symbol is read, in the order of the compiled function's arguments.
        holds: the compiled function; it raises Unevaluable where a formula has no value.
        domain: the formulas that are checked.
        formulas: all that is checked: the equations of further sizes, then the domain.
        names, size_name: the user's names of the symbols and of the sizes.
        left: the formulas that cannot be checked: they use an opaque function, or a symbol that no size determines.
    """

    def __init__(
        self,
        sizes: Sequence[Sequence[Term]],
        formulas: Sequence[Formula],
        declared: frozenset[Formula],
        names: Mapping[str, str],
        size_name: Callable[[int, int], str],
    ) -> None:
        further = further_sizes(sizes)
        self.places = [*readings(sizes).items(), *((name, place) for name, (place, _) in further.items())]
        known = {name for name, _ in self.places}
        kept = [each for each in formulas if each.symbols <= known and has_meaning(each)]
        self.left = [each for each in formulas if each not in kept]
        self.domain = kept
        equations = [formula for _, formula in further.values()]
        self.formulas = [*equations, *kept]
        self._declared = declared.union(equations)
        self.names = {**names, **{name: size_name(place.leaf, place.index) for name, (place, _) in further.items()}}
        self.size_name = size_name
        self.holds = compiled(self.formulas, [name for name, _ in self.places])

    def check(self, given: Sequence[Any]) -> None:
        """Raise OutsideDomain if the sizes violate a formula."""
        point = self.point(given)
        try:
            inside = self.holds(*point.values())
        except Unevaluable:
            inside = False
        if not inside:
            raise self._refusal(point, given)

    def point(self, given: Sequence[Any]) -> dict[str, int]:
        """Return the value of each symbol."""
        return {name: place.value(size_of(given[place.leaf], place.index), plainly) for name, place in self.places}

    def _refusal(self, point: Mapping[str, int], given: Sequence[Any]) -> OutsideDomain:
        formula = next(each for each in self.formulas if true_at(each, point) is not True)
        values = {
            name: point[each] if isinstance(each, str) else size_of(given[each.leaf], each.index)
            for name, each in self.shown(formula).items()
        }
        return refusal(values, *self.requirement(formula))

    def shown(self, formula: Formula) -> dict[str, Reading | str]:
        """Return what a refusal shows, by the user's name: sizes off which symbols are solved, and the symbols."""
        solved = [place for name, place in self.places if name in formula.symbols and not place.is_plain]
        sizes: dict[str, Reading | str] = {self.size_name(each.leaf, each.index): each for each in solved}
        return sizes | {self.names.get(name, name): name for name in sorted(formula.symbols)}

    def requirement(self, formula: Formula) -> tuple[str, str]:
        """Return the formula in the user's names, and its source: declared or required."""
        because = "declared" if formula in self._declared else "required"
        return format_formula(formula, rename=self.names), because


def size_of(value: Any, index: int) -> Any:
    """Return the size of a tensor, or the number itself."""
    shape = getattr(value, "shape", None)
    return value if shape is None else shape[index]
