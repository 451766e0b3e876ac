"""A formula that can be computed without short-circuiting.

A graph computes every operand. So a divisor that may be zero where an earlier operand has decided is replaced by 1
where it is zero; a separate conjunct states that the formula is defined.
"""

from __future__ import annotations

from shapeproof.constraints.formulas import Formula, Or, conjunction, eq, ge
from shapeproof.constraints.meaning.definedness import defined, demanded
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.reals import FromInt, RealCall, real_call
from shapeproof.constraints.terms import FloorDiv, Term, Where, constant, floor_div, maximum, where
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.knowledge import Knowledge
from shapeproof.solver.learned.reduction import Reducer
from shapeproof.solver.prove import implied


def computed_whole(formula: Formula, known: Facts) -> Formula | None:
    """Return an equivalent formula in which no part divides by zero anywhere the facts hold.

    None if an `or` or a conditional protects a part that may raise, unless it is a division, root or logarithm of
    integers.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> computed_whole(parse_formula("m == 0 or n // m >= 2"), Facts([parse_formula("m >= 0")]))
    m == 0 or n//max(1, m) >= 2
    """
    if formula.total:
        return formula
    nodes = [node for whole in (formula, defined(formula)) for node in postorder(whole)]
    partial = {node for node in nodes if not node.total and not implied(demanded(node), known)}
    if not partial:
        return formula
    if not all(map(_is_guardable, partial)):
        return None if any(isinstance(node, Or | Where) for node in nodes) else formula
    guarding = _Guarding(partial, known)
    return conjunction(guarding.reduce(defined(formula)), guarding.reduce(formula))


_LEAST = {"sqrt": 0, "log": 1, "log2": 1}
"""The least integer in the domain of each function."""


def _is_guardable(node: Node) -> bool:
    match node:
        case FloorDiv() | RealCall("inttruediv"):
            return True
        case _:
            return isinstance(node, RealCall) and node.op in _LEAST and isinstance(node.args[0], FromInt)


class _Guarding(Reducer):
    """Rewrites only the divisors and arguments of partial divisions and roots, so that these are defined."""

    def __init__(self, partial: set[Node], facts: Facts) -> None:
        super().__init__(Knowledge())
        self._partial = partial
        self._facts = facts

    def _rewrite(self, node: Node) -> Node:
        if node in self._partial:
            match node:
                case FloorDiv(numerator, divisor):
                    return floor_div(self._memo[numerator], self._guarded(divisor))
                case RealCall(op, (numerator, Term() as divisor)):
                    return real_call(op, self._memo[numerator], self._guarded(divisor))
                case RealCall(op, (FromInt(term),)) if op in _LEAST:
                    return real_call(op, maximum(self._memo[term], _LEAST[op]))
        return super()._rewrite(node)

    def _guarded(self, divisor: Term) -> Term:
        own: Term = self._memo[divisor]
        if implied(ge(divisor, 0), self._facts):
            return maximum(own, 1)
        return where(eq(own, 0), constant(1), own)
