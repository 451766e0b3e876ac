"""Sets of formulas that are given by a predicate."""

from __future__ import annotations

from collections.abc import Callable, Container

from shapeproof.constraints.formulas import Formula


class Where(Container[Formula]):
    """The set of formulas for which a predicate is true."""

    def __init__(self, holds: Callable[[Formula], bool]) -> None:
        self._holds = holds

    def __contains__(self, formula: object) -> bool:
        return isinstance(formula, Formula) and self._holds(formula)
