"""Integer terms in canonical form. Two terms that the rules below make equal are the same object.

    Term      ::=  coefficient * Atom**exponent * ... + ...        an integer polynomial, and its `checks`
    Atom      ::=  Symbol(name)
                |  FloorDiv(numerator: Term, divisor: Term)        Python's //, rounding down
                |  Min(args: Term...)  |  Max(args: Term...)
                |  Where(condition: Formula, then: Term, otherwise: Term)
                |  Apply(op, args: Term|Real...)                   a function with a meaning, no algebra
                |  Unknown(name, args: Term|Real...)               no meaning, but equal on equal arguments

`a % b` is `a - b*(a//b)`. In a division, multiples of the divisor are pulled out with balanced remainders, and common
factors are cancelled. Nested divisions by a positive constant are joined, and one of the two equal forms
`p//c == -1 - (-p-1)//c` is chosen.

Definedness. In Python `0*(a//b)` raises where b is 0, so canonical form must keep track of every division. Instead of
restricting the algebra, a term carries `checks`: atoms that no longer occur in its polynomial but must still be
defined. A divisor `d` is recorded as the check `0 // d`. Law: a rewriting step preserves the set of atoms, in the
polynomial and in the checks, that must be defined. So `(p*q)//q` is `p` with the check `0 // q`, and `x//b - x//b` is 0
with the check `0 // b`. A term that cannot raise is `total` and has no checks; arithmetic on total terms has no
overhead for definedness.

Canonical form uses no facts about symbols; the solver adds those. `==` on terms is identity and builds no formula.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from shapeproof.constraints import division, operators, polynomials
from shapeproof.constraints.atoms import Apply, Extremum, Max, Min, Symbol, Unknown, Where
from shapeproof.constraints.bits import operands, without_bits
from shapeproof.constraints.division import FloorDiv
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.nodes import MEMORY, Node, obligations, union
from shapeproof.constraints.polynomials import UNIT, Monomial, Poly
from shapeproof.constraints.reals import FromInt, Real, RealCall, RealConstant, RealSymbol, real_call
from shapeproof.constraints.work import charge

if TYPE_CHECKING:
    from shapeproof.constraints.formulas import Formula

__all__ = [
    "ONE", "ZERO", "Apply", "Atom", "Extremum", "FloorDiv", "FromInt", "IntLike", "Max", "Min", "Real", "RealCall",
    "RealConstant", "RealSymbol", "Symbol", "Term", "Unknown", "Where", "apply", "as_term", "bare", "constant",
    "floor_div", "from_poly", "maximum", "minimum", "modulo", "of_atom", "real_call", "symbol", "symbol_in", "total",
    "unknown", "where",
]  # fmt: skip

_LARGEST_EXPANSION = 16
_DEEPEST_IMPLIED = 8
_WIDEST_EXTREMUM = 32
_MAKING = 8
"""The cost of making a term, per atom in it."""


class Term(Node):
    """An integer polynomial over atoms: `monomials`, from the greatest to the constant, and the hidden `checks`.

    >>> x = symbol("x")
    >>> x + (4 - x % 4) % 4 is -4 * (-x // 4)
    True
    """

    __slots__ = ("checks", "monomials", "poly")
    __match_args__ = ("monomials", "checks")
    rank = 10
    monomials: tuple[tuple[Monomial, int], ...]
    checks: tuple[Atom, ...]
    poly: Poly  # the same monomials as a dictionary, for arithmetic: do not mutate it

    def _finish(self) -> None:
        object.__setattr__(self, "poly", dict(self.monomials))
        super()._finish()

    def _parts(self) -> tuple[Node, ...]:
        return (*dict.fromkeys(atom for monomial in self.poly for atom, _ in monomial), *self.checks)

    def _depth(self) -> int:
        return max((child.key[0] for child in self.children), default=0)

    def _label(self) -> str:
        shown = [
            "*".join((hex(coefficient), *(f"{atom.key[2]}^{exponent}" for atom, exponent in monomial)))
            for monomial, coefficient in self.monomials
        ]
        return "+".join(shown + [f"?{check.key[2]}" for check in self.checks])

    def _is_total(self) -> bool:
        return not self.checks and super()._is_total()

    @property
    def is_constant(self) -> bool:
        """True if the term is a fixed integer that is always defined."""
        return not self.checks and polynomials.is_constant(self.poly)

    @property
    def is_negative(self) -> bool:
        """True if the leading coefficient is negative; leading signs inside its divisions count too."""
        if not self.monomials:
            return False
        monomial, coefficient = self.monomials[0]
        turns = sum(power for atom, power in monomial if isinstance(atom, FloorDiv) and atom.is_negative)
        return (coefficient < 0) ^ (turns % 2 == 1)

    @property
    def constant_value(self) -> int:
        """The integer value of a constant term."""
        if not self.is_constant:
            raise UsageError(f"{self} is not a constant.")
        return self.poly.get(UNIT, 0)

    def nonzero(self) -> frozenset[Atom]:
        """Return what must be defined to divide by this term: one check `0 // f` for each visible factor f.

        >>> sorted(map(str, (2 * symbol("x") * symbol("y")).nonzero()))
        ['0//x', '0//y']
        """
        if not self.poly:
            return frozenset({FloorDiv(ZERO, ZERO)})
        if polynomials.is_constant(self.poly):
            return frozenset()
        shared = polynomials.common_monomial(self.poly)
        rest = polynomials.divide_exactly(self.poly, shared, polynomials.content(self.poly))
        factors: list[Poly] = [{((atom, 1),): 1} for atom, _ in shared]
        if not polynomials.is_constant(rest):
            factors.append(polynomials.scaled(rest, 1 if rest[polynomials.leading(rest)] > 0 else -1))
        return frozenset(FloorDiv(ZERO, _intern(factor)) for factor in factors)

    def __add__(self, other: IntLike) -> Term:
        right = _operand(other)
        if right is None:
            return NotImplemented
        return _build(polynomials.add(self.poly, right.poly), self, right)

    __radd__ = __add__

    def __sub__(self, other: IntLike) -> Term:
        right = _operand(other)
        if right is None:
            return NotImplemented
        return _build(polynomials.add(self.poly, right.poly, -1), self, right)

    def __rsub__(self, other: IntLike) -> Term:
        return -self + other

    def __mul__(self, other: IntLike) -> Term:
        right = _operand(other)
        return NotImplemented if right is None else _product(self, right)

    __rmul__ = __mul__

    def __neg__(self) -> Term:
        return _build(polynomials.scaled(self.poly, -1), self)

    def __pos__(self) -> Term:
        return self

    def __floordiv__(self, other: IntLike) -> Term:
        right = _operand(other)
        return NotImplemented if right is None else floor_div(self, right)

    def __rfloordiv__(self, other: IntLike) -> Term:
        return floor_div(other, self)

    def __mod__(self, other: IntLike) -> Term:
        right = _operand(other)
        return NotImplemented if right is None else modulo(self, right)

    def __rmod__(self, other: IntLike) -> Term:
        return modulo(other, self)

    def __pow__(self, exponent: int) -> Term:
        if exponent < 0:
            raise UsageError(f"The power {exponent} of an integer is not an integer.")
        largest = _LARGEST_EXPANSION if len(self.poly) > 1 else operators.LARGEST_COUNT
        if exponent > largest or polynomials.is_long_power(self.poly, exponent):
            return of_atom(Apply("pow", (bare(self), constant(exponent))), self)
        return _build(polynomials.power(self.poly, exponent), self)


Atom: TypeAlias = Symbol | FloorDiv | Extremum | Where | Apply | Unknown
IntLike: TypeAlias = Term | int

_TERMS: dict[tuple[frozenset[tuple[Monomial, int]], tuple[Node, ...]], Term] = {}


def _intern(poly: Poly, checks: tuple[Node, ...] = ()) -> Term:
    charge(_MAKING * (1 + polynomials.size(poly) + len(checks)))
    identity = (frozenset(poly.items()), checks)
    found = _TERMS.get(identity)
    if found is None:
        monomials = tuple(sorted(poly.items(), key=lambda pair: polynomials.order(pair[0])))
        found = _TERMS.setdefault(identity, Term(monomials, checks))
    return found


def _build(poly: Poly, *operands: Node, nonzero: frozenset[Atom] = frozenset()) -> Term:
    """Return the polynomial as a term defined exactly where all `operands` and the checks `nonzero` are."""
    if not nonzero:
        for operand in operands:  # a loop costs half of `all`, and terms are made often
            if not operand.total:
                break
        else:
            return _intern(poly)
    required = union(nonzero, *map(obligations, operands))
    charge(len(required))
    shown = union(*(obligations(atom) for monomial in poly for atom, _ in monomial if not atom.total))
    hidden = required - shown
    if hidden:
        hidden -= _implied(required | shown)
    return _intern(poly, tuple(sorted(hidden, key=lambda check: check.key)))


def _implied(checks: frozenset[Atom]) -> frozenset[Atom]:
    """Return the checks that these checks already imply: those of their divisors, down to a fixed depth."""
    found: frozenset[Atom] = frozenset()
    level = checks
    for _ in range(_DEEPEST_IMPLIED):
        level = union(*(obligations(check.divisor) for check in level if isinstance(check, FloorDiv))) - found
        found |= level
    return found


def bare(term: Term) -> Term:
    """Return the term without its checks: equal wherever the term is defined."""
    return _intern(term.poly) if term.checks else term


def _operand(value: object) -> Term | None:
    if isinstance(value, Term):
        return value
    return constant(value) if isinstance(value, int) else None


@lru_cache(maxsize=MEMORY)
def _product(left: Term, right: Term) -> Term:
    """Return the product, multiplied out. A product that would be too long becomes the atom `Apply("mul", factors)`."""
    if polynomials.is_long_product(left.poly, right.poly) or (operands("mul", left) and len(right.poly) > 1):
        factors = tuple(sorted((bare(left), bare(right)), key=lambda factor: factor.key))
        return of_atom(Apply("mul", factors), left, right)
    return _build(polynomials.multiply(left.poly, right.poly), left, right)


def total(added: Iterable[Term], taken: Iterable[Term] = ()) -> Term:
    """Return the sum of `added` minus the sum of `taken`, in one step.

    >>> total([symbol("x"), symbol("y")], [symbol("x"), constant(2)])
    y - 2
    """
    parts = [(1, term) for term in added] + [(-1, term) for term in taken]
    poly: Poly = {}
    for sign, term in parts:
        polynomials.accumulate(poly, term.poly, sign)
    return _build(poly, *(term for _, term in parts))


def from_poly(poly: Poly, *operands: Node) -> Term:
    """Return the polynomial as a term defined exactly where all `operands` are."""
    return _build({monomial: coefficient for monomial, coefficient in poly.items() if coefficient}, *operands)


def of_atom(atom: Atom, *operands: Node) -> Term:
    """Return one atom as a term, with the obligations of its operands."""
    return _build({((atom, 1),): 1}, atom, *operands)


def symbol(name: str) -> Term:
    """Return the integer called `name`.

    >>> symbol("n") is symbol("n")
    True
    """
    return of_atom(Symbol(name))


def name_of(term: Term) -> str | None:
    """Return the name of a term that is one symbol; None for any other term.

    >>> name_of(symbol("n")), name_of(symbol("n") + 1)
    ('n', None)
    """
    return next((name for name in term.symbols if term is symbol(name)), None)


def symbol_in(monomial: Monomial) -> str | None:
    """Return the name of the symbol that is the whole monomial; None for any other monomial."""
    match monomial:
        case ((Symbol(name), 1),):
            return name
    return None


def constant(value: int) -> Term:
    """Return an integer constant.

    >>> constant(2) + 3
    5
    """
    return _intern(polynomials.constant(int(operator.index(value))))


def as_term(value: IntLike) -> Term:
    """Return the term; an int becomes a constant."""
    return value if isinstance(value, Term) else constant(value)


def floor_div(numerator: IntLike, divisor: IntLike) -> Term:
    """Python's `//`.

    >>> x = symbol("x")
    >>> floor_div(4*x + 8, 4), floor_div(x // 2, 2), floor_div(6*x, 4) is 3*x // 2
    (x + 2, x//4, True)
    """
    return _floor_div(as_term(numerator), as_term(divisor))


@lru_cache(maxsize=MEMORY)
def _floor_div(numerator: Term, divisor: Term) -> Term:
    nonzero = divisor.nonzero().union(divisor.checks)
    if not divisor.poly:
        return _build({}, numerator, nonzero=nonzero)
    whole, sign, *rest = division.floor(numerator.poly, divisor.poly)
    if rest[0]:
        atom = FloorDiv(*map(_intern, rest))
        whole = polynomials.add(whole, {((atom, 1),): sign})
    return _build(whole, numerator, nonzero=nonzero)


def modulo(value: IntLike, divisor: IntLike) -> Term:
    """Python's `%`, as `value - divisor * (value // divisor)`.

    >>> modulo(symbol("x") * 4 + 7, 4)
    3
    """
    value, divisor = as_term(value), as_term(divisor)
    return value - divisor * floor_div(value, divisor)


def minimum(*terms: IntLike) -> Term:
    """Return the least of the terms.

    >>> x = symbol("x")
    >>> minimum(x + 3, x, 7, 5)
    min(x, 5)
    """
    return _extremum(tuple(map(as_term, terms)), 1)


def maximum(*terms: IntLike) -> Term:
    """Return the greatest of the terms.

    >>> maximum(symbol("x"), maximum(symbol("y"), 1))
    max(1, x, y)
    """
    return _extremum(tuple(map(as_term, terms)), -1)


@lru_cache(maxsize=MEMORY)
def _extremum(terms: tuple[Term, ...], sense: int) -> Term:
    """Return the least (sense 1) or greatest (-1) term. Of terms that differ by a constant, one is kept."""
    best: dict[Term, int] = {}
    for poly in _flattened(terms, sense):
        shape, offset = _intern(polynomials.without_constant(poly)), poly.get(UNIT, 0)
        best[shape] = sense * min(sense * offset, sense * best.get(shape, offset))
    if not best:
        raise UsageError("The least or greatest of no terms at all has no value.")
    if len(best) == 1:
        ((shape, offset),) = best.items()
        return _build((shape + offset).poly, *terms)
    if _faces_away(best, sense):
        return _build((-_extremum(tuple(-shape - offset for shape, offset in best.items()), -sense)).poly, *terms)
    shift = min(offset for shape, offset in best.items() if shape is not ZERO)
    polys = [(shape + (offset - shift)).poly for shape, offset in best.items()]
    scale = polynomials.content(*polys)
    args = sorted((_intern(polynomials.divide_exactly(poly, UNIT, scale)) for poly in polys), key=lambda arg: arg.key)
    atom = Min(tuple(args)) if sense > 0 else Max(tuple(args))
    return _build(polynomials.add(polynomials.constant(shift), {((atom, 1),): scale}), *terms)


def _faces_away(shapes: Iterable[Term], sense: int) -> bool:
    """True if `min(a, b)` should become `-max(-a, -b)`: more terms lead with a minus sign, or the first term does."""
    signed = [shape for shape in shapes if shape is not ZERO]
    lead = sum(-1 if shape.is_negative else 1 for shape in signed)
    if lead:
        return lead < 0
    lone = [shape for shape in signed if -shape not in signed]
    first = min(lone, key=lambda shape: min(shape.key, (-shape).key), default=None)
    return sense > 0 if first is None else first.is_negative


def _flattened(terms: Iterable[Term], sense: int) -> Iterator[Poly]:
    """The terms. A nested extremum of the same sense, shifted or scaled, gives its arguments while there is room."""
    room = _WIDEST_EXTREMUM
    for term in terms:
        shape = polynomials.without_constant(term.poly)
        match list(shape.items()):
            case [(((Extremum(args) as atom, 1),), scale)] if atom.sense * scale * sense > 0 and len(args) < room:
                room -= len(args)
                offset = polynomials.constant(term.poly.get(UNIT, 0))
                yield from (polynomials.add(offset, arg.poly, scale) for arg in args)
            case _:
                yield term.poly


def where(condition: Formula, then: IntLike, otherwise: IntLike) -> Term:
    """Return `then if condition else otherwise`.

    >>> from shapeproof.constraints.formulas import ge
    >>> where(ge(symbol("n"), 2), symbol("n"), 1)
    n if n >= 2 else 1
    """
    then, otherwise = as_term(then), as_term(otherwise)
    if condition.constant is not None:
        return then if condition.constant else otherwise
    if then is otherwise and condition.total:
        return then
    opposite = condition.negation
    if opposite.key < condition.key:
        condition, then, otherwise = opposite, otherwise, then
    return of_atom(Where(condition, then, otherwise))


def apply(op: str, *args: IntLike | Real) -> Term:
    """Apply an integer function of `operators.INTEGER`; a function with an algebra becomes a polynomial or a division.

    >>> apply("rshift", symbol("x"), 3), apply("pow", symbol("x"), symbol("k"))
    (x//8, x**k)
    """
    if op not in operators.INTEGER:
        raise UsageError(f"There is no integer function called {op!r}.")
    nodes = tuple(arg if isinstance(arg, Real) else as_term(arg) for arg in args)
    match op, nodes:
        case "mul", (Term() as value, Term() as right):
            return value * right
        case "and" | "or" | "xor", (Term() as value, Term() as right) if found := without_bits(op, value, right, apply):
            return found
        case "trunc" | "floor" | "ceil" | "round", (Term() as value,):
            return value
        case "floor", (RealCall("neg", (value,)),):
            return -apply("ceil", value)
        case "pow" | "lshift" | "rshift", (Term() as value, Term() as right) if right.is_constant:
            count = right.constant_value
            if 0 <= count <= operators.LARGEST_COUNT:
                return value**count if op == "pow" else value * 2**count if op == "lshift" else value // 2**count
    plain = tuple(bare(node) if isinstance(node, Term) else node for node in nodes)
    if op in operators.COMMUTATIVE:
        plain = tuple(sorted(plain, key=lambda arg: arg.key))
    return of_atom(Apply(op, plain), *nodes)


def unknown(name: str, *args: IntLike | Real) -> Term:
    """Return an integer function that is known only by its name.

    >>> unknown("f", symbol("x")) is unknown("f", symbol("x"))
    True
    """
    nodes = tuple(arg if isinstance(arg, Real) else as_term(arg) for arg in args)
    plain = tuple(bare(node) if isinstance(node, Term) else node for node in nodes)
    return of_atom(Unknown(name, plain), *nodes)


ZERO = constant(0)
ONE = constant(1)
