"""Where an expression has a value: the condition under which its evaluation does not raise.

For integers the condition is exact: on the branches that are taken, no divisor is zero and no exponent or shift count
is negative. For floats it requires nonzero divisors and arguments inside the function's domain; it ignores overflow.
"""

from __future__ import annotations

from shapeproof.constraints.division import FloorDiv
from shapeproof.constraints.formulas import TRUE, And, Formula, Or, conjunction, disjunction, ge, ne, real_compare
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.reals import FromInt, Real, RealCall, RealConstant, real_call
from shapeproof.constraints.terms import Apply, Term, Where


def defined(root: Node) -> Formula:
    """Return the condition under which evaluating `root` does not raise. Evaluating the condition does not raise.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> defined(parse_formula("a // b < 2")), defined(parse_formula("b == 0 or a // b < 2"))
    (b != 0, True)
    """
    known: dict[Node, Formula] = {}
    for node in postorder(root):
        known[node] = TRUE if node.total else _defined(node, known)
    return known[root]


def _defined(node: Node, known: dict[Node, Formula]) -> Formula:
    match node:
        case And(args):
            return _in_turn(args, known, stops=False)
        case Or(args):
            return _in_turn(args, known, stops=True)
        case Where(condition, then, otherwise):
            sides = (disjunction(condition.negation, known[then]), disjunction(condition, known[otherwise]))
            return conjunction(known[condition], *sides)
    return conjunction(*(known[child] for child in node.children), demanded(node))


def _in_turn(args: tuple[Formula, ...], known: dict[Node, Formula], *, stops: bool) -> Formula:
    """Each operand is defined, or an earlier operand has short-circuited; `stops` is the short-circuiting value."""
    result: Formula = TRUE
    for arg in reversed(args):
        decides = arg if stops else arg.negation
        result = conjunction(known[arg], TRUE if result is TRUE else disjunction(decides, result))
    return result


def demanded(node: Node) -> Formula:
    """Return what a node itself requires of its children: for `a // b`, `b != 0`."""
    match node:
        case FloorDiv(_, divisor):
            return ne(divisor, 0)
        case Apply("lshift" | "rshift" | "pow", (Term(), Term() as count)):
            return ge(count, 0)
        case RealCall("inttruediv" | "truediv" | "floordiv" | "mod", (_, divisor)):
            return _real("!=", divisor)
        case RealCall("sqrt", (arg,)):
            return _real(">=", arg)
        case RealCall("log" | "log2", (arg,)):
            return _real(">", arg)
        case RealCall("asin" | "acos", (arg,)):
            return real_compare("<=", real_call("abs", arg), RealConstant(1.0))
    return TRUE


def _real(op: str, value: Real | Term) -> Formula:
    """Return a comparison with zero. For a converted integer, compare the integer: conversion keeps the sign."""
    return real_compare(op, value.term if isinstance(value, FromInt) else value, RealConstant(0.0))
