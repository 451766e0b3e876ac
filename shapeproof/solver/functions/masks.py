"""Bits of two unknown integers, in a form in which equal expressions become the same object.

    x & ~y               is x - (x & y)
    (4*x + 1) & (4*y)    is 4*(x & y)
    4*x & y              is 4*(x & y//4)
    x & (x | y)          is x, and so is x | (x & y)
    x | y                is x + y - (x & y), and x ^ y is x + y - 2*(x & y), where x & y has a form without bits

As in Python, an integer has infinitely many bits, so the rules hold for every integer and need no facts about x and y.
Constant masks are in constraints/bits.py.
"""

from __future__ import annotations

from shapeproof.constraints import polynomials
from shapeproof.constraints.bits import operands
from shapeproof.constraints.polynomials import UNIT
from shapeproof.constraints.terms import Apply, Term, apply, floor_div, from_poly

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
