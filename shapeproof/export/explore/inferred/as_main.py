"""Use a trace as one of a part of its domain, where a trace of that part would only repeat it.

The decisions of a trace determine its path. If a generic point of the part takes all of them, a trace at that point
would record the same operators. Such a trace would know the part's facts from its start. So none of the decisions that
these leave open may be an equality or be about data, and no number that the graph computes may have a single value.

The scout's trace may so become the main program's, and the example's trace that of a cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.terms import Term
from shapeproof.export.explore.findings import Traced
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Untranslatable
from shapeproof.export.trace.trial import Step, Trial
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


def as_trace_of(here: Facts, traced: Traced, point: Mapping[str, int]) -> Traced | None:
    """Return a trace as one at a generic point of a part of its domain; None if that must be traced separately.

    The trace is changed: afterwards it is a trace of that part alone.
    """
    trial = traced.trial
    if traced.doubtful or trial.guessed or not set(trial.known.formulas) <= set(here.formulas):
        return None
    if not here.contains(trial.point) or not _is_generic(trial, point) or not _computes_alike(traced, here):
        return None
    open_ = [step for step in trial.steps if not implied(step.decision.taken, here)]
    if any(step.decision.equated is not None or trial.about_data(step.decision.formula) for step in open_):
        return None
    trial.questions.answered |= {step.decision.formula for step in trial.steps}
    trial.harmless = [step for step in trial.harmless if not implied(step.decision.taken, here)]
    _rebase(trial, here, open_)
    return traced


def _rebase(trial: Trial, here: Facts, open_: Sequence[Step]) -> None:
    """Have a trial begin with the facts of a part of its domain, where it decided only these steps."""
    trial.known, trial.facts = here, here.assuming(*trial.learned)
    trial.region, trial.steps = trial.facts.fork(), []
    for step in open_:
        trial.steps.append(replace(step, given=trial.region.fork()))
        if step.teaches:
            trial.region = trial.region.assuming(step.decision.taken)


def _is_generic(trial: Trial, point: Mapping[str, int]) -> bool:
    """True if a point takes every open decision as the trial did, and no harmless one by torch's fallback instead."""
    against = [step.decision.taken for step in trial.harmless if step.overrules]
    return trial.takes(point) and all(holds_at(each, point) for each in against if each.symbols <= point.keys())


def _computes_alike(traced: Traced, here: Facts) -> bool:
    """True if no symbolic number that the graph computes has a single value in the domain."""
    if traced.program is None:
        return False
    translator = translator_of(traced.program)
    numbers = [node.meta.get("val") for node in traced.program.graph.nodes]
    try:
        terms = {translator.term(each.node.expr) for each in numbers if isinstance(each, torch.SymInt)}
    except Untranslatable:
        return False
    return not any(isinstance(known, Term) and known.is_constant for known in map(here.reduce, terms))
