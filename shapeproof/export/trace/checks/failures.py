"""The operators that may fail because of their operands' data, although sizes and dtypes are valid.

Operators of most families never fail (ops/table.py); any other may fail (`index_select`, `linalg.cholesky`, a user's
own operator). If a handler in the model would catch such a failure, a program cannot continue as the model does.

Also hold the failures of a program: no dead code elimination removes an operator that may fail.

Torch removes an operator whose result nobody uses unless torch calls the operator impure, and an index out of range, a
Cholesky factorization and `_assert_async` without a message count as pure. So the unused result of an operator that may
fail is used by an assertion that always holds: `count_nonzero(y) >= 0`. Consumers keep assertions, compute `y` first,
and fail where eager fails.

A call of a higher-order operator, such as torch.cond, acts if anything in its bodies acts, and is held like an operator
that may fail. A body that returns nothing, as of `torch.no_grad()` around an assertion, gets a result for that.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import family_of, kind_of, known_of, may_fail_on_data
from shapeproof.export.shim.callers import raised_by_check
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.numbers.sym_nodes import RAISED_BY_PYTHON
from shapeproof.export.shim.numbers.symbols import ASSERTION, PLAIN
from shapeproof.export.shim.replaced import replaced
from shapeproof.export.shim.trees import graph_modules, leaves
from shapeproof.export.source.handlers import Kinds

RAISED = frozenset({RuntimeError, IndexError, ValueError, vars(torch.linalg)["LinAlgError"]})
"""The exceptions that torch's operators raise on data."""

OF_NUMBERS: Mapping[Any, frozenset[type[BaseException]]] = {
    **dict.fromkeys((math.trunc, math.floor, math.ceil, round, torch.sym_int), frozenset({ValueError, OverflowError})),
    **dict.fromkeys((operator.lshift, operator.rshift, torch.sym_sqrt, math.sqrt), frozenset({ValueError})),
    operator.pow: frozenset({ZeroDivisionError, OverflowError}),
}
"""Functions of Python numbers that fail for some values (`int` of NaN), and the exceptions that they raise."""

COMPLEX = "a power of a negative number is complex: check ahead of it that the base is at least 0"
"""The message for a refused power."""

_FOR_ITS_DATA = {torch.Tensor.numpy, torch.Tensor.data_ptr, torch.Tensor.__array__, torch.Tensor.tolist}
"""Methods that raise on a tensor without elements."""

_OF_SOMETHING = frozenset({"extreme", "extremes", "place"})
"""Kinds of reductions that raise on an empty operand; not all of their fake kernels check for one."""


def of_check(message: str | None, running: str | None, *, is_assert: Callable[[], bool]) -> Kinds:
    """Return the exceptions of a failing check, by its message and by the operator that makes it, if any."""
    if message in RAISED_BY_PYTHON:
        return RAISED_BY_PYTHON[message]
    if running is not None:
        return RAISED
    return raised_by_check() or (frozenset({AssertionError}) if is_assert() else None)


def is_of_tracing(error: Exception, func: Any) -> bool:
    """True if a function of torch failed because it was traced, where eager would not fail."""
    home = type(error).__module__
    own = home.startswith(("torch._subclasses", "torch._dynamo", "torch.fx")) or isinstance(error, NotImplementedError)
    return own or func in _FOR_ITS_DATA


def may_fail(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], of_data: Callable[[Any], bool]) -> bool:
    """True if an operator may fail on data; `of_data` is True for a symbolic number that is taken from data."""
    if not _is_torchs(func):
        return schemas.schema_of(func) is not None
    if func is ASSERTION:  # its condition was examined where it was asked
        return False
    if _divides(func):
        return _divides_whole_numbers(func, args, kwargs)
    if family_of(func) == "pointwise" or known_of(func).reads:
        return False
    numbers = [each for each in leaves((args, kwargs)) if type(each) in PLAIN]
    if any(map(of_data, numbers)) or (numbers and kind_of(func) == "select"):
        return True  # `select`: the fake kernel does not check the index
    return not _never_fails(func)


def raised_by(func: Any) -> Kinds:
    """Return the exceptions that an operator raises on data; None for a user's operator, which may raise any."""
    return RAISED if _is_torchs(func) else None


def _is_torchs(func: Any) -> bool:
    return schemas.schema_of(func) is not None and func.namespace == "aten"


