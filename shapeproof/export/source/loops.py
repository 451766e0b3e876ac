"""Recognises questions about a size that a loop asks, from the source.

A loop over a size writes its body into the program once per round, so each number of rounds is a separate program. A
question at the head of a loop, or in a function that calls itself, asks for the next round.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.source.names import tree_of


def rounds(where: SourceLocation | None) -> str | None:
    """Describe the loop or recursion at a line; None if there is none, or if the source cannot be read."""
    if where is None:
        return None
    tree = tree_of(where.file)
    if any(first <= where.line <= last for first, last in _heads(tree)):
        return "the loop at this line"
    around = [node for node in _functions(tree) if node.lineno <= where.line <= (node.end_lineno or node.lineno)]
    itself = next((node.name for node in around if _calls(node, node.name)), None)
    return f"`{itself}`, which calls itself," if itself else None


def _heads(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """The lines on which each loop asks for another round."""
    for node in ast.walk(tree):
        match node:
            case ast.For(iter=asked) | ast.While(test=asked) | ast.comprehension(iter=asked):
                yield asked.lineno, asked.end_lineno or asked.lineno


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _calls(function: ast.FunctionDef, name: str) -> bool:
    """True if a function calls something by its own name: `name(...)`, or `self.name(...)`."""
    for node in ast.walk(function):
        match node:
            case (
                ast.Call(func=ast.Name(id=called))
                | ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=called))
            ) if called == name:
                return True
    return False
