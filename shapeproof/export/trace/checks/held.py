"""Hold the failures of a program: no dead code elimination removes an operator that may fail.

Torch removes an operator whose result nobody uses unless torch calls the operator impure, and an index out of range, a
Cholesky factorization and `_assert_async` without a message count as pure. So the unused result of an operator that may
fail is used by an assertion that always holds: `count_nonzero(y) >= 0`. Consumers keep assertions, compute `y` first,
and fail where eager fails.

A call of a higher-order operator, such as torch.cond, acts if anything in its bodies acts, and is held like an operator
that may fail. A body that returns nothing, as of `torch.no_grad()` around an assertion, gets a result for that.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.replaced import replaced
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.trace.checks.failures import may_fail

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
