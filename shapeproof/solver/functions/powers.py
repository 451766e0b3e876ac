"""Powers with variable exponents, in a form in which equal powers become the same object.

    2**(k + 1)  is 2 * 2**k                  for k >= 0
    2**(j + k)  is 2**j * 2**k               for j, k >= 0
    4**k        is (2**k)**2
    n << k      is n * 2**k, and n >> k is n // 2**k
    n & (2**k - 1)  is n % 2**k
    (n * m)**k  is n**k * m**k

The rules hold wherever the powers on the left are defined, if the exponents on the right are nonnegative. Bounds must
show that; otherwise the power stays as it is.

Also bits of two unknown integers, in a form in which equal expressions become the same object.

    x & ~y               is x - (x & y)
    (4*x + 1) & (4*y)    is 4*(x & y)
    4*x & y              is 4*(x & y//4)
    x & (x | y)          is x, and so is x | (x & y)
    x | y                is x + y - (x & y), and x ^ y is x + y - 2*(x & y), where x & y has a form without bits

As in Python, an integer has infinitely many bits, so the rules hold for every integer and need no facts about x and y.
Constant masks are in constraints/bits.py.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

from shapeproof.constraints import polynomials
from shapeproof.constraints.bits import operands
from shapeproof.constraints.polynomials import UNIT, Monomial
from shapeproof.constraints.terms import Apply, FloorDiv, Term, apply, constant, floor_div, from_poly
from shapeproof.solver.functions.doubles import Bounds

_MOST_BITS = 512
_HIGHEST = 64
_MOST_JOINED = 8
_ONE = constant(1)
_TWO = constant(2)


def with_powers(op: str, args: list[Any], bounds: Bounds) -> Term | None:
    """Return `op(*args)` expressed by powers, if a rule applies.

    >>> from shapeproof.constraints.meaning.intervals import Interval
    >>> from shapeproof.constraints.terms import symbol
    >>> with_powers("lshift", [symbol("n"), symbol("k") + 3], lambda _: Interval(0, None))
    8*n*2**k
    """
    match op, args:
        case "pow", [Term() as base, Term() as exponent] if not exponent.is_constant:
            return power(base, exponent, bounds)
        case "lshift", [Term() as value, Term() as count] if not count.is_constant:
            return value * power(_TWO, count, bounds)
        case "rshift", [Term() as value, Term() as count] if not count.is_constant:
            return floor_div(value, power(_TWO, count, bounds))
        case "and" | "or" | "xor", [Term() as left, Term() as right]:
            masked = (_masked(left, right) or _masked(right, left)) if op == "and" else None
            return masked or without_masks(op, left, right)
        case _:
            return None


def power(base: Term, exponent: Term, bounds: Bounds) -> Term:
    """Return `base**exponent`."""
    factors = _factors(base)
    if factors != [(base, 1)]:
        return math.prod((power(each, exponent * times, bounds) for each, times in factors), start=_ONE)
    root, times = _root(base)
    exponent = exponent * times
    pieces = polynomials.without_constant(exponent.poly)
    whole = {from_poly({monomial: scale}): 1 for monomial, scale in pieces.items()}
    apart = {from_poly({monomial: 1}): scale for monomial, scale in pieces.items()}
    shape = from_poly(pieces)
    for split in (apart, whole, {shape: 1}):
        found = _split(root, split, exponent.poly.get(UNIT, 0), bounds)
        if found is not None:
            return found
    return apply("pow", root, exponent)


def _factors(base: Term) -> list[tuple[Term, int]]:
    """Return the factors of a product with a positive coefficient and their exponents; otherwise the base.

    The number 1 has no factors.
    """
    match base.monomials:
        case ((monomial, coefficient),) if coefficient > 0:
            number = [] if coefficient == 1 else [(constant(coefficient), 1)]
            return [*number, *((from_poly({((atom, 1),): 1}), times) for atom, times in monomial)]
        case _:
            return [(base, 1)]


def _root(base: Term) -> tuple[Term, int]:
    """Return `(root, times)` with `base == root**times`: for a power of two, the root 2."""
    value = base.constant_value if base.is_constant else 0
    if value > 0 and value.bit_count() == 1 and value > 1:
        return _TWO, value.bit_length() - 1
    return base, 1


def _split(base: Term, parts: dict[Term, int], offset: int, bounds: Bounds) -> Term | None:
    """Return `base**(sum of scale*part + offset)` as a product, with each part's lower bound moved into the offset."""
    factors = []
    for part, scale in parts.items():
        lower = bounds(part).lower
        if lower is None or not 0 < scale <= _HIGHEST:
            return None
        offset += scale * lower
        factors.append(apply("pow", base, part - lower) ** scale)
    if not 0 <= offset <= _MOST_BITS:
        return None
    product = base**offset
    for factor in factors:
        product *= factor
    return product


