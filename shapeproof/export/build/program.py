"""The result of an export: a torch.export.ExportedProgram that carries its report.

It is the same program, so AOTInductor, torch.onnx, ExecuTorch and torch.export.save take it as it is; it adds
`report`, sees that `run_decompositions` gives a program that does the same, and that a module refuses what lies outside
of its contract.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from shapeproof.export.shim import guarding, transforms

if TYPE_CHECKING:
    from shapeproof.export.build.contract import Contract
    from shapeproof.export.build.decompose import TakenApart
    from shapeproof.export.report.report import Report


class VerifiedProgram(torch.export.ExportedProgram):
    """An exported program with the report of what was proved about it."""

    report: Report
    taken_apart: TakenApart
    contract: Contract

    @classmethod
    def of(cls, program: torch.export.ExportedProgram, taken_apart: TakenApart, contract: Contract) -> VerifiedProgram:
        """The program, ready to carry a report. The state is shared, not copied."""
        verified = cls.__new__(cls)
        verified.__dict__.update(program.__dict__)
        verified.taken_apart = taken_apart
        verified.contract = contract
        contract.note_in(verified)
        return verified

    def rely_on(self, others: Iterable[Contract]) -> None:
        """Have inputs lie in memory as these contracts want it, too: the program is made of theirs."""
        self.contract = self.contract.with_memory_of(others)
        self.contract.note_in(self)

    def module(self, check_guards: bool = True) -> torch.fx.GraphModule:  # noqa: FBT001, FBT002 - torch's signature
        """As torch's: a module of the program. It raises OutsideDomain for what lies outside of the declared domain."""
        module = super().module(check_guards=False)
        transforms.end_with(module)
        return self.contract.on(self, module) if check_guards and guarding.takes_guards() else module

    def run_decompositions(
        self,
        decomp_table: dict[Any, Callable[..., Any]] | None = None,
        decompose_custom_triton_ops: bool = False,  # noqa: FBT001, FBT002 - torch's signature
    ) -> VerifiedProgram:
        """As torch's: the program in core operators.

        Raises:
            UsageError: an operator comes apart for some of the declared sizes alone; the sentence names it.
        """
        plain = torch.export.ExportedProgram.__new__(torch.export.ExportedProgram)
        plain.__dict__.update(self.__dict__)
        guarding.note_guards(plain, [])  # they would be called with what a tracer makes of the inputs
        decompose = functools.partial(plain.run_decompositions, decomp_table, decompose_custom_triton_ops)
        verified = VerifiedProgram.of(self.taken_apart.by(decompose), self.taken_apart, self.contract)
        verified.report = self.report
        return verified
