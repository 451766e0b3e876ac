"""How an equality is used up: solved for a symbol, as a congruence, or turned into a rule.

    x - 2*y == 0             x is 2*y
    h - 4*(h//4) == 0        h is 4*k            with the new name k for h//4
    191*u + 447*v == 0       u is 447*k          with the new name k for u//447, as 191 and 447 are coprime
    u*s - 8*((u*s)//8) == 0  u*s becomes 8*k     with the new name k for (u*s)//8
    e - h*(e//h) == 0        e is h*k            with the new name k for e//h
    a//b - c == 0            a//b becomes c

Each solution follows from the equality and the definition of the new name; nothing else is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from shapeproof.constraints import polynomials
from shapeproof.constraints.polynomials import UNIT, Monomial, Poly
from shapeproof.constraints.terms import FloorDiv, Symbol, Term, floor_div, from_poly, of_atom, symbol
from shapeproof.solver.learned.substitution import substitute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shapeproof.constraints.nodes import Node
    from shapeproof.solver.learned.knowledge import Knowledge

FRESH = "$"
"""What the names made up here begin with."""


@dataclass(frozen=True, slots=True)
class Solution:
    """`left`, a monomial, equals `right`; `definitions` says what the new names in `right` stand for."""

    left: Monomial
    right: Term
    definitions: tuple[tuple[str, Term], ...] = ()

    @property
    def symbol(self) -> str | None:
        """The symbol that is solved, if `left` is one."""
        match self.left:
            case ((Symbol(name), 1),):
                return name
            case _:
                return None


def solve(term: Term, known: Knowledge) -> Solution | None:
    """A way to use up `term == 0`, or None."""
    return _linear(term, known) or _congruence(term, known) or _divisible(term, known) or _rule(term)


def _unknowns(term: Term) -> Iterator[tuple[Monomial, int, bool]]:
    """The monomials, their coefficients, and whether the rest of the term is free of their atoms."""
    for monomial, coefficient in term.monomials:
        if monomial:
            rest = from_poly({each: value for each, value in term.poly.items() if each != monomial})
            names = frozenset().union(*(atom.symbols for atom, _ in monomial))
            yield monomial, coefficient, rest.symbols.isdisjoint(names)


def _without(term: Term, monomial: Monomial, coefficient: int) -> Term:
    """What the monomial equals where `term == 0` and its coefficient is 1 or -1."""
    return from_poly(polynomials.add(term.poly, {monomial: -coefficient})) * -coefficient


def _is_symbol(monomial: Monomial) -> bool:
    match monomial:
        case ((Symbol(), 1),):
            return True
        case _:
            return False


def _linear(term: Term, known: Knowledge) -> Solution | None:
    """A symbol with coefficient 1 or -1 that occurs nowhere else: the one whose range the others imply best."""
    candidates = [
        Solution(monomial, _without(term, monomial, coefficient))
        for monomial, coefficient, alone in _unknowns(term)
        if alone and coefficient in (1, -1) and _is_symbol(monomial)
    ]
    return min(candidates, key=lambda each: _cost(each, known), default=None)


def _cost(solution: Solution, known: Knowledge) -> tuple[int, bool, int, str]:
    """Few bounds of the symbol lost, then names made up here, then a short right side, then the later name."""
    name = solution.symbol or ""
    own, implied = known.range_of(name), known.bounds(solution.right)
    lost = own.lower is not None and (implied.lower is None or implied.lower < own.lower)
    lost_above = own.upper is not None and (implied.upper is None or implied.upper > own.upper)
    return lost + lost_above, not name.startswith(FRESH), len(solution.right.monomials), name


def _congruence(term: Term, known: Knowledge) -> Solution | None:
    """`x + m*(p//m) + ... == 0`: with a new name for `p//m`, `x` is known up to it, if `p//m` then becomes the name.

    So also where m is no constant: of `e % h == 0`, `e` is `h*k`, and every product with e is one with h.
    """
    quotients = [atom for atom in term.children if isinstance(atom, FloorDiv) and _is_linear(term, atom)]
    for monomial, coefficient, _ in _unknowns(term) if quotients else ():
        if coefficient not in (1, -1):
            continue
        atoms = {atom for atom, _ in monomial}
        for quotient in quotients:
            if not _mentions(quotient.numerator, atoms) or _mentions(quotient.divisor, atoms):
                continue
            name, definition = named_term(of_atom(quotient), known)
            named = from_poly(polynomials.substitute(term.poly, quotient, symbol(name).poly))
            if named.poly.get(monomial) != coefficient:
                continue
            right = _without(named, monomial, coefficient)
            again = floor_div(_replaced(quotient.numerator, monomial, right), quotient.divisor)
            if again.poly == symbol(name).poly and _usable(monomial, right):
                return Solution(monomial, right, ((name, definition),))
    return None


def _is_linear(term: Term, atom: FloorDiv) -> bool:
    """Whether the atom is in one monomial, or several, but is nowhere squared."""
    return polynomials.degree_in(term.poly, atom) == 1


def _divisible(term: Term, known: Knowledge) -> Solution | None:
    """`a*x + g*(...) + c == 0` with a and g coprime: `x` leaves a known remainder when divided by g.

    Not where x is a factor of the rest: from `2*x == 49*x*x` it would follow that 49 divides x, then 49**3, and so on.
    """
    for monomial, coefficient, _ in _unknowns(term):
        others = {each: value for each, value in term.monomials if each not in (monomial, UNIT)}
        modulus = gcd(*others.values())
        if not _is_symbol(monomial) or abs(coefficient) == 1 or modulus < 2 or gcd(coefficient, modulus) != 1:
            continue
        if any(polynomials.over(each, monomial) is not None for each in others):
            continue
        remainder = -term.poly.get(UNIT, 0) * pow(coefficient, -1, modulus) % modulus
        quotient = floor_div(from_poly({monomial: 1}) - remainder, modulus)
        name, definition = named_term(quotient, known)
        return Solution(monomial, symbol(name) * modulus + remainder, ((name, definition),))
    return None


def _rule(term: Term) -> Solution | None:
    """A product or an atom with coefficient 1 or -1 that outweighs, and does not occur in, what it equals."""
    for monomial, coefficient, _ in _unknowns(term):
        if coefficient in (1, -1) and not _is_symbol(monomial):
            right = _without(term, monomial, coefficient)
            if _usable(monomial, right):
                return Solution(monomial, right)
    return None


def _usable(left: Monomial, right: Term) -> bool:
    """Whether replacing left by right comes to an end."""
    if _is_symbol(left):
        return right.symbols.isdisjoint(left[0][0].symbols)
    return all(weight(left) > weight(other) for other in right.poly)


def weight(monomial: Monomial) -> tuple[int, int, object]:
    """A total order in which a rule goes down: by depth, then by degree, then by name."""
    depth = max((atom.key[0] for atom, _ in monomial), default=-1)
    return depth, sum(exponent for _, exponent in monomial), tuple((atom.key, exponent) for atom, exponent in monomial)


def _mentions(term: Term, atoms: set[Node]) -> bool:
    """Whether an atom occurs in the term, at any depth."""
    stack: list[Node] = [term]
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        if node in atoms:
            return True
        if node not in seen:
            seen.add(node)
            stack.extend(node.children)
    return False


def _replaced(term: Term, monomial: Monomial, right: Term) -> Term:
    """The term with each multiple of the monomial at its top replaced."""
    total: Poly = {}
    for each, coefficient in term.monomials:
        rest = polynomials.over(each, monomial)
        part = {each: coefficient} if rest is None else polynomials.multiply({rest: coefficient}, right.poly)
        total = polynomials.add(total, part)
    return from_poly(total)


def named_term(term: Term, known: Knowledge) -> tuple[str, Term]:
    """A name for the term, and the term over the user's symbols. Equal terms get equal names, so that forks agree."""
    definition = substitute(term, known.definitions)
    return f"{FRESH}{definition}", definition
