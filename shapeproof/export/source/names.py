"""The user's names for sizes at a line: a local variable, an entry of a list, a size of a tensor.

A suggested check is written in these names, so that the user can paste it at that line.

Also recognises questions about a size that a loop asks, from the source.

A loop over a size writes its body into the program once per round, so each number of rounds is a separate program. A
question at the head of a loop, or in a function that calls itself, asks for the next round.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import linecache
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from shapeproof.constraints.meaning.evaluate import linear
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.terms import Term
from shapeproof.export.source.abstract import is_a, locals_of, running
from shapeproof.export.source.instructions import instructions

_LONGEST_LIST = 64


def names_in(frame: FrameType, read: Callable[[Any], Term]) -> dict[str, str]:
    """The shortest expression over the frame's local variables for each symbol.

    Args:
        frame: the user's frame.
        read: returns the term of a size.
    """
    variables = locals_of(frame)
    floats = {text: value.node.expr for text, value in variables.items() if type(value) is torch.SymFloat}
    found: dict[str, str] = {str(expr): text for text, expr in floats.items() if expr.is_Symbol}
    for text, value in _sizes(variables):
        named = _solved(read(value), text)
        if named is not None and len(named[1]) < len(found.get(named[0], named[1] + " ")):
            found[named[0]] = named[1]
    return found


def _sizes(variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in variables.items():
        if type(value) is torch.SymInt:
            yield name, value
        elif is_a(value, torch.Tensor):
            yield from ((f"{name}.shape[{index}]", size) for index, size in enumerate(value.shape))
        elif type(value) in {list, tuple, torch.Size} and len(value) <= _LONGEST_LIST:
            yield from ((f"{name}[{i}]", each) for i, each in enumerate(value) if type(each) is torch.SymInt)


def _solved(term: Term, text: str) -> tuple[str, str] | None:
    """Solve a term for its symbol: where `rows` is `u0 - 1`, return `u0` and `(rows + 1)`."""
    form = linear(term)
    if form is None or form.step not in {1, -1}:
        return None
    name, sign, offset = form
    if sign == -1:
        return name, f"({offset} - {text})"
    return name, text if not offset else f"({text} {'-' if offset > 0 else '+'} {abs(offset)})"


@dataclass(frozen=True, slots=True)
class Number:
    """A number as the line writes it, and as an expression; `taken` are names that the function already uses."""

    written: str
    expression: str
    taken: frozenset[str]


def number_in(frame: FrameType) -> Number | None:
    """Return the number that a frame is computing; None if it computes no number.

    That is `n.item()`, `int(n)`, or a tensor of one element whose truth Python tests.
    """
    code = frame.f_code
    if code.co_name.startswith("<"):
        return None  # an expression of a lambda or a comprehension may have no meaning outside
    where = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    source, node = _computed(code.co_filename, *where)
    while isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
        node = node.test
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node = node.operand
    text = ast.get_source_segment(source, node) if isinstance(node, ast.expr) else None
    pattern = _as_number(node, asked=_asks(frame))
    if text is None or "\n" in text or pattern is None:
        return None
    return Number(text, pattern.format(text), frozenset({*code.co_names, *code.co_varnames, *frame.f_globals}))


def _as_number(node: ast.AST | None, *, asked: bool) -> str | None:
    """Return the pattern that writes an expression as a number; `asked`: Python tests the expression's truth."""
    match node:
        case ast.Call(ast.Attribute(attr="item"), []) | ast.Call(ast.Name("int" | "bool"), [_]):
            return "{}"
        case ast.Call(ast.Attribute(attr="any" | "all")) if asked:
            return "{}.item()"
        case ast.Compare() if asked:
            return "({}).item()"
        case ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript() if asked:
            return "{}.bool().item()"
        case _:
            return None


def _computed(
    file: str, line: int | None, end_line: int | None, first: int | None, last: int | None
) -> tuple[str, ast.AST | None]:
    """Return the source and node at a position of a file: an expression within one line, else a node of the file."""
    if line is not None and line == end_line:
        text = linecache.getline(file, line).encode()[first:last].decode()
        with contextlib.suppress(SyntaxError):
            return text, ast.parse(text, mode="eval").body
    placed = (node for node in ast.walk(tree_of(file)) if isinstance(node, ast.expr | ast.stmt))
    where = line, end_line, first, last
    found = (node for node in placed if (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == where)
    return "".join(linecache.getlines(file)), next(found, None)


def tree_of(file: str) -> ast.Module:
    """Return the syntax tree of a file; an empty one if it is not Python (a page with embedded code, a notebook)."""
    return parsed("".join(linecache.getlines(file)))


def parsed(source: str) -> ast.Module:
    """Return the syntax tree of a text; an empty one if it is not Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _asks(frame: FrameType) -> bool:
    """True if a frame tests the truth of a value."""
    index = running(frame)
    step = None if index is None else instructions(frame.f_code)[index]
    return step is not None and (step.jumps or step.does in {"not", "truth"})


def fresh_name(number: Number, taken: Collection[str]) -> str:
    """Return a new name for a number, derived from its tensor.

    >>> fresh_name(Number("lengths.max().item()", "lengths.max().item()", frozenset()), ())
    'lengths_item'
    """
    words = re.findall(r"\b[A-Za-z_]\w*", number.expression)
    root = next((word for word in words if word not in {"self", "int", "bool"}), "")
    names = (f"{root}_item{count or ''}" for count in itertools.count())
    return next(name for name in names if name not in number.taken and name not in taken)


def statement_of(file: str, line: int) -> int:
    """Return the first line of the innermost statement at a line; the user can paste a check before it."""
    every = _statements(tree_of(file), file)
    holding = [each.lineno for each in every if each.lineno <= line <= (each.end_lineno or line)]
    return max(holding, default=line)


def _statements(tree: ast.AST, file: str) -> Iterator[ast.stmt]:
    """The statements that can have code pasted before them: those of each block except an `elif`."""
    for node in ast.walk(tree):
        for block in ("body", "orelse", "finalbody"):
            body = getattr(node, block, None)
            if isinstance(body, list) and not _is_elif(node, body, file):
                yield from body


def _is_elif(node: ast.AST, body: list[ast.stmt], file: str) -> bool:
    """True if a block is the `elif` of an `if`; no code can be pasted before an `elif`."""
    return (
        isinstance(node, ast.If)
        and body is node.orelse
        and len(body) == 1
        and linecache.getline(file, body[0].lineno).lstrip().startswith("elif")
    )


def message_of(statement: str) -> str | None:
    """Return the literal message of an assert statement, if it has one."""
    try:
        (node,) = ast.parse(statement).body
    except (SyntaxError, ValueError):
        return None
    message = node.msg if isinstance(node, ast.Assert) else None
    return str(message.value) if isinstance(message, ast.Constant) else None


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
