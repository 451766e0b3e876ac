"""Verified export, top to bottom: declare, trace, explore, replay, explain, build.

declare   read what the user declared; find fault with what cannot be meant        inputs.py
explore   trace the model and settle the rest of the domain against that program    sizes.py, graphs.py
replay    run the program beside eager at the corners of the domain                 replay.py, corners.py
explain   word what was found                                                       explain.py
build     put the domain into the graph as assertions                               contract.py, program.py
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from shapeproof.constraints.diagnostics import Diagnostic, Note
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.export import tracing
from shapeproof.export.advice import distinct
from shapeproof.export.bounds import Bounding
from shapeproof.export.contract import assert_domain, word_checks
from shapeproof.export.corners import disagreements
from shapeproof.export.dispatch import Regions
from shapeproof.export.explain import also, contradiction, diagnose, domain_texts, narrowing_note
from shapeproof.export.findings import Exploration, Impossible, Outcome, narrowed, statistics
from shapeproof.export.inputs import Inputs, declare
from shapeproof.export.program import VerifiedProgram
from shapeproof.export.regions import Split, proved, split
from shapeproof.export.remedies import causes, declarations, helps, remedies
from shapeproof.export.report import ConstraintViolation, Report
from shapeproof.export.sizes import Explorer
from shapeproof.solver.budget import Budget, one_ledger
from shapeproof.solver.certificate import Subject
from shapeproof.solver.clash import clash
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide
from shapeproof.solver.repair import Repair
from shapeproof.solver.simplify import simplified


class UndecidedWarning(UserWarning):
    """The solver's budget ran out: the program carries run-time checks in place of a proof."""


def export(  # noqa: PLR0913 - torch.export.export's signature, then ours
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,  # noqa: ARG001 - every check is in the graph already
    constraints: Sequence[str] = (),
    narrow: bool = False,
    branches: str = "error",
    budget: Budget | None = None,
) -> VerifiedProgram:
    """Export a model and prove that the program works across the declared sizes, 0 and 1 included.

    Takes what torch.export.export takes, and `constraints`: relations over dim names that torch cannot say.

    Returns:
        A torch.export.ExportedProgram with `.report`. Undecided questions warn once and are checked at run time.

    Raises:
        ConstraintViolation: the model does not support the declared domain; `.report` says why.
        UsageError: an entry cannot be meant; the sentence names it.

    >>> import torch
    >>> batch = torch.export.Dim("batch", min=1, max=8)
    >>> program = export(torch.nn.Linear(4, 2), (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
    >>> program.report.status
    'proved'
    """
    report = check(
        mod,
        args,
        kwargs,
        dynamic_shapes=dynamic_shapes,
        strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
        constraints=constraints,
        narrow=narrow,
        branches=branches,
        budget=budget,
    )
    if report.program is None:
        raise ConstraintViolation(report)
    if report.status == "undecided":
        warnings.warn(str(report), UndecidedWarning, stacklevel=2)
    return report.program  # type: ignore[no-any-return]


