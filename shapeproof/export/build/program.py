"""The program of a verdict: a torch.export.ExportedProgram that carries its report.

AOTInductor, torch.onnx, ExecuTorch and torch.export.save accept it like any ExportedProgram. It adds `report`, tests
the result of `run_decompositions` against itself, and its modules refuse inputs outside the contract.

Before a save it writes out the clamping of slice bounds: `x[:12]` as `x[:min(12, n)]` if neither 12 nor n is known to
be smaller.

Slice operators clamp their bounds at run time, so results do not change. A compiler needs the size of the slice ahead
of time: it asks `12 <= n`, and torch's own ShapeEnv of a loaded program may answer by the hint alone. With the bound
written out, the compiler has no question.

A bound is rewritten only if its sign is proved, and only in slices of sizes that do not come from data.

The ShapeEnv of a trace answers without hints, so a program gets written bounds when it is saved
(`ReportedProgram.validate`).
"""

from __future__ import annotations

import copy
import functools
import io
import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.terms import Term
from shapeproof.contract.archives import NOTE
from shapeproof.export.build.accepted.shipped import of_memory
from shapeproof.export.build.assertions import word_as
from shapeproof.export.build.closing_audit import checks_of, lost
from shapeproof.export.graph import nodes
from shapeproof.export.report.saved import saved_report
from shapeproof.export.shim import guarding
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.process import transforms
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.trace.checks.failures import unheld
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator, Untranslatable
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied

if TYPE_CHECKING:
    from shapeproof.export.build.accepted.contract import Requirements
    from shapeproof.export.build.decompose import TakenApart
    from shapeproof.export.report.report import Report


class ReportedProgram(torch.export.ExportedProgram):
    """An exported program with the report of what was proved about it; to users, a VerifiedProgram."""

    report: Report
    taken_apart: TakenApart
    contract: Requirements

    @classmethod
    def of(cls, program: torch.export.ExportedProgram, taken_apart: TakenApart, contract: Requirements) -> Self:
        """Return the program as one of this class, still without report. The state is shared, not copied."""
        verified = cls.__new__(cls)
        verified.__dict__.update(program.__dict__)
        verified.taken_apart = taken_apart
        verified.contract = contract
        contract.note_in(verified)
        return verified

    def carry(self, report: Report) -> None:
        """Attach the report, also to the file when the program is saved."""
        self.report = report
        self.graph_module.meta.setdefault("custom", {})[NOTE] = saved_report(report)

    def rely_on(self, others: Iterable[Requirements]) -> None:
        """Add the memory requirements of other contracts: the program is composed of their programs."""
        self.contract = self.contract.with_memory_of(others)
        self.contract.note_in(self)
        shipped = self.report.contract
        if shipped is not None:
            self.carry(replace(self.report, contract=shipped.with_unchecked(*of_memory(self.contract.memory))))

    def module(self, check_guards: bool = True) -> torch.fx.GraphModule:  # noqa: FBT001, FBT002 - torch's signature
        """Like torch's: return a module of the program. It raises OutsideDomain outside the declared domain."""
        module = super().module(check_guards=False)
        transforms.end_with(module)
        return self.contract.on(self, module) if check_guards and guarding.takes_guards() else module

    def run_decompositions(
        self,
        decomp_table: dict[Any, Callable[..., Any]] | None = None,
        decompose_custom_triton_ops: bool = False,  # noqa: FBT001, FBT002 - torch's signature
    ) -> Self:
        """Like torch's: return the program in core operators.

        Raises:
            UsageError: a decomposition is valid for only some of the declared sizes; the message names the operator.
        """
        plain = torch.export.ExportedProgram.__new__(torch.export.ExportedProgram)
        plain.__dict__.update(self.__dict__)
        guarding.note_guards(plain, [])  # a tracer would call the guards with its proxies of the inputs
        decompose = functools.partial(plain.run_decompositions, decomp_table, decompose_custom_triton_ops)
        verified = self.of(self.taken_apart.by(decompose), self.taken_apart, self.contract)
        verified.carry(self.report)
        return self._audited(verified)

    def _audited(self, form: Self) -> Self:
        """Return another form of this program.

        Raises:
            UsageError: the form lacks a check of this program; the message names the check or the operator.
        """
        for node in unheld(self):
            raise UsageError(f"torch drops {nodes.said(node)} in other forms of the program, but it may fail")
        word_as(self, form)
        for message in lost(checks_of(self.graph_module), form):
            raise UsageError(f"torch drops a check of the program in this form of it: {message}")
        return form

    def validate(self) -> None:
        """Like torch's, called before a save: write out slice bounds, since torch's ShapeEnv would ask about them."""
        write_clamps(self, Facts(self.contract.formulas))
        super().validate()  # type: ignore[no-untyped-call]

    def __copy__(self) -> Self:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def __reduce__(self) -> tuple[Callable[..., torch.export.ExportedProgram], tuple[io.BytesIO]]:
        """Pickle in torch.export.save's format: the state of a trace cannot be pickled. The report is left out."""
        file = io.BytesIO()
        torch.export.save(self, file)
        file.seek(0)
        return torch.export.load, (file,)


_SLICES = (torch.ops.aten.slice.Tensor, torch.ops.aten.slice_copy.Tensor)
_ARGUMENTS = ("self", "dim", "start", "end", "step")
_NO_BOUND = (None, torch.iinfo(torch.int64).max)


def write_clamps(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Write out the bounds of slices in place, unless these are proved to be in order and within the sliced size."""
    translator = translator_of(program)
    for module in graph_modules(program.graph_module):
        written = [_Slice(node, translator, facts).write() for node in nodes.calls_of(module.graph, *_SLICES)]
        if any(written):
            module.graph.lint()
            module.recompile()


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
        return self._call(torch.ops.aten.sym_size.int, self._operand, self._dim)

    def _call(self, target: Any, *args: Any) -> torch.fx.Node:
        self._made.append(nodes.insert_call(self._node, target, args))
        return self._made[-1]

    def _read(self, bound: Any) -> Term:
        """Return the term of a size, or of the size that a node computes."""
        return self._size(nodes.metadata(bound))
