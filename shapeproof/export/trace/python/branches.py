"""Writes the branches of a function over again whose sides only compute numbers: both are computed, and one is chosen.

    if n % 2 == 0:                      chosen = merged(lambda: n % 2 == 0, then, otherwise, (), lambda: p)
        p = 1                ->         if chosen is not None:
    else:                                   (p,) = chosen
        p = 3 - n % 2                   elif n % 2 == 0: ...  # as it was

`then(p)` and `otherwise(p)` are functions of the names that a side assigns.

Law: a test and its sides may be computed any number of times, wherever the branch is reached. So a branch is written
over only if they assign local names, compute, and call functions, all of which merging.py refuses unless they are known
to leave nothing behind.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Container, Iterable, Iterator, Sequence

from shapeproof.export.source.definitions import defined

MERGED, PICKED, CHOSEN = "merge a branch", "merge an expression", "choose in a side"
ANY_OF, ALL_OF, NOT = "any of a test", "all of a test", "not of a test"
CALL, READ, TAKE, SLICE = "call in a side", "read in a side", "take in a side", "slice in a side"
NUMBER, EACH = "number in a side", "each in a side"
"""The global names of the functions that rewritten code calls. No source can name them."""
_CHOSEN, _THEN, _OTHERWISE = "chosen of a branch", "then of a branch", "otherwise of a branch"
_EXPRESSIONS = (
    *(ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Tuple, ast.Attribute, ast.Subscript),
    *(ast.Call, ast.Slice, ast.BoolOp, ast.List),
    *(ast.expr_context, ast.operator, ast.unaryop, ast.boolop),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot),
)
"""The parts of the expressions of a side."""
_CALLED = {
    "int",
    "float",
    "abs",
    "round",
    "len",
    "min",
    "max",
    "ceil",
    "floor",
    "trunc",
    "size",
    "dim",
}
"""The names of the functions that a side may call."""


def write(function: ast.FunctionDef) -> bool:
    """Write a function's branches over in place; return true if any was."""
    writer = _Writer(function)
    writer.block(function)
    return writer.written


def tests(function: ast.FunctionDef) -> Iterator[tuple[range, frozenset[str]]]:
    """Yield the lines of the test of each branch that is written over, with the names that are to be numbers.

    A branch that only sets flags is left out: the next branch asks the same of them.
    """
    for node in ast.walk(function):
        if (_is_merged(node) and not _sets_flags(node)) or (isinstance(node, ast.IfExp) and _is_computed(node)):
            computed = (each for each in ast.walk(node) if isinstance(each, ast.BinOp | ast.UnaryOp | ast.AugAssign))
            operands = (part for each in computed for part in ast.iter_child_nodes(each) if isinstance(part, ast.Name))
            test: ast.expr = node.test  # type: ignore[attr-defined]
            yield range(test.lineno, (test.end_lineno or test.lineno) + 1), frozenset(each.id for each in operands)


def load(name: str) -> ast.Name:
    """Return the expression of a name."""
    return ast.Name(name, ast.Load())


def tuple_of(names: Sequence[str], how: ast.expr_context) -> ast.Tuple:
    """Return the expression of a tuple of names."""
    return ast.Tuple([ast.Name(name, how) for name in names], how)


def _later(value: ast.expr) -> ast.Lambda:
    """Return a function that computes a value when it is called."""
    made: ast.Lambda = ast.parse("lambda: 0", mode="eval").body  # type: ignore[assignment]
    made.body = value
    return made


