"""Compare two bodies of a higher-order operator (a branch of torch.cond).

Two bodies are the same if they run the same operators on the same operands in the same order, and if each check of one
is made by the other or follows from known facts. equivalence.py compares the operands of the bodies themselves.

A body is read as it was traced, without running it again. So two sizes are the same only if both bodies compute them
alike, or if an operand's size has a single value there, which torch writes into the body. The metadata of a body's
nodes must hold there.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.graph.constants import same_constant
from shapeproof.export.ops.table import SIZE, SLICE
from shapeproof.export.shim.numbers import symbols

_END = torch.iinfo(torch.int64).max
"""The end of a slice that has none."""
Decided = Callable[[Any], bool | None]
"""Returns True if a condition always holds, False if it always fails, None if it depends or is unknown."""
OneValue = Callable[[Any], int | None]
"""Returns the value of a size that has a single value, else None."""


@dataclass(frozen=True, slots=True)
class Known:
    """The facts that are known where two bodies are compared.

    Attributes:
        decided: for each of the two bodies, what is known of a condition wherever the body is entered.
        one_value: returns the single value of a size in the second body's metadata, if it has one.
        is_noted: tests whether the first body's metadata of a node holds there, given the node's twin.
    """

    decided: tuple[Decided, Decided]
    one_value: OneValue
    is_noted: Callable[[torch.fx.Node, torch.fx.Node], bool]


def same_body(mine: torch.fx.GraphModule, other: torch.fx.GraphModule, known: Known) -> bool:
    """True if two bodies are the same for the same operands; the second was traced where they are compared."""
    operands = [node.meta.get("val") for node in other.graph.find_nodes(op="placeholder")]
    if len(mine.graph.find_nodes(op="placeholder")) != len(operands):
        return False
    left, right = (_Body(each, operands, known.one_value) for each in (mine, other))
    if len(left.acting) != len(right.acting):
        return False
    for place, (a, b) in enumerate(zip(left.acting, right.acting, strict=True)):
        attributes = left.attribute(a), right.attribute(b)
        if left.reading(a) != right.reading(b) or not _same_attribute(*attributes, known) or not known.is_noted(a, b):
            return False
        left.known[a] = right.known[b] = place
    checks = left.checks(), right.checks()
    return all(
        decided(nodes.metadata(check.args[0])) is True
        for ours, theirs, decided in zip(checks, reversed(checks), known.decided, strict=True)
        for reading, check in ours.items()
        if reading not in theirs
    )


def _acts(node: torch.fx.Node) -> bool:
    return node.op in {"placeholder", "output"} or (node.is_impure() and node.target is not symbols.ASSERTION)


class _Body:
    """A body and the readings of its nodes: two bodies that compute the same have the same readings."""

    def __init__(self, module: torch.fx.GraphModule, operands: Sequence[Any], one_value: OneValue) -> None:
        self._module = module
        self.known: dict[torch.fx.Node, Hashable] = {}
        self._written: dict[torch.fx.Node, Any] = {}
        """Sizes of operands with a single value, and numbers computed from these."""
        values = dict(zip(module.graph.find_nodes(op="placeholder"), operands, strict=True))
        for node in module.graph.nodes:
            size = values[node.args[0]].shape[node.args[1]] if node.target is SIZE and node.args[0] in values else None
            value = self._computed(node) if size is None else one_value(size)
            if value is not None:
                self._written[node] = value
        needed = [node for node in nodes.used(module.graph, _acts) if node not in self._written]
        self.acting = [node for node in needed if not self._is_whole_slice(node)]
        """The nodes that act, and the nodes that these need; checks excepted."""

    def _computed(self, node: torch.fx.Node) -> Any:
        """Return the number that a node computes from numbers; None if it computes no such number."""
        symbolic = isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)
        if not symbolic or node.op != "call_function" or not self._written.keys() >= set(node.all_input_nodes):
            return None
        args, kwargs = nodes.operands(node, self._written.__getitem__)
        try:
            return node.target(*args, **kwargs)  # type: ignore[operator]
        except ArithmeticError:
            return None

    def reading(self, node: torch.fx.Node) -> Hashable:
        """Return a key of what a node does and to which operands."""
        operands = nodes.operands(node, self._known)
        return node.op, node.target if node.op == "call_function" else None, repr(operands)

    def _known(self, node: torch.fx.Node) -> Hashable:
        while self._is_whole_slice(node):
            node = node.args[0]  # type: ignore[assignment]
        if node in self._written:
            number: Hashable = self._written[node]
            return number
        if node not in self.known:
            self.known[node] = self.reading(node)
        return "node", self.known[node]

    def _is_whole_slice(self, node: torch.fx.Node) -> bool:
        """True for `x[:]`: torch writes it into a body for the dims of `x[:, 2]` whose sizes it does not know."""
        if node.target is not SLICE or node.args[3:] != (_END,) or node.kwargs:
            return False
        start: Any = node.args[2]
        return bool((self._written.get(start) if isinstance(start, torch.fx.Node) else start) == 0)

    def checks(self) -> dict[Hashable, torch.fx.Node]:
        """Return the checks by their conditions; the messages make no difference."""
        made = [node for node in self._module.graph.nodes if node.target is symbols.ASSERTION]
        return {repr(torch.fx.map_arg(node.args[:1], self._known)): node for node in made}  # type: ignore[arg-type]

    def attribute(self, node: torch.fx.Node) -> Any:
        """Return the attribute that a node takes from the module."""
        return getattr(self._module, str(node.target), None) if node.op == "get_attr" else None


def _same_attribute(mine: Any, other: Any, known: Known) -> bool:
    if isinstance(mine, torch.fx.GraphModule) and isinstance(other, torch.fx.GraphModule):
        return same_body(mine, other, known)
    return same_constant(mine, other)


_COND = torch.ops.higher_order.cond
_AUTOCAST = torch.ops.higher_order.wrap_with_autocast
AUTOCAST = "autocast"
_NONE: Mapping[str, Any] = {}


def with_branches_taken(program: torch.export.ExportedProgram, decided: Decided) -> torch.export.ExportedProgram:
    """Return the program, or a copy in which each branch of torch.cond that is always taken replaces the call.

    The metadata of a call's result moves to the node that replaces the result, so that a wrong shape in the metadata is
    still found.
    """
    if all(_side(call, decided) is None for call in _calls(program.graph)):
        return program
    module = copied_graph(program.graph_module)
    for call in _calls(module.graph):
        side = _side(call, decided)
        if side is not None:
            _take(module, call, call.args[1 if side else 2], call.args[3])
    return _with_module(program, module)


def without_blocks(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the program, or a copy in which what runs where torch.autocast is off stands in the graph itself.

    Each of these nodes notes under `AUTOCAST` what was given to the block: a caller may have it on.
    """
    if not _blocks(program.graph):
        return program
    module = copied_graph(program.graph_module)
    for call in _blocks(module.graph):
        _take(module, call, call.args[4], call.args[5:], {AUTOCAST: call.args[:4]})
    return _with_module(program, module)


