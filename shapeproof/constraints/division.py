"""Floor division of polynomials in canonical form: the atom `FloorDiv`, and the rules for what goes into it.

The rules hold wherever the divisor is not 0; that it is not is for the caller (`terms.floor_div`) to remember.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.constraints import polynomials
from shapeproof.constraints.nodes import Node, union
from shapeproof.constraints.polynomials import UNIT, Poly

if TYPE_CHECKING:
    from shapeproof.constraints.terms import Term


class FloorDiv(Node):
    """`numerator // divisor`, in lowest terms; a divisor that is a constant is at least 2."""

    __slots__ = ("divisor", "is_negative", "numerator")
    __match_args__ = ("numerator", "divisor")
    rank = 1
    numerator: Term
    divisor: Term
    is_negative: bool  # as of a term

    def _finish(self) -> None:
        object.__setattr__(self, "is_negative", self.numerator.is_negative ^ self.divisor.is_negative)
        super()._finish()

    def _is_total(self) -> bool:
        return super()._is_total() and self.divisor.is_constant and bool(self.divisor.poly)

    def own_obligations(self) -> frozenset[Node]:
        """A nonzero divisor, besides what the parts demand."""
        own = self.divisor.nonzero() if self.numerator.poly else frozenset({self})
        return union(super().own_obligations(), own)


def floor(numerator: Poly, divisor: Poly) -> tuple[Poly, int, Poly, Poly]:
    """`(whole, sign, n, d)` with `numerator // divisor == whole + sign * (n // d)`, n and d in lowest terms.

    Where the division comes out even, n is 0. A divisor that is a constant must not be 0.
    """
    whole: Poly = {}
    sign = 1
    while numerator:
        if divisor[polynomials.leading(divisor)] < 0:
            numerator, divisor = polynomials.scaled(numerator, -1), polynomials.scaled(divisor, -1)
        step = _cancel(numerator, divisor) or _unnest(numerator, divisor)
        if step is None:
            quotient, rest = polynomials.divide(numerator, divisor)
            whole = polynomials.add(whole, quotient, sign)
            step = (rest, divisor) if quotient else None
        if step is None and _faces_away(numerator, divisor):
            # n // d == -1 - (-n-1) // d for positive d
            whole = polynomials.add(whole, {UNIT: -sign})
            sign, step = -sign, (polynomials.add({UNIT: -1}, numerator, -1), divisor)
        if step is None:
            break
        numerator, divisor = step
    return whole, sign, numerator, divisor


def _cancel(numerator: Poly, divisor: Poly) -> tuple[Poly, Poly] | None:
    """Divide both by what they have in common; by a constant, the constant of the numerator is rounded down."""
    if polynomials.is_constant(divisor):
        shape = {monomial: coefficient for monomial, coefficient in numerator.items() if monomial}
        monomial, scale = UNIT, polynomials.content(divisor, shape)
    else:
        monomial = polynomials.common_monomial(numerator, divisor)
        scale = polynomials.content(numerator, divisor)
    if scale == 1 and not monomial:
        return _cancel_whole(numerator, divisor)
    return polynomials.divide_exactly(numerator, monomial, scale), polynomials.divide_exactly(divisor, monomial, scale)


def _cancel_whole(numerator: Poly, divisor: Poly) -> tuple[Poly, Poly] | None:
    """`p // (p*q)` is `1 // q`, for a polynomial p of several monomials."""
    if min(len(numerator), len(divisor)) < 2:
        return None
    sign = 1 if numerator[polynomials.leading(numerator)] > 0 else -1
    quotient, rest = polynomials.divide(divisor, polynomials.scaled(numerator, sign))
    return None if rest else (polynomials.constant(sign), quotient)


def _faces_away(numerator: Poly, divisor: Poly) -> bool:
    """Whether to write `-1 - (-numerator-1)//divisor` instead: the constant is then in the lower half."""
    if not polynomials.is_constant(divisor):
        return False
    size = divisor[UNIT]
    twice = 2 * (numerator.get(UNIT, 0) % size)
    return twice > size - 1 or (twice == size - 1 and numerator[polynomials.leading(numerator)] < 0)


def _unnest(numerator: Poly, divisor: Poly) -> tuple[Poly, Poly] | None:
    """`(p + x//e)//c` is `(p*e + x)//(e*c)` and `(p - x//e)//c` is `(p*e - x + e-1)//(e*c)`, for positive c (and e)."""
    if not polynomials.is_constant(divisor):
        return None
    for monomial, coefficient in sorted(numerator.items(), key=lambda pair: polynomials.order(pair[0])):
        match monomial:
            case ((FloorDiv() as atom, 1),) if coefficient in {1, -1}:
                inner, below = atom.numerator.poly, atom.divisor
                rest = polynomials.add(numerator, {monomial: -coefficient})
                if not below.is_constant and (coefficient < 0 or not polynomials.is_constant(rest)):
                    continue
                joined = polynomials.add(polynomials.multiply(rest, below.poly), inner, coefficient)
                if coefficient < 0:
                    joined = polynomials.add(joined, polynomials.constant(below.constant_value - 1))
                return joined, polynomials.multiply(below.poly, divisor)
    return None


def with_halves_rounded_up(poly: Poly) -> Poly:
    """The same polynomial with `n - n//2` as the one atom `-((-n)//2)` where that makes it shorter.

    That atom is not canonical, since `(-n)//2` is `-n + n//2`: the result is for reading and for bounds, not for terms.
    """
    for atom in {part: None for monomial in poly for part, _ in monomial}:
        match atom:
            case FloorDiv(numerator, divisor) if divisor.is_constant and divisor.constant_value == 2:
                monomial, coefficient = numerator.monomials[0]
                if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                    # n == n//2 - (-n)//2, so the leading atom of n is that less the rest of n
                    rest = polynomials.add(numerator.poly, {monomial: -1})
                    halves: Poly = {((atom, 1),): 1, ((FloorDiv(-numerator, divisor), 1),): -1}
                    longer = polynomials.substitute(poly, monomial[0][0], polynomials.add(halves, rest, -1))
                    poly = longer if len(longer) < len(poly) else poly
    return poly
