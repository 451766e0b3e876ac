"""Words a finding that excludes a given input (AdditionalInputs): the diagnostic is about that input.

The help to split appears only if several programs are proved to serve the given inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from shapeproof.constraints.records.diagnostics import Diagnostic, Help, Note
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager.replay import Relation
from shapeproof.export.explore.findings import Exploration
from shapeproof.export.explore.unserved import Unserved, unserved
from shapeproof.export.report.explain import in_user_terms
from shapeproof.export.report.remedies import Cause
from shapeproof.export.report.report import Report


def of_given(
    mod: torch.nn.Module, inputs: Inputs, found: Exploration, cause: Cause, diagnostic: Diagnostic
) -> Diagnostic:
    """Return the diagnostic of a cause; if the cause excludes a given input, that input's diagnostic."""
    lost = unserved(mod, found.forms, inputs, [cause.finding, *cause.others])
    if lost is None:
        return diagnostic
    named = in_user_terms(lost.point, inputs.user_names) or {}
    sizes = ", ".join(f"{name} = {value}" for name, value in named.items())
    label, happened = _happened(lost)
    kept = (note for note in diagnostic.notes if note.label not in {"where", "fails at"})
    return replace(
        diagnostic,
        id="seen",
        message=f"an input that was given is not served: `{sizes}`",
        severity="error",
        notes=(*kept, Note(label, f"{sizes}   {happened}")),
        witness=named,
    )


def _happened(lost: Unserved) -> tuple[str, str]:
    if lost.seen.relation is Relation.BOTH_RAISE:
        return "fails at", f"replayed; eager raises {lost.seen.text}"
    if not lost.seen.agrees:
        return "fails at", f"replayed; {lost.seen.sentence}"
    return "where", "the two agree there, but not where sizes are required to be the same"


def offering_split(report: Report, several: Callable[[], Report]) -> Report:
    """Return the report, with the help to split if a split is proved to serve the given inputs."""
    lost = [diagnostic for diagnostic in report.diagnostics if diagnostic.id == "seen"]
    if not lost or (split := several()).status != "proved":
        return report
    programs = split.statistics["regions"]
    help_ = Help('branches="split"', f"proved: {programs} programs serve every input that was given")
    told = (replace(each, help=(help_,)) if each in lost else each for each in report.diagnostics)
    return replace(report, diagnostics=tuple(told))
