"""The conditions of `specialize_on=` of a mark as formulas: each is a function of a size that gives a truth value.

A function is called with a stand-in for the size. Where Python asks for a truth value (`or`, `if`), the function is
called once for each answer, and its formula is the disjunction of these ways. The formula is held against the function
at small sizes, since a function may do what no stand-in answers (`isinstance(n, int)`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.terms import Term, constant
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.limits import RUNS
from shapeproof.wording import with_kind


def specialized(inputs: Inputs) -> list[Formula]:
    """Return the conditions that the marks name, in order.

    Raises:
        UsageError: a condition is no formula of its size; the message names the size.
    """
    return [formula_of(check, term, name) for name, term, check in inputs.conditions]


def formula_of(check: Callable[[Any], Any], size: Term, name: str) -> Formula:
    """Return the formula of a function of a size.

    Raises:
        UsageError: it does something else with the size than arithmetic and comparisons.

    >>> from shapeproof.constraints.terms import symbol
    >>> formula_of(lambda n: n == 8 or n % 4 == 1, symbol("n"), "n")
    n == 8 or n != 8 and n % 4 == 1
    """
    expected = f"specialize_on of `{name}` takes a function of the size, by arithmetic and comparisons"
    try:
        found = f.disjunction(*_ways(check, size))
        unlike = [value for value in range(_TRIED) if bool(check(value)) is not _holds(found, size, value)]
    except Exception as error:
        raise UsageError(f"{expected}: {with_kind(error)}") from error
    if unlike:
        raise UsageError(f"{expected}: read as {found}, it is something else at {unlike[0]}")
    return found


_TRIED = 33
"""The number of sizes at which a formula is held against its function."""


def _holds(formula: Formula, size: Term, value: int) -> bool:
    return holds_at(formula, dict.fromkeys(size.symbols, value))


def _ways(check: Callable[[Any], Any], size: Term) -> Iterator[Formula]:
    """Yield what holds along each way through a function that gives a true value."""
    pending: list[tuple[bool, ...]] = [()]
    for _ in range(RUNS):
        asking = _Asking(pending.pop())
        result = _formula(check(_Size(size, asking)))
        yield f.conjunction(*asking.path, result)
        pending += asking.others()
        if not pending:
            return
    raise ValueError(f"it has more than {RUNS} ways")


class _Asking:
    """Answers what a function asks: at first as given, then yes."""

    def __init__(self, given: tuple[bool, ...]) -> None:
        self._given = given
        self._answers: list[bool] = []
        self.path: list[Formula] = []

    def __call__(self, formula: Formula) -> bool:
        if formula in {f.TRUE, f.FALSE}:
            return formula is f.TRUE
        place = len(self.path)
        answer = self._given[place] if place < len(self._given) else True
        self._answers.append(answer)
        self.path.append(formula if answer else f.negate(formula))
        return answer

    def others(self) -> Iterator[tuple[bool, ...]]:
        """Yield the answers that lead along the ways not taken."""
        for place in range(len(self._given), len(self._answers)):
            yield (*self._answers[:place], False)


@dataclass(frozen=True, eq=False)
class _Condition:
    """Stands for a truth value."""

    formula: Formula
    ask: _Asking

    def __bool__(self) -> bool:
        return self.ask(self.formula)


@dataclass(frozen=True, eq=False)
class _Size:
    """Stands for an integer."""

    term: Term
    ask: _Asking

    __hash__ = None  # type: ignore[assignment]  # `n in {8, 16}` would look for this object

    def __bool__(self) -> bool:
        return self.ask(f.ne(self.term, 0))


def _number(value: Any) -> Term:
    """Return the term of an operand.

    Raises:
        TypeError: it is no integer.
    """
    if not isinstance(value, int | _Size):
        raise TypeError(f"{value!r} is no integer")
    return value.term if isinstance(value, _Size) else constant(int(value))


def _formula(result: Any) -> Formula:
    if isinstance(result, _Condition):
        return result.formula
    return f.ne(_number(result), 0)


def _arithmetic(function: Callable[[Any, Any], Any], *, swapped: bool) -> Callable[[_Size, Any], _Size]:
    def method(self: _Size, other: Any) -> _Size:
        operands = (_number(other), self.term) if swapped else (self.term, _number(other))
        return _Size(function(*operands), self.ask)

    return method


def _comparison(function: Callable[[Any, Any], Formula]) -> Callable[[_Size, Any], _Condition]:
    return lambda self, other: _Condition(function(self.term, _number(other)), self.ask)


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(_Size, f"__{_name}__", _arithmetic(getattr(operator, _name), swapped=False))
    setattr(_Size, f"__r{_name}__", _arithmetic(getattr(operator, _name), swapped=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(_Size, f"__{_name}__", _comparison(getattr(f, _name)))
