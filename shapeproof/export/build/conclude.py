"""From what was found to the verdict: the report, and the program with its domain in it as assertions.

Nothing is traced, run or worded here, and nothing is decided but what of the domain goes without saying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shapeproof.constraints import formulas as f
from shapeproof.constraints.diagnostics import Diagnostic
from shapeproof.constraints.domain import Origin
from shapeproof.constraints.formulas import Formula
from shapeproof.export.build.assertions import assert_domain, word_checks
from shapeproof.export.build.bounds import Bounding
from shapeproof.export.build.clamps import write_clamps
from shapeproof.export.build.closing_audit import Claims, unmatched
from shapeproof.export.build.contract import Contract
from shapeproof.export.build.decompose import TakenApart
from shapeproof.export.build.dispatch import Regions
from shapeproof.export.build.hints import exemplify
from shapeproof.export.build.program import VerifiedProgram
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.findings import Exploration, Outcome, statistics
from shapeproof.export.explore.regions import Split, proved
from shapeproof.export.report.explain import declared_at, domain_texts, narrowing_note, trust_note, unenforced
from shapeproof.export.report.region_map import RegionMap
from shapeproof.export.report.remedies import declarations
from shapeproof.export.report.report import Report
from shapeproof.export.trace import tracer
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide
from shapeproof.solver.repair import Repair
from shapeproof.solver.simplify import simplified


def conclude(  # noqa: PLR0913 - all that was found
    inputs: Inputs,
    found: Exploration,
    diagnostics: Sequence[Diagnostic],
    repairs: Sequence[Repair] | None,
    budget: Budget,
    *,
    within: Sequence[Formula] = (),
) -> Report:
    """The verdict, and the program if there is one to give; `within`: what else holds where it is to be used."""
    refuted = any(diagnostic.severity == "error" for diagnostic in diagnostics)
    undecided = [finding for finding in found.findings if finding.outcome is Outcome.UNDECIDED]
    declared = _irredundant(inputs.domain.formulas)
    inferred = [*(narrowing.requirement for narrowing in found.narrowings), *within]
    served = simplified([finding.served for finding in undecided], Facts([*declared, *inferred], budget), budget)
    # Where nothing is known of where a question about data is answered otherwise, there is nothing to enforce.
    enforced = [*_irredundant([*declared, *inferred]), *(formula for formula in served if formula is not f.FALSE)]
    notes = list(dict.fromkeys([*inputs.notes, *(narrowing_note(each, inputs) for each in found.narrowings)]))
    program = None
    if not refuted and found.main.program is not None:
        reads = set[str]().union(*(traced.trial.reads for traced in (found.main, *found.served)))
        contract = Contract.of(inputs, enforced, found.main.program, reads)
        contract.refuse_example(inputs)
        word_checks(found.main.program, found.main.trial, budget)
        notes += [trust_note(name, compared) for name, compared in found.trusted.items()]
        assert_domain(found.main.program, inputs, enforced)
        write_clamps(found.main.program, Facts(enforced, budget))
        diagnostics = [*diagnostics, *_unenforced(found, inputs, enforced, budget)]
        taken_apart = TakenApart(found.main.program, inputs)
        tracer.close(found.main.program, enforced, inputs.user_names, taken_apart.where)
        exemplify(found.main.program, inputs.hints)
        program = VerifiedProgram.of(found.main.program, taken_apart, contract)
    bounding = Bounding(program, found, inputs, budget) if program is not None else None
    return Report(
        status="refuted" if refuted else "undecided" if undecided or diagnostics else "proved",
        diagnostics=tuple(diagnostics),
        decisions=found.main.trial.decisions,
        domain=domain_texts(enforced, inputs),
        notes=tuple(notes),
        statistics=statistics(found),
        inputs=inputs.shapes,
        bounds=bounding.tensors() if bounding else (),
        peak_bytes_bound=bounding.peak_bytes() if bounding else None,
        program=program,
        remedy=None if repairs is None else declarations(repairs, inputs),
    )


def _unenforced(found: Exploration, inputs: Inputs, enforced: Sequence[Formula], budget: Budget) -> list[Diagnostic]:
    """A warning for each formula that the proof relies on and the finished program does not check."""
    trial, program = found.main.trial, found.main.program
    if program is None:
        return []
    claims = Claims(enforced, trial.checks, trial.promised)
    return [
        unenforced(formula, trial, inputs)
        for formula in unmatched(program, inputs, claims, tracer.translator_of(program), budget)
    ]


def together(inputs: Inputs, done: Split, diagnostics: Sequence[Diagnostic], budget: Budget) -> Report:
    """The verdict on a model that is served by several programs."""
    reports = [conclude(inputs, each.found, diagnostics, None, budget, within=(each.holds,)) for each in done.regions]
    counts = {key: sum(report.statistics[key] for report in reports) for key in reports[0].statistics}
    traces = max(report.statistics["traces"] for report in reports)
    domain = _irredundant([*inputs.domain.formulas, *done.inferred])
    refuted = Report(
        status="refuted",
        diagnostics=tuple(diagnostics),
        decisions=tuple(decision for report in reports for decision in report.decisions),
        domain=domain_texts(domain, inputs),
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
        regions=RegionMap(
            tuple(region.holds for region in done.regions),
            tuple(domain),
            tuple(f.negate(finding.requirement) for finding in done.findings),
            inputs.user_names,
        ),
        statistics=counts | {"regions": len(reports), "traces": traces},
        inputs=inputs.shapes,
    )
    if diagnostics:
        return refuted
    open_ = tuple(dict.fromkeys(diagnostic for report in reports for diagnostic in report.diagnostics))
    regions = Regions(
        programs=tuple(report.program for report in reports),
        holds=tuple(region.holds for region in done.regions),
        contract=Contract.of_sizes(inputs, domain),
    )
    for report in reports:
        report.program.report = report
    status = "undecided" if open_ or not proved(done, budget) else "proved"
    return replace(refuted, status=status, diagnostics=open_, program=regions)


def vacuous(inputs: Inputs, core: Sequence[Formula]) -> Report:
    """The declarations contradict each other: name those that do."""
    written = {d.formula: d.origin.text for d in inputs.domain.declarations if not d.formula.symbols}
    texts = tuple(written.get(formula) or text for formula, text in zip(core, domain_texts(core, inputs), strict=True))
    origins = {d.formula: d.origin for d in inputs.domain.declarations}
    notes = tuple(
        declared_at(origins.get(formula, Origin("")), text) for formula, text in zip(core, texts, strict=True)
    )
    message = f"no input satisfies all declarations: {', '.join(texts)}"
    return Report("vacuous", (Diagnostic(id="vacuous", message=message, severity="error", notes=notes),), domain=texts)


def _irredundant(formulas: Sequence[Formula]) -> list[Formula]:
    """The formulas without those that others imply (`2*k >= 0` beside `k >= 1`); the first of two that say the same.

    Those that may be undefined come last: what keeps them from that is checked before them.
    """
    kept: list[Formula] = []
    for formula in sorted(formulas, key=lambda formula: not formula.total):
        if not _implied(formula, kept):
            kept.append(formula)
    for formula in [formula for formula in kept if formula.total]:
        others = [other for other in kept if other is not formula]
        if _implied(formula, [other for other in others if other.total]):
            kept = others
    return kept


def _implied(formula: Formula, by: Sequence[Formula]) -> bool:
    return decide(formula, Facts(by)).status == "proved"
