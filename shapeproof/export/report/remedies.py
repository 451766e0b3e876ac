"""Finds declarations to use instead: proved to settle the findings, and offered as help in the diagnostics.

A remedy covers all findings at once, so that the user can apply it as it stands. If no such declaration is proved, no
diagnostic offers help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.constraints.records.diagnostics import Help
from shapeproof.constraints.records.domain import Role
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.redeclare import Declarations, Deferred, redeclared
from shapeproof.export.explore.beside_eager.corners import Disagreement, disagreement, serving_bound
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.findings import Exploration, Finding, Outcome, narrowed, served_part
from shapeproof.export.explore.inferred.narrowing import anchors_of, kept_equal, sayable
from shapeproof.export.report.report import Report
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.repair import Repair, repaired, round_anchor
from shapeproof.solver.answers.simplify import in_few_words
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


def remedies(
    found: Exploration, inputs: Inputs, bounds: Sequence[Formula], *, simple: bool = True
) -> list[Repair] | None:
    """Return declarations to add, bounds included: as a user would write them, or else the weakest.

    None if no declarations are proved to suffice.
    """
    if any(finding.outcome is Outcome.DATA or finding.cell.unbounded for finding in found.findings):
        return None
    required = [
        *(narrowing.requirement for narrowing in found.narrowings),
        *(finding.cell.outside for finding in found.findings),
        *bounds,
    ]
    return _sufficient(required, anchors_of(found, inputs), inputs, simple=simple)


def _sufficient(
    required: Sequence[Formula], anchors: Sequence[Point], inputs: Inputs, *, simple: bool
) -> list[Repair] | None:
    domain = inputs.facts()
    anchor, *others = anchors
    if not inputs.anchors:
        anchor = round_anchor(required, domain, anchor)
    return repaired(required, domain, anchor, others=others, sayable=sayable, simple=simple)


def remedied(
    eager: Eager, found: Exploration, domain: Facts, told: Sequence[Finding]
) -> tuple[list[Repair] | None, list[Disagreement]]:
    """Return declarations to add, if any, and the points inside them at which a replay still fails.

    If eager and the program both raise at a point, a bound of a size may exclude the point; the bound is then declared,
    too. One repair covers all causes.
    """
    inputs, wrong = eager.inputs, list[Disagreement]()
    while True:
        bounds = [each.bound for each in wrong if each.bound is not None]
        amiss = bool(told or wrong)
        repairs = remedies(found, inputs, bounds) if amiss and len(bounds) == len(wrong) else None
        if repairs is None and amiss:
            return None, wrong or _in_the_part_served(eager, found, domain)
        left = narrowed(domain, found.narrowings)
        for formula in [*bounds, *(repair.formula for repair in (repairs or () if told else ()))]:
            left.learn(formula)
        other = disagreement(eager, found, left)
        if other is not None and not other.result.agrees and inputs.domain.of_role(Role.INFERRED):
            kept = kept_equal(eager, found, left, other.point)
            found.take(kept)
            if kept:
                continue
        if other is None or len(wrong) > 2 * len(inputs.domain.symbols):
            return repairs, wrong
        bound = serving_bound(eager, found, other.point) if other.result.agrees else None
        wrong.append(replace(other, bound=bound))


def _in_the_part_served(eager: Eager, found: Exploration, domain: Facts) -> list[Disagreement]:
    """Return a failing replay at sizes that no undecided finding covers, if there is one."""
    served = served_part(found, domain)
    other = None if served is None else disagreement(eager, found, served)
    return [] if other is None else [other]


def distinct(findings: Sequence[Finding], trial: Trial) -> list[Finding]:
    """Return the findings, without those about data that the checks for earlier findings settle.

    What each requires is said in few words; one that has no shorter ones stays the requirement of its decision alone.
    """
    kept: list[Finding] = []
    for finding in findings:
        known = trial.facts_before(finding.decision.formula)
        required = in_few_words(finding.requirement, known)
        if not (required is finding.requirement is finding.decision.taken):
            finding = replace(finding, joint=required)  # noqa: PLW2901
        for other in kept:
            if other.outcome is Outcome.DATA:
                known.learn(other.requirement)
        if finding.outcome is not Outcome.DATA or not implied(finding.requirement, known):
            kept.append(finding)
    return kept


@dataclass(frozen=True, slots=True)
class Cause:
    """A finding, and the other findings that the same declaration settles, or that have the same reason."""

    finding: Finding
    others: tuple[Finding, ...] = ()
    settled_by: Formula = f.TRUE


def causes(
    findings: Sequence[Finding], repairs: Sequence[Repair], inputs: Inputs, named: Callable[[Finding], Finding]
) -> list[Cause]:
    """Group the findings that one declaration is proved to settle, and those with the same reason.

    A group is represented by an error of eager, else by the failure at the smallest sizes; an undecided finding
    represents a group without failures only. `named` finds the whole condition of a finding; runs are made for it.
    """
    known = [Facts([*inputs.domain.formulas, repair.formula], inputs.budget) for repair in repairs]
    groups: list[list[Finding]] = [[] for _ in repairs]
    free, found = list[Finding](), []
    for finding in findings:
        settling = _first_implying(finding.requirement, known)
        if settling is None and repairs:
            settling = _first_implying(named(finding).requirement, known)
        (free if settling is None else groups[settling]).append(finding)
    for group, repair in zip(groups, repairs, strict=True):
        if len(group) > 1:
            found.append(_cause(group, named, repair.formula))
        else:
            free += group
    found += (_cause(group, named) for group in _by_reason(sorted(free, key=findings.index)))
    return [cause for first, cause in sorted(found, key=lambda pair: findings.index(pair[0]))]


def _first_implying(formula: Formula, known: Sequence[Facts]) -> int | None:
    """Return the index of the first facts that imply a formula."""
    return next((index for index, facts in enumerate(known) if implied(formula, facts)), None)


def _cause(
    group: Sequence[Finding], named: Callable[[Finding], Finding], settled_by: Formula = f.TRUE
) -> tuple[Finding, Cause]:
    """Return a group's representative as it was found, and the cause."""
    first = min(group, key=_rank)
    return first, Cause(named(first), tuple(each for each in group if each is not first), settled_by)


