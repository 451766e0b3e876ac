"""Formulas over terms: comparisons with zero, joined by `and` and `or`. Negation is pushed inwards, never stored.

    Formula   ::=  TRUE | FALSE
                |  Compare(op, term)                     term <= 0, term == 0 or term != 0, in lowest terms
                |  RealCompare(op, left, right, negated) of doubles; with nan, `not a < b` differs from `b <= a`
                |  Truth(name, negated)                  a boolean from the environment
                |  And(args) | Or(args)                  two or more operands, flattened, without repetitions

`and` and `or` mean what they mean in Python: evaluated from the left, with short-circuiting. Operands that cannot raise
are sorted. If an operand can raise, the operands keep their order: `b != 0 and a // b > 1` is false, not an error, at
b = 0. A comparison that holds wherever its terms are defined becomes TRUE if it is total; otherwise it becomes `0 == 0`
with the checks of its terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from shapeproof.constraints import operators, polynomials
from shapeproof.constraints.atoms import Where
from shapeproof.constraints.division import FloorDiv
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.nodes import Named, Node
from shapeproof.constraints.polynomials import UNIT
from shapeproof.constraints.reals import Real, RealConstant
from shapeproof.constraints.terms import ONE, ZERO, IntLike, Term, as_term, from_poly, modulo
from shapeproof.constraints.work import charge

__all__ = [
    "FALSE", "TRUE", "And", "BooleanConstant", "Compare", "Formula", "Or", "RealCompare", "Truth", "compare",
    "conjunction", "disjunction", "divides", "eq", "ge", "gt", "implies", "le", "lt", "ne", "negate", "real_compare",
]  # fmt: skip


class Formula(Node):
    """A condition. `negation` is its opposite; `constant` is True, False, or None if the formula depends on symbols."""

    __slots__ = ()

    @property
    def constant(self) -> bool | None:
        """The value of TRUE and FALSE; None for every other formula."""
        return self.value if isinstance(self, BooleanConstant) else None

    @property
    def negation(self) -> Formula:
        """The formula that holds exactly where this one fails, and raises where this one raises."""
        return _opposite(self)

    @property
    def conjuncts(self) -> tuple[Formula, ...]:
        """The operands of an And; any other formula is its only conjunct."""
        return self.args if isinstance(self, And) else (self,)

    def __bool__(self) -> bool:
        raise UsageError(f"{self} is a formula: ask for its .constant, or evaluate it.")


class BooleanConstant(Formula):
    """TRUE or FALSE."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    rank = 30
    value: bool


class Compare(Formula):
    """`term op 0`, with op one of "<=", "==" and "!="."""

    __slots__ = ("op", "term")
    __match_args__ = ("op", "term")
    rank = 31
    op: str
    term: Term


class RealCompare(Formula):
    """`left op right`, or its opposite; at least one of the numbers is a double."""

    __slots__ = ("left", "negated", "op", "right")
    __match_args__ = ("op", "left", "right", "negated")
    rank = 32
    op: str
    left: Real | Term
    right: Real | Term
    negated: bool


class Truth(Named, Formula):
    """A boolean that the environment gives under this name, or its opposite."""

    __slots__ = ("negated",)
    __match_args__ = ("name", "negated")
    rank = 33
    negated: bool

    def __new__(cls, name: str, negated: bool = False) -> Self:  # noqa: FBT001, FBT002  (a field)
        """Return the node of this name; `negated` gives its opposite."""
        return super().__new__(cls, name, negated)

    def _label(self) -> str:
        return f"{super()._label()}{'!' if self.negated else ''}"


class And(Formula):
    """All `args` hold."""

    __slots__ = ("args",)
    __match_args__ = ("args",)
    rank = 34
    args: tuple[Formula, ...]


class Or(Formula):
    """At least one of `args` holds."""

    __slots__ = ("args",)
    __match_args__ = ("args",)
    rank = 35
    args: tuple[Formula, ...]


def _opposite(formula: Formula) -> Formula:
    match formula:
        case BooleanConstant(value):
            return FALSE if value else TRUE
        case Compare("<=", term):
            return compare("<=", 1 - term)
        case Compare(op, term):
            return compare("!=" if op == "==" else "==", term)
        case RealCompare(op, left, right, negated):
            return RealCompare(op, left, right, not negated)
        case Truth(name, negated):
            return Truth(name, not negated)
        case And(args):
            return disjunction(*(arg.negation for arg in args))
        case Or(args):
            return conjunction(*(arg.negation for arg in args))
    raise TypeError(f"{type(formula).__name__} has no opposite")


