"""Axioms of functions without an algebra (bits, powers, integers from doubles): inequalities and monotonicity.

An axiom holds wherever its atom is defined, given bounds of the arguments. The cheap steps use the axioms
(knowledge.py). Z3, which knows these functions by name only, gets them beside the bounds (lower.py).

    x & y             0 <= x & y <= x                        for x >= 0
    x | y             x <= x | y                             for y >= 0;  (x | y) + (x & y) == x + y
    x ^ y             (x ^ y) + 2*(x & y) == x + y
    b**e              1 + (b - 1)*e <= b**e                  for a constant b >= 2
    int(r), ceil(r)   the enclosure of r (enclosures.py), rounded; round(x / y) is x//y or the next, if exact
    f(x) <= f(y)      for x <= y: for b**x, int(x * 0.5), floor(x / 3), ... which rise with x
    b**x < b**y       for 0 <= x < y and a constant b >= 2
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from shapeproof.constraints.nodes import MEMORY
from shapeproof.constraints.reals import FromInt, Real, RealCall, RealConstant
from shapeproof.constraints.terms import ZERO, Apply, Term, of_atom
from shapeproof.solver.functions.doubles import ROUNDINGS, Bounds
from shapeproof.solver.functions.enclosures import Enclosure, enclosure
from shapeproof.solver.functions.exact import exact_integer


def axioms(atom: Apply, bounds: Bounds) -> Iterator[Term]:
    """Terms that are at least 0 wherever the atom is defined.

    >>> from shapeproof.constraints.meaning.intervals import Interval
    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> (((power, _),), _), = parse_term("3**k").monomials
    >>> list(axioms(power, lambda _: Interval()))
    [3**k - 2*k - 1]
    """
    match atom:
        case Apply("and" | "or" | "xor" as op, (Term() as left, Term() as right)):
            yield from _of_bits(op, left, right, bounds)
        case Apply("pow", (Term() as base, Term() as exponent)) if base.is_constant and base.constant_value >= 2:
            yield of_atom(atom) - (base - 1) * exponent - 1
        case Apply(op, (Real() as real,)) if op in ROUNDINGS:
            yield from _of_quotient(atom, real, bounds)
            found = enclosure(real, bounds)
            if found is not None:
                yield of_atom(atom)
                yield from _of_rounding(atom, found)


def _of_bits(op: str, left: Term, right: Term, bounds: Bounds) -> Iterator[Term]:
    value, both = of_atom(Apply(op, (left, right))), of_atom(Apply("and", (left, right)))
    for one, other in ((left, right), (right, left)):
        if bounds(one).is_nonnegative:
            yield from {"and": (value, one - value), "or": (value - other,), "xor": ()}[op]
    if op != "and":
        gap = left + right - value - (both if op == "or" else 2 * both)
        yield gap
        yield -gap
        if bounds(left).is_nonnegative and bounds(right).is_nonnegative:
            yield left + right - value


def _of_rounding(atom: Apply, found: Enclosure) -> Iterator[Term]:
    """Restate the enclosure of a number for the integer it rounds to: with whole factors, and with exact ones."""
    value = of_atom(atom)
    highs = {term: high for term, (_, high) in found.parts.items()}
    lows = {term: low for term, (low, _) in found.parts.items()}
    yield weighted({term: Fraction(math.ceil(high)) for term, high in highs.items()})[0] - value
    yield value - weighted({term: Fraction(math.floor(low)) for term, low in lows.items()})[0]
    above, times = weighted(highs)
    below, scale = weighted(lows)
    match atom.op:
        case "trunc" | "floor":
            yield above - times * value
            yield scale * (value + 1) - 1 - below
        case "ceil":
            yield above + times - 1 - times * value
            yield scale * value - below
        case "round":
            yield 2 * above + times - 2 * times * value
            yield 2 * scale * value + scale - 2 * below


def _of_quotient(atom: Apply, real: Real, bounds: Bounds) -> Iterator[Term]:
    """A quotient of integers rounds to one of the two integers around it, or to itself, if doubles are exact enough."""
    for end in ("floor", "ceil"):
        around = exact_integer(end, [real], bounds)
        if around is not None:
            yield of_atom(atom) - around if end == "floor" else around - of_atom(atom)


def weighted(factors: dict[Term, Fraction]) -> tuple[Term, int]:
    """Return `(term, scale)` such that `term / scale` is the sum of the terms times their factors."""
    scale = math.lcm(*(factor.denominator for factor in factors.values()))
    return sum((int(factor * scale) * term for term, factor in factors.items()), ZERO), scale


@lru_cache(maxsize=MEMORY)
def rising(atom: Apply) -> tuple[object, Term] | None:
    """Return `(f, x)` if the atom is `f(x)` for a nondecreasing function f; equal functions give equal f.

    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> (((half, _),), _), (((whole, _),), _) = parse_term("int(n * 0.5) + int((m + 1) * 0.5)").monomials
    >>> rising(half)[0] == rising(whole)[0], sorted(map(str, (rising(half)[1], rising(whole)[1])))
    (True, ['m + 1', 'n'])
    """
    match atom:
        case Apply("pow", (Term() as base, Term() as exponent)) if base.is_constant and base.constant_value >= 1:
            return ("pow", base), exponent
        case Apply(op, (Real() as real,)) if op in ROUNDINGS:
            return _rising_real(op, real)
        case _:
            return None


def is_strict(atom: Apply) -> bool:
    """True if the atom is a power that rises strictly from the exponent 0 on."""
    match atom:
        case Apply("pow", (Term() as base, _)):
            return base.is_constant and base.constant_value >= 2
        case _:
            return False


def _rising_real(op: str, real: Real) -> tuple[object, Term] | None:
    path: list[object] = [op]
    while True:
        match real:
            case FromInt(term):
                return tuple(path), term
            case RealCall("inttruediv", (Term() as numerator, Term() as divisor)) if (
                divisor.is_constant and divisor.constant_value > 0
            ):
                return (*path, "inttruediv", divisor), numerator
            case RealCall("sqrt", (Real() as inner,)):
                path.append("sqrt")
                real = inner
            case RealCall(
                "add" | "mul" | "truediv" as step, (Real() as inner, RealConstant(value=value) as number)
            ) | RealCall("add" | "mul" as step, (RealConstant(value=value) as number, Real() as inner)) if (
                step == "add" or value > 0
            ):
                path.append((step, number))
                real = inner
            case _:
                return None