def _rank(finding: Finding) -> tuple[int, int]:
    last = {Outcome.RAISES: 0, Outcome.UNDECIDED: 2}
    return last.get(finding.outcome, 1), sum((finding.witness or {}).values())


def _by_reason(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Group findings by one line of the model that asks for them, or by one reason for being undecided."""
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_reason(finding), []).append(finding)
    return list(groups.values())


def _reason(finding: Finding) -> object:
    if finding.outcome is Outcome.DIFFERS and finding.decision.of_the_model:
        return finding.decision.where
    if finding.outcome is Outcome.UNDECIDED:
        return finding.text, finding.requirement.symbols
    return id(finding)


def declarations(repairs: Sequence[Repair], inputs: Inputs) -> Declarations:
    """Return the new declarations for the export."""
    return redeclared(inputs, [repair.formula for repair in repairs])


def remedy(found: Exploration, inputs: Inputs, repairs: Sequence[Repair] | None, *, proved: bool) -> Deferred:
    """What to declare, where anything was found by these repairs; of a model that is proved, what was inferred."""
    required = [narrowing.requirement for narrowing in found.narrowings]
    anchors = anchors_of(found, inputs)

    def find() -> Declarations | None:
        sufficient = _sufficient(required, anchors, inputs, simple=True) if proved else repairs
        return None if sufficient is None else declarations(sufficient, inputs)

    return Deferred(find)


def helps(required: Sequence[Formula], repairs: Sequence[Repair], inputs: Inputs) -> list[tuple[Help, ...]]:
    """Return the help for each reported requirement; help that concerns several, or none, is given at the first."""
    found: list[tuple[Help, ...]] = [()] * len(required)
    groups = _together(_independent(repairs), inputs)
    for group in groups:
        symbols = frozenset[str]().union(*(repair.formula.symbols for repair in group))
        about = [i for i, formula in enumerate(required) if symbols & formula.symbols] or [0]
        code = "\n".join(declarations(group, inputs).code)
        if required and code:
            proof = _proof(len(about) - 1, inputs, together=len(groups) > 1)
            found[about[0]] += (Help(code, proof, _requires(group)),)
    return found


def weakest(found: Exploration, inputs: Inputs, repairs: Sequence[Repair] | None) -> Help | None:
    """Return sufficient declarations that ask for less, if the proposed ones are those a user would rather write."""
    if not repairs or all(each.is_weakest for each in repairs):  # without regard to form the same would be chosen
        return None
    others = remedies(found, inputs, (), simple=False)
    if not others or {each.formula for each in others} <= {each.formula for each in repairs}:
        return None
    code = "\n".join(declarations(others, inputs).code)
    return Help(code, "proved, too, and asks for less", _requires(others))


def _requires(repairs: Sequence[Repair]) -> tuple[str, ...]:
    """Return the added declarations, as entries of `constraints=`."""
    return tuple(format_formula(repair.formula) for repair in repairs)


def _proof(others: int, inputs: Inputs, *, together: bool) -> str:
    """Say what is proved of a help."""
    settled = f"this and {others} more" if others else "this"
    fits = "; the example fits" if inputs.example is not None else ""
    return f"proved{', with the other help' if together else ''}: settles {settled}{fits}"


def _together(groups: list[list[Repair]], inputs: Inputs) -> list[list[Repair]]:
    """Join the groups that are written as constraints, since a call has one list of constraints."""
    said = [group for group in groups if declarations(group, inputs).constraints != inputs.constraints]
    others = [group for group in groups if group not in said]
    return [*others, *([[repair for group in said for repair in group]] if said else [])]


def _independent(repairs: Sequence[Repair]) -> list[list[Repair]]:
    """Group the repairs that share a symbol, directly or not."""
    groups: list[list[Repair]] = []
    for repair in repairs:
        touching = [g for g in groups if any(each.formula.symbols & repair.formula.symbols for each in g)]
        groups = [g for g in groups if g not in touching] + [[*(each for g in touching for each in g), repair]]
    return groups


def offering_split(report: Report, several: Callable[[], Report]) -> Report:
    """Return the report, with the help to split if a split is proved to serve the given inputs."""
    lost = [diagnostic for diagnostic in report.diagnostics if diagnostic.id == "seen"]
    if not lost or (split := several()).status != "proved":
        return report
    programs = split.statistics["regions"]
    help_ = Help('branches="split"', f"proved: {programs} programs serve every input that was given")
    told = (replace(each, help=(help_,)) if each in lost else each for each in report.diagnostics)
    return replace(report, diagnostics=tuple(told))