TRUE = BooleanConstant(True)  # noqa: FBT003  (the value itself)
FALSE = BooleanConstant(False)  # noqa: FBT003


def compare(op: str, term: Term) -> Formula:
    """Return `term op 0` for op in "<=", "==", "!=", divided by the common factor of the coefficients.

    >>> from shapeproof.constraints.terms import symbol
    >>> compare("<=", 2 * symbol("x") - 3), compare("==", 2 * symbol("x") - 3)
    (x <= 1, False)
    """
    offset = term.poly.get(UNIT, 0)
    scale = polynomials.content(polynomials.without_constant(term.poly))
    chosen = _chosen(op, term, offset) if term.total and len(term.monomials) <= 2 else None
    if chosen is not None:
        return chosen
    if scale == 0:
        return _decided(offset <= 0 if op == "<=" else (offset == 0) == (op == "=="), term)
    if op == "<=":
        # scale*p + offset <= 0 exactly where p <= floor(-offset / scale)
        reduced = _scaled_down(term, scale, -(-offset // scale))
        undivided = _undivided(reduced)
        return Compare(op, reduced) if undivided is reduced else compare(op, undivided)
    if offset % scale:
        return _decided(op == "!=", term)
    if term.monomials[0][1] < 0:
        scale = -scale
    return Compare(op, _scaled_down(term, scale, offset // scale))


def _chosen(op: str, term: Term, offset: int) -> Formula | None:
    """Return when a choice between two numbers compares so: `(1 if c else 0) == 1` is `c`; None for any other term."""
    match list(polynomials.without_constant(term.poly).items()):
        case [(((Where(condition, then, otherwise), 1),), scale)] if then.is_constant and otherwise.is_constant:
            numbers = (scale * each.constant_value + offset for each in (then, otherwise))
            first, second = (compare(op, as_term(number)) for number in numbers)
            return first if first is second else condition if first is TRUE else condition.negation
    return None


def _scaled_down(term: Term, scale: int, offset: int) -> Term:
    if scale == 1:
        return term
    poly = {monomial: value // scale for monomial, value in term.poly.items() if monomial}
    return from_poly(poly | {UNIT: offset}, term)


def _undivided(term: Term) -> Term:
    """Return a term that is `<= 0` at the same points with one floor division by a constant fewer, or the term itself.

    `p + n//c <= 0` exactly where `c*p + n < c`, and `p - n//c <= 0` exactly where `c*p - n <= 0`.
    """
    for monomial, coefficient in term.monomials:
        match monomial:
            case ((FloorDiv(numerator, divisor), 1),) if divisor.is_constant and coefficient in {1, -1}:
                size = divisor.constant_value
                rest = polynomials.scaled(polynomials.add(term.poly, {monomial: -coefficient}), size)
                poly = polynomials.add(rest, numerator.poly, coefficient)
                return from_poly(polynomials.add(poly, {UNIT: 1 - size}) if coefficient > 0 else poly, term)
    return term


def _decided(value: bool, term: Term) -> Formula:  # noqa: FBT001  (a value, not a switch)
    """Return TRUE or FALSE if the term is total; otherwise a comparison that has this value wherever it is defined."""
    if term.total:
        return TRUE if value else FALSE
    return Compare("==", from_poly((ZERO if value else ONE).poly, term))


def eq(left: IntLike, right: IntLike) -> Formula:
    """`left == right`.

    >>> from shapeproof.constraints.terms import symbol
    >>> eq(symbol("x") // 2 // 2, symbol("x") // 4)
    True
    """
    return compare("==", as_term(left) - right)


def ne(left: IntLike, right: IntLike) -> Formula:
    """`left != right`."""
    return compare("!=", as_term(left) - right)


def le(left: IntLike, right: IntLike) -> Formula:
    """`left <= right`."""
    return compare("<=", as_term(left) - right)


def lt(left: IntLike, right: IntLike) -> Formula:
    """`left < right`."""
    return compare("<=", as_term(left) - right + 1)


def ge(left: IntLike, right: IntLike) -> Formula:
    """`left >= right`."""
    return le(right, left)


def gt(left: IntLike, right: IntLike) -> Formula:
    """`left > right`."""
    return lt(right, left)


def divides(divisor: IntLike, term: IntLike) -> Formula:
    """`term % divisor == 0`.

    >>> from shapeproof.constraints.terms import symbol
    >>> divides(4, 2 * symbol("h"))
    h % 2 == 0
    """
    return eq(modulo(term, divisor), 0)


def conjunction(*formulas: Formula) -> Formula:
    """Return the formula that holds where all the formulas hold.

    >>> from shapeproof.constraints.terms import symbol
    >>> conjunction(ge(symbol("x"), 1), TRUE, ge(symbol("x"), 1))
    x >= 1
    """
    return _joined(formulas, And, TRUE, FALSE)


def disjunction(*formulas: Formula) -> Formula:
    """Return the formula that holds where at least one of the formulas holds.

    >>> from shapeproof.constraints.terms import symbol
    >>> disjunction(ge(symbol("x"), 1), lt(symbol("x"), 1))
    True
    """
    return _joined(formulas, Or, FALSE, TRUE)


def _joined(formulas: Iterable[Formula], kind: type[And | Or], neutral: Formula, absorbing: Formula) -> Formula:
    """Join operands from the left. Operands after the absorbing constant, and repeated operands, are dropped."""
    operands: dict[Formula, None] = {}
    for formula in formulas:
        for operand in formula.args if isinstance(formula, kind) else (formula,):
            if operand is not neutral:
                operands[operand] = None
            if operand is absorbing or (operand.total and operand.negation in operands):
                operands[absorbing] = None
                break
        if absorbing in operands:
            break
    charge(len(operands))
    kept = list(operands)
    if all(operand.total for operand in kept):
        kept = [absorbing] if absorbing in operands else sorted(kept, key=lambda operand: operand.key)
    while len(kept) > 1 and kept[-1] is absorbing and kept[-2].total:
        del kept[-2]
    if len(kept) < 2:
        return kept[0] if kept else neutral
    return kind(tuple(kept))


def negate(formula: Formula) -> Formula:
    """Return the opposite of the formula.

    >>> from shapeproof.constraints.terms import symbol
    >>> negate(conjunction(ge(symbol("x"), 1), eq(symbol("y"), 2)))
    y != 2 or x <= 0
    """
    return formula.negation


def implies(premise: Formula, conclusion: Formula) -> Formula:
    """Return the formula `premise => conclusion`."""
    return disjunction(premise.negation, conclusion)


def real_compare(op: str, left: Real | IntLike, right: Real | IntLike) -> Formula:
    """Return `left op right` for any of the six comparisons; integers and doubles compare exactly, as in Python.

    >>> from shapeproof.constraints.terms import symbol
    >>> real_compare("<", symbol("n"), RealConstant(2.5))
    n <= 2
    """
    if op in {">", ">="}:
        return real_compare({">": "<", ">=": "<="}[op], right, left)
    if op not in operators.COMPARISONS:
        raise UsageError(f"There is no comparison {op!r}.")
    left = left if isinstance(left, Real) else as_term(left)
    right = right if isinstance(right, Real) else as_term(right)
    match left, right:
        case Term(), Term():
            return {"<": lt, "<=": le, "==": eq, "!=": ne}[op](left, right)
        case Term(), RealConstant(value=value):
            return _with_double(op, left, value)
        case RealConstant(value=value), Term():
            return _with_double(op, -right, -value)
        case _:
            return RealCompare(op, left, right, False)  # noqa: FBT003


def _with_double(op: str, term: Term, value: float) -> Formula:
    """Return `term op value` as a comparison of integers."""
    if math.isfinite(value):
        match op:
            case "<":
                return lt(term, math.ceil(value))
            case "<=":
                return le(term, math.floor(value))
        if value.is_integer():
            return compare(op, term - int(value))
    # every integer gives the same answer: value is an infinity or nan, or a fraction under == or !=
    return _decided(operators.COMPARISONS[op](0, value) if not math.isfinite(value) else op == "!=", term)


def connected(symbols: frozenset[str], formulas: Sequence[Formula], others: Sequence[Formula] = ()) -> list[Formula]:
    """Return the formulas that share symbols with these, directly or through others; the rest cannot matter.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> connected(frozenset("a"), [parse_formula(text) for text in ("b >= c", "d >= 2", "a >= b")])
    [c <= b, b <= a]
    """
    about, rest = symbols, {each for each in (*formulas, *others) if each.symbols}
    while near := {each for each in rest if not about.isdisjoint(each.symbols)}:
        about = about.union(*(each.symbols for each in near))
        rest -= near
    return [each for each in formulas if each not in rest]


def independent(formulas: Sequence[Formula]) -> Iterator[list[Formula]]:
    """Yield the formulas in groups that share no symbols: what follows from all about a group follows from it alone.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> list(independent([parse_formula(text) for text in ("b >= c", "d >= 2", "a >= b")]))
    [[c <= b, b <= a], [d >= 2]]
    """
    left = list(formulas)
    while left:
        yield (group := connected(left[0].symbols, left))
        taken = set(group)
        left = [each for each in left if each not in taken]
