"""Remainders of symbols: facts about a remainder, and their consequences for other divisions of the symbol.

If `h % 8 >= 4` is known, `(h + 4)//8` is `h//8 + 1` and `h//4` is `2*(h//8) + 1`: every division is written with one
quotient. Padded sizes lead to many such divisions, and their products cancel only if written with the same quotient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shapeproof.constraints import polynomials
from shapeproof.constraints.formulas import Formula, ge, le
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.polynomials import UNIT
from shapeproof.constraints.terms import FloorDiv, Symbol, Term, from_poly, of_atom, symbol

if TYPE_CHECKING:
    from shapeproof.solver.learned.knowledge import Knowledge


@dataclass(frozen=True, slots=True)
class Remainder:
    """`name == sign * modulus * quotient + rest`."""

    name: str
    modulus: int
    sign: int
    quotient: FloorDiv

    @property
    def rest(self) -> Term:
        """The remainder as a term."""
        return symbol(self.name) - self.sign * self.modulus * of_atom(self.quotient)

    @property
    def is_plain(self) -> bool:
        """True if the quotient is `name // modulus`, without an offset."""
        return self.quotient.numerator is symbol(self.name)


def remainder_in(shape: Term) -> Remainder | None:
    """Return the remainder that the term represents, or None.

    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> remainder_in(parse_term("h - 8*((h + 4)//8)")).modulus, remainder_in(parse_term("h - 4*((h + 4)//8)"))
    (8, None)
    """
    if len(shape.monomials) != 2 or UNIT in shape.poly:
        return None
    parts = {atom: (power, n) for monomial, n in shape.monomials for atom, power in monomial}
    match sorted(parts, key=lambda atom: isinstance(atom, FloorDiv)):
        case [Symbol(name) as size, FloorDiv(numerator, divisor) as quotient] if divisor.is_constant:
            inside = polynomials.without_constant(numerator.poly)
            modulus, (power, scale) = divisor.constant_value, parts[quotient]
            sign = inside.get(((size, 1),), 0)
            if len(inside) == 1 and abs(sign) == 1 and parts[size] == (1, 1) and (power, scale) == (1, -sign * modulus):
                return Remainder(name, modulus, sign, quotient)
    return None


def plainly(remainder: Remainder, rest: Interval) -> list[Formula] | None:
    """Return `rest in interval` as formulas about `name % modulus`, if those are one interval too; otherwise None."""
    if rest.lower is None or rest.upper is None or remainder.is_plain:
        return None
    whole = rest.lower // remainder.modulus
    if whole != rest.upper // remainder.modulus:
        return None
    plain = symbol(remainder.name) % remainder.modulus
    shift = whole * remainder.modulus
    return [ge(plain, rest.lower - shift), le(plain, rest.upper - shift)]


def by_remainders(atom: FloorDiv, known: Knowledge) -> Term | None:
    """Rewrite a division by a constant with another quotient of one of its symbols, if the remainder is pinned.

    With `h == m*q + r`: `(k*h + p)//d` is `k*m//d*q + (k*r + p)//d`, where d divides k*m.
    """
    numerator, divisor = atom.numerator, atom.divisor.constant_value
    for monomial, scale in numerator.monomials:
        match monomial:
            case ((Symbol(name), 1),):
                remainders: tuple[Remainder, ...] = known.remainders.get(name, ())
                for each in remainders:
                    step = scale * each.sign * each.modulus
                    if step % divisor == 0 and each.quotient is not atom:
                        others = from_poly(polynomials.add(numerator.poly, {monomial: -scale}))
                        rest = known.bounds(each.rest) * Interval(scale, scale) + known.bounds(others)
                        pinned = (rest // Interval(divisor, divisor)).single
                        if pinned is not None:
                            return of_atom(each.quotient) * (step // divisor) + pinned
    return None
