"""Integer polynomials over atoms, as dictionaries from monomials to nonzero coefficients. Arithmetic only.

A monomial is a tuple of (atom, exponent) pairs in the order of the atoms; the empty tuple is the constant. Monomials
are compared by degree, then lexicographically: the greatest comes first. Atoms are opaque here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from heapq import heapify, heappop, heappush
from math import comb, gcd

from shapeproof.constraints import operators
from shapeproof.constraints.nodes import MEMORY, Node
from shapeproof.constraints.work import charge

Monomial = tuple[tuple[Node, int], ...]
Poly = dict[Monomial, int]

UNIT: Monomial = ()
LONGEST_PRODUCT = 2**9
"""A product or power that may have more monomials is not multiplied out."""
_LONGEST_QUOTIENT = 256
_DEEPEST_BALANCED = 4


@lru_cache(maxsize=MEMORY)
def order(monomial: Monomial) -> tuple[int, tuple[tuple[tuple[int, int, str], int], ...]]:
    """Return a key that sorts monomials from the greatest to the least; the order is compatible with multiplication."""
    return -sum(exponent for _, exponent in monomial), tuple((atom.key, -exponent) for atom, exponent in monomial)


@lru_cache(maxsize=MEMORY)
def times(left: Monomial, right: Monomial) -> Monomial:
    """Return the product of two monomials."""
    if not left or not right:
        return left or right
    exponents = dict(left)
    for atom, exponent in right:
        exponents[atom] = exponents.get(atom, 0) + exponent
    return tuple(sorted(exponents.items(), key=lambda pair: pair[0].key))


def over(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """Return the quotient of two monomials, or None if the divisor does not divide the monomial."""
    exponents = dict(monomial)
    for atom, exponent in divisor:
        left = exponents.get(atom, 0) - exponent
        if left < 0:
            return None
        exponents[atom] = left
    return tuple((atom, exponent) for atom, exponent in exponents.items() if exponent)


def by_atom(poly: Poly, atom: Node) -> tuple[Poly, Poly]:
    """Return `(factor, rest)` of `poly == factor*atom + rest`, where no monomial of the rest contains the atom."""
    factor, rest = dict[Monomial, int](), dict[Monomial, int]()
    for monomial, coefficient in poly.items():
        ratio = over(monomial, ((atom, 1),))
        part = rest if ratio is None else factor
        part[monomial if ratio is None else ratio] = coefficient
    return factor, rest


def add(left: Poly, right: Poly, scale: int = 1) -> Poly:
    """Return `left + scale * right`."""
    total = dict(left)
    accumulate(total, right, scale)
    return total


def accumulate(total: Poly, poly: Poly, scale: int = 1) -> None:
    """Add `scale * poly` to `total` in place; the caller must own `total`."""
    for monomial, coefficient in poly.items():
        value = total.get(monomial, 0) + scale * coefficient
        if value:
            total[monomial] = value
        else:
            total.pop(monomial, None)


def multiply(left: Poly, right: Poly) -> Poly:
    """Return `left * right`, however long; `is_long_product` tells beforehand."""
    charge(len(left) * size(right) + size(left) * len(right))
    product: Poly = {}
    for first, scale in left.items():
        accumulate(product, {times(first, monomial): value for monomial, value in right.items()}, scale)
    return product


def power(poly: Poly, exponent: int) -> Poly:
    """Return `poly**exponent`, however long; `is_long_power` tells beforehand."""
    if len(poly) == 1:
        ((monomial, coefficient),) = poly.items()
        return {tuple((atom, each * exponent) for atom, each in monomial if exponent): coefficient**exponent}
    result: Poly = {UNIT: 1}
    for _ in range(exponent):
        result = multiply(result, poly)
    return result


def is_long_product(left: Poly, right: Poly) -> bool:
    """True if the product takes many steps, or exceeds the limits on integers or exponents."""
    if not left or not right:
        return False
    if len(left) * len(right) > LONGEST_PRODUCT and not (is_constant(left) or is_constant(right)):
        return True
    return degree(left) + degree(right) > operators.LARGEST_COUNT or bits(left) + bits(right) > operators.MOST_BITS


def is_long_power(poly: Poly, exponent: int) -> bool:
    """True if `poly**exponent` has many monomials, or exceeds the limits on integers or exponents."""
    if exponent < 2:
        return False
    if len(poly) > 1 and comb(len(poly) + exponent - 1, exponent) > LONGEST_PRODUCT:
        return True
    return degree(poly) * exponent > operators.LARGEST_COUNT or bits(poly) * exponent > operators.MOST_BITS


def size(poly: Poly) -> int:
    """Return the number of monomials plus the number of atoms in them."""
    return len(poly) + sum(map(len, poly))


def degree(poly: Poly) -> int:
    """Return the greatest sum of exponents in a monomial."""
    return max((sum(exponent for _, exponent in monomial) for monomial in poly), default=0)


def degree_in(poly: Poly, atom: Node) -> int:
    """Return the greatest exponent of an atom."""
    return max((exponent for monomial in poly for each, exponent in monomial if each is atom), default=0)


def bits(poly: Poly) -> int:
    """Return the bit length of the longest coefficient, minus one: 0 for the coefficient 1."""
    return max((coefficient.bit_length() - 1 for coefficient in poly.values()), default=0)


def scaled(poly: Poly, scale: int) -> Poly:
    """Return `scale * poly`, for a nonzero scale."""
    return {monomial: scale * coefficient for monomial, coefficient in poly.items()}


def substitute(poly: Poly, atom: Node, value: Poly) -> Poly:
    """Return the polynomial with `value` in place of `atom`."""
    result: Poly = {}
    for monomial, coefficient in poly.items():
        exponent = dict(monomial).get(atom, 0)
        product: Poly = {tuple(factor for factor in monomial if factor[0] is not atom): coefficient}
        for _ in range(exponent):
            product = multiply(product, value)
        accumulate(result, product)
    return result


def constant(value: int) -> Poly:
    """Return the constant polynomial of this value."""
    return {UNIT: value} if value else {}


def without_constant(poly: Poly) -> Poly:
    """Return the polynomial without its constant."""
    return {monomial: coefficient for monomial, coefficient in poly.items() if monomial}


def is_constant(poly: Poly) -> bool:
    """True if the polynomial has no atoms."""
    return not poly or (len(poly) == 1 and UNIT in poly)


def leading(poly: Poly) -> Monomial:
    """Return the greatest monomial of a nonzero polynomial."""
    return min(poly, key=order)


def common_monomial(*polys: Poly) -> Monomial:
    """Return the greatest monomial that divides every monomial of all the polynomials."""
    monomials = [monomial for poly in polys for monomial in poly]
    exponents = dict(monomials[0])
    for monomial in monomials[1:]:
        if not exponents:
            break
        other = dict(monomial)
        exponents = {atom: min(power, other[atom]) for atom, power in exponents.items() if atom in other}
    return tuple(exponents.items())


def content(*polys: Poly) -> int:
    """Return the greatest common divisor of all coefficients; 0 if there are none."""
    return gcd(*(coefficient for poly in polys for coefficient in poly.values()))


def divide_exactly(poly: Poly, monomial: Monomial, scale: int) -> Poly:
    """Return `poly / (scale * monomial)`; the monomial must divide every monomial. Coefficients are rounded down."""
    quotients = ((over(each, monomial), coefficient // scale) for each, coefficient in poly.items())
    return {each: coefficient for each, coefficient in quotients if each is not None and coefficient}


def divide(numerator: Poly, divisor: Poly) -> tuple[Poly, Poly]:
    """Return quotient and remainder with `numerator == quotient * divisor + remainder`.

    The leading coefficient `c` of the divisor must be positive. Let r be a coefficient of the remainder whose monomial
    is divisible by the leading monomial: `-c/2 < r <= c/2`. So `3x` over 4 leaves `-x`, which lets rounded-up divisions
    collapse.

    Deeply nested atoms give only exact multiples to the quotient: the quotient repeats these atoms, so balanced
    remainders would double the term at each level.
    """
    lead = leading(divisor)
    scale = divisor[lead]
    tail = {monomial: coefficient for monomial, coefficient in divisor.items() if monomial != lead}
    quotient: Poly = {}
    remainder: Poly = {}
    rest = _Falling(numerator)
    for monomial, coefficient in rest if tail else numerator.items():
        ratio = over(monomial, lead)
        count = 0 if ratio is None else _count(coefficient, scale, monomial)
        if ratio is not None and count:
            quotient[ratio] = count
            rest.add({times(ratio, each): value for each, value in tail.items()}, -count)
            if len(quotient) > _LONGEST_QUOTIENT:
                return {}, numerator
        if coefficient != count * scale:
            remainder[monomial] = coefficient - count * scale
    return quotient, remainder


class _Falling:
    """A polynomial that is consumed from the greatest monomial down, and that may grow meanwhile."""

    def __init__(self, poly: Poly) -> None:
        self._poly = dict(poly)
        self._ordered = {order(monomial): monomial for monomial in poly}
        self._heap = list(self._ordered)
        heapify(self._heap)

    def __iter__(self) -> Iterator[tuple[Monomial, int]]:
        while self._heap:
            monomial = self._ordered[heappop(self._heap)]
            coefficient = self._poly.pop(monomial, 0)
            if coefficient:
                yield monomial, coefficient

    def add(self, poly: Poly, scale: int) -> None:
        """Add `scale * poly`, whose monomials are less than the last consumed monomial."""
        charge(len(poly))
        accumulate(self._poly, poly, scale)
        for monomial in poly:
            key = order(monomial)
            if key not in self._ordered:
                self._ordered[key] = monomial
                heappush(self._heap, key)


def _count(coefficient: int, scale: int, monomial: Monomial) -> int:
    """Return how many times `scale` is taken out of a coefficient."""
    if any(atom.key[0] > _DEEPEST_BALANCED for atom, _ in monomial):
        return 0 if coefficient % scale else coefficient // scale
    return (2 * coefficient + scale - 1) // (2 * scale)
