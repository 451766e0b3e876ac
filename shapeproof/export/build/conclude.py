"""Concludes an export: builds the report, and the program with its domain as assertions.

Tracing, running and wording happen elsewhere. The one decision made here is which declared formulas are redundant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula, independent
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.constraints.records.domain import Origin
from shapeproof.export.build.accepted.contract import Requirements
from shapeproof.export.build.accepted.shipped import of_regions, shipped
from shapeproof.export.build.assertions import assert_answers, assert_domain, part_equalities, word_checks
from shapeproof.export.build.bounds import Bounding
from shapeproof.export.build.closing_audit import unmatched
from shapeproof.export.build.decompose import TakenApart
from shapeproof.export.build.divisions import left_in_floats, write_divisions
from shapeproof.export.build.hints import exemplify
from shapeproof.export.build.program import ReportedProgram
from shapeproof.export.build.regions import ReportedRegions
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.redeclare import Deferred
from shapeproof.export.explore.findings import (
    Exploration,
    Finding,
    Outcome,
    questions,
    questions_of_several,
    refuted_sizes,
    statistics,
)
from shapeproof.export.explore.regions import Split, proved
from shapeproof.export.graph import nodes
from shapeproof.export.report.explain import (
    declared_at,
    domain_texts,
    narrowing_note,
    trust_note,
    uncovered,
    unenforced,
)
from shapeproof.export.report.oblivious import size_oblivious
from shapeproof.export.report.region_map import RegionMap
from shapeproof.export.report.report import Report
from shapeproof.export.report.sizes import Bounds, domain_of_sizes
from shapeproof.export.trace.traced import close_trace, note_known_sizes
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.blame import without_needless
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.answers.witness import smallest
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


def conclude(
    inputs: Inputs,
    found: Exploration,
    diagnostics: Sequence[Diagnostic],
    remedy: Deferred | None,
    *,
    within: Sequence[Formula] = (),
) -> Report:
    """Return the verdict, with a program if one is justified; `within`: the formula of the program's region."""
    refuted = any(diagnostic.severity == "error" for diagnostic in diagnostics)
    undecided = [finding for finding in found.findings if finding.outcome is Outcome.UNDECIDED]
    declared = _irredundant(inputs.domain.formulas)
    inferred = [*(narrowing.requirement for narrowing in found.narrowings), *within]
    enforced = _enforced(declared, inferred, undecided, inputs)
    notes = _notes(inputs, found, refuted=refuted)
    program, traced, outward = None, found.main.program, None
    if traced is not None:
        contract = _requirements(inputs, enforced, traced, found)
    if not refuted and traced is not None and f.FALSE not in enforced:
        notes += [trust_note(name, compared, name in found.checked) for name, compared in found.trusted.items()]
        lacking = _enforce(traced, found.main.trial, inputs, Facts(enforced, inputs.budget))
        unasserted = assert_answers(traced, [answer for finding in undecided for answer in finding.cell.answers])
        diagnostics = [*diagnostics, *(unenforced(formula, found.main.trial, inputs) for formula in lacking)]
        # Law: in the declared domain, a returned program does what eager does, or refuses the input.
        if not unasserted and set(lacking) <= set(declared):
            program = _built(traced, inputs, contract)
            notes += dict.fromkeys(FLOATS.format(nodes.said(node)) for node in left_in_floats(traced))
            notes += map(KEPT.format, sorted(found.main.trial.kept))
            outward = shipped(inputs, contract, traced, found.main.trial.learned.checks)
    if not refuted and program is None:
        notes.append(NO_PROGRAM)
    bounding = Bounding(program, found, inputs) if program is not None else None
    status = "refuted" if refuted else "undecided" if undecided or diagnostics else "proved"
    return replace(
        _explored(found, inputs, status),
        diagnostics=_worst_first(diagnostics),
        domain=domain_of_sizes(enforced, inputs) if program is not None else (),
        notes=tuple(notes),
        regions=RegionMap((), tuple(enforced), refuted_sizes(found.findings), inputs.user_names),
        bounds=bounding.tensors() if bounding else Bounds(),
        peak_bytes_bound=bounding.peak_bytes() if bounding else None,
        program=program,
        contract=outward,
        remedy=remedy,
    )


