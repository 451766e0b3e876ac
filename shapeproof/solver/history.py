"""The facts in the order in which they were learned, as a linked chain: a longer history shares the shorter one.

So a region of an export costs only the facts that distinguish it, however many facts it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shapeproof.constraints.formulas import Formula


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class History:
    """One fact and those before it; `formula` is None only at the beginning.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> history = BEGINNING.then(parse_formula("n >= 1")).then(parse_formula("n % 2 == 0"))
    >>> [str(formula) for formula in history.formulas], len(history), sorted(history.symbols)
    (['n >= 1', 'n % 2 == 0'], 2, ['n'])
    """

    before: History | None = None
    formula: Formula | None = None
    length: int = 0
    symbols: frozenset[str] = frozenset()

    def then(self, formula: Formula) -> History:
        """Return the history with one more fact."""
        symbols = self.symbols if formula.symbols <= self.symbols else self.symbols | formula.symbols
        return History(self, formula, self.length + 1, symbols)

    def __len__(self) -> int:
        return self.length

    def within(self, longer: History) -> bool:
        """True if the other history begins with this one."""
        for each in longer.backwards(self.length):
            longer = each.before or longer
        return longer is self

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """All facts, the oldest first."""
        return self.since(0)

    def since(self, length: int) -> tuple[Formula, ...]:
        """Return the facts without the oldest `length` ones."""
        return tuple(reversed([each.formula for each in self.backwards(length) if each.formula is not None]))

    def backwards(self, length: int) -> Iterator[History]:
        """The entries from the newest on, until `length` entries are left."""
        here = self
        while here.before is not None and here.length > length:
            yield here
            here = here.before


BEGINNING = History()
