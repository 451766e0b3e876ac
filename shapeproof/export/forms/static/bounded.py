"""Makes all sizes from data constant, at their proved bounds, for accelerators that plan memory ahead of time.

The program runs node by node at the bounds: each size from data is its bound, with a count beside it. A node that keeps
rows apart by a rule (row_by_row.py) runs unchanged, and a node with a masked form (masking.py) runs in that form; any
other node is refused. This run is exported as a new program, all sizes constant. Before that, it is compared with the
original program on some data.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.terms import Term, name_of
from shapeproof.export.build.program import ReportedProgram
from shapeproof.export.declare.inputs import declare
from shapeproof.export.declare.materialize import floats, integers
from shapeproof.export.explore.beside_eager import runner
from shapeproof.export.explore.beside_eager.corners import DATA
from shapeproof.export.explore.beside_eager.forms import module_of
from shapeproof.export.forms.static.masked_losses import LOSSES
from shapeproof.export.forms.static.masked_rows import ROWS
from shapeproof.export.forms.static.masked_values import VALUES
from shapeproof.export.forms.static.masking import Given, Operand, Refused
from shapeproof.export.forms.static.rows import Rows, listed
from shapeproof.export.graph import nodes
from shapeproof.export.graph.aliasing import writes_said
from shapeproof.export.graph.emit import Computation, NoGraphForm
from shapeproof.export.ops.call import Shape
from shapeproof.export.ops.row_by_row import SIZED, Varying, pointwise
from shapeproof.export.ops.table import SLICE, kind_of, known_of
from shapeproof.export.report.report import Report
from shapeproof.export.shim import guarding
from shapeproof.export.shim.guarding import assert_all
from shapeproof.export.shim.modules import without_data
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves, map_tensors
from shapeproof.export.source.declared_at import nowhere
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Untranslatable
from shapeproof.export.verify import verified

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_OF_TENSORS: Mapping[Any, Callable[..., torch.Tensor]] = {
    torch.sym_max: torch.maximum,
    torch.sym_min: torch.minimum,
    torch.sym_not: torch.logical_not,
    operator.and_: torch.logical_and,
    operator.or_: torch.logical_or,
    torch.sym_float: torch.Tensor.double,
    operator.truediv: lambda one, other: one.double() / other.double(),
    operator.floordiv: functools.partial(torch.div, rounding_mode="floor"),
}
"""What computes with numbers from data, which are zero-dimensional tensors, in place of Python's functions."""


@dataclass(frozen=True)
class Count:
    """A number that a bounded program returns after its results: how many of their rows are valid.

    Attributes:
        bound: its upper bound.
        places: (result, dim) pairs, counted from 0, whose valid rows it counts.
    """

    bound: int
    places: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        where = ", ".join(f"result {result}, dim {dim}" for result, dim in self.places)
        return f"<={self.bound}: {where}"


def bounded_report(program: ReportedProgram) -> tuple[Report, tuple[Count, ...]]:
    """Return the report on the program at the bounds of its sizes from data, and the meaning of its counts.

    Raises:
        UsageError: a size has no bound, or rows beyond a count would reach valid rows; the message names the node.
    """
    _refuse(program)
    inputs = program.taken_apart.inputs
    args, kwargs = inputs.at(inputs.example or {}, filled=True)
    static = _Static(program)
    for each_args, each_kwargs in _trials((args, kwargs)):
        static.compare(each_args, each_kwargs)
    report = verified(static, declare(static, args, kwargs, None, (), nowhere))
    return report, static.counts


def _refuse(program: ReportedProgram) -> None:
    if program.report.status != "proved":
        raise UsageError(f"expected a proved program, but this one is {program.report.status}")
    contract = program.contract
    for name in sorted({contract.names[each] for terms in contract.sizes for term in terms for each in term.symbols}):
        raise UsageError(f"{name} is dynamic: a bounded program has inputs of constant sizes, such as a bucket's")
    for bound in program.report.bounds:
        if None in bound.limits:
            of = next(node for node in program.graph.nodes if node.name == bound.name.partition("[")[0])
            raise UsageError(f"{nodes.said(of)} has no bound: {bound.missing}")
    writes = writes_said(program.graph)
    if writes is not None:
        raise UsageError(f"a program that {writes} cannot be bounded")
    inputs = program.taken_apart.inputs
    if not inputs.anchors:
        raise UsageError("a program without example inputs cannot be bounded")
    missing = without_data(program.state_dict, program.constants, inputs.args, inputs.kwargs)
    if missing:
        raise UsageError(f"a program without data ({missing}) cannot be bounded: its rows beyond a count are compared")


