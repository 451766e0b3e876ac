"""Traced programs with one thing changed: an operator, an argument, an order, a check, an alias, a constant, a place.

`mutants` gives each as a program of its own; what is noted of its nodes is what they give, as if it had been traced.
Nothing is compared here.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from shapeproof.export.explore.compare import rerun
from shapeproof.export.ops import schemas
from tests.export.tracing import Traced, asking_apart

aten = torch.ops.aten
_ALIKE = [
    (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor),
    (aten.add_.Tensor, aten.sub_.Tensor, aten.mul_.Tensor),
    (aten.relu.default, aten.sigmoid.default, aten.exp.default, aten.abs.default, aten.neg.default),
    (aten.amax.default, aten.amin.default),
    (aten.maximum.default, aten.minimum.default),
    (aten.argmax.default, aten.argmin.default),
    (aten.sum.default, aten.mean.default),
    (aten.sum.dim_IntList, aten.mean.dim),
    (aten.std.dim, aten.var.dim),
    (aten.gt.Tensor, aten.ge.Tensor, aten.lt.Tensor),
    (aten.gt.Scalar, aten.ge.Scalar, aten.lt.Scalar),
    (aten.contiguous.default, aten.clone.default, aten.alias.default, aten.detach.default, aten.positive.default),
    (aten._conj.default, aten.alias.default, aten.conj_physical.default),
    (aten.imag.default, aten.real.default),
    (aten.view.default, aten.reshape.default),
    (aten.index_put_.default, aten.index_put.default),
    (aten.t.default, aten.alias.default),
    (operator.add, operator.sub, operator.mul),
    (operator.le, operator.lt, operator.ge, operator.gt),
]
"""Operators that take the same arguments."""
_UNARY: tuple[tuple[Any, ...], ...] = (
    (aten.clone.default,),
    (aten.alias.default,),
    (aten.detach.default,),
    (aten.contiguous.default,),
    (aten._neg_view.default,),
    (aten._conj.default,),
    (aten.neg.default,),
    (aten.view_as_real.default,),
    (aten.flip.default, [0]),
    (aten.transpose.int, 0, -1),
    (aten.squeeze.dim, 0),
    (aten.unsqueeze.default, 0),
    (aten.slice.Tensor, 0, 0, 2),
    (aten.slice.Tensor, 0, 1),
    (aten.as_strided.default, [2], [1], 1),
    (aten.constant_pad_nd.default, [0, 0]),
    (aten.constant_pad_nd.default, [0, 1]),
    (aten.repeat.default, [1, 1]),
    (aten.repeat.default, [2, 1]),
    (aten.to.dtype, torch.float64),
    (aten.to.dtype, torch.float32),
    (aten.zero_.default,),
    (aten.reshape.default, [-1]),
)
"""Operators through which a tensor may be passed on, with their other arguments."""


@dataclass(frozen=True)
class Mutant:
    """A program that differs from a traced one in one thing, which `change` says."""

    change: str
    program: torch.export.ExportedProgram


class Unmutated(Exception):
    """A change that is none, or after which the program does not run."""


def mutants(traced: Traced) -> Iterator[Mutant]:
    """Every program that differs from a traced one by a single change."""
    for change, apply in changes(traced.program):
        with contextlib.suppress(Unmutated):
            yield mutated(traced, change, apply)


def mutated(traced: Traced, change: str, apply: Callable[[torch.export.ExportedProgram], None]) -> Mutant:
    """A program after a change.

    Raises:
        Unmutated: there is no such program.
    """
    program = copied(traced.program)
    try:
        apply(program)
    except (IndexError, RuntimeError) as error:  # torch.fx cannot write such a call
        raise Unmutated from error
    with asking_apart(traced):
        _renote(program, traced)
    return Mutant(change, program)


Change = tuple[str, Callable[[torch.export.ExportedProgram], None]]


def changes(program: torch.export.ExportedProgram) -> Iterator[Change]:
    """What may be changed, and how."""
    for path, module in program.graph_module.named_modules(remove_duplicate=False):
        if isinstance(module, torch.fx.GraphModule):
            for change, apply in _of_graph(module.graph):
                yield f"{path or 'program'}: {change}", _in_graph(path, apply)
    yield from _of_state(program)
    yield from _of_signature(program)


def copied(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """A program whose graphs, signature and values may be changed; nodes are noted as they were."""
    made = copy.copy(program)
    made._graph_module = _copied_module(program.graph_module)
    made._graph_signature = copy.deepcopy(program.graph_signature)
    made._constants = copy.deepcopy(dict(program.constants))
    made._state_dict = copy.deepcopy(dict(program.state_dict))
    return made


def _copied_module(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    graph, known = torch.fx.Graph(), dict[torch.fx.Node, torch.fx.Node]()
    for node in module.graph.nodes:
        known[node] = graph.node_copy(node, known.__getitem__)
    made = torch.fx.GraphModule(module, graph)
    for name, child in module.named_children():
        setattr(made, name, _copied_module(child) if isinstance(child, torch.fx.GraphModule) else child)
    return made


def _renote(program: torch.export.ExportedProgram, traced: Traced) -> None:
    """Note of each node what it gives at the sizes of the trace, as torch would have."""
    try:
        values = rerun.run_again(program, traced.program)
    except Exception as error:
        raise Unmutated from error
    for node in program.graph.nodes:
        node.meta["val"] = values.get(node)
    program.graph_module.recompile()


# ---------------------------------------------------------------------- graphs


def _in_graph(path: str, apply: Callable[[torch.fx.Graph], None]) -> Callable[[torch.export.ExportedProgram], None]:
    def applied(program: torch.export.ExportedProgram) -> None:
        module = program.graph_module.get_submodule(path)
        apply(module.graph)
        module.recompile()

    return applied


def _of_graph(graph: torch.fx.Graph) -> Iterator[tuple[str, Callable[[torch.fx.Graph], None]]]:
    listed = list(graph.nodes)
    for at, node in enumerate(listed):
        if node.op == "call_function":
            yield from _other_operators(at, node)
            yield from _removed(at, node)
        yield from _other_arguments(at, node, listed)
        if node.op in {"call_function", "placeholder"} and isinstance(node.meta.get("val"), torch.Tensor):
            yield from _passed_on(at, node)
        if at > 0 and {listed[at - 1].op, node.op} == {"call_function"} and listed[at - 1] not in node.all_input_nodes:
            yield f"{listed[at - 1]} after {node}", _on(at, lambda _, node: node.append(node.prev))


def _on(at: int, change: Callable[[torch.fx.Graph, torch.fx.Node], None]) -> Callable[[torch.fx.Graph], None]:
    return lambda graph: change(graph, list(graph.nodes)[at])


def _other_operators(at: int, node: torch.fx.Node) -> Iterator[tuple[str, Callable[[torch.fx.Graph], None]]]:
    others = {other for group in _ALIKE if node.target in group for other in group if other != node.target}
    for other in sorted(others, key=str):
        yield f"{node} is {other}", _on(at, lambda _, node, other=other: setattr(node, "target", other))


def _removed(at: int, node: torch.fx.Node) -> Iterator[tuple[str, Callable[[torch.fx.Graph], None]]]:
    """A node left out, whose first operand stands in for it."""

    def remove(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
        if node.users:
            node.replace_all_uses_with(node.args[0])  # type: ignore[arg-type]
        graph.erase_node(node)

    first = node.args[0] if node.args and isinstance(node.args[0], torch.fx.Node) else None
    if not node.users or (first is not None and _kind(first) is _kind(node)):
        yield f"without {node}", _on(at, remove)


def _passed_on(at: int, node: torch.fx.Node) -> Iterator[tuple[str, Callable[[torch.fx.Graph], None]]]:
    """What a node gives, passed on through another operator: to all that use it, and to the last of them alone."""
    for call in _UNARY:
        for last in {False, len(node.users) > 1}:

            def insert(graph: torch.fx.Graph, node: torch.fx.Node, call: Any = call, last: bool = last) -> None:
                users = list(node.users)[-1:] if last else list(node.users)
                after = node
                while after.next.op == "placeholder":
                    after = after.next
                with graph.inserting_after(after):
                    made = graph.call_function(call[0], (node, *call[1:]))
                for user in users:
                    user.replace_input_with(node, made)

            where = f" for {list(node.users)[-1]}" if last else ""
            yield f"{call} of {node}{where}", _on(at, insert)


def _other_arguments(
    at: int, node: torch.fx.Node, listed: list[torch.fx.Node]
) -> Iterator[tuple[str, Callable[[torch.fx.Graph], None]]]:
    for index, value in enumerate(pytree.tree_leaves((node.args, node.kwargs))):
        for other in _others(value, listed[:at]):

            def replace(graph: torch.fx.Graph, node: torch.fx.Node, index: int = index, other: Any = other) -> None:
                flat, spec = pytree.tree_flatten((node.args, node.kwargs))
                flat[index] = list(graph.nodes)[other.at] if isinstance(other, _Place) else other
                node.args, node.kwargs = pytree.tree_unflatten(flat, spec)

            yield f"{node} of {other} for {value} at {index}", _on(at, replace)
    schema = schemas.schema_of(node.target) if node.op == "call_function" else None
    if schema is not None and node.args and schema.arguments[len(node.args) - 1].has_default_value():
        yield f"{node} without its last argument", _on(at, lambda _, node: setattr(node, "args", node.args[:-1]))


def _kind(node: torch.fx.Node) -> type:
    """Tensors, numbers, or lists of them."""
    value = node.meta.get("val")
    return torch.Tensor if isinstance(value, torch.Tensor) else type(value)


@dataclass(frozen=True)
class _Place:
    """The node at a place of a graph."""

    at: int


def _others(value: Any, earlier: list[torch.fx.Node]) -> Iterator[Any]:
    """Other values that an argument may have."""
    match value:
        case bool():
            yield not value
        case int():
            yield from (value + 1, value - 1, -value)
        case float():
            yield from (value + 1, -value)
        case torch.dtype():
            yield torch.float64 if value != torch.float64 else torch.float32
        case torch.fx.Node():
            yield from _other_nodes(value, earlier)


def _other_nodes(node: torch.fx.Node, earlier: list[torch.fx.Node]) -> Iterator[Any]:
    mine = node.meta.get("val")
    for at, other in enumerate(earlier):
        value = other.meta.get("val")
        alike = isinstance(mine, torch.Tensor) and isinstance(value, torch.Tensor) and mine.dim() == value.dim()
        numbers = isinstance(mine, torch.SymInt) and isinstance(value, torch.SymInt)
        bodies = node.op == other.op == "get_attr"
        if other is not node and (alike or numbers or bodies):
            yield _Place(at)
    if isinstance(mine, torch.SymInt):
        yield from (1, 4)


# ---------------------------------------------------------------------- values and signature


def _of_state(program: torch.export.ExportedProgram) -> Iterator[Change]:
    """Constants, parameters and buffers that have other values."""
    for kept in ("_constants", "_state_dict"):
        for name, value in getattr(program, kept).items():
            others = {
                "another value": value.detach() + 1,
                "negative zeros": torch.where(value == 0, -value, value).detach(),
                "another element": value.detach().clone().index_fill_(0, torch.tensor([0]), 9),
                "another layout": torch.stack([value, value], -1)[..., 0].detach(),
            }
            for how, other in others.items():

                def put(program: Any, kept: str = kept, name: str = name, other: Any = other) -> None:
                    getattr(program, kept)[name] = other

                yield f"{name} with {how}", put


def _of_signature(program: torch.export.ExportedProgram) -> Iterator[Change]:
    """Two inputs that change places, or outputs."""
    for kind in ("input_specs", "output_specs"):
        specs = getattr(program.graph_signature, kind)
        for a, b in itertools.combinations(range(len(specs)), 2):

            def swap(program: Any, kind: str = kind, a: int = a, b: int = b) -> None:
                specs = getattr(program.graph_signature, kind)
                specs[a].target, specs[b].target = specs[b].target, specs[a].target
                specs[a].kind, specs[b].kind = specs[b].kind, specs[a].kind

            if (specs[a].target, specs[a].kind) != (specs[b].target, specs[b].kind):
                yield f"{kind} {a} and {b} swapped", swap
    body = program.graph.output_node().args[0]
    for at in range(1, len(body)):  # type: ignore[arg-type]

        def turn(program: Any, at: int = at) -> None:
            out = program.graph.output_node()
            found = list(out.args[0])
            found[at - 1], found[at] = found[at], found[at - 1]
            out.args = (tuple(found),)

        yield f"outputs {at - 1} and {at} swapped", turn
