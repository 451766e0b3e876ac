"""Compares the inputs of two programs: is there an input that the old one accepts and the new one rejects?

A contract is stated over sizes (`x.shape[0]`) and over the symbols in them. Here the sizes are variables common to both
sides; the symbols of each side get a prefix and become functions of the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shapeproof.ci.specs.dims import parse_size
from shapeproof.constraints.formulas import Formula, conjunction, eq, negate
from shapeproof.constraints.meaning.evaluate import evaluate, holds_at
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.syntax.text import format_formula, format_term, parse_formula, parse_term
from shapeproof.constraints.terms import Term, constant, symbol

if TYPE_CHECKING:
    from shapeproof.ci.jobs import Accepted


@dataclass(frozen=True, slots=True)
class Lost:
    """The smallest input that is no longer accepted, and the first condition that it violates."""

    sizes: Mapping[str, int]
    """The sizes that vary."""
    point: Mapping[str, int]
    """All sizes, and the values of the new contract's symbols at these sizes."""
    demand: str


def lost(old: Accepted, new: Accepted) -> Lost | Undecided | None:
    """Return the smallest lost input, or None if it is proved that there is none. Both sides take the same inputs.

    >>> from shapeproof.ci.jobs import Accepted
    >>> old = Accepted({"x": ["n", "4"]}, ("x.shape[0] >= 1",))
    >>> lost(old, Accepted({"x": ["n", "4"]}, ("x.shape[0] >= 1", "x.shape[0] % 2 == 0"))).sizes
    {'x.shape[0]': 1}
    """
    from shapeproof.solver import Facts, smallest

    named = frozenset(name for text in (*old.domain, *new.domain) for name in parse_formula(text).symbols)
    before, after = _Side(old, "old", named), _Side(new, "new", named)
    facts = Facts([*before.demands.values(), *(eq(symbol(name), term) for name, term in after.symbols.items())])
    varying = [name for name, term in before.sizes.items() if not term.is_constant]
    found = smallest(negate(conjunction(*after.demands.values())), facts, varying)
    if found is None or isinstance(found, Undecided):
        return found
    symbols = {name: evaluate(term, found) for name, term in after.symbols.items()}
    demand = next(text for text, formula in after.demands.items() if not holds_at(formula, found | symbols))
    sizes = {name: found[name] for name in before.sizes}
    bare = {name.partition(".")[2]: value for name, value in symbols.items()}
    return Lost({name: sizes[name] for name in varying}, sizes | bare, demand)


class _Side:
    """A contract over sizes; its symbols get the prefix. `named` are the names in the domains of both sides."""

    def __init__(self, contract: Accepted, prefix: str, named: AbstractSet[str]) -> None:
        self._prefix = prefix
        self.sizes = {
            name: parse_term(text) for key, texts in contract.inputs.items() for name, text in _sizes(key, texts, named)
        }
        self.symbols: dict[str, Term] = {}
        """Each symbol as a function of a size."""
        self.demands: dict[str, Formula] = {}
        """The conditions for acceptance, by the text to show."""
        for name, term in self.sizes.items():
            self._solve(name, term)
        for name, term in self.sizes.items():
            wanted = eq(symbol(name), self._own(term))
            self.demands[f"{name} == {term}"] = wanted
        for text in contract.domain:
            self.demands[text] = parse_formula(format_formula(parse_formula(text), self._names(parse_formula(text))))

    def _own(self, term: Term) -> Term:
        return parse_term(format_term(term, self._names(term)))

    def _names(self, expression: Term | Formula) -> dict[str, str]:
        """The prefixed names of the symbols; sizes keep their names."""
        return {name: name if name in self.sizes else f"{self._prefix}.{name}" for name in expression.symbols}

    def _solve(self, name: str, term: Term) -> None:
        """Solve a size for its symbol: `n` if the size is `n`, else `(size - offset) // step`."""
        if term.is_constant or term.symbols <= self.sizes.keys():
            return
        derived = parse_size(str(term))
        own = f"{self._prefix}.{derived.name}"
        plain = (derived.step, derived.offset) == (1, 0)
        if own not in self.symbols or plain:
            self.symbols[own] = (symbol(name) - constant(derived.offset)) // constant(derived.step)


def _sizes(key: str, texts: list[str], named: AbstractSet[str]) -> Iterator[tuple[str, str]]:
    """Yield the sizes of an input by the user's names. An int input has its plain name.

    A tensor `n` whose only size is the dim `n` looks the same, but the domain calls its size `n.shape[0]`.
    """
    if texts == [key] and f"{key}.shape[0]" not in named:
        yield key, key
        return
    for index, text in enumerate(texts):
        yield f"{key}.shape[{index}]", text