def divided_powers(atom: FloorDiv, bounds: Bounds) -> Term | None:
    """Rewrite `b**i // b**j` for `i >= j`: factor `b**j` out of every monomial of the numerator."""
    below = atom.divisor.monomials
    for low in _powers(below[0][0]) if len(below) == 1 else ():
        total: polynomials.Poly = {}
        for monomial, coefficient in atom.numerator.monomials:
            high = next((each for each in _powers(monomial) if _contains(each, low, bounds)), None)
            if high is None:
                break
            rest = polynomials.over(monomial, ((high, 1),)) or ()
            factor = power(low.args[0], high.args[1] - low.args[1], bounds) * from_poly({((low, 1),): 1})
            polynomials.accumulate(total, polynomials.multiply({rest: coefficient}, factor.poly))
        else:
            return floor_div(from_poly(total), atom.divisor)
    return None


def joined_powers(term: Term, bounds: Bounds) -> Term:
    """Rewrite `b**j * b**(k - j)` as `b**k`, in each monomial where exponents cancel."""
    for _ in range(_MOST_JOINED):
        step = next((step for monomial in term.poly if (step := _cancelling(monomial))), None)
        if step is None:
            break
        monomial, one, other = step
        exponent, coefficient = one.args[1] + other.args[1], term.poly[monomial]
        rest = from_poly({polynomials.over(monomial, ((one, 1), (other, 1))) or (): coefficient})
        term = term - from_poly({monomial: coefficient}) + rest * power(one.args[0], exponent, bounds)
    return term


def _cancelling(monomial: Monomial) -> tuple[Monomial, Any, Any] | None:
    """Return two powers of one base in the monomial such that the sum of their exponents loses a symbol."""
    for one, other in combinations(_powers(monomial), 2):
        if one.args[0] is other.args[0] and len((one.args[1] + other.args[1]).symbols) < len(
            one.symbols | other.symbols
        ):
            return monomial, one, other
    return None


def _powers(monomial: Monomial) -> list[Any]:
    """Return the powers among the factors of a product."""
    return [atom for atom, _ in monomial if isinstance(atom, Apply) and atom.op == "pow"]


def _contains(high: Any, low: Any, bounds: Bounds) -> bool:
    """True if one power is a multiple of another power of the same base."""
    return high is not low and high.args[0] is low.args[0] and bounds(high.args[1] - low.args[1]).is_nonnegative


def _masked(value: Term, mask: Term) -> Term | None:
    """Return `value & mask` for a mask `2**k - 1` or `-(2**k)`; otherwise None."""
    if mask.is_constant:
        return None
    if _is_power_of_two(mask + 1):
        return value % (mask + 1)
    return floor_div(value, -mask) * -mask if _is_power_of_two(-mask) else None


def _is_power_of_two(term: Term) -> bool:
    """True if the term is visibly a power of two wherever it is defined."""
    match term.monomials:
        case ((monomial, coefficient),) if coefficient > 0 and coefficient.bit_count() == 1:
            return all(isinstance(atom, Apply) and atom.op == "pow" and atom.args[0] is _TWO for atom, _ in monomial)
        case _:
            return False


_LONGEST = 8
_DEEPEST = 8
"""The bits of longer or deeper terms stay as they are."""
_DUAL = {"and": "or", "or": "and"}


def without_masks(op: str, left: Term, right: Term) -> Term | None:
    """Return `left op right` for "and", "or" and "xor" of unknowns in another form; None if there is none.

    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> n, m = parse_term("n"), parse_term("m")
    >>> without_masks("and", n, -m - 1), without_masks("or", 8*n, m % 8), without_masks("or", n, m)
    (n - (m & n), 8*n + m % 8, None)
    """
    if not (_is_small(left) and _is_small(right)):
        return None
    for one, other in ((left, right), (right, left)):
        if one in operands(_DUAL.get(op, ""), other):
            return one
    both = _both(left, right)
    if op == "and":
        return both
    if any(isinstance(atom, Apply) and atom.op == "and" for monomial in both.poly for atom, _ in monomial):
        return None
    return left + right - both * (1 if op == "or" else 2)


def _is_small(term: Term) -> bool:
    return not term.is_constant and len(term.monomials) <= _LONGEST and term.key[0] <= _DEEPEST


def _both(left: Term, right: Term) -> Term:
    if left.is_constant or right.is_constant:
        return apply("and", left, right)
    for one, other in ((left, right), (right, left)):
        if other.poly[polynomials.leading(other.poly)] < 0:
            return one - _both(one, -other - 1)
    step = _power_in(polynomials.content(*(polynomials.without_constant(each.poly) for each in (left, right))))
    if step > 1:
        low = left.poly.get(UNIT, 0) % step & right.poly.get(UNIT, 0) % step
        return step * _both(_over(left, step), _over(right, step)) + low
    for one, other in ((left, right), (right, left)):
        step = _power_in(polynomials.content(one.poly))
        if step > 1:
            return step * _both(_over(one, step), floor_div(other, step))
    return apply("and", left, right)


def _power_in(number: int) -> int:
    """Return the greatest power of two that divides a nonzero number."""
    return number & -number


def _over(term: Term, step: int) -> Term:
    """Return `term // step`, where the step divides every coefficient except the constant."""
    return from_poly(polynomials.divide_exactly(term.poly, UNIT, step))
