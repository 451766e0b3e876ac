"""Run a traced program again on the fake inputs of another trace.

An operator that the other trace called with the same arguments is not run: its result there is its result here. So only
what differs between two programs is run. A program that writes is run as a whole.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
import torch._dynamo.exc
import torch._functorch.config
import torch.utils._pytree as pytree
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor

from shapeproof.constraints.terms import Term
from shapeproof.export.graph import nodes
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.process.quiet import quiet
from shapeproof.export.shim.process.transforms import transforms_ended
from shapeproof.export.source.frames import entry
from shapeproof.export.trace.calls.operators import call
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.export.trace.translate import Untranslatable

_PLAIN = {bool, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format}
_SIZE = torch.ops.aten.sym_size.int


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
    pure = env is not None and not any(nodes.mutates(each.graph) for each in (program, there))
    known = _Known(there, env.read if env is not None and pure else None)
    with quiet(), transforms_ended(), mode or contextlib.nullcontext(), enable_python_dispatcher():
        for node in program.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(inputs)
            elif node.op == "get_attr":
                values[node] = getattr(program.graph_module, str(node.target))
            elif _takes_from_data(node):
                values[node] = _taken_from_data(node, next(data, None))
            elif node.op == "call_function" and node.target is not symbols.ASSERTION:
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = known.result(node.target, args, kwargs)
                if values[node] is None:
                    with env.expecting(_recounted(node.meta.get("val"), called)) if env else contextlib.nullcontext():
                        run = env.operators.record if env else call
                        values[node] = run(node.target, args, kwargs)
            if node.meta.get("unbacked_bindings"):
                called |= _called(node.meta.get("val"), values[node])
            noted[node] = as_it_is(values.get(node))
    return noted


class _Known:
    """The results of a program's operators that give one tensor, by their arguments; each result is given once.

    `read` returns the term of an int; without it no result is given.
    """

    def __init__(self, program: torch.export.ExportedProgram, read: Callable[[Any], Term] | None) -> None:
        self._read = read
        self._results: defaultdict[Hashable, deque[Any]] = defaultdict(deque)
        for node in program.graph.nodes if read is not None else ():
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda each: each.meta.get("val"))
            key, value = self._key(node.target, args, kwargs), node.meta.get("val")
            if key is not None and isinstance(value, FakeTensor) and not node.meta.get("unbacked_bindings"):
                self._results[key].append(value)

    def result(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of a call with these very tensors and equal other arguments; None if none is left."""
        key = self._key(target, args, kwargs) if self._results else None
        left = None if key is None else self._results.get(key)
        return left.popleft() if left else None

    def _key(self, target: Any, args: Any, kwargs: Any) -> Hashable:
        if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
            return None
        try:
            return (target, self._of(args), self._of(kwargs))
        except (LookupError, Untranslatable):
            return None

    def _of(self, value: Any) -> Hashable:
        """Return the part of a key that an argument is.

        Raises:
            LookupError: it is of another kind than those that are told apart here.
        """
        if isinstance(value, tuple | list):
            return (len(value), *map(self._of, value))
        if isinstance(value, dict):
            return tuple((name, self._of(each)) for name, each in value.items())
        if isinstance(value, FakeTensor):
            return id(value)
        if self._read is not None and (isinstance(value, torch.SymInt) or type(value) is int):
            return (int, self._read(value))
        if value is None or type(value) in _PLAIN:
            return (type(value), str(value))
        raise LookupError(value)


def with_sizes(
    program: torch.export.ExportedProgram, values: dict[torch.fx.Node, Any]
) -> dict[torch.fx.Node, Any] | None:
    """Return the values of a program's nodes with the sizes computed from them; None if a computation fails."""
    sizes = dict(values)
    try:
        with quiet():
            for node in program.graph.nodes:
                if node not in sizes:
                    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), sizes.__getitem__)
                    sizes[node] = args[0].shape[args[1]] if node.target is _SIZE else node.target(*args, **kwargs)
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
