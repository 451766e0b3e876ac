"""Exports over a profile of seen inputs: the program serves every one of them, or the loss is an error.

A relation that held for all seen inputs is declared only if the proof needs it; it is then enforced and reported. That
the program serves all seen inputs is proved from the bounds and relations of the profile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.constraints.records.domain import Declaration, Domain, Origin
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import symbol
from shapeproof.export.declare.from_seen import Profile, declare_seen, symbol_names
from shapeproof.export.declare.inputs import Inputs, declare
from shapeproof.export.declare.sources import Sources, declare_sources
from shapeproof.export.limits import ATTEMPTS
from shapeproof.export.ops.properties import STRIDES
from shapeproof.export.report.report import Report
from shapeproof.export.source.declared_at import Where
from shapeproof.seen import Seen
from shapeproof.seen.plots import SeenSize
from shapeproof.seen.relations import Relation, relations
from shapeproof.seen.text import ENOUGH, all_seen_are
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied

Verify = Callable[[Inputs], Report]


def verdict(  # noqa: PLR0913, PLR0917 - as declare, and how to verify
    verify: Verify,
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    dynamic_shapes: Any,
    constraints: Sequence[str],
    where: Where,
) -> Report:
    """Return the report on a model, for any form of declared sizes.

    Raises:
        UsageError: an entry is invalid; the message names it.
    """
    if isinstance(dynamic_shapes, Seen):
        return _served(verify, *declare_seen(mod, args, kwargs, dynamic_shapes, constraints, where))
    if isinstance(dynamic_shapes, Sources):
        return verify(declare_sources(mod, args, kwargs, dynamic_shapes, constraints, where))
    return verify(declare(mod, args, kwargs, dynamic_shapes, constraints, where))


def _served(verify: Verify, inputs: Inputs, profile: Profile) -> Report:
    """Return the report on a model over its profile, with the sizes that the program serves."""
    if profile.others:
        lost = tuple(
            Diagnostic(id="seen", message=f"an input that was seen is not served: {each}") for each in profile.others
        )
        return Report("refuted", lost, inputs=inputs.shapes)
    report = verify(inputs)
    needed: Sequence[Relation] = ()
    if report.status in {"refuted", "undecided"}:
        report, needed = _with_relations(inputs, profile, verify, report)
    report = replace(report, seen=_beside(report, inputs, profile))
    if report.program is None:
        return report
    notes = [f"needed, and true of all {profile.number} inputs seen: {_text(each.formula, inputs)}" for each in needed]
    if report.status == "proved":  # an undecided condition may be refused at run time, whatever the domain says
        notes.append(_contained(report, inputs, profile))
    told = replace(report, notes=(*report.notes, *notes))
    report.program.report = told
    return told


def _beside(report: Report, inputs: Inputs, profile: Profile) -> tuple[SeenSize, ...]:
    """The sizes that varied, with the range that the program serves, or with the sizes that it loses."""
    served = None if report.program is None else Facts(report.program.contract.formulas)
    found = []
    for column, name in enumerate(symbol_names(inputs, profile)):
        if name is not None:
            seen = tuple(sorted({point[column] for point in profile.joint.points}))
            user_name, ends = inputs.user_names[name], None
            if served is not None:
                interval = served.range_of(name)
                ends = interval.lower, interval.upper
            witnesses = (each.witness or {} for each in report.diagnostics if each.id == "seen")
            lost = tuple(witness[user_name] for witness in witnesses if user_name in witness)
            found.append(SeenSize(user_name, seen, lost, ends))
    return tuple(found)


def _with_relations(
    inputs: Inputs, profile: Profile, verify: Verify, report: Report
) -> tuple[Report, Sequence[Relation]]:
    """Return the report under one relation, or else the fewest relations found, with which the model is proved."""
    usable = [each for each in _relations(inputs, profile) if each.extra >= ENOUGH]
    tries: Iterator[list[Relation]] = ([each] for each in usable)
    if len(usable) > 1:
        tries = itertools.chain(tries, [usable])
    left = ATTEMPTS
    for chosen in tries:
        if left and _may_help(chosen, report, inputs.user_names):
            left -= 1
            other = verify(_declaring(inputs, chosen, profile))
            if other.status == "proved":
                return _fewest(inputs, profile, verify, other, chosen, left)
    return report, ()


def _fewest(  # noqa: PLR0913, PLR0917 - the state of a search
    inputs: Inputs, profile: Profile, verify: Verify, report: Report, chosen: list[Relation], left: int
) -> tuple[Report, list[Relation]]:
    """Leave out one relation after the other while the model stays proved; return the last proved report."""
    for each in list(chosen):
        without = [other for other in chosen if other is not each]
        if left and without:
            left -= 1
            other = verify(_declaring(inputs, without, profile))
            if other.status == "proved":
                report, chosen = other, without
    return report, chosen


def _relations(inputs: Inputs, profile: Profile) -> list[Relation]:
    """The relations of the sizes that varied, over the symbols of the domain."""
    names = symbol_names(inputs, profile)
    return relations(profile.joint, [name or "" for name in names])  # constant sizes are in no relation


def _may_help(chosen: Sequence[Relation], report: Report, names: Mapping[str, str]) -> bool:
    """True if the relations exclude every witness of the report's errors."""
    own = {user_name: name for name, user_name in names.items()}
    for diagnostic in report.diagnostics:
        point = {own[name]: size for name, size in (diagnostic.witness or {}).items() if name in own}
        if point and all(true_at(each.formula, point) for each in chosen if each.formula.symbols <= point.keys()):
            return False
    return True


