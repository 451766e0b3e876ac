"""What the user's code calls a size at one of its lines: a local variable, an entry of a list, a size of a tensor.

A check that is suggested for a line is written in these words, so that it can be pasted there. Nothing is decided here.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

import torch

from shapeproof.constraints.evaluate import evaluate
from shapeproof.constraints.terms import Term, symbol

_LONGEST_LIST = 64


def names_in(frame: FrameType, read: Callable[[Any], Term]) -> dict[str, str]:
    """What the local variables of a frame call each symbol; the shortest words for each.

    Args:
        frame: the user's frame.
        read: the term of a size.
    """
    found: dict[str, str] = {}
    for text, value in _sizes(frame.f_locals):
        named = _solved(read(value), text)
        if named is not None and len(named[1]) < len(found.get(named[0], named[1] + " ")):
            found[named[0]] = named[1]
    return found


def _sizes(variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in variables.items():
        if isinstance(value, torch.SymInt):
            yield name, value
        elif isinstance(value, torch.Tensor):
            yield from ((f"{name}.shape[{index}]", size) for index, size in enumerate(value.shape))
        elif isinstance(value, list | tuple) and len(value) <= _LONGEST_LIST:
            yield from ((f"{name}[{i}]", each) for i, each in enumerate(value) if isinstance(each, torch.SymInt))


def _solved(term: Term, text: str) -> tuple[str, str] | None:
    """The symbol whose value the text gives, and the words for it: where `rows` is `u0 - 1`, `u0` is `(rows + 1)`."""
    if len(term.symbols) != 1 or not term.total:
        return None
    (name,) = term.symbols
    offset = evaluate(term, {name: 0})
    sign = evaluate(term, {name: 1}) - offset
    if sign not in {1, -1} or term is not sign * symbol(name) + offset:
        return None
    if sign == -1:
        return name, f"({offset} - {text})"
    return name, text if not offset else f"({text} {'-' if offset > 0 else '+'} {abs(offset)})"


def statement_of(file: str, line: int) -> int:
    """The line where the innermost statement begins that a line belongs to; a check can be pasted before it."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return line
    holding = [each.lineno for each in _statements(tree, file) if each.lineno <= line <= (each.end_lineno or line)]
    return max(holding, default=line)


def _statements(tree: ast.AST, file: str) -> Iterator[ast.stmt]:
    """The statements that something can be pasted before: those of each block, but not an `elif`."""
    for node in ast.walk(tree):
        for block in ("body", "orelse", "finalbody"):
            body = getattr(node, block, None)
            if isinstance(body, list) and not _is_elif(node, body, file):
                yield from body


def _is_elif(node: ast.AST, body: list[ast.stmt], file: str) -> bool:
    """Whether a block is the `elif` of an `if`: nothing can be pasted before it."""
    return (
        isinstance(node, ast.If)
        and body is node.orelse
        and len(body) == 1
        and linecache.getline(file, body[0].lineno).lstrip().startswith("elif")
    )


def message_of(statement: str) -> str | None:
    """The sentence of an assert statement, if it has one that is written out."""
    try:
        (node,) = ast.parse(statement).body
    except (SyntaxError, ValueError):
        return None
    message = node.msg if isinstance(node, ast.Assert) else None
    return str(message.value) if isinstance(message, ast.Constant) else None