def _called(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(load(name), list(args), [])


def _is_merged(branch: ast.AST) -> bool:
    """True for a branch whose test and sides only compute and assign local names."""
    return isinstance(branch, ast.If) and _is_test(branch.test) and all(map(_assigns, (*branch.body, *branch.orelse)))


def _sets_flags(branch: ast.AST) -> bool:
    """True for a branch whose sides assign nothing but True, False, None and texts."""
    values = [each.value for each in ast.walk(branch) if isinstance(each, ast.Assign | ast.AugAssign | ast.AnnAssign)]
    return all(isinstance(each, ast.Constant) and isinstance(each.value, bool | str | None) for each in values)


def _assigns(statement: ast.stmt) -> bool:
    match statement:
        case (
            ast.Assign([ast.Name()], value) | ast.AugAssign(ast.Name(), _, value) | ast.AnnAssign(ast.Name(), _, value)
        ):
            return value is not None and _is_computed(value)
        case ast.Assign([ast.Tuple(targets)], value):
            return all(isinstance(each, ast.Name) for each in targets) and _is_computed(value)
        case ast.If():
            return _is_merged(statement)
        case ast.Pass():
            return True
    return False


def _is_computed(value: ast.expr) -> bool:
    """True for an expression that computes; `a or b` is one of its values, so it may only be a test."""
    match value:
        case ast.IfExp(test, then, otherwise):
            return _is_test(test) and _is_computed(then) and _is_computed(otherwise)
        case ast.Compare(_, [_, _, *_]) | ast.BoolOp() | ast.UnaryOp(ast.Not()):
            return False
        case ast.Call(ast.Name(name) | ast.Attribute(_, name)) if name not in _CALLED:
            return False
        case ast.Subscript(_, ast.Tuple()):
            return False
    parts = [*ast.iter_child_nodes(value)]
    if not all(isinstance(each, _EXPRESSIONS) for each in (value, *parts)):
        return False
    return all(_is_computed(each) for each in parts if isinstance(each, ast.expr))


def _is_test(value: ast.expr) -> bool:
    match value:
        case ast.BoolOp(_, values):
            return all(map(_is_test, values))
        case ast.UnaryOp(ast.Not(), operand):
            return _is_test(operand)
        case ast.Compare(first, signs, others):
            return all(isinstance(sign, _EXPRESSIONS) for sign in signs) and all(map(_is_computed, (first, *others)))
    return _is_computed(value)


class _Writer:
    """Writes the branches of one function over."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.written = False
        self._function = copy.deepcopy(function)

    def block(self, parent: ast.AST) -> None:
        """Write over the branches in the blocks of a statement, the inner ones first, and those in its expressions."""
        for name in ("body", "orelse", "finalbody", "handlers"):
            block: list[ast.AST] = getattr(parent, name, None) or []
            if isinstance(block, list):
                block[:] = [made for statement in block for made in self._statement(statement)]

    def _statement(self, statement: ast.AST) -> list[ast.AST]:
        if isinstance(statement, _FUNCTIONS):
            return [statement]
        as_it_was = copy.deepcopy(statement)
        self.block(statement)
        self._expressions(statement)
        return self._branch(as_it_was, statement)

    def _expressions(self, statement: ast.AST) -> None:
        for name, value in ast.iter_fields(statement):
            if isinstance(value, ast.expr) and name != "test":
                writer = _Expressions()
                setattr(statement, name, writer.visit(value))
                self.written |= writer.written

    def _branch(self, as_it_was: ast.AST, statement: ast.AST) -> list[ast.AST]:
        if not (isinstance(as_it_was, ast.If) and isinstance(statement, ast.If) and _is_merged(as_it_was)):
            return [statement]
        self.written = True
        place = (as_it_was.lineno, as_it_was.col_offset)
        own = next(n for n in ast.walk(self._function) if isinstance(n, ast.If) and (n.lineno, n.col_offset) == place)
        private = _private(self._function, own, _stored(own))
        held = ast.Tuple([_later(load(name)) for name in sorted(private)], ast.Load())
        *chosen, assign = _Side(private).choosing(MERGED, as_it_was, held)
        is_chosen = ast.Compare(load(_CHOSEN), [ast.IsNot()], [ast.Constant(None)])
        made = [*chosen, ast.If(is_chosen, [assign], [statement])]
        return [ast.fix_missing_locations(ast.copy_location(each, as_it_was)) for each in made]


def _private(function: ast.FunctionDef, branch: ast.AST, names: Iterable[str]) -> set[str]:
    """Return the names of which no assignment in a branch is read elsewhere: each reader's block assigns them anew."""
    inner = [each for each in ast.walk(function) if isinstance(each, _FUNCTIONS) and each is not function]
    shared = {each.id for scope in inner for each in ast.walk(scope) if isinstance(each, ast.Name)}
    reads = [each for each in ast.walk(function) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Store)]
    anew = {(name, id(each)) for name, each in _read_anew(function, branch)}
    outside = {each.id for each in reads if (each.id, id(each)) not in anew}
    return set(names) - outside - shared


