"""How an equality is used up: solved for a symbol, solved as a congruence, or turned into a rule.

    x - 2*y == 0             x is 2*y
    h - 4*(h//4) == 0        h is 4*k            with the new name k for h//4
    191*u + 447*v == 0       u is 447*k          with the new name k for u//447, as 191 and 447 are coprime
    u*s - 8*((u*s)//8) == 0  u*s becomes 8*k     with the new name k for (u*s)//8
    e - h*(e//h) == 0        e is h*k            with the new name k for e//h
    a//b - c == 0            a//b becomes c

Law: each solution follows from the equality and the definition of the new name alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from shapeproof.constraints import polynomials
from shapeproof.constraints.nodes import MEMORY, postorder
from shapeproof.constraints.polynomials import UNIT, Monomial, Poly
from shapeproof.constraints.terms import FloorDiv, Term, floor_div, from_poly, of_atom, symbol, symbol_in
from shapeproof.solver.learned.knowledge import Knowledge
from shapeproof.solver.learned.reduction import substitute

FRESH = "$"
"""The prefix of made-up names."""


@dataclass(frozen=True, slots=True)
class Solution:
    """`left`, a monomial, equals `right`; `definitions` defines the new names in `right`."""

    left: Monomial
    right: Term
    definitions: tuple[tuple[str, Term], ...] = ()

    @property
    def symbol(self) -> str | None:
        """The solved symbol, if `left` is a symbol."""
        return symbol_in(self.left)


def solve(term: Term, known: Knowledge) -> Solution | None:
    """Return a way to use up `term == 0`, or None."""
    return _linear(term, known) or _congruence(term, known) or _divisible(term, known) or _rule(term)


def _unknowns(term: Term) -> Iterator[tuple[Monomial, int]]:
    """The monomials and their coefficients, without the constant."""
    return ((monomial, coefficient) for monomial, coefficient in term.monomials if monomial)


def _is_alone(monomial: Monomial, term: Term) -> bool:
    """True if a symbol occurs in no other monomial of the term."""
    names = monomial[0][0].symbols
    return all(names.isdisjoint(atom.symbols) for other in term.poly if other != monomial for atom, _ in other)


def _without(term: Term, monomial: Monomial, coefficient: int) -> Term:
    """Return the value of the monomial where `term == 0`; its coefficient must be 1 or -1."""
    return from_poly(polynomials.add(term.poly, {monomial: -coefficient})) * -coefficient


def _linear(term: Term, known: Knowledge) -> Solution | None:
    """Solve for a symbol with coefficient 1 or -1 that occurs nowhere else: the symbol whose range is best implied."""
    candidates = [
        Solution(monomial, _without(term, monomial, coefficient))
        for monomial, coefficient in _unknowns(term)
        if coefficient in (1, -1) and symbol_in(monomial) is not None and _is_alone(monomial, term)
    ]
    return min(candidates, key=lambda each: _cost(each, known), default=None)


def _cost(solution: Solution, known: Knowledge) -> tuple[int, bool, int, str]:
    """Rank solutions: few lost bounds of the symbol; then made-up names; then a short right side; then a later name."""
    name = solution.symbol or ""
    own, implied = known.range_of(name), known.bounds(solution.right)
    lost = own.lower is not None and (implied.lower is None or implied.lower < own.lower)
    lost_above = own.upper is not None and (implied.upper is None or implied.upper > own.upper)
    return lost + lost_above, not name.startswith(FRESH), len(solution.right.monomials), name


def _congruence(term: Term, known: Knowledge) -> Solution | None:
    """Solve `x + m*(p//m) + ... == 0` for x, with a new name for `p//m`, if `p//m` then reduces to that name.

    This works for a variable divisor too: from `e % h == 0`, `e` is `h*k`, and every product with e becomes one with h.
    """
    names = [name for name in sorted(term.symbols) if name in known.definitions]
    return _congruent(term, tuple((name, known.definitions[name]) for name in names))


@lru_cache(maxsize=MEMORY)
def _congruent(term: Term, definitions: tuple[tuple[str, Term], ...]) -> Solution | None:
    """Solve a congruence, given the meanings of the made-up names in the term."""
    divisions = [atom for atom in term.children if isinstance(atom, FloorDiv)]
    quotients = [atom for atom in divisions if polynomials.degree_in(term.poly, atom) == 1]
    for monomial, coefficient in _unknowns(term) if quotients else ():
        if coefficient not in (1, -1):
            continue
        atoms = {atom for atom, _ in monomial}
        for quotient in quotients:
            if atoms.isdisjoint(postorder(quotient.numerator)) or not atoms.isdisjoint(postorder(quotient.divisor)):
                continue
            name, definition = named_term(of_atom(quotient), dict(definitions))
            named = from_poly(polynomials.substitute(term.poly, quotient, symbol(name).poly))
            if named.poly.get(monomial) != coefficient:
                continue
            right = _without(named, monomial, coefficient)
            again = floor_div(_replaced(quotient.numerator, monomial, right), quotient.divisor)
            if again.poly == symbol(name).poly and _usable(monomial, right):
                return Solution(monomial, right, ((name, definition),))
    return None


def _divisible(term: Term, known: Knowledge) -> Solution | None:
    """Solve `a*x + g*(...) + c == 0`, with a and g coprime, for x as `g*q + r` with a known remainder r.

    Skip x if it is a factor of the rest: `2*x == 49*x*x` would imply that 49 divides x, then 49**3, and so on.
    """
    for monomial, coefficient in _unknowns(term):
        others = {each: value for each, value in term.monomials if each not in (monomial, UNIT)}
        modulus = gcd(*others.values())
        if symbol_in(monomial) is None or abs(coefficient) == 1 or modulus < 2 or gcd(coefficient, modulus) != 1:
            continue
        if any(polynomials.over(each, monomial) is not None for each in others):
            continue
        remainder = -term.poly.get(UNIT, 0) * pow(coefficient, -1, modulus) % modulus
        quotient = floor_div(from_poly({monomial: 1}) - remainder, modulus)
        name, definition = named_term(quotient, known.definitions)
        return Solution(monomial, symbol(name) * modulus + remainder, ((name, definition),))
    return None


@lru_cache(maxsize=MEMORY)
def _rule(term: Term) -> Solution | None:
    """Return a rule for a product or atom with coefficient 1 or -1.

    The left side must outweigh every monomial of the right side, and must not occur in it.
    """
    for monomial, coefficient in _unknowns(term):
        if coefficient in (1, -1) and symbol_in(monomial) is None:
            right = _without(term, monomial, coefficient)
            if _usable(monomial, right):
                return Solution(monomial, right)
    return None


def _usable(left: Monomial, right: Term) -> bool:
    """True if replacing left by right terminates."""
    if symbol_in(left) is not None:
        return right.symbols.isdisjoint(left[0][0].symbols)
    return all(weight(left) > weight(other) for other in right.poly)


def weight(monomial: Monomial) -> tuple[int, int, object]:
    """A total order in which every rule descends: by depth, then by degree, then by name."""
    depth = max((atom.key[0] for atom, _ in monomial), default=-1)
    return depth, sum(exponent for _, exponent in monomial), tuple((atom.key, exponent) for atom, exponent in monomial)


def _replaced(term: Term, monomial: Monomial, right: Term) -> Term:
    """Return the term with each top-level multiple of the monomial replaced."""
    total: Poly = {}
    for each, coefficient in term.monomials:
        rest = polynomials.over(each, monomial)
        part = {each: coefficient} if rest is None else polynomials.multiply({rest: coefficient}, right.poly)
        total = polynomials.add(total, part)
    return from_poly(total)


def named_term(term: Term, definitions: Mapping[str, Term]) -> tuple[str, Term]:
    """Return a name for the term, and the term over the user's symbols.

    Law: equal terms get equal names, so that forks agree.
    """
    definition = substitute(term, definitions)
    return _name(definition), definition


@lru_cache(maxsize=MEMORY)
def _name(definition: Term) -> str:
    return f"{FRESH}{definition}"
