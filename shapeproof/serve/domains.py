"""The domain of a program over the flat sizes of its inputs, so that the domains of several can be compared.

Each export names its symbols in its own way; here the size at place i of all flat sizes is `s{i}` for all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import has_meaning
from shapeproof.constraints.syntax.text import format_formula, parse_formula
from shapeproof.constraints.terms import Term
from shapeproof.contract.sizes import Reading, readings
from shapeproof.export import VerifiedProgram
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.reduction import substitute
from shapeproof.solver.prove import decide


@dataclass(frozen=True)
class FlatDomain:
    """The formulas that hold for the flat sizes of every input that a program serves.

    Attributes:
        formulas: over `s0`, `s1` and so on.
        names: what the user calls each flat size, by its symbol.
        lengths: how many of them belong to each flat input.
    """

    formulas: tuple[Formula, ...]
    names: Mapping[str, str]
    lengths: tuple[int, ...]

    def said(self, formula: Formula) -> str:
        """Return a formula in the user's names."""
        return format_formula(formula, rename=self.names)

    def point(self, sizes: Sequence[int]) -> dict[str, int]:
        """Return the flat sizes of a call by their symbols."""
        return dict(zip(self.names, sizes, strict=True))

    def within(self, other: FlatDomain) -> bool:
        """True if this domain is proved to lie in the other."""
        facts = Facts(self.formulas)
        return all(decide(formula, facts).status in {"proved", "vacuous"} for formula in other.formulas)


def flat_domain(program: VerifiedProgram) -> FlatDomain | None:
    """Return the domain of a program; None if sizes alone do not decide whether it contains an input."""
    contract = program.contract
    lengths = tuple(map(len, contract.sizes))
    first = [sum(lengths[:leaf]) for leaf in range(len(lengths))]
    places = {name: (first[place.leaf] + place.index, place) for name, place in readings(contract.sizes).items()}
    if not all(has_meaning(each) and each.symbols <= places.keys() for each in contract.formulas):
        return None
    moved = [_moved(each, places) for each in contract.formulas]
    if None in moved:
        return None
    kept = [*_equalities(contract.sizes, places), *(each for each in moved if each is not None)]
    named = enumerate(itertools.chain.from_iterable(contract.size_names(program)))
    return FlatDomain(tuple(dict.fromkeys(kept)), {f"s{index}": name for index, name in named}, lengths)


def _moved(formula: Formula, places: Mapping[str, tuple[int, Reading]]) -> Formula | None:
    """Return a formula over flat sizes. It is renamed as text, which keeps where it is defined; solving does not."""
    if all(places[name][1].is_plain for name in formula.symbols):
        return parse_formula(format_formula(formula, rename={each: f"s{places[each][0]}" for each in formula.symbols}))
    if not formula.total:
        return None
    return substitute(formula, {name: _solved(*places[name]) for name in formula.symbols})


def _solved(index: int, place: Reading) -> Term:
    return t.floor_div(t.symbol(f"s{index}") - place.offset, place.step)


def _equalities(sizes: Sequence[Sequence[Term]], places: Mapping[str, tuple[int, Reading]]) -> Iterator[Formula]:
    """Yield the equality of each size with its term."""
    read = {index for index, place in places.values() if place.is_plain}
    for index, term in enumerate(each for terms in sizes for each in terms):
        if index not in read:
            solved = substitute(term, {name: _solved(*places[name]) for name in term.symbols})
            yield f.eq(t.symbol(f"s{index}"), solved)
