"""Words a finding that excludes an input given beside the example (AdditionalInputs): the diagnostic is about it.

Inference keeps all of these inputs in the domain. If the model needs a condition that one of them violates, that is an
error whatever other sizes are concerned; the smallest such input is run.

The help to split appears only if several programs are proved to serve the given inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.records.diagnostics import Diagnostic, Help, Note
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.findings import Exploration, Finding, Outcome
from shapeproof.export.report.explain import in_user_terms
from shapeproof.export.report.remedies import Cause
from shapeproof.export.report.report import Report
from shapeproof.wording import values_text


def of_given(eager: replay.Eager, found: Exploration, cause: Cause, diagnostic: Diagnostic) -> Diagnostic:
    """Return the diagnostic of a cause; if the cause excludes a given input, that input's diagnostic."""
    lost = _unserved(eager, found.forms, [cause.finding, *cause.others])
    if lost is None:
        return diagnostic
    named = in_user_terms(lost.point, eager.inputs.user_names) or {}
    sizes = values_text(named)
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


def _happened(lost: _Unserved) -> tuple[str, str]:
    if lost.seen.relation is replay.Relation.BOTH_RAISE:
        return "fails at", f"replayed; eager raises {lost.seen.text}"
    if not lost.seen.agrees:
        return "fails at", f"replayed; {lost.seen.sentence}"
    return "where", "the two agree there, but not where sizes are required to be the same"


@dataclass(frozen=True, slots=True)
class _Unserved:
    """The point of a given input, and what eager and the program do there."""

    point: dict[str, int]
    seen: replay.Replay


def _unserved(eager: replay.Eager, forms: Sequence[replay.Form], findings: Sequence[Finding]) -> _Unserved | None:
    """Return the smallest additional input in a part of the domain that findings call unserved."""
    sizes = [finding for finding in findings if finding.outcome is not Outcome.DATA]
    lost = [point for point in eager.inputs.anchors[1:] if not all(_served(finding, point) for finding in sizes)]
    point = min(lost, key=lambda each: (max(each.values()), sum(each.values())), default=None)
    return None if point is None else _Unserved(point, eager.compare(forms, point))


def _served(finding: Finding, point: dict[str, int]) -> bool:
    return holds_at(finding.requirement, point) and holds_at(finding.outside, point)


def offering_split(report: Report, several: Callable[[], Report]) -> Report:
    """Return the report, with the help to split if a split is proved to serve the given inputs."""
    lost = [diagnostic for diagnostic in report.diagnostics if diagnostic.id == "seen"]
    if not lost or (split := several()).status != "proved":
        return report
    programs = split.statistics["regions"]
    help_ = Help('branches="split"', f"proved: {programs} programs serve every input that was given")
    told = (replace(each, help=(help_,)) if each in lost else each for each in report.diagnostics)
    return replace(report, diagnostics=tuple(told))
