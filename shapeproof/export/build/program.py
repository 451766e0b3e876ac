"""The result of an export: a torch.export.ExportedProgram that carries its report.

It is the same program, so AOTInductor, torch.onnx, ExecuTorch and torch.export.save take it as it is; it adds
`report`, and sees that `run_decompositions` gives a program that does the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from shapeproof.export.build.decompose import TakenApart
    from shapeproof.export.report.report import Report


class VerifiedProgram(torch.export.ExportedProgram):
    """An exported program with the report of what was proved about it."""

    report: Report
    taken_apart: TakenApart

    @classmethod
    def of(cls, program: torch.export.ExportedProgram, taken_apart: TakenApart) -> VerifiedProgram:
        """The program, ready to carry a report. The state is shared, not copied."""
        verified = cls.__new__(cls)
        verified.__dict__.update(program.__dict__)
        verified.taken_apart = taken_apart
        return verified

    def run_decompositions(
        self,
        decomp_table: dict[Any, Callable[..., Any]] | None = None,
        decompose_custom_triton_ops: bool = False,  # noqa: FBT001, FBT002 - torch's signature
    ) -> torch.export.ExportedProgram:
        """As torch's: the program in core operators.

        Raises:
            UsageError: an operator comes apart for some of the declared sizes alone; the sentence names it.
        """
        decompose = functools.partial(super().run_decompositions, decomp_table, decompose_custom_triton_ops)
        return self.taken_apart.by(decompose)
