"""Verified export, top to bottom: explore, replay, explain, build. The declarations were read before (inputs.py).

explore   trace the model and settle the rest of the domain against that program    explore/explorer.py, regions.py
replay    run the program beside eager at the corners of the domain                 explore/beside_eager/
explain   word the findings                                                         report/explain.py
build     write the domain into the graph as assertions; the verdict                build/conclude.py, assertions.py
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import InternalError, ShapeproofError, Unevaluable, UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.diagnostics import Diagnostic, Help
from shapeproof.export.build.conclude import conclude, together, vacuous
from shapeproof.export.build.regions import ReportedRegions
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay, runner
from shapeproof.export.explore.beside_eager.corners import Disagreement, disagreement, raises_whatever_the_data
from shapeproof.export.explore.beside_eager.extent import Extent
from shapeproof.export.explore.beside_eager.forms import memory_shared
from shapeproof.export.explore.beside_eager.kernels import operator_faults
from shapeproof.export.explore.beside_eager.rebound import given_twice, returning, seen_in_eager
from shapeproof.export.explore.demands.preconditions import take_preconditions
from shapeproof.export.explore.demands.shared_failures import shared_failures
from shapeproof.export.explore.explorer import Explorer, settled_by_checks
from shapeproof.export.explore.findings import Exploration, Impossible, Outcome, narrowed, served_part
from shapeproof.export.explore.regions import Split, split
from shapeproof.export.limits import TRIES
from shapeproof.export.report.explain import (
    contradiction,
    diagnose,
    diagnose_cause,
    disagreeing,
    failing_example,
    internal,
    unexplored,
    untraceable,
)
from shapeproof.export.report.rebound import lost, offering_return, rebinding_notes
from shapeproof.export.report.remedies import Cause, causes, distinct, helps, offering_split, remedied, remedy, weakest
from shapeproof.export.report.report import Report
from shapeproof.export.shim.process.idle_work import (
    as_torch_logs,
    compiled_code_forgotten,
    few_threads,
    only_new_garbage,
)
from shapeproof.export.shim.process.modes import generators_restored
from shapeproof.export.source.errors import is_mistake, mistaken
from shapeproof.export.trace import tracer
from shapeproof.export.trace.python.builtins import found_once
from shapeproof.export.trace.python.rewriting import unread_notes
from shapeproof.export.trace.python.whether_traced import asked_note, noting
from shapeproof.export.trace.traced import left_in
from shapeproof.solver.answers.witness import ascending
from shapeproof.solver.budget import Budget
from shapeproof.solver.clash import clash
from shapeproof.solver.facts import Facts
from shapeproof.solver.ledger import one_ledger
from shapeproof.solver.proofs.certificate import Subject


@dataclass(frozen=True, slots=True)
class _Task:
    """The model to verify, with its inputs."""

    mod: torch.nn.Module
    inputs: Inputs
    progress: Callable[[str], None]
    missed: list[str] = field(default_factory=list)
    """The inputs in which the model rebinds a value that it does not return."""
    eager: replay.Eager = field(init=False)
    """The model as eager runs it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "eager", replay.Eager(self.mod, self.inputs))


