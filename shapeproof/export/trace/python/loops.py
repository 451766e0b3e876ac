"""Writes the loops of a function over again: the body of each is a function of the step and of what it carries.

    for i in range(x.shape[1]):                 if can_roll(steps := range(x.shape[1])):
        h = cell(x[:, i], h)                        def step(i, h):
        outs.append(h)                ->                h = cell(x[:, i], h)
    return torch.stack(outs, 1)                         return (h,), (h,)
                                                    (h,), (outs,) = roll(steps, step, (h,), (outs,))
                                                else:
                                                    for i in steps: ...  # as it was
                                                return join(torch.stack, outs, 1)

Law: `step` does all that the loop does at a step. So a loop is written over only if its statements let that be seen:
they assign local names, append to lists that are then stacked or concatenated, write one row of a tensor that they do
not read (`y[:, i] = h`), and do nothing else; the step is an index, and nothing but an index.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

from shapeproof.export.source.definitions import compiled, defined, definition, is_written_so
from shapeproof.export.trace.python import branches
from shapeproof.export.trace.python.branches import load, tuple_of

CAN_ROLL, ROLL, JOIN, FILL = "can roll a loop", "roll a loop", "join the rows of a loop", "fill the rows of a tensor"
CALL, READ, TAKE_OF, EACH_OF = "call in a step", "read in a step", "take of in a step", "each of in a step"
"""The global names of the functions that rewritten code calls. No source can name them."""
WALK = "numbers of rows"
_WALKED, _NUMBER = "walked in a loop", "number of a row"
_STEP, _STEPS = "step of a loop", "steps of a loop"
_ROW = "row of "
_LISTED = " of a loop"
_UNREAD = "unread"
_JOINING = frozenset({"stack", "cat", "concat"})
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.If, ast.For, ast.Pass)
_CHANGING = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda, ast.JoinedStr, ast.In, ast.NotIn)


def written_over(function: FunctionType, *, loop: bool, branch: bool) -> CodeType | None:
    """Return a function's code with its loops or branches written over; None if there is none that can be."""
    made = _written(function.__code__, loop=loop, branch=branch)
    return made if made is not None and made.co_freevars == function.__code__.co_freevars else None


@functools.lru_cache(maxsize=2**10)
def numbers_at(code: CodeType, line: int) -> frozenset[str] | None:
    """Return the names with which the branches compute that test at a line, and can be written over; None without."""
    found = definition(code)
    made = [] if found is None else [each for tested, each in branches.tests(found) if line in tested]
    return frozenset[str]().union(*made) if made else None


@functools.lru_cache(maxsize=2**10)
def has_rolled(code: CodeType) -> bool:
    """True if a function has a loop that can be written over."""
    found = definition(code)
    return found is not None and _Writer(found).write()


@functools.lru_cache(maxsize=2**10)
def _written(code: CodeType, *, loop: bool, branch: bool) -> CodeType | None:
    found = definition(code) if is_written_so(code) else None
    ways = [_Writer(found).write] if found and loop else []
    ways += [functools.partial(branches.write, found)] if found and branch else []
    written = [write() for write in ways]
    return compiled(found, code) if found is not None and any(written) else None