def _trials(example: tuple[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the data of the comparison: the example, one number, the example with some zeros, and random data."""
    for fill in DATA:
        yield map_tensors(example, fill)
    for seed, change in enumerate((_some, _some, _drawn, _drawn), 2):
        generator = torch.Generator(device="cpu").manual_seed(seed)
        yield map_tensors(example, functools.partial(change, generator))


def _some(generator: torch.Generator, tensor: torch.Tensor) -> torch.Tensor:
    return tensor * integers(2, tensor.shape, generator).to(tensor)


def _drawn(generator: torch.Generator, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_floating_point():
        return floats(tensor.shape, generator).to(tensor)
    return integers(3, tensor.shape, generator).to(tensor)


class _Static(torch.nn.Module):
    """Runs a program at its bounds.

    Args:
        program: the program; its graph is read, its parameters are shared.
    """

    def __init__(self, program: ReportedProgram) -> None:
        super().__init__()
        self.module = module_of(program)
        self.spec = program.call_spec.in_spec
        self.rows = rows = Rows(program, Varying(frozenset(_data_symbols(program))))
        self.limits = _limits(program, rows)
        self.apart = {node: rows.apart(node) for node in self.module.graph.nodes}
        self.written = {
            each
            for node in self.module.graph.nodes
            for operand in nodes.changed_operands(node)
            for each in storages(operand.meta.get("val"))
        }
        self.counts: tuple[Count, ...] = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Static:
        return self  # it has no mutable state, and its maps refer to these nodes

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        results, counts = _Run(self).results(args, kwargs)
        self.counts = tuple(count for count, _ in counts)
        numbers = [number for _, number in counts]
        return (*results, *numbers) if type(results) in {tuple, list} else (results, *numbers)

    def compare(self, args: Any, kwargs: Any) -> None:
        """Compare the run at the bounds with the program, on data.

        Raises:
            UsageError: the two differ; the message says how.
        """
        want, raised = runner.outcome(self.module, args, kwargs)
        got, refused = runner.outcome(self, args, kwargs)
        if isinstance(refused, UsageError):
            raise refused
        if raised is not None and refused is not None:
            return
        if raised is not None or refused is not None:
            raise UsageError(f"at its bounds the program raises a different error: {refused or raised}")
        given = leaves(got)
        numbers = given[len(given) - len(self.counts) :]
        cut = given[: len(given) - len(self.counts)]
        for count, number in zip(self.counts, numbers, strict=True):
            for result, dim in count.places:
                cut[result] = cut[result].narrow(dim, 0, int(number))
        results = [int(b) if type(a) is int else b for a, b in zip(leaves(want), cut, strict=True)]
        reason = runner.unequal(leaves(want), results)
        if reason:
            raise UsageError(f"at its bounds the program gives different results: {reason}")


def _data_symbols(program: ReportedProgram) -> set[str]:
    every = (size for node in program.graph.nodes for size in symbols.sizes(node.meta.get("val")))
    read = translator_of(program).size
    return {name for size in every if isinstance(size, torch.SymInt) for name in read(size).symbols}


def _limits(program: ReportedProgram, rows: Rows) -> dict[Term, int]:
    """Return the bound of each size of a tensor."""
    bounds = {bound.name: bound.limits for bound in program.report.bounds}
    found: dict[Term, int] = {}
    for node in program.graph.nodes:
        for name, tensor in nodes.tensors_of(node):
            pairs = zip(rows.sizes(tensor), bounds.get(name, ()), strict=False)
            found |= {size: limit for size, limit in pairs if limit is not None}
    return found


class _Run(torch.fx.Interpreter):
    """Runs a program at its bounds; numbers from data are zero-dimensional tensors."""

    def __init__(self, static: _Static) -> None:
        super().__init__(static.module)
        self._rows, self._limits, self._apart, self._written = static.rows, static.limits, static.apart, static.written
        self._spec = static.spec
        self.extra_traceback = False
        self._counts: dict[Term, torch.Tensor] = {}
        self._symbols: dict[str, torch.Tensor] = {}
        self._computation = Computation(self._symbols, _on_tensors)
        self._items = set[str]()
        """The symbols that are elements of tensors, with arbitrary values so far; the other symbols are counts."""
        self._found: list[tuple[Count, torch.Tensor]] = []

    def results(self, args: Any, kwargs: Any) -> tuple[Any, list[tuple[Count, torch.Tensor]]]:
        """Return the program's results at its bounds, and the counts."""
        flat = leaves(guarding.arranged(args, kwargs, self._spec, UsageError))
        found = self.run(*flat, enable_io_processing=False)
        return self.module.graph.process_outputs(found), self._found  # type: ignore[operator, union-attr]

    # ------------------------------------------------------------------ nodes

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.op == "output":
            self._note_counts(n)
        if n.op != "call_function" or n.target is operator.getitem:
            return super().run_node(n)
        try:
            return self._called(n)
        except (Refused, Untranslatable) as refused:
            raise UsageError(f"{nodes.said(n)} cannot be run at its bounds: {refused}") from None

    def _called(self, node: torch.fx.Node) -> Any:
        value = node.meta.get("val")
        if node.target is symbols.ASSERTION:
            return self._asserted(node)
        if isinstance(value, _NUMBERS):
            return self._number(node)
        if known_of(node.target).states_range:
            return None
        given = [each for each in node.all_input_nodes if isinstance(self.env.get(each), torch.Tensor)]
        numbers = [each for each in given if isinstance(each.meta.get("val"), _NUMBERS)]
        varies = any(map(self._rows.varies, node.all_input_nodes)) or self._rows.varies(node)
        if not varies or (self._apart[node] and not numbers):
            return self._as_it_is(node)
        packet = str(node.target).split(".")[1]
        if self._apart[node] and kind_of(node.target) in SIZED:
            return self._sized(node, kind_of(node.target))
        if numbers and all(self._rows.first(each) for each in node.all_input_nodes) and self._is_pointwise(node):
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            found = getattr(torch.ops.aten, packet)(*args, **kwargs)
            if found.dtype != node.meta["val"].dtype:
                raise Refused("a number from data changes its dtype")
            return found
        return self._masked(node)

    def _as_it_is(self, node: torch.fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        found = node.target(*args, **kwargs)  # type: ignore[operator]
        self._hold(node, found)
        return found

    def _hold(self, node: torch.fx.Node, found: Any) -> None:
        """Check that a result has the bounds of its sizes; else this file has misread the node."""
        noted = node.meta.get("val")
        pairs = zip(listed(noted), listed(found), strict=True)
        for tensor, own in pairs:
            if isinstance(tensor, torch.Tensor) and tuple(own.shape) != self._limits_of(tensor):
                raise Refused(f"it has sizes {list(own.shape)}, where {list(self._limits_of(tensor))} is the bound")

    def _limit(self, size: Term) -> int:
        if size.is_constant:
            return size.constant_value
        if size not in self._limits:
            raise Refused(f"{size} has no bound")
        return self._limits[size]

    def _limits_of(self, tensor: torch.Tensor) -> tuple[int, ...]:
        return tuple(map(self._limit, self._rows.sizes(tensor)))

    # ------------------------------------------------------------------ numbers and counts

    def _count(self, size: Term) -> torch.Tensor:
        """Return the actual value of a size, for the given data."""
        if size not in self._counts:
            self._counts[size] = self._evaluated(size)
        return self._counts[size]

    def _rows_of(self, size: Term) -> torch.Tensor:
        """Like `_count`, for a size of a tensor; a size read from an element is asserted to be in range."""
        new = size not in self._counts or (name_of(size) and size.symbols <= self._items)
        count = self._count(size)
        if new and not size.symbols.isdisjoint(self._items):
            assert_all((count >= 0) & (count <= self._limit(size)), "a size from data is out of range")
            self._items -= size.symbols if name_of(size) else set()
        return count

    def _evaluated(self, size: Term) -> torch.Tensor:
        try:
            return self._computation.term(size)
        except NoGraphForm as unknown:
            raise Refused(f"{unknown} is not counted yet, or cannot be") from None

    def _define(self, size: Term, count: torch.Tensor) -> None:
        """Record the value of a size; if its value is known already, assert equality, as eager raises otherwise."""
        if size.is_constant or size in self._counts or not name_of(size):
            known = size.constant_value if size.is_constant else self._count(size)
            assert_all(count == known, "a size from data is not what was checked")
        else:
            self._counts[size] = count
            self._symbols |= dict.fromkeys(size.symbols, count)

    def _number(self, node: torch.fx.Node) -> Any:
        value = node.meta["val"]
        if known_of(node.target).is_number:
            if not isinstance(value, torch.SymInt) or not self._apart[node]:
                raise Refused("it takes a number that is no size")
            self._items |= self._rows.term(value).symbols
            self._define(self._rows.term(value), self.env[node.args[0]].to(torch.int64).reshape(()))  # type: ignore[index]
        if isinstance(value, torch.SymInt):
            return self._count(self._rows.term(value))
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        own = getattr(operator, getattr(node.target, "__name__", ""), None) is node.target
        if kwargs or not (own or node.target in _OF_TENSORS):
            raise Refused("it is no arithmetic of integers")
        return _on_tensors(node.target, *args)

    def _asserted(self, node: torch.fx.Node) -> None:
        given = node.args[0]
        condition = self.env[given] if isinstance(given, torch.fx.Node) else given
        if isinstance(condition, torch.Tensor):
            assert_all(condition, str(node.args[1]))

    # ------------------------------------------------------------------ forms

    def _sized(self, node: torch.fx.Node, kind: str) -> Any:
        """Run an operator that takes sizes, with the bounds of its result."""
        sizes = self._limits_of(node.meta["val"])
        named = {name: torch.fx.map_arg(each, self._told) for name, each in nodes.arguments(node).items()}
        if kind in {"regrouped", "expand"}:
            return named["self"].expand(sizes) if kind == "expand" else named["self"].reshape(sizes)
        if kind == "slice":
            start, step = named["start"] or 0, named["step"]
            (dim,) = (named["dim"] % len(sizes),)
            found = SLICE(named["self"], dim, start, start + step * sizes[dim], step)
        elif kind == "arange":
            start, step = named.get("start", 0), named.get("step", 1)
            found = (torch.arange(sizes[0], device=named["device"]) * step + start).to(node.meta["val"].dtype)
        elif kind in {"full", "constant"}:
            noted = node.meta["val"]
            fill = named["fill_value"] if kind == "full" else float("ones" in str(node.target))
            found = torch.full(sizes, fill, dtype=noted.dtype, device=noted.device)
        else:
            raise Refused("it takes sizes from data")
        self._hold(node, found)
        return found

    def _told(self, node: torch.fx.Node) -> Any:
        """Return an argument; None for a number that varies, which the call does not use."""
        found = self.env[node]
        return None if isinstance(node.meta.get("val"), _NUMBERS) else found

    def _is_pointwise(self, node: torch.fx.Node) -> bool:
        """True if the operator is pointwise when a zero-dimensional tensor replaces each number that varies."""
        call = self._rows.call(node)
        without = {
            name: Shape(()) if isinstance(each, Term) and not each.is_constant else each
            for name, each in call.arguments.items()
        }
        return pointwise(type(call)(call.name, without, call.results), self._rows.varying)

    def _masked(self, node: torch.fx.Node) -> Any:
        name, overload = str(node.target).removeprefix("aten.").split(".")
        packet, in_place, kind = name.removesuffix("_"), name.endswith("_"), kind_of(node.target)
        form = {**ROWS, **VALUES, **LOSSES}.get(kind)
        if form is None or not all(self._rows.first(each) for each in node.all_input_nodes):
            raise Refused("it mixes rows with what lies beyond them")
        if kind == "select" and not self._written.isdisjoint(storages(node.meta["val"])):
            raise Refused("it is written into")
        noted = listed(node.meta["val"])
        limits = [self._limits_of(each) if isinstance(each, torch.Tensor) else () for each in noted]
        named = nodes.arguments(node)
        arguments = {key: self._bounded(each) for key, each in named.items()}

        def define(dim: int, count: torch.Tensor) -> None:
            self._define(self._rows.sizes(noted[0])[dim], count)

        operator = getattr(getattr(torch.ops.aten, packet), overload)
        found = form(Given(operator, arguments, limits, define))
        made = [each.to(like.dtype) for each, like in zip(listed(found), noted, strict=True)]
        if in_place:
            return self.env[node.args[0]].copy_(made[0])  # type: ignore[index]
        result = tuple(made) if isinstance(node.meta["val"], tuple | list) else made[0]
        self._hold(node, result)
        return result

    def _bounded(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return [self._bounded(each) for each in value]
        if not isinstance(value, torch.fx.Node):
            return value
        found, noted = self.env[value], value.meta.get("val")
        if not isinstance(noted, torch.Tensor):
            return found
        sizes = enumerate(self._rows.sizes(noted))
        return Operand(found, {dim: self._rows_of(size) for dim, size in sizes if self._rows.varying.term(size)})

    # ------------------------------------------------------------------ results

    def _note_counts(self, node: torch.fx.Node) -> None:
        places: dict[Term, list[tuple[int, int]]] = {}
        for result, each in enumerate(leaves(node.args[0])):
            noted = each.meta.get("val") if isinstance(each, torch.fx.Node) else None
            if isinstance(noted, torch.Tensor):
                if not self._rows.first(each):
                    raise UsageError(f"{nodes.said(each)} is a result whose rows are not its first")
                for dim, size in enumerate(self._rows.sizes(noted)):
                    if self._rows.varying.term(size):
                        places.setdefault(size, []).append((result, dim))
        try:
            self._found = [(Count(self._limit(size), tuple(at)), self._rows_of(size)) for size, at in places.items()]
        except Refused as refused:
            raise UsageError(f"the results cannot be bounded: {refused}") from None


def _on_tensors(function: Any, *numbers: Any) -> Any:
    return _OF_TENSORS.get(function, function)(*map(torch.as_tensor, numbers))