def _explored(found: Exploration, inputs: Inputs, status: str) -> Report:
    """Return what an exploration says, whatever program is built of it."""
    return Report(
        status,
        decisions=found.main.trial.decisions,
        questions=questions(found, inputs.user_names),
        statistics=statistics(found),
        inputs=inputs.shapes,
        shared_failures=found.shared,
        oblivious=size_oblivious(found, status, inputs.user_names),
        trusted={name: compared for name, compared in found.trusted.items() if name not in found.checked},
    )


def _worst_first(diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return what refutes before what leaves something undecided."""
    return tuple(sorted(diagnostics, key=lambda each: each.severity != "error"))


def _enforced(
    declared: list[Formula], inferred: Sequence[Formula], undecided: Sequence[Finding], inputs: Inputs
) -> list[Formula]:
    """Return the formulas of the domain that a program would serve."""
    proved_where = _proved_where(undecided, Facts([*declared, *inferred], inputs.budget))
    return [*(_irredundant([*declared, *inferred]) if inferred else declared), *proved_where]


def _notes(inputs: Inputs, found: Exploration, *, refuted: bool) -> list[str]:
    inferring = [] if refuted else [narrowing_note(each, inputs) for each in found.narrowings]
    notes = list(dict.fromkeys([*inputs.notes, *inferring, *found.notes, *map(str, found.shared)]))
    return [*notes, SETTLED_FOR] if found.settled_for and inferring else notes


def _requirements(
    inputs: Inputs, enforced: Sequence[Formula], traced: torch.export.ExportedProgram, found: Exploration
) -> Requirements:
    """Return the contract of the main program.

    Raises:
        UsageError: it refuses the example, which every remedy keeps; also if the model is refuted.
    """
    reads = set[str]().union(*(each.trial.layouts.reads for each in (found.main, *found.served)))
    contract = Requirements.of(inputs, enforced, traced, reads)
    contract.refuse_example(inputs)
    return contract


SETTLED_FOR = (
    "what is inferred is simple, and proved to suffice; a wider domain was not searched: "
    "a named Dim claims the sizes that must be served"
)

KEPT = (
    "`torch.{}` is kept as it is, since its rounding may show: torch refuses to take the program apart "
    "(`run_decompositions`, AOTInductor, torch.onnx), since that operator takes no symbolic size"
)
FLOATS = "{} is computed in floats: torch.onnx writes floats of 32 bits, and writes `//` as `/`"

NO_PROGRAM = "no program is given out: what is undecided cannot be refused at run time"


def _proved_where(undecided: Sequence[Finding], domain: Facts) -> list[Formula]:
    """Return formulas that exclude the sizes of undecided findings without run-time answers; FALSE if sizes cannot."""
    cells = [each.cell for each in undecided if not each.cell.answers]
    told = [f.FALSE if cell.outside is f.TRUE else cell.outside for cell in cells]
    return simplified(told, domain)


def _enforce(traced: torch.export.ExportedProgram, trial: Trial, inputs: Inputs, domain: Facts) -> list[Formula]:
    """Write the domain into the graph; return the formulas that the proof relies on and the program does not check."""
    word_checks(traced, trial)
    part_equalities(traced)
    assert_domain(traced, inputs, domain.formulas)
    return unmatched(traced, inputs, domain.formulas, trial.learned.checks, trial.learned.promised)


def _built(traced: torch.export.ExportedProgram, inputs: Inputs, contract: Requirements) -> ReportedProgram:
    """Build the returned program from a traced program with its domain in the graph."""
    taken_apart = TakenApart(traced, inputs)
    facts = close_trace(traced, contract.formulas, inputs.user_names, taken_apart.where)
    exemplify(traced, inputs.hints)
    _note_example(traced, inputs, contract.formulas)
    note_known_sizes(traced)
    write_divisions(traced, facts)
    return ReportedProgram.of(traced, taken_apart, contract)


def _note_example(traced: torch.export.ExportedProgram, inputs: Inputs, formulas: Sequence[Formula]) -> None:
    """Have the program note the user's example, else inputs with data at its smallest sizes; a trace is given none."""
    domain = Facts(formulas, inputs.budget)
    if inputs.example is not None and domain.contains(inputs.example):
        traced.example_inputs = inputs.args, inputs.kwargs
        return
    point = smallest(f.TRUE, domain, sorted(inputs.domain.symbols))
    if isinstance(point, dict):
        traced.example_inputs = inputs.at(point, filled=True)


def together(inputs: Inputs, done: Split, diagnostics: Sequence[Diagnostic]) -> Report:
    """Return the verdict on a model that is served by several programs."""
    reports = [conclude(inputs, each.found, diagnostics, None, within=(each.holds,)) for each in done.regions]
    counts = {key: sum(report.statistics[key] for report in reports) for key in reports[0].statistics}
    trusted = Counter[str]()  # keeps zeros: an operator without comparisons is trusted all the same
    for report in reports:
        trusted.update(report.trusted)
    traces = max(report.statistics["traces"] for report in reports)
    domain = _irredundant([*inputs.domain.formulas, *done.inferred])
    refuted = any(diagnostic.severity == "error" for diagnostic in diagnostics)
    told = list(diagnostics)
    told += [each for report in reports for each in report.diagnostics if each not in diagnostics]
    if not told and not proved(done):
        told.append(uncovered())
    found = Report(
        status="refuted" if refuted else "undecided" if told else "proved",
        diagnostics=_worst_first(told),
        decisions=tuple(decision for report in reports for decision in report.decisions),
        questions=questions_of_several(
            [questions(each.found, inputs.user_names, done.findings) for each in done.regions]
        ),
        domain=() if refuted else domain_of_sizes(domain, inputs),
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
        shared_failures=tuple(dict.fromkeys(each for report in reports for each in report.shared_failures)),
        regions=RegionMap(
            tuple(each.holds for each in done.regions), tuple(domain), refuted_sizes(done.findings), inputs.user_names
        ),
        statistics=counts | {"regions": len(reports), "traces": traces},
        trusted=dict(trusted),
        inputs=inputs.shapes,
    )
    programs = [each.program for each in reports if isinstance(each.program, ReportedProgram)]
    if len(programs) < len(reports):
        return found
    for program, report in zip(programs, reports, strict=True):
        program.carry(report)
    regions = ReportedRegions(
        programs=tuple(programs),
        holds=tuple(region.holds for region in done.regions),
        contract=Requirements.of_sizes(inputs, domain),
    )
    contracts = [each.contract for each in reports if each.contract is not None]
    return replace(found, program=regions, contract=of_regions(inputs, domain, contracts))


def vacuous(inputs: Inputs, core: Sequence[Formula]) -> Report:
    """Return the verdict on contradictory declarations: it names an unsat core of them."""
    written = {d.formula: d.origin.text for d in inputs.domain.declarations if not d.formula.symbols}
    texts = tuple(written.get(formula) or text for formula, text in zip(core, domain_texts(core, inputs), strict=True))
    origins = {d.formula: d.origin for d in inputs.domain.declarations}
    notes = tuple(
        declared_at(origins.get(formula, Origin("")), text) for formula, text in zip(core, texts, strict=True)
    )
    message = f"no input satisfies all declarations: {', '.join(texts)}"
    return Report("vacuous", (Diagnostic(id="vacuous", message=message, severity="error", notes=notes),), domain=texts)


def _irredundant(formulas: Sequence[Formula]) -> list[Formula]:
    """Drop formulas that others imply (`2*k >= 0` beside `k >= 1`), and the later of two equivalent ones.

    Formulas that may be undefined come last, behind the formulas that keep them defined.
    """
    ordered = sorted(dict.fromkeys(formulas), key=lambda formula: not formula.total)
    kept = {each for group in independent(ordered) for each in without_needless(group[::-1], _imply)}
    return [formula for formula in ordered if formula in kept]


def _imply(others: Sequence[Formula], formula: Formula) -> bool:
    return implied(formula, Facts(other for other in others if other.total))
