"""Writes out the clamping of slice bounds: `x[:12]` as `x[:min(12, n)]` if neither 12 nor n is known to be smaller.

Slice operators clamp their bounds at run time, so results do not change. A compiler needs the size of the slice ahead
of time: it asks `12 <= n`, and torch's own ShapeEnv of a loaded program may answer by the hint alone. With the bound
written out, the compiler has no question.

A bound is rewritten only if its sign is proved, and only in slices of sizes that do not come from data.

The ShapeEnv of a trace answers without hints, so a program gets written bounds when it is saved
(`ReportedProgram.validate`).
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.terms import Term
from shapeproof.export.graph import nodes
from shapeproof.export.ops.table import SIZE, kind_of, known_of
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator, Untranslatable
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied

_ARGUMENTS = ("self", "dim", "start", "end", "step")
_NO_BOUND = (None, torch.iinfo(torch.int64).max)


def write_clamps(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Write out the bounds of slices in place, unless these are proved to be in order and within the sliced size."""
    translator = translator_of(program)
    for module in graph_modules(program.graph_module):
        slices = [node for node in module.graph.nodes if _is_slice(node.target)]
        written = [_Slice(node, translator, facts).write() for node in slices]
        if any(written):
            module.graph.lint()
            module.recompile()


def _is_slice(target: Any) -> bool:
    """True for the operators of slices: views, and copies."""
    return kind_of(known_of(target).copies_view or target) == "slice"


class _Slice:
    def __init__(self, node: torch.fx.Node, translator: Translator, facts: Facts) -> None:
        self._node, self._size, self._facts = node, translator.size, facts
        self._made: list[torch.fx.Node] = []
        named = nodes.arguments(node)
        self._operand, self._dim, self._start, self._end, self._step = map(named.get, _ARGUMENTS)

    def write(self) -> bool:
        """Write out the bounds that need it; return true if any did."""
        start, end = self._start, self._end
        size = nodes.metadata(self._operand).shape[self._dim]
        if any(symbols.about_data(nodes.metadata(each)) for each in (size, start, end)) or isinstance(size, int):
            return False
        try:
            length = self._read(size)
            start = start if start in _NO_BOUND else self._clamped(start, length)
            end = end if end in _NO_BOUND else self._ordered(start or 0, self._clamped(end, length))
        except Untranslatable:
            for node in reversed(self._made):
                node.graph.erase_node(node)
            return False
        if (start, end) == (self._start, self._end):
            return False
        self._node.args, self._node.kwargs = (self._operand, self._dim, start, end, self._step), {}
        return True

    def _clamped(self, bound: Any, length: Term) -> Any:
        """Return the bound, counted from the start and clamped to the size; unchanged if its sign is unknown."""
        at = self._read(bound)
        if implied(f.ge(at, 0), self._facts) and not implied(f.le(at, length), self._facts):
            return self._call(torch.sym_min, bound, self._length)
        if implied(f.lt(at, 0), self._facts) and not implied(f.ge(at + length, 0), self._facts):
            return self._call(torch.sym_max, self._call(operator.add, self._length, bound), 0)
        return bound

    def _ordered(self, start: Any, end: Any) -> Any:
        """Return the larger of start and end; the end unchanged if either may be negative."""
        first, last = self._read(start), self._read(end)
        counted = implied(f.ge(first, 0), self._facts) and implied(f.ge(last, 0), self._facts)
        return self._call(torch.sym_max, start, end) if counted and not implied(f.le(first, last), self._facts) else end

    @functools.cached_property
    def _length(self) -> torch.fx.Node:
        return self._call(SIZE, self._operand, self._dim)

    def _call(self, target: Any, *args: Any) -> torch.fx.Node:
        self._made.append(nodes.insert_call(self._node, target, args))
        return self._made[-1]

    def _read(self, bound: Any) -> Term:
        """Return the term of a size, or of the size that a node computes."""
        return self._size(nodes.metadata(bound))
