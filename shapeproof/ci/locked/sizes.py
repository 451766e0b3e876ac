"""Compares the sizes of two contracts over the same inputs: the sizes that the old one accepts and the new one refuses.

The sizes are variables common to both sides. A symbol is the function of a size by which its contract reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shapeproof.constraints.formulas import conjunction, eq, ge, negate
from shapeproof.constraints.meaning.evaluate import evaluate, holds_at
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.syntax.text import format_formula, parse_formula
from shapeproof.constraints.terms import Term, symbol
from shapeproof.contract import Contract
from shapeproof.contract.inputs import ConstantInput, TensorInput
from shapeproof.wording import values_text


@dataclass(frozen=True, slots=True)
class Lost:
    """A loss of accepted inputs, in a sentence; of lost sizes the smallest, and the first condition they violate."""

    message: str
    sizes: Mapping[str, int] | None = None
    """The sizes that vary; None if other properties are lost."""
    point: Mapping[str, int] = field(default_factory=dict)
    """All sizes, and the values of the new contract's symbols at these sizes."""
    demand: str = ""


def lost_sizes(old: Contract, new: Contract) -> Lost | Undecided | None:
    """Return the smallest lost sizes, or None if it is proved that there are none. Both sides take the same inputs."""
    from shapeproof.solver import Facts, smallest

    before, after = _Side(old, "old"), _Side(new, "new")
    facts = Facts([*before.natural, *before.demands.values(), *before.definitions, *after.definitions])
    found = smallest(negate(conjunction(*after.demands.values())), facts, before.varying)
    if found is None or isinstance(found, Undecided):
        return found
    shown = {name: found[name] for name in before.varying}
    sizes = before.fixed | shown
    symbols = {name: evaluate(term, sizes) for name, term in after.read.items()}
    point = sizes | {after.rename[name]: value for name, value in symbols.items()}
    demand = next(text for text, formula in after.demands.items() if not holds_at(formula, point))
    given = values_text(shown) or "any input"
    return Lost(f"{given} is no longer accepted: {demand} is required", shown, symbols | sizes, demand)


class _Side:
    """A contract over sizes, by the user's names. A symbol that no size equals gets the prefix.

    Attributes:
        fixed: the sizes that are constant.
        varying: the other sizes.
        natural: no size of a tensor is negative.
        read: each symbol as a function of a size; `rename`: its name here.
        definitions: the same as equations, where that is no renaming.
        demands: the conditions for acceptance, by the text to show.
    """

    def __init__(self, contract: Contract, prefix: str) -> None:
        guard, sizes = contract.guard, list(_sizes(contract))
        self.fixed = {name: value for name, value, _ in sizes if value is not None}
        self.varying = [name for name, value, _ in sizes if value is None]
        self.natural = [ge(symbol(name), 0) for name, _, is_tensor in sizes if is_tensor]
        self.demands = {f"{name} == {value}": eq(symbol(name), value) for name, value in self.fixed.items()}
        self.read: dict[str, Term] = {}
        self.rename: dict[str, str] = {}
        for name, place in guard.places:
            size = guard.size_name(place.leaf, place.index)
            self.read[name] = (symbol(size) - place.offset) // place.step
            self.rename[name] = size if place.is_plain else f"{prefix}.{name}"
        self.definitions = [
            eq(symbol(self.rename[name]), self.read[name]) for name, place in guard.places if not place.is_plain
        ]
        for formula in guard.formulas:
            self.demands[format_formula(formula, guard.names)] = parse_formula(format_formula(formula, self.rename))


def _sizes(contract: Contract) -> Iterator[tuple[str, int | None, bool]]:
    """Yield the name of each size, its value if it is constant, and True if it is one of a tensor."""
    for leaf, declared in enumerate(contract.inputs):
        for index, term in enumerate(declared.sizes):
            value = term.constant_value if term.is_constant else None
            if isinstance(declared, ConstantInput) and isinstance(declared.value, int):
                value = declared.value
            yield contract.guard.size_name(leaf, index), value, isinstance(declared, TensorInput)
