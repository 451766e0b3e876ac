"""Writes into a program how its slices are clamped: `x[:12]` as `x[:min(12, n)]` where neither is known to be smaller.

Every operator clamps its bounds when it runs, so nothing changes there. A compiler wants to know beforehand what a
slice gives, asks whether `12 <= n`, and may be answered by the example alone: a program that was saved and loaded has
torch's own ShapeEnv. Where the bound is written out, there is nothing left to ask.

A bound is rewritten only where its sign is proved, and only in slices of sizes that do not come from data.

A program in core operators is for runtimes that may know neither `sym_min` nor `sym_max` (ExecuTorch's verifier admits
no function of torch as an operator), and its operators are run again by the ShapeEnv of its trace, which asks no
example: there the bounds are taken off again, and written when the program is saved.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term
from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.trace import tracer
from shapeproof.export.trace.translate import Translator, Untranslatable
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide

_SLICES = (torch.ops.aten.slice.Tensor, torch.ops.aten.slice_copy.Tensor)
_ARGUMENTS = ("self", "dim", "start", "end", "step")
_NO_BOUND = (None, torch.iinfo(torch.int64).max)


def write_clamps(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Write out the bounds of slices that are not proved to lie within the size that is sliced, and in order.

    Args:
        program: changed in place.
        facts: what holds of every input that it takes.
    """
    for graph in _changed(program, facts, _Slice.write):
        graph.lint()


def remove_clamps(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Leave to slices to clamp their bounds, which they do in any case.

    Args:
        program: changed in place.
        facts: what holds of every input that it takes.
    """
    for graph in _changed(program, facts, _Slice.leave):
        graph.eliminate_dead_code()


def _changed(
    program: torch.export.ExportedProgram, facts: Facts, change: Callable[[_Slice], bool]
) -> Iterator[torch.fx.Graph]:
    """The graphs of a program, and of the bodies in it, in which a slice is changed; each is compiled again after."""
    translator = tracer.translator_of(program)
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            changed = [change(_Slice(node, translator, facts)) for node in _slices(module.graph)]
            if any(changed):
                yield module.graph
                module.recompile()


def _slices(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [node for target in _SLICES for node in graph.find_nodes(op="call_function", target=target)]


class _Slice:
    """One slice of a program."""

    def __init__(self, node: torch.fx.Node, translator: Translator, facts: Facts) -> None:
        self._node, self._translator, self._facts = node, translator, facts
        self._made: list[torch.fx.Node] = []
        named = schemas.by_name(node.target, node.args, node.kwargs)
        self._operand, self._dim, self._start, self._end, self._step = map(named.get, _ARGUMENTS)

    def write(self) -> bool:
        """Write out the bounds that need it; whether one did."""
        start, end = self._start, self._end
        size = _value(self._operand).shape[self._dim]
        if any(symbols.about_data(_value(each)) for each in (size, start, end)) or isinstance(size, int):
            return False
        try:
            length = self._read(size)
            start = start if start in _NO_BOUND else self._clamped(start, length)
            end = end if end in _NO_BOUND else self._ordered(start or 0, self._clamped(end, length))
            if (start, end) != (self._start, self._end):
                self._node.args, self._node.kwargs = (self._operand, self._dim, start, end, self._step), {}
                return True
        except Untranslatable:
            for node in reversed(self._made):
                node.graph.erase_node(node)
        return False

    def _clamped(self, bound: Any, length: Term) -> Any:
        """The bound as it is counted from the beginning, and within the size; as it is where its sign is not known."""
        at = self._read(_value(bound))
        if self._proved(f.ge(at, 0)) and not self._proved(f.le(at, length)):
            return self._call(torch.sym_min, bound, self._length)
        if self._proved(f.lt(at, 0)) and not self._proved(f.ge(at + length, 0)):
            return self._call(torch.sym_max, self._call(operator.add, self._length, bound), 0)
        return bound

    def _ordered(self, start: Any, end: Any) -> Any:
        """The end, or the start where that comes later; as it is where one is not counted from the beginning."""
        first, last = self._read(_value(start)), self._read(_value(end))
        counted = self._proved(f.ge(first, 0)) and self._proved(f.ge(last, 0))
        return self._call(torch.sym_max, start, end) if counted and not self._proved(f.le(first, last)) else end

    def leave(self) -> bool:
        """Take off the bounds what the slice does by itself; whether there was anything."""
        with contextlib.suppress(Untranslatable, AttributeError):
            length = self._read(_value(self._operand).shape[self._dim])
            start = self._left(self._start, length, None)
            end = self._left(self._end, length, self._start or 0)
            if (start, end) != (self._start, self._end):
                self._node.args, self._node.kwargs = (self._operand, self._dim, start, end, self._step), {}
                return True
        return False

    def _left(self, bound: Any, length: Term, start: Any) -> Any:
        """The bound that is clamped to this one, if it is; the slice takes it for the same."""
        if not isinstance(bound, torch.fx.Node) or bound.target not in {torch.sym_min, torch.sym_max}:
            return bound
        for index, other in enumerate(bound.args):
            rest = bound.args[1 - index]
            if bound.target is torch.sym_min and self._read(_value(other)) is length:
                return rest
            if bound.target is torch.sym_max and start is not None and other is start and self._is_counted(rest, other):
                return self._left(rest, length, None)
            if bound.target is torch.sym_max and other == 0 and isinstance(rest, torch.fx.Node):
                negative = [each for each in rest.args if isinstance(each, int) and each < 0]
                if rest.target is operator.add and negative and self._read(_value(rest)) is length + negative[0]:
                    return negative[0]
        return bound

    def _is_counted(self, *bounds: Any) -> bool:
        """Whether bounds are counted from the beginning."""
        return all(self._proved(f.ge(self._read(_value(bound)), 0)) for bound in bounds)

    @functools.cached_property
    def _length(self) -> torch.fx.Node:
        return self._call(torch.ops.aten.sym_size.int, self._operand, self._dim)

    def _call(self, target: Any, *args: Any) -> torch.fx.Node:
        self._made.append(nodes.insert_call(self._node, target, args))
        return self._made[-1]

    def _read(self, value: Any) -> Term:
        return self._translator.term(symbols.size_expression(value))

    def _proved(self, formula: Formula) -> bool:
        return decide(formula, self._facts).status == "proved"


def _value(arg: Any) -> Any:
    return arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg
