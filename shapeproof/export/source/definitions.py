"""Read the definition of a function from its source, and compile another one in its place."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Sequence
from types import CodeType

from shapeproof.export.source.instructions import codes_within

_SCOPES = frozenset({"locals", "vars", "eval", "exec", "dir"})
"""Functions that read the names of a function."""


def definition(code: CodeType) -> ast.FunctionDef | None:
    """Return the definition of a function as it is written; None if it tells less than all that the code does."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse("if True:\n" + "".join(lines) if lines[0][0].isspace() else "".join(lines))
    except (OSError, SyntaxError, IndexError):
        return None
    ast.increment_lineno(tree, first - (2 if lines[0][0].isspace() else 1))
    found = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), None)
    if found is None or found.name != code.co_name:
        return None
    names = {each.id for each in ast.walk(found) if isinstance(each, ast.Name)}
    named = names | {each.attr for each in ast.walk(found) if isinstance(each, ast.Attribute)}
    is_private = any(name.startswith("__") and not name.endswith("__") for name in named)  # in a class
    is_shared = any(isinstance(each, ast.Global | ast.Nonlocal) for each in ast.walk(found))
    return None if is_private or is_shared or names & _SCOPES else found


def compiled(function: ast.FunctionDef, code: CodeType) -> CodeType:
    """Compile a function that reads the same names of outer functions as this code."""
    function.decorator_list, function.returns = [], None
    outer = ast.copy_location(defined("outer", code.co_freevars, [function]), function)
    module = ast.fix_missing_locations(ast.Module([outer], []))
    return _within(compile(module, code.co_filename, "exec"), "outer", code.co_name)


def is_written_so(code: CodeType) -> bool:
    """True if the source is that of the code: a file may be edited after its import, and code be patched."""
    source = "".join(linecache.getlines(code.co_filename))
    whole = codes_within(compile(source, code.co_filename, "exec", dont_inherit=True))
    places = (each for each in whole if each.co_firstlineno == code.co_firstlineno and each.co_name == code.co_name)
    return any(_does_the_same(each, code) for each in places)


def _does_the_same(one: CodeType, other: CodeType) -> bool:
    parts = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_exceptiontable")
    if any(getattr(one, part) != getattr(other, part) for part in parts) or len(one.co_consts) != len(other.co_consts):
        return False
    return all(
        _does_the_same(mine, its) if isinstance(mine, CodeType) and isinstance(its, CodeType) else _equal(mine, its)
        for mine, its in zip(one.co_consts, other.co_consts, strict=True)
    )


def _equal(one: object, other: object) -> bool:
    return type(one) is type(other) and repr(one) == repr(other)


def _within(code: CodeType, *names: str) -> CodeType:
    """Return the code of a function in a function in code."""
    for name in names:
        code = next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)
    return code


def defined(name: str, taking: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
    """Return the definition of a function; the parser fills in what each Python adds to one."""
    made: ast.FunctionDef = ast.parse("def function(): pass").body[0]  # type: ignore[assignment]
    made.name, made.body = name, body
    made.args.args = [ast.arg(each) for each in taking]
    return made