def _blocks(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [call for call in _calls(graph, _AUTOCAST) if call.args[2] is False]


def _with_module(program: torch.export.ExportedProgram, module: torch.fx.GraphModule) -> torch.export.ExportedProgram:
    module.graph.eliminate_dead_code(is_impure_node=torch.fx.Node.is_impure)
    made = copy.copy(program)
    made._graph_module = module  # noqa: SLF001 - a copy of torch's own class has no other way
    return made


def _calls(graph: torch.fx.Graph, target: Any = _COND) -> list[torch.fx.Node]:
    """Return the calls of torch.cond, or of another such operator, whose results are all read by `getitem`."""
    calls = graph.find_nodes(op="call_function", target=target)
    return [call for call in calls if all(user.target is operator.getitem for user in call.users)]


def _side(call: torch.fx.Node, decided: Decided) -> bool | None:
    condition = call.args[0]
    return decided(condition.meta.get("val")) if isinstance(condition, torch.fx.Node) else None


def copied_graph(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a module whose graph may be changed, with the attributes of another."""
    graph = torch.fx.Graph()
    result = graph.graph_copy(module.graph, {})
    graph.output(result)
    (before,), (after,) = (each.find_nodes(op="output") for each in (module.graph, graph))
    after.meta = copy.copy(before.meta)
    return torch.fx.GraphModule(module, graph)


def _take(
    module: torch.fx.GraphModule, call: torch.fx.Node, branch: Any, operands: Any, note: Mapping[str, Any] = _NONE
) -> None:
    """Put the nodes of a body in the place of its call, with a note in their metadata."""
    body: torch.fx.GraphModule = getattr(module, branch.target)
    known = dict(zip(body.graph.find_nodes(op="placeholder"), operands, strict=True))
    results: Any = ()
    with module.graph.inserting_before(call):
        for node in body.graph.nodes:
            if node.op == "output":
                results = torch.fx.map_arg(node.args[0], known.__getitem__)
            elif node.op != "placeholder":
                known[node] = module.graph.node_copy(node, known.__getitem__)
                known[node].meta |= note
            if node.op == "get_attr":
                known[node].target = f"{call.name}_{node.target}"
                setattr(module, known[node].target, getattr(body, str(node.target)))
    for user in list(call.users):
        result = results[user.args[1]]
        result.meta["val"] = user.meta.get("val")
        user.replace_all_uses_with(result)
        module.graph.erase_node(user)
    module.graph.erase_node(call)
