"""Exports over a profile of seen inputs: the program serves every one of them, or the loss is an error.

A relation that held for all seen inputs is declared only if the proof needs it; it is then enforced and reported. That
the program serves all seen inputs is proved from the bounds and relations of the profile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.records.domain import Declaration, Domain, Origin
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.sources import Sources, declare_sources
from shapeproof.export.forms.seen.against_seen import Beside, lost_kinds
from shapeproof.export.forms.seen.from_seen import Profile, declare_seen, number_seen, size_terms
from shapeproof.export.limits import TRIES
from shapeproof.export.report.report import Report
from shapeproof.export.source.declared_at import Where
from shapeproof.seen import Seen
from shapeproof.seen.relations import Relation, relations
from shapeproof.seen.text import ENOUGH
from shapeproof.solver.facts import Facts

Verify = Callable[[Inputs], Report]


def verdict_on_seen(  # noqa: PLR0913, PLR0917 - as declare, and how to verify
    verify: Verify,
    mod: torch.nn.Module,
    declaring: Callable[..., Inputs],
    dynamic_shapes: Any,
    constraints: Sequence[str],
    where: Where,
) -> Report:
    """Return the report on a model whose sizes are declared by what was seen, or by torch.compile's list of sources."""
    if isinstance(dynamic_shapes, Seen):
        inputs, profile = declare_seen(mod, declaring, dynamic_shapes, constraints, where)
        if profile.others:
            return Report("refuted", tuple(lost_kinds(profile.others)), inputs=inputs.shapes)
        return _Profiled(verify, inputs, profile).served()
    if isinstance(dynamic_shapes, Sources):
        return verify(declare_sources(declaring, dynamic_shapes, constraints, where))
    return verify(declaring(dynamic_shapes, constraints, where))


@dataclass(frozen=True, slots=True)
class _Profiled:
    """A model over its profile: what verifies it, and its inputs."""

    verify: Verify
    inputs: Inputs
    profile: Profile

    def served(self) -> Report:
        """Return the report, with the sizes that the program serves."""
        report, needed = self._with_relations(self.verify(self.inputs))
        beside = Beside(self.inputs, self.profile.kind, self.profile.joint)
        formulas = None if report.program is None else report.program.contract.formulas
        lost = (each.witness or {} for each in report.diagnostics if each.id == "seen")
        report = replace(report, seen=beside.sizes(None if formulas is None else Facts(formulas), lost))
        if report.program is None or formulas is None:
            return report
        number = number_seen(self.profile.joint)
        notes = [f"needed, and true of all {number} inputs seen: {self._text(each.formula)}" for each in needed]
        if report.status == "proved":  # an undecided condition may be refused at run time, whatever the domain says
            notes.append(beside.known_of_all(formulas, report, "served", alike=self.profile.one_layout))
        told = replace(report, notes=(*report.notes, *notes))
        report.program.report = told
        return told

    def _with_relations(self, report: Report) -> tuple[Report, Sequence[Relation]]:
        """Return the report under one relation, or else the fewest relations found, with which the model is proved."""
        if report.status not in {"refuted", "undecided"}:
            return report, ()
        usable = [each for each in self._relations() if each.extra >= ENOUGH]
        tries: Iterator[list[Relation]] = ([each] for each in usable)
        if len(usable) > 1:
            tries = itertools.chain(tries, [usable])
        left = TRIES
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
        """The relations of the sizes that varied, over the symbols of the domain; constant sizes are in none."""
        terms = size_terms(self.inputs, self.profile.kind).values()
        return relations(self.profile.joint, [min(term.symbols, default="") for term in terms])

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
