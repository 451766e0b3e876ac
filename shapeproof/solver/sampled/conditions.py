"""The facts as conditions on points, sorted for quick evaluation.

Comparisons of one term, up to a factor and a constant, are merged into one entry: an interval and a set of excluded
values. So a thousand facts about one size cost one evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from shapeproof.constraints.formulas import Compare, Formula
from shapeproof.constraints.meaning.evaluate import evaluate, has_meaning, true_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import Node
from shapeproof.constraints.terms import Term
from shapeproof.solver.learned.bounding import EVERYTHING, as_interval, shape_of
from shapeproof.solver.learned.index import Index
from shapeproof.solver.sampled.points import Point


@dataclass(frozen=True, slots=True)
class _Allowed:
    """The values that a term may have."""

    inside: Interval = EVERYTHING
    excluded: frozenset[int] = frozenset()


class Conditions:
    """Facts to be evaluated at points. `copy` is cheap.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> conditions = Conditions()
    >>> for text in ("n >= 2", "n != 5", "2*n != 14", "n % k == 0"):
    ...     conditions.add(parse_formula(text))
    >>> [n for n in range(10) if conditions.hold({"n": n, "k": 3})]
    [3, 6, 9]
    """

    def __init__(self) -> None:
        self._terms: dict[Term, _Allowed] = {}
        self._mentioning: Index[str, Node] = Index()
        self._constant: dict[Formula, None] = {}

    def copy(self) -> Conditions:
        """Return a copy with the same conditions."""
        twin = Conditions()
        twin._terms, twin._mentioning = self._terms.copy(), self._mentioning.copy()
        twin._constant = self._constant.copy()
        return twin

    def add(self, formula: Formula) -> None:
        """Add a condition; formulas without a meaning are skipped."""
        match formula:
            case Compare(op, term) if term.total and term.symbols and has_meaning(formula):
                shape = shape_of(term)[0]
                self._terms[shape] = _narrowed(self._terms.get(shape) or _Allowed(), op, term)
                self._mentioning.add(sorted(shape.symbols), shape)
            case _ if has_meaning(formula):
                self._mentioning.add(sorted(formula.symbols), formula)
                if not formula.symbols:
                    self._constant[formula] = None

    def hold(self, point: Point, moved: Iterable[str] | None = None) -> bool:
        """True if all conditions hold at the point; with `moved`, only conditions that mention these names count."""
        if moved is None:
            moved = point.keys()
            if not all(true_at(formula, point) for formula in self._constant):
                return False
        return all(self._holds(each, point) for each in self._mentioning.among(sorted(moved)))

    def _holds(self, condition: Node, point: Point) -> bool:
        match condition:
            case Term():
                value, allowed = evaluate(condition, point), self._terms[condition]
                return value in allowed.inside and value not in allowed.excluded
            case _:
                return bool(true_at(cast("Formula", condition), point))


def _narrowed(allowed: _Allowed, op: str, term: Term) -> _Allowed:
    """Return the values of a shape that remain allowed where `term op 0`."""
    if op != "!=":
        return replace(allowed, inside=allowed.inside & as_interval(op, term)[1])
    value = as_interval("==", term)[1].single
    return allowed if value is None else replace(allowed, excluded=allowed.excluded | {value})
