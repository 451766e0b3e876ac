"""Writes rounded floats of sizes as divisions, where the solver proves that rounding cannot matter.

`math.ceil(t / 2)` becomes `-(-t // 2)` for t < 2**52. Law: it is the same integer for every input of the program. What
stays a float, a runtime may compute otherwise than Python: torch.onnx writes floats of 32 bits, and no `//` for them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.nodes import postorder
from shapeproof.export.graph import nodes, readback
from shapeproof.export.graph.emit import Computation, has_graph_form
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.trace.known.known_sizes import proved_bounds
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.knowledge import within

_DIVISIONS = (operator.floordiv, operator.mod)


def write_rounded(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Write rounded floats as divisions.

    Args:
        program: modified in place.
        facts: the facts that hold for every input of the program.
    """
    for module in graph_modules(program.graph_module):
        checking = nodes.checking(module.graph)
        for node, term in list(_rounded(module.graph)):
            operands = {each.name: each for each in module.graph.nodes if each.name in term.symbols}
            whole = _known(operands, translator_of(program), facts).reduce(term)
            if not node.users.keys() <= checking and operands and _is_whole(whole):
                _write(node, whole, operands, [user for user in node.users if user in checking])


def left_in_floats(program: torch.export.ExportedProgram) -> Iterator[torch.fx.Node]:
    """Yield the integers, quotients and remainders that a program computes from floats, other than to check them."""
    for module in graph_modules(program.graph_module):
        checking = nodes.checking(module.graph)
        for node in module.graph.nodes:
            inexact = isinstance(nodes.metadata(node), torch.SymInt) or node.target in _DIVISIONS
            if inexact and _takes_floats(node) and not node.users.keys() <= checking:
                yield node


def _takes_floats(node: torch.fx.Node) -> bool:
    return any(isinstance(nodes.metadata(arg), float | torch.SymFloat) for arg in node.args)


def _rounded(graph: torch.fx.Graph) -> Iterator[tuple[torch.fx.Node, t.Term]]:
    """Yield each integer that a graph computes from floats, as a term of other integers, named after their nodes."""
    values: dict[torch.fx.Node, readback.Value] = {}
    for node in graph.nodes:
        number = nodes.metadata(node)
        value = readback.value_of(node, values) if isinstance(number, torch.SymFloat) or _takes_floats(node) else None
        if isinstance(number, torch.SymInt) and isinstance(value, t.Term):
            yield node, value
        values[node] = t.symbol(node.name) if isinstance(number, torch.SymInt) else value


def _known(operands: Mapping[str, torch.fx.Node], translator: Translator, facts: Facts) -> Facts:
    """Return the bounds of operands as facts about their names."""
    bounds = {name: proved_bounds(translator.read(nodes.metadata(node)), facts) for name, node in operands.items()}
    return Facts(each for name, interval in bounds.items() for each in within(t.symbol(name), interval))


def _is_whole(term: t.Term) -> bool:
    """True if a graph can compute a term without floats."""
    return not any(isinstance(part, t.Real) for part in postorder(term)) and has_graph_form(f.eq(term, 0))


def _write(
    node: torch.fx.Node, whole: t.Term, operands: Mapping[str, torch.fx.Node], checks: list[torch.fx.Node]
) -> None:
    """Make a node compute a term for all its users but these checks; erase the floats that nobody uses any more."""
    call: Any = functools.partial(nodes.call_beside, node)
    made, floats = Computation(operands, call).term(whole), node.all_input_nodes
    if whole.is_constant or made in operands.values():
        made = call(operator.add, call(operator.mul, next(iter(operands.values())), 0), made)
    nodes.become(node, made, checks)
    for each in floats:
        _erase_unused(each)


def _erase_unused(node: torch.fx.Node) -> None:
    if isinstance(nodes.metadata(node), torch.SymFloat) and node.op == "call_function" and not node.users:
        operands = node.all_input_nodes
        node.graph.erase_node(node)
        for each in operands:
            _erase_unused(each)