def check(  # noqa: PLR0913 - as above
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,  # noqa: ARG001 - as above
    constraints: Sequence[str] = (),
    narrow: bool = False,
    branches: str = "error",
    budget: Budget | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """As export, but never raises for what it finds: `program` is None where the domain is refuted or empty."""
    if strict:
        message = "strict=True is not supported: only torch's non-strict exporter can be given a ShapeEnv"
        raise UsageError(message)
    if branches not in {"error", "split"}:
        message = f"branches must be 'error' or 'split', not {branches!r}"
        raise UsageError(message)
    budget = budget or Budget()
    inputs = declare(mod, args, kwargs, dynamic_shapes, constraints)
    if narrow:
        inputs = replace(inputs, inferred=frozenset(inputs.domain.symbols))
    trace = functools.partial(tracing.trace, mod, inputs, preserve_module_call_signature=preserve_module_call_signature)
    with one_ledger() as ledger:
        report = _verified(mod, inputs, trace, budget, progress, splitting=branches == "split")
    report = replace(report, spent=ledger.spent, answers=Subject(ledger.entries, inputs.user_names, budget))
    if report.program is not None:
        report.program.report = report
    return report


def _verified(  # noqa: PLR0913 - what is explored, and how
    mod: torch.nn.Module,
    inputs: Inputs,
    trace: Callable[..., torch.export.ExportedProgram],
    budget: Budget,
    progress: Callable[[str], None],
    *,
    splitting: bool,
) -> Report:
    """The main path: explore, replay, explain, build."""
    domain = Facts(inputs.domain.formulas, budget)
    if domain.contradictory:
        return _vacuous(inputs, clash(domain))
    inputs.check_example()
    explorer = Explorer(mod, inputs, trace, budget, progress, splitting=splitting)
    try:
        if splitting:
            return _split(mod, inputs, split(explorer, domain, budget), budget, progress)
        found = explorer.run(domain)
    except Impossible as impossible:
        return Report("refuted", (contradiction(impossible.trial, inputs),), inputs=inputs.shapes)
    progress("replaying at the corners")
    trial = found.main.trial
    told = distinct(found.findings, trial, budget)
    wrong = disagreements(mod, inputs, found, narrowed(domain, found.narrowings)) if not told else []
    repairs = None if wrong else remedies(found, inputs, budget)
    settled = causes(told, repairs or (), inputs, budget)
    help_ = helps([cause.finding for cause in settled], repairs or (), inputs)
    diagnostics = [
        also(diagnose(cause.finding, inputs, trial, budget, code), cause, inputs)
        for cause, code in zip(settled, help_, strict=True)
    ]
    return _conclude(inputs, found, [*diagnostics, *wrong], repairs, budget)


def _split(
    mod: torch.nn.Module, inputs: Inputs, done: Split, budget: Budget, progress: Callable[[str], None]
) -> Report:
    """The verdict on a model that is served by several programs."""
    progress("replaying at the corners of each region")
    declared = inputs.domain.formulas
    diagnostics = [diagnose(finding, inputs, done.trial, budget) for finding in done.findings]
    for region in done.regions:
        if not diagnostics:
            diagnostics += disagreements(mod, inputs, region.found, done.domain(region, declared, budget))
    reports = [_conclude(inputs, each.found, diagnostics, None, budget, within=(each.holds,)) for each in done.regions]
    for report in reports:
        if report.program is not None:
            report.program.report = report
    covered = proved(done, Facts(declared, budget), budget)
    regions = Regions(
        programs=tuple(report.program for report in reports),
        holds=tuple(region.holds for region in done.regions),
        sizes=tuple(leaf.terms for leaf in inputs.leaves),
        arguments=tuple(tracing.bind(mod, inputs.args, inputs.kwargs)),
        names=inputs.user_names,
    )
    counts = {key: sum(report.statistics[key] for report in reports) for key in reports[0].statistics}
    traces = max(report.statistics["traces"] for report in reports)
    return Report(
        status="refuted" if diagnostics else "proved" if covered else "undecided",
        diagnostics=tuple(diagnostics),
        decisions=tuple(decision for report in reports for decision in report.decisions),
        domain=domain_texts(_irredundant(declared), inputs),
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
        regions=() if diagnostics else regions.domains,
        statistics=counts | {"regions": len(reports), "traces": traces},
        inputs=inputs.shapes,
        program=None if diagnostics else regions,
    )


def _conclude(  # noqa: PLR0913 - all that was found
    inputs: Inputs,
    found: Exploration,
    diagnostics: list[Diagnostic],
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
    enforced = [*_irredundant([*declared, *inferred]), *served]
    notes = list(dict.fromkeys(narrowing_note(narrowing, inputs) for narrowing in found.narrowings))
    program = None
    if not refuted and found.main.program is not None:
        word_checks(found.main.program, found.main.trial, budget)
        unchecked = assert_domain(found.main.program, inputs, enforced)
        notes += [f"not checked at run time: {text}" for text in domain_texts(unchecked, inputs)]
        program = VerifiedProgram.of(found.main.program)
        if inputs.verify is not None:
            inputs.verify(program)
    bounding = Bounding(program, found, inputs, budget) if program is not None else None
    return Report(
        status="refuted" if refuted else "undecided" if undecided else "proved",
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


def _irredundant(formulas: Sequence[Formula]) -> list[Formula]:
    """The formulas without those that earlier ones imply (`2*k >= 0` where `k >= 1` is declared)."""
    kept: list[Formula] = []
    for formula in formulas:
        if decide(formula, Facts(kept)).status != "proved":
            kept.append(formula)
    return kept


def _vacuous(inputs: Inputs, core: Sequence[Formula]) -> Report:
    """The declarations contradict each other: name those that do."""
    written = {d.formula: d.origin.text for d in inputs.domain.declarations if not d.formula.symbols}
    texts = tuple(written.get(formula) or text for formula, text in zip(core, domain_texts(core, inputs), strict=True))
    origins = {d.formula: d.origin.text for d in inputs.domain.declarations}
    notes = tuple(
        Note("declared", f"{text}   {origins.get(formula, '')}") for formula, text in zip(core, texts, strict=True)
    )
    message = f"no input satisfies all declarations: {', '.join(texts)}"
    return Report("vacuous", (Diagnostic(id="vacuous", message=message, severity="error", notes=notes),), domain=texts)
