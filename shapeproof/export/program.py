"""The result of an export: a torch.export.ExportedProgram that carries its report.

It is the same program, so AOTInductor, torch.onnx, ExecuTorch and torch.export.save take it as it is; it adds
`report` and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from shapeproof.export.report import Report


class VerifiedProgram(torch.export.ExportedProgram):
    """An exported program with the report of what was proved about it."""

    report: Report

    @classmethod
    def of(cls, program: torch.export.ExportedProgram) -> VerifiedProgram:
        """The program, ready to carry a report. The state is shared, not copied."""
        verified = cls.__new__(cls)
        verified.__dict__.update(program.__dict__)
        return verified
