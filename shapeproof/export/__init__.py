"""Verified export. Public names are imported on first use, so that importing another room does not load torch.

call      the user's entry points                       api.py, checks.py, watch.py
path      the main path of a check, and its limits      verify.py, limits.py
seen      a verdict compared with a profile of inputs   against_seen.py, serving.py
rooms     from the bottom up     shim/, source/, declare/, ops/, graph/, trace/, explore/, report/, build/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shapeproof.export.shim.versions import check_version
from shapeproof.lazily import imported

if TYPE_CHECKING:
    from torch.export import Dim

    from shapeproof.contract.outside import OutsideDomain
    from shapeproof.export.api import UndecidedWarning, check, export
    from shapeproof.export.build.program import VerifiedProgram
    from shapeproof.export.build.regions.dispatch import Regions, load_regions
    from shapeproof.export.checks import constrain_range
    from shapeproof.export.declare.inputs import TensorSpec
    from shapeproof.export.declare.sources import Sources
    from shapeproof.export.report.report import ConstraintViolation, Report, load_report
    from shapeproof.export.watch import watching
    from shapeproof.solver.budget import Budget

_HOMES = {
    "Budget": "shapeproof.solver.budget",
    "ConstraintViolation": "shapeproof.export.report.report",
    "Dim": "torch.export",
    "OutsideDomain": "shapeproof.contract.outside",
    "Regions": "shapeproof.export.build.regions.dispatch",
    "Report": "shapeproof.export.report.report",
    "Sources": "shapeproof.export.declare.sources",
    "TensorSpec": "shapeproof.export.declare.inputs",
    "UndecidedWarning": "shapeproof.export.api",
    "VerifiedProgram": "shapeproof.export.build.program",
    "check": "shapeproof.export.api",
    "constrain_range": "shapeproof.export.checks",
    "export": "shapeproof.export.api",
    "load_regions": "shapeproof.export.build.regions.dispatch",
    "load_report": "shapeproof.export.report.report",
    "watching": "shapeproof.export.watch",
}

__all__ = [
    "Budget",
    "ConstraintViolation",
    "Dim",
    "OutsideDomain",
    "Regions",
    "Report",
    "Sources",
    "TensorSpec",
    "UndecidedWarning",
    "VerifiedProgram",
    "check",
    "constrain_range",
    "export",
    "load_regions",
    "load_report",
    "watching",
]

_imported = imported(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        check_version()
    return _imported(name)
