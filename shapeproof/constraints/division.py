"""Floor division of polynomials in canonical form: the atom `FloorDiv`, and the rules that simplify a division.

The rules assume a nonzero divisor. The caller, `terms.floor_div`, records that assumption as a check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from shapeproof.constraints import polynomials
from shapeproof.constraints.nodes import Node, obligations, union
from shapeproof.constraints.polynomials import UNIT, Poly

if TYPE_CHECKING:
    from shapeproof.constraints.terms import Term


_HIGHEST_SUBSTITUTED = 4


class FloorDiv(Node):
    """`numerator // divisor` in lowest terms. A constant divisor is at least 2."""

    __slots__ = ("divisor", "is_negative", "numerator")
    __match_args__ = ("numerator", "divisor")
    rank = 1
    numerator: Term
    divisor: Term
    is_negative: bool  # see `Term.is_negative`

    def _finish(self) -> None:
        object.__setattr__(self, "is_negative", self.numerator.is_negative ^ self.divisor.is_negative)
        super()._finish()

    def _is_total(self) -> bool:
        return super()._is_total() and self.divisor.is_constant and bool(self.divisor.poly)

    def own_obligations(self) -> frozenset[Node]:
        """Return the obligations of the numerator, and that the divisor is nonzero.

        A nonzero divisor is a defined divisor, so the divisor adds no further obligations.
        """
        own = self.divisor.nonzero() if self.numerator.poly else frozenset({self})
        return union(obligations(self.numerator), own)


class _Step(NamedTuple):
    """One rewriting: the division before the step equals `added + sign * (numerator // divisor)`."""

    numerator: Poly
    divisor: Poly
    added: Poly
    sign: int


def _same(numerator: Poly, divisor: Poly) -> _Step:
    return _Step(numerator, divisor, {}, 1)


def floor(numerator: Poly, divisor: Poly) -> tuple[Poly, int, Poly, Poly]:
    """Return `(whole, sign, n, d)` with `numerator // divisor == whole + sign * (n // d)`, n and d in lowest terms.

    If the division has no remainder, n is 0. A constant divisor must not be 0.
    """
    whole: Poly = {}
    sign = 1
    while numerator:
        step = next((step for rule in _RULES if (step := rule(numerator, divisor))), None)
        if step is None:
            break
        whole = polynomials.add(whole, step.added, sign)
        sign *= step.sign
        numerator, divisor = step.numerator, step.divisor
    return whole, sign, numerator, divisor


def _lead_with_plus(numerator: Poly, divisor: Poly) -> _Step | None:
    """`n // d == (-n) // (-d)`: make the leading coefficient of the divisor positive."""
    if divisor[polynomials.leading(divisor)] > 0:
        return None
    return _same(polynomials.scaled(numerator, -1), polynomials.scaled(divisor, -1))


def _cancel(numerator: Poly, divisor: Poly) -> _Step | None:
    """Cancel common factors. A constant divisor rounds down the numerator's constant: `(4x + 5)//4 == x + 1`."""
    if polynomials.is_constant(divisor):
        monomial, scale = UNIT, polynomials.content(divisor, polynomials.without_constant(numerator))
    else:
        monomial = polynomials.common_monomial(numerator, divisor)
        scale = polynomials.content(numerator, divisor)
    if scale == 1 and not monomial:
        return None
    return _same(*(polynomials.divide_exactly(poly, monomial, scale) for poly in (numerator, divisor)))


def _cancel_whole(numerator: Poly, divisor: Poly) -> _Step | None:
    """`p // (p*q) == 1 // q`, for a polynomial p of several monomials."""
    if min(len(numerator), len(divisor)) < 2:
        return None
    sign = 1 if numerator[polynomials.leading(numerator)] > 0 else -1
    quotient, rest = polynomials.divide(divisor, polynomials.scaled(numerator, sign))
    return None if rest else _same(polynomials.constant(sign), quotient)


def _unnest(numerator: Poly, divisor: Poly) -> _Step | None:
    """`(p + x//e) // c == (p*e + x) // (e*c)`, for positive c.

    For `p - x//e`, either rewrite `-(x//e)` as `(-x + e-1) // e` (positive e), or turn the whole as `_face` does.
    """
    if not polynomials.is_constant(divisor):
        return None
    for monomial, coefficient in sorted(numerator.items(), key=lambda pair: polynomials.order(pair[0])):
        match monomial:
            case ((FloorDiv() as atom, 1),) if coefficient in {1, -1}:
                inner, below = atom.numerator.poly, atom.divisor
                rest = polynomials.add(numerator, {monomial: -coefficient})
                if not below.is_constant and not polynomials.is_constant(polynomials.divide(rest, divisor)[1]):
                    continue
                if not below.is_constant and coefficient < 0:
                    return _turned(numerator, divisor)
                if polynomials.is_long_product(rest, below.poly) or polynomials.is_long_product(below.poly, divisor):
                    continue
                joined = polynomials.add(polynomials.multiply(rest, below.poly), inner, coefficient)
                if coefficient < 0:
                    joined = polynomials.add(joined, polynomials.constant(below.constant_value - 1))
                return _same(joined, polynomials.multiply(below.poly, divisor))
    return None


def _pull_out(numerator: Poly, divisor: Poly) -> _Step | None:
    """`(p*d + r) // d == p + r // d`."""
    quotient, rest = polynomials.divide(numerator, divisor)
    return _Step(rest, divisor, quotient, 1) if quotient else None


def _face(numerator: Poly, divisor: Poly) -> _Step | None:
    """Choose between `n // c` and `-1 - (-n-1) // c`: take the form whose constant is in the lower half of `0..c-1`."""
    if not polynomials.is_constant(divisor):
        return None
    size = divisor[UNIT]
    twice = 2 * (numerator.get(UNIT, 0) % size)
    turns = twice > size - 1 or (twice == size - 1 and numerator[polynomials.leading(numerator)] < 0)
    return _turned(numerator, divisor) if turns else None


def _turned(numerator: Poly, divisor: Poly) -> _Step:
    """`n // c == -1 - (-n-1) // c`, for positive c."""
    return _Step(polynomials.add({UNIT: -1}, numerator, -1), divisor, {UNIT: -1}, -1)


_RULES = (_lead_with_plus, _cancel, _cancel_whole, _unnest, _pull_out, _face)


def with_halves_rounded_up(poly: Poly) -> Poly:
    """Return the polynomial with `n - n//2` replaced by the single atom `-((-n)//2)`, where that makes it shorter.

    The atom is not canonical, since `(-n)//2` is `-n + n//2`: use the result for printing and bounds, not for terms.
    """
    for atom in {part: None for monomial in poly for part, _ in monomial}:
        match atom:
            case FloorDiv(numerator, divisor) if divisor.is_constant and divisor.constant_value == 2:
                monomial, coefficient = numerator.monomials[0]
                if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                    if polynomials.degree_in(poly, monomial[0][0]) > _HIGHEST_SUBSTITUTED:
                        continue
                    # n == n//2 - (-n)//2, so the leading atom of n is this difference minus the rest of n
                    rest = polynomials.add(numerator.poly, {monomial: -1})
                    halves: Poly = {((atom, 1),): 1, ((FloorDiv(-numerator, divisor), 1),): -1}
                    longer = polynomials.substitute(poly, monomial[0][0], polynomials.add(halves, rest, -1))
                    poly = longer if len(longer) < len(poly) else poly
    return poly
