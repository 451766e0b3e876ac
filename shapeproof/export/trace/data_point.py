"""The point of a trace: a value for each symbol (torch: hints), which answers the questions that facts leave open.

The sizes of the point never change. A number from data gets a value when the trace first needs one, and another when
the value contradicts a new fact. It is the example's number where that is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shapeproof.constraints.formulas import TRUE, Formula, conjunction, eq, ge
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.reals import RealSymbol
from shapeproof.constraints.terms import symbol
from shapeproof.export.source.frames import Place
from shapeproof.solver.answers.witness import find
from shapeproof.solver.answers.wording import equals
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied

_ANY = 7
"""The value of an unbacked number without facts: any value is possible, and this one is not special."""


class DataPoint:
    """A value for each size, and for each number from data that was asked for.

    Args:
        values: the sizes; values of numbers from data may be missing.
        observed: numbers from the example's data.
        is_data: True for a symbol of data (unbacked), False for a symbol of an input's size.
    """

    def __init__(
        self, values: Mapping[str, int], observed: Mapping[str, float], is_data: Callable[[str], bool]
    ) -> None:
        self.values = dict(values)
        self.observed = dict(observed)
        self.is_data = is_data
        self.origins: dict[str, Place] = {}
        """The place where each number was taken from data."""
        self.flags: set[str] = set()
        """The numbers from data that are bools."""

    def observe(self, name: str, value: float, region: Facts) -> None:
        """Take a number from the example's data."""
        self.observed[name] = value
        self._move(region.fork(), frozenset({name}))

    def complete(self, symbols: frozenset[str], region: Facts) -> bool:
        """Give the data symbols values that the region allows; False if there are none at the point's sizes."""
        return symbols <= self.values.keys() or self._move(region.fork(), symbols)

    def fit(self, formula: Formula, region: Facts) -> bool:
        """Move the point into a new fact of the region; False if no data at the point's sizes fits."""
        valued = {name for name in formula.symbols & self.values.keys() if self.is_data(name)}
        if not valued or (formula.symbols <= self.values.keys() and holds(formula, self.values)):
            return True
        return self._move(region.assuming(formula), formula.symbols)

    def _move(self, wanted: Facts, symbols: frozenset[str]) -> bool:
        for name, value in self.values.items():
            if not self.is_data(name):
                wanted.learn(eq(symbol(name), value))
        several = wanted.assuming(*self._several(symbols, wanted))
        tries = (self._as_observed(symbols), several), (self._as_observed(symbols), wanted), (TRUE, wanted)
        found = next((point for told, facts in tries if isinstance(point := find(told, facts), dict)), None)
        if found is None:
            return False
        moved = {name for name in found if self.is_data(name) and (name in symbols or name in self.values)}
        self.values.update({name: found[name] for name in moved})
        unspoken_of = {name for name in symbols - self.values.keys() if self.is_data(name)}
        self.values.update(dict.fromkeys(unspoken_of, _ANY))
        return True

    def _several(self, symbols: frozenset[str], known: Facts) -> list[Formula]:
        """Return that the sizes among new numbers are at least 2: a model may leave out work where there is none."""
        new = sorted(filter(self.is_data, symbols - self.values.keys() - self.observed.keys()))
        return [ge(each, 2) for each in map(symbol, new) if implied(ge(each, 0), known)]

    def _as_observed(self, symbols: frozenset[str]) -> Formula:
        """Return the example's numbers, as a formula, for the symbols and for the names in the point."""
        given = ((name, self.observed[name]) for name in sorted(self.observed.keys() & (symbols | self.values.keys())))
        return conjunction(*(equals(RealSymbol(n) if isinstance(v, float) else symbol(n), v) for n, v in given))
