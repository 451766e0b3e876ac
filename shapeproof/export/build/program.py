"""The program of a verdict: a torch.export.ExportedProgram that carries its report.

AOTInductor, torch.onnx, ExecuTorch and torch.export.save accept it like any ExportedProgram. It adds `report`, tests
the result of `run_decompositions` against itself, and its modules refuse inputs outside the contract.
"""

from __future__ import annotations

import copy
import functools
import io
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch.export import default_decompositions

from shapeproof.constraints.errors import UsageError
from shapeproof.contract.archives import NOTE
from shapeproof.export.build.accepted.shipped import of_memory
from shapeproof.export.build.assertions import word_as
from shapeproof.export.build.clamps import write_clamps
from shapeproof.export.build.closing_audit import checks_of, lost
from shapeproof.export.build.hints import make_loadable
from shapeproof.export.graph import nodes
from shapeproof.export.report.saved import saved_report
from shapeproof.export.shim import guarding
from shapeproof.export.shim.process import transforms
from shapeproof.export.trace.checks.failures import unheld
from shapeproof.solver.facts import Facts

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
        """Like torch's: return the program in core operators. Recurrent ones stay, where a length is no constant.

        Raises:
            UsageError: a decomposition is valid for only some of the declared sizes; the message names the operator.
        """
        plain = torch.export.ExportedProgram.__new__(torch.export.ExportedProgram)
        plain.__dict__.update(self.__dict__)
        guarding.note_guards(plain, [])  # a tracer would call the guards with its proxies of the inputs
        whole = self.taken_apart.whole
        if decomp_table is None and whole:
            decomp_table = {func: rule for func, rule in default_decompositions().items() if func not in whole}
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
        """Like torch's, called before a save: prepare for what torch's ShapeEnv asks of a loaded program."""
        write_clamps(self, Facts(self.contract.formulas))
        make_loadable(self)
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
