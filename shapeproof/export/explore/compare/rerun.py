"""Run a traced program again on the fake inputs of another trace."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
import torch._dynamo.exc
import torch._functorch.config
import torch.utils._pytree as pytree
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor

from shapeproof.export.graph import nodes
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.process.idle_work import quiet
from shapeproof.export.shim.process.transforms import transforms_ended
from shapeproof.export.source.frames import entry
from shapeproof.export.trace.calls.operators import call
from shapeproof.export.trace.shape_env import ProofShapeEnv


class TakenOtherwiseError(LookupError):
    """The two programs do not take the same kinds of numbers from data, one after the other."""


@entry
def run_again(program: torch.export.ExportedProgram, there: torch.export.ExportedProgram) -> dict[torch.fx.Node, Any]:
    """Return the value of each node of a program on another trace's fake inputs, under that trace's ShapeEnv.

    The result of an operator that takes a size from data comes from the other program's operators, in order. The caller
    checks that these are the same operators on the same operands. Assertions are left for the caller to compare.

    Raises:
        TakenOtherwiseError: the other program takes other numbers from data.
        Exception: whatever an operator of the program raises there.
    """
    inputs = iter([node.meta.get("val") for node in there.graph.nodes if node.op == "placeholder"])
    data = iter([node for node in there.graph.nodes if _takes_from_data(node)])
    mode = next((value.fake_mode for value in symbols.values(there) if isinstance(value, FakeTensor)), None)
    env = mode.shape_env if mode is not None and isinstance(mode.shape_env, ProofShapeEnv) else None
    values: dict[torch.fx.Node, Any] = {}
    noted: dict[torch.fx.Node, Any] = {}
    called: dict[Any, torch.SymInt] = {}
    as_it_is = _as_it_is if nodes.mutates(program.graph) else lambda value: value
    with quiet(), transforms_ended(), mode or contextlib.nullcontext(), enable_python_dispatcher():
        for node in program.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(inputs)
            elif node.op == "get_attr":
                values[node] = getattr(program.graph_module, str(node.target))
            elif _takes_from_data(node):
                values[node] = _taken_from_data(node, next(data, None))
            elif node.op == "call_function" and node.target is not symbols.ASSERTION:
                args, kwargs = nodes.operands(node, values.__getitem__)
                with env.expecting(_recounted(node.meta.get("val"), called)) if env else contextlib.nullcontext():
                    run = env.operators.record if env else call
                    values[node] = run(node.target, args, kwargs)
            if node.meta.get("unbacked_bindings"):
                called |= _called(node.meta.get("val"), values[node])
            # torch.vmap begins by a call that returns its depth, which is no value of the program
            if node.op != "call_function" or node.meta.get("val") is not None:
                noted[node] = as_it_is(values.get(node))
    return noted


def with_sizes(
    program: torch.export.ExportedProgram, values: dict[torch.fx.Node, Any]
) -> dict[torch.fx.Node, Any] | None:
    """Return the values of a program's nodes with the sizes computed from them; None if a computation fails."""
    sizes = dict(values)
    try:
        with quiet():
            for node in program.graph.nodes:
                if node not in sizes:
                    args, kwargs = nodes.operands(node, sizes.__getitem__)
                    sizes[node] = (known_of(node.target).reads or node.target)(*args, **kwargs)
    except Exception:  # noqa: BLE001 - whatever it is, the values are not known then
        return None
    return sizes


def _takes_from_data(node: torch.fx.Node) -> bool:
    """True if a node takes a size from data. The unbacked symbols of a view follow from the view's arguments."""
    return bool(node.meta.get("unbacked_bindings")) and known_of(node.target).view is None


def _called(noted: Any, value: Any) -> dict[Any, torch.SymInt]:
    """Map a program's symbols for sizes from data to the symbols there."""
    pairs = zip(symbols.sizes(noted), symbols.sizes(value), strict=False)
    return {a.node.expr: b for a, b in pairs if isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt)}


def _recounted(noted: Any, called: Mapping[Any, torch.SymInt]) -> list[Any]:
    """Return the values there of sizes that a program reused: torch remembers the size of a tensor's `nonzero`."""
    reused = (size.node.expr for size in symbols.sizes(noted) if isinstance(size, torch.SymInt))
    return [called[expr].node.expr for expr in reused if expr in called]


def _as_it_is(value: Any) -> Any:
    """Detach the present value: an operator such as `squeeze_` changes the shape of the tensor later."""
    return pytree.tree_map_only(FakeTensor, lambda tensor: tensor.detach(), value)


def _taken_from_data(node: torch.fx.Node, other: torch.fx.Node | None) -> Any:
    if other is None or other.target != node.target or _gives_a_bool(other) != _gives_a_bool(node):
        raise TakenOtherwiseError(f"`{node.target}` in one program takes from data what the other does not")
    return other.meta.get("val")


def _gives_a_bool(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), bool | torch.SymBool)
