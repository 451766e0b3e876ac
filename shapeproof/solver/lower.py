"""Terms and formulas as Z3 expressions over the integers: never over the reals.

    Python's a // b   is  a div b  where b > 0, and  (-a) div (-b)  where b < 0 : Z3's div rounds so that the remainder is >= 0
    min, max          nested conditionals
    Apply, Unknown    uninterpreted functions, so that equal arguments give equal values
    reals             an uninterpreted sort: nothing is claimed of doubles but congruence

What a formula needs in order to be defined is not asserted here and not assumed: constraints.definedness states it, the caller
proves it. Where a formula is undefined, its lowering has an arbitrary value. So `unsat` is a proof for the points where
all is defined, and `sat` is only a candidate, to be evaluated before it is believed.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import z3

from shapeproof.constraints.formulas import And, BooleanConstant, Compare, Or, RealCompare, Truth
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.reals import FromInt, RealCall, RealConstant, RealSymbol
from shapeproof.constraints.terms import Apply, FloorDiv, Max, Min, Symbol, Term, Unknown, Where, of_atom

if TYPE_CHECKING:
    from shapeproof.constraints.formulas import Formula
    from shapeproof.constraints.intervals import Interval
    from shapeproof.solver.session import Session


_COMPARISONS = {"<=": operator.le, "==": operator.eq, "!=": operator.ne}


class Bounds(Protocol):
    """What is known of a term's value; consulted for the sign of divisors and for functions without a theory."""

    def __call__(self, term: Term, /) -> Interval: ...


class Lowering:
    """The Z3 counterpart of nodes in one session; `axioms` must be asserted beside what was lowered.

    With `quotients`, each division is an unknown `q` with `b*q <= a < b*q + b`; without, Z3's own `div`. Each of the
    two decides questions that the other does not.
    """

    def __init__(self, session: Session, bounds: Bounds, *, quotients: bool = False) -> None:
        self._session = session
        self._bounds = bounds
        self._quotients = quotients
        self._lowered: dict[Node, Any] = {}
        self._reals: Any = z3.DeclareSort("Double", session.context)
        self.axioms: list[z3.BoolRef] = []

    def __call__(self, formula: Formula) -> z3.BoolRef:
        """The formula as a Z3 boolean."""
        return self._visit(formula)

    def term(self, term: Term) -> z3.ArithRef:
        """The term as a Z3 integer."""
        return self._visit(term)

    def _visit(self, root: Node) -> Any:  # noqa: ANN401  (the sort follows the class of the node)
        lowered = self._lowered
        for node in postorder(root):
            if node not in lowered:
                lowered[node] = self._lower(node)
        return lowered[root]

    def _lower(self, node: Node) -> Any:  # noqa: ANN401  (as above)
        low = self._lowered
        context = self._session.context
        match node:
            case Symbol(name):
                return self._session.integer(name)
            case Term():
                return self._polynomial(node)
            case FloorDiv(numerator, divisor):
                return self._division(node, low[numerator], low[divisor], self._sign(divisor))
            case Min(args):
                return reduce(lambda a, b: z3.If(a <= b, a, b), (low[arg] for arg in args))
            case Max(args):
                return reduce(lambda a, b: z3.If(a >= b, a, b), (low[arg] for arg in args))
            case Where(condition, then, otherwise):
                return z3.If(low[condition], low[then], low[otherwise])
            case Apply(name, args) | Unknown(name, args):
                return self._opaque(node, f"{type(node).__name__} {name}", [low[arg] for arg in args])
            case BooleanConstant(value):
                return z3.BoolVal(value, context)
            case Truth(name, negated):
                atom = self._session.boolean(name)
                return z3.Not(atom) if negated else atom
            case Compare(op, term):
                return _COMPARISONS[op](low[term], 0)
            case And(args):
                return z3.And(*(low[arg] for arg in args))
            case Or(args):
                return z3.Or(*(low[arg] for arg in args))
            case _:
                return self._double(node)

    def _polynomial(self, term: Term) -> z3.ArithRef:
        context = self._session.context
        addends = []
        for monomial, coefficient in term.monomials:
            factors = [self._lowered[atom] for atom, exponent in monomial for _ in range(exponent)]
            if coefficient != 1 or not factors:
                factors.insert(0, z3.IntVal(coefficient, context))
            addends.append(z3.Product(*factors) if len(factors) > 1 else factors[0])
        if not addends:
            return z3.IntVal(0, context)
        return z3.Sum(*addends) if len(addends) > 1 else addends[0]

    def _sign(self, divisor: Term) -> int:
        known = self._bounds(divisor)
        if known.lower is not None and known.lower > 0:
            return 1
        return -1 if known.upper is not None and known.upper < 0 else 0

    def _division(self, node: FloorDiv, numerator: Any, divisor: Any, sign: int) -> Any:  # noqa: ANN401
        if not self._quotients:
            if sign:
                return numerator / divisor if sign > 0 else (-numerator) / (-divisor)
            return z3.If(divisor > 0, numerator / divisor, (-numerator) / (-divisor))
        quotient = self._session.integer(f"{node.key[2]}|{len(self._lowered)}")
        remainder = numerator - divisor * quotient
        below = z3.And(remainder >= 0, remainder < divisor)
        above = z3.And(remainder <= 0, remainder > divisor)
        either = z3.And(z3.Implies(divisor > 0, below), z3.Implies(divisor < 0, above))
        self.axioms.append({1: below, -1: above, 0: either}[sign])
        return quotient

    def _opaque(self, node: Apply | Unknown, name: str, args: list[Any]) -> Any:  # noqa: ANN401
        function = z3.Function(f"{name}/{len(args)}", *(arg.sort() for arg in args), z3.IntSort(self._session.context))
        value = function(*args)
        known = self._bounds(of_atom(node))
        if known.lower is not None:
            self.axioms.append(value >= known.lower)
        if known.upper is not None:
            self.axioms.append(value <= known.upper)
        return value

    def _double(self, node: Node) -> Any:  # noqa: ANN401  (a Double, or a comparison of two)
        low, sort, context = self._lowered, self._reals, self._session.context
        match node:
            case RealConstant(digits):
                return z3.Const(f"double {digits}", sort)
            case RealSymbol(name):
                return z3.Const(f"symbol {name}", sort)
            case FromInt(term):
                return z3.Function("float", z3.IntSort(context), sort)(low[term])
            case RealCall(op, args):
                lowered = [low[arg] for arg in args]
                sorts = [arg.sort() for arg in lowered]
                return z3.Function(f"{op} {' '.join(map(str, sorts))}", *sorts, sort)(*lowered)
            case RealCompare(op, left, right, negated):
                lowered = [low[left], low[right]]
                sorts = [arg.sort() for arg in lowered]
                relation = z3.Function(f"{op} {' '.join(map(str, sorts))}", *sorts, z3.BoolSort(context))(*lowered)
                return z3.Not(relation) if negated else relation
            case _:
                raise TypeError(f"{type(node).__name__} has no lowering")