class _Writer:
    """Writes the loops of one function over."""

    def __init__(self, function: ast.FunctionDef) -> None:
        _name_lists_apart(function)
        self._function = function
        self._joined: set[str] = set()
        names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        self._loads = [node for node in names if isinstance(node.ctx, ast.Load)]
        self._stores = [node for node in names if not isinstance(node.ctx, ast.Load)]
        given = function.args
        self._given = {arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)}

    def write(self) -> bool:
        """Write the function over in place; return true if any loop was."""
        self._block(self._function, ())
        _Joins(self._joined).visit(self._function)
        return self._written

    _written = False

    def _block(self, parent: ast.AST, around: tuple[ast.AST, ...]) -> None:
        """Write over the loops in the blocks of a statement, the outermost that can be."""
        for name in ("body", "orelse", "finalbody", "handlers"):
            block: list[ast.stmt] = getattr(parent, name, None) or []
            for at, statement in enumerate(block):
                made = self._loop(statement, block[:at], around) if isinstance(statement, ast.For) else None
                if made is None and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                    looping = isinstance(statement, ast.For | ast.While)
                    self._block(statement, (*around, statement) if looping else around)
                elif made is not None:
                    block[at : at + 1] = made
                    self._written = True
                    return self._block(parent, around)
        return None

    def _loop(self, loop: ast.For, before: Sequence[ast.stmt], around: tuple[ast.AST, ...]) -> list[ast.stmt] | None:
        """Return the statements that replace a loop; None if it must stay."""
        walk = None if loop.orelse or _is_over_a_range(loop) else self._walk(loop)
        if loop.orelse or not (walk or _is_over_a_range(loop)):
            return None
        as_it_was, loop = loop, walk.by_number if walk else loop
        step = loop.target.id  # type: ignore[attr-defined]
        sinks = self._sinks(loop, before, step)
        statements = [each for each in loop.body if (_sunk(each, step) or ("",))[0] not in sinks]
        body = [_as_row(each, step, sinks) for each in copy.deepcopy(loop.body)]
        if not all(map(_only_assigns, statements)) or not _only_indexes(body, step):
            return None
        stores = (node for node in self._stores if _lies_in(node, loop.body))
        assigned = dict.fromkeys(node.id for node in stores)
        carried = [name for name in assigned if self._is_carried(name, loop, around)]
        read_later = {
            node.id
            for node in self._loads
            if self._is_later(node, loop, around) and not self._is_of_another_loop(node, around)
        }
        bound = self._given | {node.id for node in self._stores if node.lineno < loop.lineno}
        shared = assigned.keys() & ({*sinks} | self._read_in_functions(loop)) or _added_and_assigned(loop.body)
        if step in read_later | assigned.keys() or not set(carried) <= bound or shared:
            return None
        self._joined |= {name for name, dim in sinks.items() if dim is None}
        return _as_call(loop, step, carried, sinks) if walk is None else walk.beside(as_it_was, step, carried, sinks)

    def _walk(self, loop: ast.For) -> _Walk | None:
        """Return a loop over rows, `for i, (a, b) in enumerate(zip(x, y))`, as one over their numbers."""
        target, over, step = loop.target, loop.iter, _NUMBER
        if any(each.id in {"enumerate", "zip"} for each in self._stores) or {"enumerate", "zip"} & self._given:
            return None
        match target, over:
            case ast.Tuple([ast.Name(step), inner]), ast.Call(ast.Name("enumerate"), [walked], []):
                target, over = inner, walked
        match target, over:
            case ast.Tuple(targets), ast.Call(ast.Name("zip"), [_, *_] as tensors, []) if len(targets) == len(tensors):
                pairs = [*zip(targets, tensors, strict=True)]
            case ast.Name(), _ if not isinstance(over, ast.Starred):
                pairs = [(target, over)]
            case _:
                return None
        if not all(isinstance(each, ast.Name) and not _changes(tensor) for each, tensor in pairs):
            return None
        if any(isinstance(tensor, ast.Name) and tensor.id.startswith((_WALKED, _STEPS)) for _, tensor in pairs):
            return None  # it is written over
        return _Walk(loop, step, pairs)

    def _is_carried(self, name: str, loop: ast.For, around: tuple[ast.AST, ...]) -> bool:
        """True if a name that a body assigns is read after the loop, or may be read before it is assigned."""
        later = (node for node in self._loads if node.id == name and self._is_later(node, loop, around))
        if not all(self._is_of_another_loop(node, around) for node in later):
            return True
        return next(_uses(loop.body, name), None) == "read"

    def _is_later(self, node: ast.Name, loop: ast.For, around: tuple[ast.AST, ...]) -> bool:
        """True if a name is read where a loop may be over."""
        if _lies_in(node, loop.body):
            return False
        return _lies_in(node, around) or (node.lineno >= loop.lineno and not _lies_in(node, [loop.iter]))

    def _read_in_functions(self, loop: ast.For) -> set[str]:
        """Return the names that functions within this one read, outside of a loop: they would not see a step's own."""
        inner = [
            each for each in ast.walk(self._function) if isinstance(each, _FUNCTIONS) and each is not self._function
        ]
        return {node.id for node in self._loads if _lies_in(node, inner) and not _lies_in(node, loop.body)}

    def _is_of_another_loop(self, node: ast.Name, around: tuple[ast.AST, ...]) -> bool:
        """True if a name is read in the body of a loop that assigns it at each step, and lies beside this one."""
        loops = (each for each in ast.walk(self._function) if isinstance(each, ast.For) and each not in around)
        return any(node.id in _names(each.target) and _lies_in(node, each.body) for each in loops)

    def _sinks(self, loop: ast.For, before: Sequence[ast.stmt], step: str) -> dict[str, int | None]:
        """Return the lists to which a body appends once, and the tensors of which it writes one row, with the dim.

        It uses them in no other way. The lists are made before the loop, and joined after it or never read.
        """
        found = dict[str, int | None]()
        for name, dim in filter(None, (_sunk(each, step) for each in loop.body)):
            uses = [node for node in (*self._loads, *self._stores) if node.id == name and _lies_in(node, loop.body)]
            if len(uses) == 1 and (dim is not None or self._is_joined(name, loop, before)):
                found[name] = dim
        return found

    def _is_joined(self, name: str, loop: ast.For, before: Sequence[ast.stmt]) -> bool:
        stores = [node for node in self._stores if node.id == name]
        makes = [each for each in before if _makes_list(each, name)]
        joined = [node.args[0] for node in ast.walk(self._function) if _joins(node) == name]  # type: ignore[attr-defined]
        loads = [node for node in self._loads if node.id == name and not _lies_in(node, loop.body)]
        others = [node for node in loads if not any(node is each for each in joined)]
        return len(stores) == len(makes) == 1 and not others