def _declaring(inputs: Inputs, chosen: Sequence[Relation], profile: Profile) -> Inputs:
    """Return the inputs with the relations declared."""
    more = tuple(
        Declaration(each.formula, Origin(f"{_text(each.formula, inputs)} in all {profile.number} inputs seen"))
        for each in chosen
    )
    return replace(inputs, domain=Domain(inputs.domain.symbols, (*inputs.domain.declarations, *more)))


def _text(formula: Formula, inputs: Inputs) -> str:
    return format_formula(formula, rename=inputs.user_names)


def _contained(report: Report, inputs: Inputs, profile: Profile) -> str:
    """A sentence about whether all seen inputs are served, and how that is known."""
    number, exact = profile.joint.distinct
    required = () if report.program is None else report.program.contract.formulas
    facts = Facts([*_bounds(inputs, profile), *(each.formula for each in _relations(inputs, profile))])
    open_ = [formula for formula in required if not implied(formula, facts)]
    but = of_memory(report, alike=profile.one_layout)
    if not open_:
        return f"{all_seen_are(profile.number)} served: proved of their bounds and relations{but}"
    if exact:
        return f"{all_seen_are(number)} served: each was tried{but}"
    what = ", ".join(_text(formula, inputs) for formula in open_)
    kept = len(profile.joint.points)
    return f"the {kept} inputs kept of {profile.number} seen are served; of the others it is not known that {what}{but}"


def of_memory(report: Report, *, alike: bool) -> str:
    """The end of a sentence if the program relies on memory properties that the profile does not keep.

    A profile keeps layouts only.
    """
    programs = getattr(report.program, "programs", (report.program,))
    memories = [each.contract.memory for each in programs if each is not None]
    known = all(memory.reads <= {STRIDES} and not (memory.writes or memory.state) for memory in memories)
    if (known and alike) or not any(memory.matters for memory in memories):
        return ""
    return "; not of how they lay in memory, on which the model relies"


def _bounds(inputs: Inputs, profile: Profile) -> Iterator[Formula]:
    for name, (low, high) in zip(symbol_names(inputs, profile), profile.joint.bounds, strict=True):
        if name is not None:
            yield f.ge(symbol(name), low)
            yield f.le(symbol(name), high)