def verified(  # noqa: PLR0913 - what the user gave
    mod: torch.nn.Module,
    inputs: Inputs,
    *,
    preserve_module_call_signature: tuple[str, ...] = (),
    narrow: bool = False,
    splitting: bool = False,
    in_place: bool = True,
    budget: Budget | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Verify a model over the declared domain.

    `splitting`: return several programs if one does not serve the whole domain. Without `in_place`, every open decision
    gets a separate trace, which is slower and gives the same verdict: for tests.
    """
    inputs = replace(inputs, budget=budget or Budget())
    if narrow:
        inputs = replace(inputs, domain=inputs.domain.inferring())
    if not splitting:
        named = dict.fromkeys(name for name, _, _ in inputs.conditions)
        inputs = replace(inputs, notes=(*inputs.notes, *map(SPECIALIZED.format, named)))
    how = functools.partial(tracer.trace, in_place=in_place)
    trace = functools.partial(how, mod, inputs, preserve_module_call_signature=preserve_module_call_signature)
    task = _Task(mod, inputs, progress)
    seeds = generators_restored()  # a model may seed
    apart = (found_once(mod), memory_shared(), compiled_code_forgotten(), few_threads(), as_torch_logs(), seeds)
    try:
        with contextlib.ExitStack() as stack:
            for each in apart:
                stack.enter_context(each)
            report = _reported(task, trace, splitting=splitting)
            returned = functools.partial(verify_module, inputs=inputs, progress=progress)
            report = offering_return(report, task.missed, lambda told: returned(returning(mod, told)))
            return report if splitting else offering_split(report, lambda: _reported(task, trace, splitting=True))
    except Exception as error:  # noqa: BLE001 - told in a sentence, or raised again
        return _of_error(error, task)


def _of_error(error: Exception, task: _Task) -> Report:
    """Return the refutation of a model that eager rejects; raise any other error in one sentence.

    Raises:
        UsageError: torch cannot trace the model.
        InternalError: the mistake is ours.
    """
    if isinstance(error, ShapeproofError) and not isinstance(error, Unevaluable):
        raise error
    rejected = _rejected(task)
    if rejected is not None:
        found = failing_example(*rejected, task.inputs)
        return Report("refuted", (found,), inputs=task.inputs.shapes, raised=rejected[1])
    where = mistaken(error)
    if where is not None:
        raise InternalError(internal(error, where)) from error
    raise UsageError(untraceable(error, in_eager=not task.eager.missing)) from error


def _rejected(task: _Task) -> tuple[dict[str, int], Exception] | None:
    """Return where eager raises, and what: for the example, or without one at each of the smallest sizes; else None."""
    inputs = task.inputs
    smallest = ascending(inputs.facts(), sorted(inputs.domain.symbols))
    points = itertools.islice(smallest, TRIES) if inputs.example is None else [inputs.example]
    runs = [(point, task.eager.error(point)) for point in points]
    raising = [(point, error) for point, error in runs if error is not None]
    return raising[0] if raising and len(raising) == len(runs) else None


def _reported(task: _Task, trace: Callable[..., torch.export.ExportedProgram], *, splitting: bool) -> Report:
    """Return the report with the solver's questions and cost; the program carries the report."""
    make = functools.partial(Explorer, task.eager, trace, task.progress, splitting=splitting)
    explorer = make()
    with one_ledger() as ledger, only_new_garbage(), noting() as asked:
        report = _rolled(task, explorer, splitting=splitting)
        report = report or _verified(task, make(rolling=False), splitting=splitting)
    about = (f"model: {type(task.mod).__qualname__}",)
    answers = Subject(ledger.entries, task.inputs.user_names, task.inputs.budget, about)
    notes = (*report.notes, *task.eager.notes(), *unread_notes(), *itertools.starmap(asked_note, asked.items()))
    report = replace(report, notes=notes, spent=ledger.spent, answers=answers)
    if report.program is not None:
        report.program.carry(report)
    return report


def _rolled(task: _Task, explorer: Explorer, *, splitting: bool) -> Report | None:
    """Return the report; None if it rests on functions written over, and leaves open what the program does."""
    try:
        report = _verified(task, explorer, splitting=splitting)
    except Exception as error:
        if explorer.writes_over and not is_mistake(error):
            return None
        raise
    unlike = report.status == "undecided" or any(each.id in _UNLIKE for each in report.diagnostics)
    if explorer.writes_over and unlike:
        return None
    return replace(report, notes=(*report.notes, *(ROLLED.format(*place) for place in sorted(explorer.rolled))))


_UNLIKE = {"replay", "undecided"}
"""The diagnostics of a program that is not known to do what eager does, where no size tells why."""
ROLLED = "a loop over a size in {2} ({0}:{1}) is one operator, `scan`: its steps are one body, for any number of them"


def _verified(task: _Task, explorer: Explorer, *, splitting: bool) -> Report:
    """The main path: explore, then replay, explain and build, with one program or several."""
    domain = task.inputs.facts()
    if domain.contradictory:
        return vacuous(task.inputs, clash(domain))
    task.inputs.check_anchors()
    take = functools.partial(take_preconditions, task.eager)
    try:
        if splitting:
            cuts = _specialized(task.inputs) if any(task.inputs.conditions) else []
            return _by_several(task, explorer, split(explorer, domain, take, cuts))
        found = explorer.run(domain)
        take(found, domain)
        return _by_one(task, explorer, found, domain)
    except Impossible as impossible:
        return Report("refuted", (contradiction(impossible.trial, task.inputs),), inputs=task.inputs.shapes)


SPECIALIZED = 'specialize_on of `{}` has no effect on one program: branches="split" makes one for each condition'


def _specialized(inputs: Inputs) -> list[Formula]:
    """Return the conditions that marks name for programs of their own; what reads them is loaded only then."""
    from shapeproof.export.declare.specialized import specialized

    return specialized(inputs)


def _raise_as_eager(task: _Task, found: Exploration) -> None:
    """Raise what eager raises for the example, if model and program raise alike for all data where exploration started.

    A fake implementation may accept what its kernel refuses: a product of floats and doubles.
    """
    if task.inputs.example is None:
        return
    alike = task.eager.compare(found.forms, found.start).relation is runner.Relation.BOTH_RAISE
    if alike and raises_whatever_the_data(task.eager, found, found.start):
        error = task.eager.error(task.inputs.example)
        if error is not None:
            raise error


def _by_one(task: _Task, explorer: Explorer, found: Exploration, domain: Facts) -> Report:
    """Return the verdict on a model that one program serves."""
    inputs, trial = task.inputs, found.main.trial
    findings = distinct(found.findings, trial)
    if any(finding.outcome is Outcome.DATA for finding in findings):
        findings = settled_by_checks(findings, found, explorer)
    extent = Extent(task.eager, found, narrowed(domain, found.narrowings), explorer.leaving)
    missed = _rebound(task, found, [])
    task.progress("replaying at the corners")
    faults = operator_faults(task.eager, found, narrowed(domain, found.narrowings))
    repairs, failing = (None, []) if faults else remedied(task.eager, found, domain, findings)
    grouped = causes(findings, repairs or (), inputs, extent.named)
    bounds = (f.TRUE if each.bound is None else each.bound for each in failing)
    required = [*(cause.finding.requirement for cause in grouped), *bounds]
    help_ = helps(required, repairs or (), inputs)
    diagnostics = [
        diagnose_cause(task.eager, found, cause, trial, code) for cause, code in zip(grouped, help_, strict=False)
    ]
    diagnostics += [
        _disagreeing(each, found, inputs, code) for each, code in zip(failing, help_[len(grouped) :], strict=True)
    ]
    if diagnostics and not failing:
        diagnostics[0] = replace(diagnostics[0], weakest=weakest(found, inputs, repairs))
    errors = [*missed, *diagnostics, *faults]
    if not errors:
        _raise_as_eager(task, found)
    found.shared = () if errors else shared_failures(task.eager, found)
    proved = not (found.findings or findings or failing or faults)
    return conclude(inputs, found, errors, remedy(found, inputs, repairs, proved=proved))


def _disagreeing(wrong: Disagreement, found: Exploration, inputs: Inputs, help_: tuple[Help, ...] = ()) -> Diagnostic:
    """Return the diagnostic of a disagreement; a program that is not known to agree with eager is not given out."""
    if wrong.result.relation is runner.Relation.MAY_DIFFER:
        found.main.program = None
    return disagreeing(wrong, inputs, help_)


def _rebound(task: _Task, found: Exploration, beside: Sequence[Exploration]) -> list[Diagnostic]:
    """The values that the model rebinds in its inputs: diagnostics of those a caller would miss, notes on the rest."""
    left = left_in(found.main.exported).beside([left_in(other.main.exported) for other in beside])
    if not left.rebound and not left.unseen:
        return []
    twice = given_twice(task.eager)
    if twice is not None:
        one, other = twice
        message = f"`{one}` and `{other}` are one container in the example, and the model rebinds what its inputs hold"
        raise UsageError(f"{message}: pass two containers")
    seen = seen_in_eager(task.eager, found.start, left)
    found.notes += rebinding_notes(left, seen)
    task.missed[:] = dict.fromkeys([*task.missed, *(each.argument for each in left.rebound if each.is_lost)])
    return lost(left, seen, task.inputs, found.start)


def _by_several(task: _Task, explorer: Explorer, done: Split) -> Report:
    """Return the verdict on a model that several programs serve."""
    task.progress("replaying at the corners of each region")
    extent = Extent(task.eager, done.regions[-1].found, done.domain, explorer.leaving)
    errors = [
        diagnose_cause(task.eager, region.found, Cause(each), done.trial)
        for region in done.regions[-1:]
        for each in map(extent.named, done.findings)
    ]
    every = [region.found for region in done.regions]
    missed = [each for found in every for each in _rebound(task, found, every)]
    errors += {each.message: each for each in reversed(missed)}.values()
    for region in done.regions:
        here = done.within(region)
        errors += operator_faults(task.eager, region.found, here) if not errors else []
        region.found.shared = () if errors else shared_failures(task.eager, region.found)
        served = served_part(region.found, here)
        if not errors:
            _raise_as_eager(task, region.found)
        if not errors and served is not None:
            other = disagreement(task.eager, region.found, served)
            errors += [] if other is None else [_disagreeing(other, region.found, task.inputs)]
    warnings = [diagnose(finding, task.inputs, trial) for finding, trial in done.opened]
    if done.unexplored is not None:
        warnings.append(unexplored(*done.unexplored, task.inputs))
    report = together(task.inputs, done, [*errors, *warnings])
    if isinstance(report.program, ReportedRegions):
        report.program.explored = (task.mod, task.inputs, done)
    return report


def verify_module(mod: torch.nn.Module, inputs: Inputs, progress: Callable[[str], None] = lambda _: None) -> Report:
    """Verify a module that stands for a model, by one program; no further help is sought, and what fails raises."""
    return _reported(_Task(mod, inputs, progress), functools.partial(tracer.trace, mod, inputs), splitting=False)