def _read_anew(function: ast.FunctionDef, branch: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield each part of a function that comes after an assignment of a name in its block, and before the branch."""
    for node in ast.walk(function):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            assigned = set[str]()
            for statement in block if isinstance(block, list) else ():
                parts = [*ast.walk(statement)]
                if any(each is branch for each in parts):
                    assigned.clear()
                yield from ((name, each) for each in parts for name in assigned)
                assigned.update(_plainly_assigned(statement))


def _plainly_assigned(statement: ast.AST) -> list[str]:
    match statement:
        case ast.Assign([ast.Name(name)], _):
            return [name]
        case ast.Assign([ast.Tuple(targets)], _):
            return [each.id for each in targets if isinstance(each, ast.Name)]
    return []


def _stored(branch: ast.AST) -> list[str]:
    """Return the names that a branch assigns."""
    stored = (each for each in ast.walk(branch) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    return list(dict.fromkeys(each.id for each in stored))


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class _Expressions(ast.NodeTransformer):
    """Writes over the conditional expressions in an expression: `a if n % 2 else b`."""

    def __init__(self) -> None:
        self.written = False

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Write the outermost one over."""
        if not _is_computed(node):
            return self.generic_visit(node)
        self.written = True
        test, *sides = (copy.deepcopy(each) for each in (node.test, node.body, node.orelse))
        parts = [_later(_Side().test(test)), *(_later(_Side().visit(each)) for each in sides), _later(node)]
        return ast.fix_missing_locations(ast.copy_location(_called(PICKED, *parts), node))

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Leave other functions as they are."""
        return node


class _Side(ast.NodeTransformer):
    """Has a side of a branch compute through functions that refuse what might leave something behind."""

    def __init__(self, private: Container[str] = ()) -> None:
        self._private = private

    def choosing(self, how: str, branch: ast.If, *held: ast.expr) -> list[ast.stmt]:
        """Return the definitions of the sides, the call that chooses, and the assignment of what it returns."""
        names = [name for name in _stored(branch) if name not in self._private]
        made: list[ast.stmt] = []
        for name, body in ((_THEN, branch.body), (_OTHERWISE, branch.orelse)):
            guarded = [part for each in copy.deepcopy(body) for part in self.statement(each)]
            made.append(defined(name, names, [*guarded, ast.Return(tuple_of(names, ast.Load()))]))
        test = _later(self.test(copy.deepcopy(branch.test)))
        call = _called(how, test, load(_THEN), load(_OTHERWISE), *held, *(_later(load(name)) for name in names))
        made.append(ast.Assign([ast.Name(_CHOSEN, ast.Store())], call))
        made.append(ast.Assign([tuple_of(names, ast.Store())], load(_CHOSEN)) if names else ast.Pass())
        return [ast.copy_location(each, branch) for each in made]

    def statement(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return what computes a statement."""
        if isinstance(statement, ast.If):
            return self.choosing(CHOSEN, statement)
        if isinstance(statement, ast.AugAssign):
            own = load(statement.target.id)  # type: ignore[union-attr]
            added = ast.copy_location(ast.BinOp(own, statement.op, statement.value), statement)
            statement = ast.copy_location(ast.Assign([statement.target], added), statement)
        if isinstance(statement, ast.Assign):
            value = self.visit(statement.value)
            (target,) = statement.targets
            value = _called(EACH, value) if isinstance(target, ast.Tuple) else value
            return [ast.copy_location(ast.Assign([target], value), statement)]
        return [statement]

    def test(self, test: ast.expr) -> ast.expr:
        """Return what computes a test, as one condition."""
        match test:
            case ast.BoolOp(sign, values):
                made = _called(ANY_OF if isinstance(sign, ast.Or) else ALL_OF, *(_later(self.test(v)) for v in values))
            case ast.UnaryOp(ast.Not(), operand):
                made = _called(NOT, self.test(operand))
            case ast.Compare(first, [_, _, *_] as signs, others):
                pairs = zip([first, *others], signs, others, strict=False)
                each = [ast.Compare(copy.deepcopy(a), [sign], [copy.deepcopy(b)]) for a, sign, b in pairs]
                made = _called(ALL_OF, *(_later(self.visit(ast.copy_location(one, test))) for one in each))
            case _:
                return self.visit(test)
        return ast.copy_location(made, test)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """`a if c else b`, both sides of which are computed."""
        parts = _later(self.test(node.test)), _later(self.visit(node.body)), _later(self.visit(node.orelse))
        return ast.copy_location(_called(PICKED, *parts), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """`a + b` of numbers."""
        self.generic_visit(node)
        node.left, node.right = self._number(node.left), self._number(node.right)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """`-a` of a number."""
        self.generic_visit(node)
        node.operand = self._number(node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`a < b` of numbers."""
        self.generic_visit(node)
        if not isinstance(node.ops[0], ast.Is | ast.IsNot):
            node.left, node.comparators = self._number(node.left), [self._number(node.comparators[0])]
        return node

    def _number(self, value: ast.expr) -> ast.expr:
        return ast.copy_location(_called(NUMBER, value), value)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`f(x)` -> `call(f, x)`."""
        self.generic_visit(node)
        return ast.copy_location(_called(CALL, node.func, *node.args), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`x.name` -> `read(x, "name")`."""
        self.generic_visit(node)
        return ast.copy_location(_called(READ, node.value, ast.Constant(node.attr)), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """`x[i]` -> `take(x, i)`, and `x[1:n]` -> `take(x, slice(1, n, None))`."""
        self.generic_visit(node)
        index = node.slice
        if isinstance(index, ast.Slice):
            index = _called(SLICE, *(each or ast.Constant(None) for each in (index.lower, index.upper, index.step)))
        return ast.copy_location(_called(TAKE, node.value, index), node)