def size_that_divides(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.SymInt | None:
    """Return the size by which an operator divides integers, which raises where it is 0, if there are any."""
    if not _is_torchs(func) or not _divides(func) or not _divides_whole_numbers(func, args, kwargs):
        return None
    divisor = schemas.by_name(func, args, kwargs)["other"]
    return divisor if isinstance(divisor, torch.SymInt) else None


def _divides(func: Any) -> bool:
    return kind_of(func) == "rounded quotient"


def _divides_whole_numbers(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if integers are divided with an integer result, by a divisor that may be 0."""
    named = schemas.by_name(func, args, kwargs)
    divisor = named.get("other")
    if "rounding_mode" in named and named["rounding_mode"] is None:
        return False
    is_constant = isinstance(divisor, int | float) and divisor != 0
    return not is_constant and not any(map(_is_floating, (named.get("self"), divisor)))


def _is_floating(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() or value.is_complex()
    return isinstance(value, float | torch.SymFloat)


@functools.cache
def _never_fails(func: Any) -> bool:
    if kind_of(func) in _OF_SOMETHING or known_of(func).reads_beyond:
        return False
    return not may_fail_on_data(func) or schemas.is_view_operator(func, pure=True)


_aten = torch.ops.aten
_UNSAID = "Expected Tensor with single nonzero value, but got zero"
_HELD = "the result of {} is unused, but it may fail"
_eliminate_dead_code = torch.fx.Graph.eliminate_dead_code


def failures_kept() -> AbstractContextManager[None]:
    """Inside this block, torch's dead code elimination keeps what acts in the bodies of higher-order operators."""

    def eliminate(graph: torch.fx.Graph, is_impure_node: Any = None) -> bool:
        return _eliminate_dead_code(graph, is_impure_node or (lambda node: node.is_impure() or _acts(node)))

    return replaced(torch.fx.Graph, eliminate_dead_code=eliminate)


def hold_failures(program: torch.export.ExportedProgram) -> None:
    """Have assertions use whatever acts in a program and its bodies without being used."""
    for module in graph_modules(program.graph_module):
        dead = list(_unused(module.graph))
        for node in dead:
            _hold(node)
        if dead:
            module.recompile()


def unheld(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """Return the nodes that act in a program and that dead code elimination would remove."""
    return [node for module in graph_modules(program.graph_module) for node in _unused(module.graph)]


def _unused(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    """Yield the nodes that act although no result of the graph and no impure node depends on them, the last ones first.

    A node on which a yielded node depends is used: its user will be held.
    """
    used = set[torch.fx.Node]()
    for node in reversed(list(graph.nodes)):
        kept = node in used or _is_impure(node)
        if not kept and _acts(node):
            yield node
            kept = True
        if kept:
            used.update(node.all_input_nodes)


def _is_impure(node: torch.fx.Node) -> bool:
    """True if torch always keeps a node; while a compiler traces, torch keeps no random operator."""
    return node.is_impure(impure_random=False)


def _acts(node: torch.fx.Node) -> bool:
    """True if a call may fail because of data, or anything in its bodies acts or is impure."""
    if node.op != "call_function":
        return False
    bodies = nodes.bodies(node)
    if bodies:
        inner = (each for body in bodies for each in body.graph.nodes if each.op == "call_function")
        return any(_is_impure(each) or _acts(each) for each in inner)
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), nodes.metadata)
    return may_fail(node.target, args, kwargs, symbols.about_data)


def _hold(node: torch.fx.Node) -> None:
    """Have an assertion use a node; one whose results are no strided tensors stays as it is."""
    if node.target is symbols.UNSAID_ASSERTION:
        node.target, node.args = symbols.DATA_ASSERTION, (node.args[0], _UNSAID)
        return
    value = node.meta.get("val")
    value = _give_result(node) if value is None or (isinstance(value, tuple) and not value) else value
    several = isinstance(value, tuple | list)
    dense = [index for index, each in enumerate(value if several else [value]) if _is_dense(each)]
    if not dense:
        return
    after = node.next
    used = nodes.insert_call(after, operator.getitem, (node, dense[0])) if several else node
    count = nodes.insert_call(after, _aten.count_nonzero.default, (used,))
    always = nodes.insert_call(after, _aten.ge.Scalar, (count, 0))
    nodes.insert_call(after, symbols.DATA_ASSERTION, (always, _HELD.format(node.target)))


def _is_dense(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided


def _give_result(call: torch.fx.Node) -> Any:
    """Have the bodies of a call that returns nothing return a constant; return the call's new value.

    The bodies' first operand that is a tensor tells device and fake mode.
    """
    for body in nodes.bodies(call):
        output = body.graph.output_node()
        given = next((each for each in body.graph.nodes if _is_dense(each.meta.get("val"))), None)
        if given is None:
            return None
        made = nodes.insert_call(output, _aten.new_ones.default, (given, ()))
        output.args = ((made,),)
        call.meta["val"] = (made.meta["val"],)
    return call.meta.get("val")