class _Walk:
    """A loop over the rows of tensors: the names that stand for these, and the same loop over the rows' numbers."""

    def __init__(self, loop: ast.For, step: str, pairs: Sequence[tuple[ast.expr, ast.expr]]) -> None:
        self._tensors = [tensor for _, tensor in pairs]
        self._names = [f"{_WALKED} {at}" for at in range(len(pairs))]
        taken = [ast.Subscript(load(name), load(step), ast.Load()) for name in self._names]
        rows = [ast.Assign([target], row) for (target, _), row in zip(pairs, taken, strict=True)]
        self.by_number = copy.copy(loop)
        self.by_number.target = ast.Name(step, ast.Store())
        self.by_number.iter = ast.Call(load(WALK), [*map(load, self._names)], [])
        self.by_number.body = [*(ast.fix_missing_locations(ast.copy_location(each, loop)) for each in rows), *loop.body]

    def beside(
        self, loop: ast.For, step: str, carried: Sequence[str], sinks: Mapping[str, int | None]
    ) -> list[ast.stmt]:
        """Return what names the tensors, and the call that runs the step; else the loop as it was, over these names."""
        *named, rolling = _as_call(self.by_number, step, carried, sinks)
        _Named(dict(zip(map(id, self._tensors), self._names, strict=True))).visit(loop)
        rolling.orelse = [loop]  # type: ignore[attr-defined]
        pairs = zip(self._names, self._tensors, strict=True)
        given = [ast.Assign([ast.Name(name, ast.Store())], tensor) for name, tensor in pairs]
        return [ast.fix_missing_locations(ast.copy_location(each, loop)) for each in (*given, *named, rolling)]


class _Named(ast.NodeTransformer):
    """Puts names in the places of expressions, by their ids; in a loop, of what it is over alone."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names

    def visit(self, node: ast.AST) -> Any:
        """Replace an expression."""
        if isinstance(node, ast.For):
            node.iter = self.visit(node.iter)
            return node
        found = self._names.get(id(node))
        return super().visit(node) if found is None else ast.copy_location(load(found), node)


def _is_over_a_range(loop: ast.For) -> bool:
    match loop.iter:
        case ast.Call(ast.Name("range"), _, []):
            return isinstance(loop.target, ast.Name)
    return False


def _names(target: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


def _lies_in(node: ast.AST, statements: Sequence[ast.AST]) -> bool:
    return any(node is each for statement in statements for each in ast.walk(statement))


def _sunk(statement: ast.stmt, step: str) -> tuple[str, int | None] | None:
    """Return the list to which a statement appends, or the tensor and the dim of which it writes the step's row."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "append"), [value], [])) if not _changes(value):
            return name, None
        case ast.Assign([ast.Subscript(ast.Name(name), index)], value) if not _changes(value):
            dim = _dim_of(index, step)
            return None if dim is None else (name, dim)
    return None


