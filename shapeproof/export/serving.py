"""Exports over a profile of seen inputs: the program serves every one of them, or the loss is an error.

A relation that held for all seen inputs is declared only if the proof needs it; it is then enforced and reported. That
the program serves all seen inputs is proved from the bounds and relations of the profile.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.constraints.records.domain import Declaration, Domain, Origin
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import symbol
from shapeproof.export.declare.from_seen import Profile, declare_seen, number_seen, symbol_names
from shapeproof.export.declare.inputs import Inputs, declare
from shapeproof.export.declare.sources import Sources, declare_sources
from shapeproof.export.limits import ATTEMPTS
from shapeproof.export.ops.properties import STRIDES
from shapeproof.export.report.report import Report
from shapeproof.export.source.declared_at import Where
from shapeproof.seen import Seen
from shapeproof.seen.joint import Joint
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
    declaring = functools.partial(declare, mod, args, kwargs)
    if isinstance(dynamic_shapes, Seen):
        inputs, profile = declare_seen(mod, declaring, dynamic_shapes, constraints, where)
        if profile.others:
            messages = (f"an input that was seen is not served: {each}" for each in profile.others)
            lost = tuple(Diagnostic(id="seen", message=message) for message in messages)
            return Report("refuted", lost, inputs=inputs.shapes)
        return _Profiled(verify, inputs, profile, symbol_names(inputs, profile)).served()
    if isinstance(dynamic_shapes, Sources):
        return verify(declare_sources(declaring, dynamic_shapes, constraints, where))
    return verify(declaring(dynamic_shapes, constraints, where))


@dataclass(frozen=True, slots=True)
class _Profiled:
    """A model over its profile: what verifies it, its inputs, and the symbol of each size that varied."""

    verify: Verify
    inputs: Inputs
    profile: Profile
    names: Sequence[str | None]

    def served(self) -> Report:
        """Return the report, with the sizes that the program serves."""
        report, needed = self._with_relations(self.verify(self.inputs))
        report = replace(report, seen=tuple(self._beside(report)))
        if report.program is None:
            return report
        number = number_seen(self.profile.joint)
        notes = [f"needed, and true of all {number} inputs seen: {self._text(each.formula)}" for each in needed]
        if report.status == "proved":  # an undecided condition may be refused at run time, whatever the domain says
            notes.append(self._contained(report))
        told = replace(report, notes=(*report.notes, *notes))
        report.program.report = told
        return told

    def _beside(self, report: Report) -> Iterator[SeenSize]:
        """The sizes that varied, with the range that the program serves, or with the sizes that it loses."""
        served = None if report.program is None else Facts(report.program.contract.formulas)
        for column, name in enumerate(self.names):
            if name is not None:
                seen = tuple(sorted({point[column] for point in self.profile.joint.points}))
                user_name, ends = self.inputs.user_names[name], None
                if served is not None:
                    interval = served.range_of(name)
                    ends = interval.lower, interval.upper
                witnesses = (each.witness or {} for each in report.diagnostics if each.id == "seen")
                lost = tuple(witness[user_name] for witness in witnesses if user_name in witness)
                yield SeenSize(user_name, seen, lost, ends)

    def _with_relations(self, report: Report) -> tuple[Report, Sequence[Relation]]:
        """Return the report under one relation, or else the fewest relations found, with which the model is proved."""
        if report.status not in {"refuted", "undecided"}:
            return report, ()
        usable = [each for each in self._relations() if each.extra >= ENOUGH]
        tries: Iterator[list[Relation]] = ([each] for each in usable)
        if len(usable) > 1:
            tries = itertools.chain(tries, [usable])
        left = ATTEMPTS
        for chosen in tries:
            if left and self._may_help(chosen, report):
                left -= 1
                other = self.verify(self._declaring(chosen))
                if other.status == "proved":
                    return self._fewest(other, chosen, left)
        return report, ()

    def _fewest(self, report: Report, chosen: list[Relation], left: int) -> tuple[Report, list[Relation]]:
        """Leave out one relation after the other while the model stays proved; return the last proved report."""
        for each in list(chosen):
            without = [other for other in chosen if other is not each]
            if left and without:
                left -= 1
                other = self.verify(self._declaring(without))
                if other.status == "proved":
                    report, chosen = other, without
        return report, chosen

    def _relations(self) -> list[Relation]:
        """The relations of the sizes that varied, over the symbols of the domain."""
        return relations(self.profile.joint, [name or "" for name in self.names])  # constant sizes are in no relation

    def _may_help(self, chosen: Sequence[Relation], report: Report) -> bool:
        """True if the relations exclude every witness of the report's errors."""
        own = {user_name: name for name, user_name in self.inputs.user_names.items()}
        for diagnostic in report.diagnostics:
            point = {own[name]: size for name, size in (diagnostic.witness or {}).items() if name in own}
            if point and all(true_at(each.formula, point) for each in chosen if each.formula.symbols <= point.keys()):
                return False
        return True

    def _declaring(self, chosen: Sequence[Relation]) -> Inputs:
        """Return the inputs with the relations declared."""
        where = f"in all {number_seen(self.profile.joint)} inputs seen"
        more = tuple(Declaration(each.formula, Origin(f"{self._text(each.formula)} {where}")) for each in chosen)
        domain = self.inputs.domain
        return replace(self.inputs, domain=Domain(domain.symbols, (*domain.declarations, *more)))

    def _text(self, formula: Formula) -> str:
        return format_formula(formula, rename=self.inputs.user_names)

    def _contained(self, report: Report) -> str:
        """A sentence about whether all seen inputs are served, and how that is known."""
        joint = self.profile.joint
        required = () if report.program is None else report.program.contract.formulas
        facts = Facts([*bounds(joint, self.names), *(each.formula for each in self._relations())])
        open_ = [self._text(formula) for formula in required if not implied(formula, facts)]
        return contained(joint, open_, "served") + of_memory(report, alike=self.profile.one_layout)


def contained(joint: Joint, open_: Sequence[str], what: str) -> str:
    """Say of seen inputs what is known of all of them; `open_`: the conditions that are not known to hold."""
    seen, (_, exact) = number_seen(joint), joint.distinct
    if not open_:
        return f"{all_seen_are(seen)} {what}: proved of their bounds and relations"
    if exact:
        return f"{all_seen_are(seen)} {what}: each was tried"
    kept = f"the {len(joint.points)} inputs kept of {seen} seen are {what}"
    return f"{kept}; of the others it is not known that {', '.join(open_)}"


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


def bounds(joint: Joint, names: Sequence[str | None]) -> Iterator[Formula]:
    """Yield the bounds of the sizes of seen calls, under these names; None for a size without one."""
    for name, (low, high) in zip(names, joint.bounds, strict=True):
        if name is not None:
            yield f.ge(symbol(name), low)
            yield f.le(symbol(name), high)
