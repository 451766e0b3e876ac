"""Verified export. Public names are imported on first use, so that importing another room does not load torch.

call    the user's entry points                   api.py, checks.py, needless.py
forms/  other forms of a program, of declarations, made on demand by the main path
path    the main path of a check, and its limits  verify.py, limits.py
rooms   from the bottom up: shim/, source/, declare/, ops/, graph/, trace/, explore/, report/, build/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shapeproof.export.shim.versions import check_version
from shapeproof.lazily import imported

if TYPE_CHECKING:
    from torch.export import Dim as Dim

    from shapeproof.contract.outside import OutsideDomain as OutsideDomain
    from shapeproof.export.api import check as check
    from shapeproof.export.api import export as export
    from shapeproof.export.checks import constrain_range as constrain_range
    from shapeproof.export.declare.reading import TensorSpec as TensorSpec
    from shapeproof.export.declare.sources import Sources as Sources
    from shapeproof.export.forms.comparison import Comparison as Comparison
    from shapeproof.export.forms.comparison import compare as compare
    from shapeproof.export.forms.programs import Regions as Regions
    from shapeproof.export.forms.programs import UndecidedWarning as UndecidedWarning
    from shapeproof.export.forms.programs import VerifiedProgram as VerifiedProgram
    from shapeproof.export.forms.programs import load_regions as load_regions
    from shapeproof.export.forms.seen.watch import watching as watching
    from shapeproof.export.needless import needless_constraints as needless_constraints
    from shapeproof.export.report.report import ConstraintViolation as ConstraintViolation
    from shapeproof.export.report.report import Report as Report
    from shapeproof.export.report.report import load_report as load_report
    from shapeproof.solver.budget import Budget as Budget

__all__, _imported = imported(
    __name__,
    {
        "shapeproof.contract.outside": "OutsideDomain",
        "shapeproof.solver.budget": "Budget",
        "torch.export": "Dim",
        ".api": "check export",
        ".checks": "constrain_range",
        ".declare.reading": "TensorSpec",
        ".declare.sources": "Sources",
        ".forms.comparison": "Comparison compare",
        ".forms.programs": "Regions UndecidedWarning VerifiedProgram load_regions",
        ".forms.seen.watch": "watching",
        ".needless": "needless_constraints",
        ".report.report": "ConstraintViolation Report load_report",
    },
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        check_version()
    return _imported(name)