def _dim_of(index: ast.expr, step: str) -> int | None:
    """Return the dim of the one row that an index takes: `i` 0, `:, i` 1, `..., i` -1; None for any other index."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    kinds = [_kind_of(part, step) for part in parts]
    if kinds.count("step") != 1 or kinds.count("...") > 1 or None in kinds:
        return None
    at = kinds.index("step")
    return at - len(kinds) if "..." in kinds[:at] else at


def _kind_of(part: ast.expr, step: str) -> str | None:
    match part:
        case ast.Name(name) if name == step:
            return "step"
        case ast.Slice(None, None, None):
            return ":"
        case ast.Constant(value) if value is Ellipsis:
            return "..."
    return None


def _makes_list(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Assign([ast.Name(made)], ast.List([])):
            return made == name
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if len(targets) == len(values):
            pairs = zip(targets, values, strict=True)
            return any(_makes_list(ast.Assign([target], value), name) for target, value in pairs)
    return False


def _joins(node: ast.AST) -> str | None:
    """Return the name of a list that an expression stacks or concatenates: `torch.stack(outs, 1)`."""
    match node:
        case ast.Call(ast.Attribute(_, function), [ast.Name(name), *_]) if function in _JOINING:
            return name
    return None


def _name_lists_apart(function: ast.FunctionDef) -> None:
    """Rename the lists whose names are later given to what joins them: in `hs = torch.stack(hs)`, `hs` is two values.

    Law: between the list's making and that statement, which lie in one block, the name is the list; and no statement
    that reads the name runs after the first and not after the second. So none may catch an exception, or leave a loop.
    """
    nodes = [*ast.walk(function)][1:]
    if not any(isinstance(each, _LEAVING) for each in nodes):
        inner = [each for each in nodes if isinstance(each, (*_FUNCTIONS, ast.ClassDef))]
        otherwise = {name for each in nodes for name in (getattr(each, "name", None), getattr(each, "asname", None))}
        _rename_lists(function, {str(name) for name in otherwise} | {name for each in inner for name in _names(each)})


_LEAVING = (ast.Try, ast.TryStar, ast.With, ast.Break, ast.Continue, ast.Global, ast.Nonlocal)


def _rename_lists(parent: ast.FunctionDef | ast.If | ast.For | ast.While, kept: set[str]) -> None:
    for block in (parent.body, getattr(parent, "orelse", [])):
        for at, statement in enumerate(block):
            if isinstance(statement, ast.If | ast.For | ast.While):
                _rename_lists(statement, kept)
            match statement:
                case ast.Assign([ast.Name(name)], value) if name not in kept:
                    made = [begin for begin in range(at) if _makes_list(block[begin], name)]
                    within: list[ast.AST] = [*block[made[-1] : at], value] if made else []
                    uses = [node for each in within for node in ast.walk(each) if getattr(node, "id", None) == name]
                    stores = [node for node in uses if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)]
                    if len(stores) == 1 and any(_joins(node) == name for node in ast.walk(value)):
                        for node in uses:
                            node.id = f"{name}{_LISTED}"  # type: ignore[attr-defined]


def _changes(node: ast.AST) -> bool:
    return any(isinstance(each, _CHANGING) for each in ast.walk(node))


def _only_assigns(statement: ast.stmt) -> bool:
    """True for a statement that assigns local names, or whose parts do."""
    if not isinstance(statement, _STATEMENTS):
        return False
    if isinstance(statement, ast.If | ast.For):
        heads = [statement.test] if isinstance(statement, ast.If) else [statement.target, statement.iter]
        return not any(map(_changes, heads)) and all(map(_only_assigns, (*statement.body, *statement.orelse)))
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    stored = (each for target in targets if target is not None for each in ast.walk(target))
    return not _changes(statement) and all(isinstance(each, _OF_TARGETS) for each in stored)


def _added_and_assigned(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names to which a body adds in place, and which it assigns in another way, too.

    Under any other such name a step is given a tensor, which stays one: nothing is added to a list.
    """
    nodes = [node for statement in body for node in ast.walk(statement)]
    added = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
    names = {getattr(target, "id", None) for target in added}
    stored = (node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return {node.id for node in stored if node.id in names and not any(node is target for target in added)}


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.GeneratorExp)
_OF_TARGETS = (ast.Name, ast.Tuple, ast.List, ast.expr_context)


def _only_indexes(body: Sequence[ast.stmt], step: str) -> bool:
    """True if a body uses the step as an index alone, as in `x[:, i]` or `x[i + 1]`."""
    indexing = {
        id(name)
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
        for name in _index_names(node.slice)
    }
    names = (n for each in body for n in ast.walk(each) if isinstance(n, ast.Name) and n.id == step)
    return all(id(name) in indexing for name in names)


def _index_names(index: ast.expr) -> Iterator[ast.Name]:
    for part in index.elts if isinstance(index, ast.Tuple) else (index,):
        match part:
            case ast.Name() | ast.BinOp(ast.Name(), ast.Add() | ast.Sub(), ast.Constant(int())):
                yield part if isinstance(part, ast.Name) else part.left  # type: ignore[misc]


