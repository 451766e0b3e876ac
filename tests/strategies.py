"""Hypothesis strategies that several rooms share: expressions as Python text, terms, formulas, points and boxes.

An expression is drawn as *text*, fully parenthesised, so that Python itself can say what it means (`value_of`): an
oracle that shares no code with the package.
"""

from __future__ import annotations

import math

from hypothesis import strategies as st

from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.constraints.terms import ZERO, FloorDiv

NAMES = ("x", "y", "z")
_PYTHON = {name: getattr(math, name) for name in ("floor", "ceil", "trunc", "sqrt")} | {
    "min": min, "max": max, "abs": abs, "int": int, "float": float, "round": round,
}  # fmt: skip

_SMALL = st.integers(-9, 9).map(lambda value: f"({value})")
_LEAVES = st.one_of(st.sampled_from(NAMES), st.sampled_from(NAMES), _SMALL)


def _binary(operators, operands):
    return st.builds("({} {} {})".format, operands, st.sampled_from(operators), operands)


def _powers(operands):
    return st.builds("({})**{}".format, operands, st.integers(0, 3))


def _calls(operands):
    return st.builds("{}({}, {})".format, st.sampled_from(("min", "max")), operands, operands)


def _grow(operands):
    by_constant = st.builds(
        "({} {} {})".format, operands, st.sampled_from(("//", "%")), st.sampled_from(["2", "3", "4", "6", "8", "-3"])
    )
    return st.one_of(
        _binary(("+", "-", "*", "+", "-", "//", "%"), operands),
        by_constant,
        by_constant,
        _powers(operands),
        _calls(operands),
        st.builds("(-{})".format, operands),
        st.builds("({} if {} else {})".format, operands, _comparisons(operands), operands),
    )


def _comparisons(operands):
    return st.builds("({} {} {})".format, operands, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), operands)


def _connect(formulas):
    return st.one_of(_binary(("and", "or"), formulas), st.builds("(not {})".format, formulas))


def _shifts(operands):
    return st.one_of(
        _binary(("&", "|", "^"), operands),
        st.builds(
            "({} {} {})".format, operands, st.sampled_from(("<<", ">>")), st.sampled_from(("x", "2", "3", "(y % 4)"))
        ),
        st.builds("{}({} / {})".format, st.sampled_from(("int", "floor", "ceil", "round")), operands, operands),
        st.builds("int({} * 0.29)".format, operands),
    )


integer_texts = st.recursive(_LEAVES, _grow, max_leaves=8)
"""Texts of integer expressions in x, y and z."""

wide_integer_texts = st.recursive(_LEAVES, lambda operands: st.one_of(_grow(operands), _shifts(operands)), max_leaves=7)
"""The same with bits, shifts and floats."""

formula_texts = st.recursive(_comparisons(integer_texts), _connect, max_leaves=4)
"""Texts of formulas over integer expressions."""

terms = integer_texts.map(parse_term)
polynomials = st.recursive(_LEAVES, lambda operands: _binary(("+", "-", "*"), operands), max_leaves=6).map(parse_term)
formulas = formula_texts.map(parse_formula)

points = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(-12, 12)))
"""Environments, zeros and negatives included."""

large_points = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(-(10**30), 10**30)))


@st.composite
def boxes(draw, least=-12, most=12):
    """Ranges for the names, some without an end, each with at least one point between `least` and `most`."""
    ranges = {}
    for name in NAMES:
        low = draw(st.integers(least, most))
        high = draw(st.integers(low, most))
        open_below, open_above = draw(st.booleans()), draw(st.booleans())
        ranges[name] = Interval(None if open_below else low, None if open_above else high)
    return ranges


@st.composite
def points_in(draw, ranges, reach=15):
    """A point of the box, at most `reach` beyond an end that is there."""
    point = {}
    for name, interval in ranges.items():
        low = interval.lower if interval.lower is not None else min(interval.upper or 0, 0) - reach
        high = interval.upper if interval.upper is not None else max(low, 0) + reach
        point[name] = draw(st.integers(low, high))
    return point


def value_of(text, point):
    """What Python says that the text is at the point: a value, or the class of the error that it raises."""
    return outcome(lambda: eval(text, dict(_PYTHON), dict(point)))  # noqa: S307  (text that was drawn here)


def outcome(compute):
    """The value, or the class of the error."""
    try:
        return compute()
    except (ArithmeticError, ValueError, TypeError, Unevaluable) as error:
        return type(error)


def divisors(node):
    """Every divisor in the node that is not a nonzero constant, also those in checks and in unused branches."""
    found = {each.divisor for each in postorder(node) if isinstance(each, FloorDiv)}
    return {divisor for divisor in found if not divisor.is_constant or divisor is ZERO}
