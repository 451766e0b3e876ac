"""Reads a question, which is Python text, into the expressions of whoever is asked. Standard library only.

A peer says what the operators mean to it, by the names of Python's `operator` module; `Unsupported` is raised for what
it has no meaning for, and nothing is ever evaluated by Python itself.

>>> import operator
>>> read("2*n + 1 <= m and not m == 4", {"n": 2, "m": 6}, vars(operator) | CONNECTIVES)
True
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

Operations = Mapping[str, Callable[..., Any]]

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Div: "truediv",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
}
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.GtE: "ge",
    ast.Gt: "gt",
}
CONNECTIVES: Operations = {
    "both": lambda a, b: a and b,
    "either": lambda a, b: a or b,
    "opposite": lambda a: not a,
}
"""What `and`, `or` and `not` are called, with their meaning for Python's own booleans."""


class Unsupported(ValueError):
    """A peer has no meaning for a part of the question."""


def read(text: str, names: Mapping[str, Any], operations: Operations) -> Any:
    """The question as the operations make it.

    Raises:
        Unsupported: it holds something that is not among the operations.

    >>> read("n**n", {"n": 2}, {})
    Traceback (most recent call last):
        ...
    benchmarks.peers.reading.Unsupported: pow
    """
    return _Reader(names, operations).visit(ast.parse(text, mode="eval").body)


class _Reader(ast.NodeVisitor):
    """One walk over the syntax tree."""

    def __init__(self, names: Mapping[str, Any], operations: Operations) -> None:
        self._names = names
        self._operations = operations

    def _apply(self, name: str, *args: Any) -> Any:
        if name not in self._operations:
            raise Unsupported(name)
        return self._operations[name](*args)

    def visit_Constant(self, node: ast.Constant) -> Any:
        """A number as it is."""
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        """A symbol."""
        return self._names[node.id]

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """An operation on numbers; a power with a written exponent is a product."""
        if isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) and isinstance(node.right.value, int):
            factors = [self.visit(node.left)] * node.right.value or [1]
            return functools.reduce(lambda a, b: self._apply("mul", a, b), factors)
        return self._apply(_BINARY.get(type(node.op), "other"), self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """A sign, or a negation."""
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return -node.operand.value  # type: ignore[operator]
        name = {ast.USub: "neg", ast.Not: "opposite"}.get(type(node.op), "unary")
        return self._apply(name, self.visit(node.operand))

    def visit_Compare(self, node: ast.Compare) -> Any:
        """A comparison, or a chain of them."""
        terms = [self.visit(term) for term in (node.left, *node.comparators)]
        names = [_COMPARISONS[type(op)] for op in node.ops]
        parts = [self._apply(name, *pair) for name, pair in zip(names, itertools.pairwise(terms), strict=True)]
        return functools.reduce(lambda a, b: self._apply("both", a, b), parts)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Conditions joined by `and` or `or`."""
        name = "both" if isinstance(node.op, ast.And) else "either"
        return functools.reduce(lambda a, b: self._apply(name, a, b), map(self.visit, node.values))

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """`a if condition else b`."""
        return self._apply("where", *map(self.visit, (node.test, node.body, node.orelse)))

    def visit_Call(self, node: ast.Call) -> Any:
        """A function by its name; `min` and `max` two at a time."""
        name = node.func.id if isinstance(node.func, ast.Name) else "call"
        args = [self.visit(arg) for arg in node.args]
        if name in {"min", "max"}:
            return functools.reduce(lambda a, b: self._apply(name, a, b), args)
        return self._apply(name, *args)

    def generic_visit(self, node: ast.AST) -> Any:
        """Nothing else is part of a question."""
        raise Unsupported(type(node).__name__)