def _uses(statements: Sequence[ast.AST], name: str) -> Iterator[str]:
    """Yield how statements use a name, in the order in which Python runs them: "read" or "assigned"."""
    for statement in statements:
        if isinstance(statement, ast.AugAssign) and getattr(statement.target, "id", None) == name:
            yield "read"
        parts = [*ast.iter_child_nodes(statement)]
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For):
            parts.sort(key=lambda part: isinstance(getattr(part, "ctx", None), ast.Store))
        if isinstance(statement, ast.For):  # its body may not run
            parts = [statement.iter, *statement.body, *statement.orelse]
        if isinstance(statement, ast.Name) and statement.id == name:
            yield "read" if isinstance(statement.ctx, ast.Load) else "assigned"
        yield from _uses(parts, name)


def _as_call(loop: ast.For, step: str, carried: Sequence[str], sinks: Mapping[str, int | None]) -> list[ast.stmt]:
    """Return the definition of the step, and the call that runs it."""
    body = [_as_row(each, step, sinks) for each in copy.deepcopy(loop.body)]
    rows: list[ast.expr] = [load(_ROW + name) for name in sinks]
    given = ast.Return(ast.Tuple([tuple_of(carried, ast.Load()), ast.Tuple(rows, ast.Load())], ast.Load()))
    body = [_Guarded().visit(each) for each in body]
    define = ast.copy_location(defined(_STEP, [step, *carried], [*body, given]), loop)
    taking: list[ast.expr] = [
        load(name) if dim is None else ast.Call(load(FILL), [load(name), ast.Constant(dim)], [])
        for name, dim in sinks.items()
    ]
    called = ast.Call(
        load(ROLL), [load(_STEPS), load(_STEP), tuple_of(carried, ast.Load()), ast.Tuple(taking, ast.Load())], []
    )
    left = [name if dim is None else _UNREAD for name, dim in sinks.items()]
    targets = ast.Tuple([tuple_of(carried, ast.Store()), tuple_of(left, ast.Store())], ast.Store())
    over, loop.iter = loop.iter, load(_STEPS)
    rolling = ast.If(ast.Call(load(CAN_ROLL), [load(_STEPS)], []), [define, ast.Assign([targets], called)], [loop])
    made: list[ast.stmt] = [ast.Assign([ast.Name(_STEPS, ast.Store())], over), rolling]
    return [ast.fix_missing_locations(ast.copy_location(each, loop)) for each in made]


def _as_row(statement: ast.stmt, step: str, sinks: Mapping[str, int | None]) -> ast.stmt:
    """Return the statement that names a row in place of one that appends or writes it."""
    name, _ = _sunk(statement, step) or ("", None)
    if name not in sinks:
        return statement
    value = statement.value.args[0] if isinstance(statement, ast.Expr) else statement.value  # type: ignore[attr-defined]
    return ast.copy_location(ast.Assign([ast.Name(_ROW + name, ast.Store())], value), statement)


class _Guarded(ast.NodeTransformer):
    """Has a step call, read, index and iterate through functions that refuse what might leave something behind."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`f(x)` -> `call(f, x)`."""
        self.generic_visit(node)
        return ast.copy_location(ast.Call(load(CALL), [node.func, *node.args], node.keywords), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`x.name` -> `read(x, "name")`."""
        self.generic_visit(node)
        return ast.copy_location(ast.Call(load(READ), [node.value, ast.Constant(node.attr)], []), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """`x[i]` -> `take_of(x)[i]`."""
        self.generic_visit(node)
        node.value = ast.copy_location(ast.Call(load(TAKE_OF), [node.value], []), node.value)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        """`*x` -> `*each_of(x)`."""
        self.generic_visit(node)
        node.value = _each_of(node.value)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        """`for y in x` -> `for y in each_of(x)`."""
        self.generic_visit(node)
        node.iter = _each_of(node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """The same in a comprehension."""
        self.generic_visit(node)
        node.iter = _each_of(node.iter)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """`a, b = x` -> `a, b = each_of(x)`."""
        self.generic_visit(node)
        if any(isinstance(target, ast.Tuple | ast.List) for target in node.targets):
            node.value = _each_of(node.value)
        return node


def _each_of(value: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Call(load(EACH_OF), [value], []), value)


class _Joins(ast.NodeTransformer):
    """Has `join` stack or concatenate the lists of loops."""

    def __init__(self, lists: set[str]) -> None:
        self._lists = lists

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Write a call over that joins such a list."""
        self.generic_visit(node)
        if _joins(node) in self._lists:
            node.func, node.args = ast.copy_location(load(JOIN), node), [node.func, *node.args]
        return node
