"""Words a finding: turns a decision that fails over the domain into a diagnostic in the user's names.

The words for each kind of finding are here: its id, its title, the requirement and the observed behaviour. render.py
lays them out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point, holds_at
from shapeproof.constraints.records.decisions import Decision, Kind, SourceLocation
from shapeproof.constraints.records.diagnostics import Diagnostic, Help, Id, Note
from shapeproof.constraints.records.domain import Domain, Origin
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay, runner
from shapeproof.export.explore.beside_eager.corners import Disagreement
from shapeproof.export.explore.findings import Exploration, Finding, Narrowing, Outcome
from shapeproof.export.graph.emit import has_graph_form
from shapeproof.export.report.advice import advice, data_notes
from shapeproof.export.report.remedies import Cause
from shapeproof.export.report.render import FEW, sized
from shapeproof.export.source.errors import led_to
from shapeproof.export.source.frames import in_torch
from shapeproof.export.source.names import rounds
from shapeproof.export.trace.python.plain_numbers import Range
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.clash import clash
from shapeproof.solver.prove import implied
from shapeproof.wording import line_text, values_text, with_kind


def diagnose(finding: Finding, inputs: Inputs, trial: Trial, help_: tuple[Help, ...] = ()) -> Diagnostic:
    """Return the diagnostic of a finding; `trial` is that of its program."""
    names = inputs.user_names | dict(trial.questions.names.get(finding.decision.formula, {}))
    required = format_formula(finding.requirement, rename=names)
    asked = required + _asked_by(finding.decision) + _following(finding, inputs, trial)
    about_data = finding.outcome is Outcome.DATA
    return Diagnostic(
        id=_identify(finding),
        message=_title(finding, names, required),
        severity="warning" if finding.outcome is Outcome.UNDECIDED else "error",
        notes=(
            *_asked_in(finding.decision),
            *_notes(finding, inputs, names, asked),
            *(data_notes(finding, trial, names) if about_data else ()),
        ),
        witness=None if finding.witness is None else in_user_terms(finding.witness, names),
        help=(*help_, *(advice(finding, trial, names) if about_data else ())),
    ).at(_place(finding.decision))


def diagnose_cause(
    eager: replay.Eager, found: Exploration, cause: Cause, trial: Trial, help_: tuple[Help, ...] = ()
) -> Diagnostic:
    """Return the diagnostic of a cause; if the cause excludes an input given beside the example, that input's.

    Inference keeps all given inputs in the domain. If the model needs a condition that one of them violates, that is an
    error whatever other sizes are concerned; the smallest such input is run.
    """
    diagnostic = _also(diagnose(cause.finding, eager.inputs, trial, help_), cause, eager.inputs)
    point = _lost(eager.inputs.anchors[1:], [cause.finding, *cause.others])
    if point is None:
        return diagnostic
    named = in_user_terms(point, eager.inputs.user_names)
    label, happened = _seen_there(eager.compare(found.forms, point))
    kept = (note for note in diagnostic.notes if note.label not in {"where", "fails at"})
    return replace(
        diagnostic,
        id="seen",
        message=f"an input that was given is not served: `{values_text(named)}`",
        severity="error",
        notes=(*kept, Note(label, f"{values_text(named)}   {happened}")),
        witness=named,
    )


def _lost(given: Sequence[Point], findings: Sequence[Finding]) -> Point | None:
    """Return the smallest given input in a part of the domain that findings call unserved."""
    about_sizes = (finding for finding in findings if finding.outcome is not Outcome.DATA)
    required = [formula for finding in about_sizes for formula in (finding.requirement, finding.cell.outside)]
    lost = [point for point in given if not all(holds_at(formula, point) for formula in required)]
    return min(lost, key=lambda point: (max(point.values()), sum(point.values())), default=None)


def _seen_there(seen: runner.Replay) -> tuple[str, str]:
    if seen.relation is runner.Relation.BOTH_RAISE:
        return "fails at", f"replayed; eager raises {seen.text}"
    if not seen.agrees:
        return "fails at", f"replayed; {seen.sentence}"
    if seen.relation is runner.Relation.NOT_RUN:
        return "where", "not run"
    return "where", "the two agree there, but not where sizes are required to be the same"


def unenforced(formula: Formula, trial: Trial, inputs: Inputs) -> Diagnostic:
    """Return the diagnostic of a formula that the proof relies on and the program does not check."""
    check = next((check for check in trial.learned.checks if check.formula is formula), None)
    where = check.place.user if check else None
    names = inputs.user_names | dict(check.place.names if check else {})
    shown = format_formula(formula, rename=names)
    unproved = "the solver did not prove within its budget that the graph's assertions imply it"
    because = unproved if has_graph_form(formula) else "no operator that a graph may hold computes it"
    return _undecided(
        f"the program cannot check `{shown}` at run time",
        where,
        *(declared_at(origin) for origin in _origins(formula, inputs.domain)),
        Note("because", f"the proof relies on it, and {because}"),
    )


def _undecided(message: str, where: SourceLocation | None, *notes: Note) -> Diagnostic:
    return Diagnostic(id="undecided", message=message, severity="warning", notes=notes).at(where)


def contradiction(trial: Trial, inputs: Inputs) -> Diagnostic:
    """Return the diagnostic of a check that no data pass."""
    check = trial.learned.impossible
    if check is None:
        raise ValueError("there is no such check")
    names = inputs.user_names | dict(check.place.names)
    facts = trial.region.assuming(check.formula)
    known = [format_formula(formula, rename=names) for formula in clash(facts) if formula is not check.formula]
    required = format_formula(check.formula, rename=names)
    notes = (Note("required", required), *(Note("known", text) for text in known))
    found = Diagnostic(id="contradiction", message=f"no data pass this check: `{required}`", notes=notes)
    return found.at(check.place.user or check.place.framework)


def disagreeing(wrong: Disagreement, inputs: Inputs, help_: tuple[Help, ...] = ()) -> Diagnostic:
    """Return the diagnostic of a point at which the program and eager differ, or both raise."""
    named = in_user_terms(wrong.point, inputs.user_names)
    sizes = values_text(named) or "the example"
    if wrong.result.relation is runner.Relation.MAY_DIFFER:
        return _undecided(
            "the program is not known to do what eager does",
            None,
            Note("where", f"{sizes}   without data: {wrong.result.sentence}"),
        )
    does = "eager raises, as the program does" if wrong.result.agrees else "the program does not do what eager does"
    return Diagnostic(
        id="replay",
        message=f"{does}, and no question about sizes tells where",
        severity="error",
        notes=(Note("fails at", f"{sizes}   replayed; {wrong.result.sentence}"),),
        witness=named,
        help=help_,
    )


def failing_example(point: Point, error: Exception, inputs: Inputs) -> Diagnostic:
    """Return the diagnostic of an example for which eager raises; without one, of sizes that all raise."""
    named = in_user_terms(point, inputs.user_names)
    given = "the example" if inputs.example is not None else "each of the smallest declared sizes"
    note = Note("fails at", f"{values_text(named) or given}   replayed; eager raises {with_kind(error)}")
    found = Diagnostic(id="example", message=f"the model raises for {given}", notes=(note,), witness=named)
    return found.at(led_to(error))


_UNKNOWN_CONTAINER = re.compile(r"Found <class '(.+?)'> in output, which is not a known type")
_REGISTER = (
    "it returns a `{}`, a container that torch does not know; register its class first, by "
    "torch.export.register_dataclass or torch.utils._pytree.register_pytree_node (for caches of transformers: "
    "transformers.integrations.executorch.register_dynamic_cache_export_support())"
)


_RANGE = f"{Range.__module__}.{Range.__qualname__}"
_RETURNED_RANGE = "it returns a `range`, which no program can return: return its ends, or torch.arange"


_UNFIT_INPUT = re.compile(r"(?:Unsupported input type <class '|Unfamiliar meta val: )(.+?)(?:'>|$)")
_FIT = (
    "an input is `{}`: expected tensors, numbers, bools, texts and None, in lists, tuples, dicts and classes that are "
    "registered, as by torch.export.register_dataclass"
)


_REASONS = {
    r"Attempted to wrap unbacked SymInt|UserDefinedObjectVariable\(Sym(?:Int|Float|Bool)\)": (
        "a branch of torch.cond uses a number that is taken from data outside of it: pass the tensor that holds it as "
        "an operand, and take the number inside"
    ),
    r"Expect operands to be a tuple of possibly nested": (
        "an operand of torch.cond is a number: pass the tensor that holds it, and take the number inside"
    ),
    r"nested_tensor_from_jagged does not support tracing": (
        "it makes a nested tensor, which torch cannot trace: use padded tensors and lengths"
    ),
    r"^(aten\.[\w.]+)(?:\n|$)": "torch has no rule for what `{}` gives without data",
}
"""What torch raises, as patterns, and the reason in one sentence."""


def _reason(error: Exception) -> str | None:
    found = ((re.search(pattern, str(error)), reason) for pattern, reason in _REASONS.items())
    return next((reason.format(*match.groups()) for match, reason in found if match), None)


def untraceable(error: Exception, *, in_eager: bool) -> str:
    """Say in one sentence why torch cannot trace code, with the user's line, and whether eager was seen to run it."""
    unknown, unfit = _UNKNOWN_CONTAINER.search(str(error)), _UNFIT_INPUT.match(str(error))
    of_container = unknown and (_RETURNED_RANGE if unknown[1] == _RANGE else _REGISTER.format(unknown[1]))
    said = of_container or (unfit and _FIT.format(unfit[1])) or _reason(error) or with_kind(error).rstrip(". ")
    return f"torch cannot trace the model{', which runs in eager' * in_eager}: {said}{_at_users_line(error)}"


def internal(error: Exception, where: SourceLocation) -> str:
    """Say in one sentence that this package has made a mistake, with its line and the user's."""
    said = f"{with_kind(error).rstrip('. ')}, in {line_text(where)}{_at_users_line(error)}"
    return f"a mistake of shapeproof, which says nothing about the model; please report it with the traceback: {said}"


def _at_users_line(error: Exception) -> str:
    where = led_to(error)
    return f", at {line_text(where)}: {where.text}" if where else ""


def unexplored(where: Formula, error: Exception, inputs: Inputs) -> Diagnostic:
    """Return the diagnostic of a part of the domain for which tracing found no program."""
    text = format_formula(where, rename=inputs.user_names)
    message = f"could not be decided: what does the model do where `{text}`?"
    return _undecided(message, None, Note("because", with_kind(error)))


def uncovered() -> Diagnostic:
    """Return the diagnostic of regions that are not proved to partition the domain."""
    return _undecided("could not be decided: do the regions cover the domain, and is each size in exactly one?", None)


def _also(diagnostic: Diagnostic, cause: Cause, inputs: Inputs) -> Diagnostic:
    """Return a diagnostic with a note on the other findings of its cause."""
    others = [each.decision for each in cause.others if each.decision.taken is not cause.finding.decision.taken]
    if not others:
        return diagnostic
    text = f"{len(others)} other question{'s' if len(others) > 1 else ''}"
    places = dict.fromkeys(map(_place, others))
    lines = ", ".join(line_text(where) for where in places if where)
    if cause.settled_by is not f.TRUE:
        text += f", settled as this one is where {format_formula(cause.settled_by, rename=inputs.user_names)}: {lines}"
    elif cause.finding.outcome is Outcome.UNDECIDED:
        text += f" about these sizes, for the same reason: {lines}"
    else:
        text += " at this line"
    return replace(diagnostic, notes=(*diagnostic.notes, Note("also", text)))


def narrowing_note(narrowing: Narrowing, inputs: Inputs) -> str:
    """Say which requirement was inferred, and for which line."""
    required = format_formula(narrowing.requirement, rename=inputs.user_names)
    where = _place(narrowing.decision)
    line = f", asked for at {line_text(where)}" if where else ""
    return f"inferred and enforced at run time: {required}{line}"


def trust_note(operator: str, compared: int, checked: bool) -> str:  # noqa: FBT001
    """Return the note about a custom operator; `checked`: its fake kernel is proved for all calls of the program.

    >>> trust_note("sp::half", 12, checked=False)
    'trusted: sp::half (its fake kernel was compared at 12 inputs, not proved)'
    """
    if checked:
        return f"checked: {operator} (check_operator has proved its fake kernel for every call of the program)"
    inputs = "1 input" if compared == 1 else f"{compared} inputs"
    return f"trusted: {operator} (its fake kernel was compared at {inputs}, not proved)"


def _identify(finding: Finding) -> Id:
    """Return the id of a diagnostic, which names its page in the manual."""
    return IDS.get(finding.outcome) or id_of_form(finding.requirement)


IDS: Mapping[Outcome, Id] = {
    Outcome.UNDECIDED: "undecided",
    Outcome.DATA: "data-dependent",
    Outcome.DIFFERS: "other-program",
    Outcome.MANY: "many-programs",
}
"""The id of each outcome that has one; any other has that of what is required."""


def id_of_form(formula: Formula) -> Id:
    """Return the id of a required formula, by its form."""
    match formula:
        case f.Compare("==", term) if _divisor(term) is not None:
            return "divides"
        case f.Compare("==", _):
            return "equal"
        case f.Compare("<=", term) if len(term.symbols) == 1:
            return "bound"
        case _:
            return "relation"


def _divisor(term: t.Term) -> tuple[t.Term, int] | None:
    """Return (p, k) if the term is `p - k*(p//k)`, that is `p % k`, for a constant k; None for any other term."""
    for factors, coefficient in term.monomials:
        match factors:
            case ((t.FloorDiv(numerator, divisor), 1),) if (
                divisor.is_constant and abs(coefficient) == divisor.constant_value
            ):
                for value in (numerator, -numerator):
                    if term is t.modulo(value, divisor) or term is -t.modulo(value, divisor):
                        return value, divisor.constant_value
    return None


def _title(finding: Finding, names: dict[str, str], required: str) -> str:
    decision = finding.decision
    if finding.outcome is Outcome.DATA:
        return f"the program depends on data that is known only at run time: `{required}`"
    if finding.outcome is Outcome.MANY:
        if rounds(decision.where):
            return "the model needs too many programs: another for each number of rounds of a loop over a size"
        return f"the model needs too many programs: another wherever `{required}` is answered otherwise"
    if finding.outcome is Outcome.UNDECIDED:
        return f"could not be decided: is the program right where `{required}` does not hold?"
    if finding.outcome is Outcome.RAISES and finding.requirement is f.FALSE:
        return "the model raises at every declared size"
    other = format_formula(f.negate(finding.requirement), rename=names)
    if finding.outcome is Outcome.RAISES and finding.partly:
        return f"the model raises at some sizes where `{other}`"
    if finding.outcome is Outcome.RAISES and decision.kind is not Kind.ASSERTED:
        return f"the model raises where `{other}`"
    if finding.outcome is Outcome.DIFFERS or decision.kind is not Kind.ASSERTED:
        return f"the model does something else where `{other}`"
    match id_of_form(finding.requirement), finding.requirement:
        case "divides", f.Compare(_, term):
            value, divisor = _divisor(term) or (term, 0)
            return f"`{format_formula(value, rename=names)}` must be a multiple of {divisor}"
        case _:
            return f"`{required}` must hold"


def _notes(finding: Finding, inputs: Inputs, names: dict[str, str], required: str) -> list[Note]:
    notes = [declared_at(origin) for origin in _origins(finding.requirement, inputs.domain)]
    notes.append(Note("required", required))
    if finding.outcome is Outcome.DATA:
        notes.append(Note("because", finding.text))
    elif finding.witness is not None:
        sizes = _told(finding.witness, finding.requirement, names)
        label = "fails at" if finding.outcome in {Outcome.RAISES, Outcome.DIFFERS} else "where"
        notes.append(Note(label, f"{sizes}   {_happened(finding)}"))
    elif finding.text:
        notes.append(Note("because", finding.text))
    repeating = rounds(finding.decision.where) if finding.outcome in _OF_ROUNDS else None
    if repeating:
        notes.append(Note("loop", f"{repeating} is written into the program as often as it runs"))
    return notes


def _told(point: Point, requirement: Formula, names: dict[str, str]) -> str:
    """Return the sizes of a point; of many, those that the requirement is about, and how many others there are."""
    about = {name: value for name, value in point.items() if name in requirement.symbols}
    others = len(point) - len(about)
    if len(point) <= FEW or not about:
        return values_text(in_user_terms(point, names))
    return f"{values_text(in_user_terms(about, names))} (and {sized(others, 'sizes')} more, in its witness)"


_OF_ROUNDS = {Outcome.DIFFERS, Outcome.DATA, Outcome.UNDECIDED, Outcome.MANY}
"""Outcomes that a loop over a size may cause: each number of rounds is another program."""


def _happened(finding: Finding) -> str:
    if finding.outcome is Outcome.RAISES:
        return f"replayed; eager raises {finding.text.removeprefix(Outcome.RAISES.value + ', the program does not: ')}"
    return f"replayed; {finding.text}" if finding.outcome is Outcome.DIFFERS else finding.text


def _origins(requirement: Formula, domain: Domain) -> list[Origin]:
    """Return the origins of the declarations that mention a symbol of the requirement."""
    asked = requirement.symbols
    return list(dict.fromkeys(d.origin for d in domain.declarations if d.formula.symbols & asked))


def declared_at(origin: Origin, claim: str = "") -> Note:
    """Return the note on a declaration: its claim, if given, its text and its line."""
    where = origin.where
    parts = (claim, origin.text, f"at {line_text(where)}" if where else "")
    return Note("declared", "   ".join(filter(None, parts)), where)


def _asked_in(decision: Decision) -> list[Note]:
    """Note the line of the library that the user's line calls, unless it is torch's."""
    where = decision.framework
    if decision.where is None or where is None or in_torch(where.file):
        return []
    return [Note("asked in", f"{line_text(where)}   {where.text}", where)]


def _following(finding: Finding, inputs: Inputs, trial: Trial) -> str:
    """Say how many of the program's other decisions about the same sizes follow from this requirement."""
    if finding.joint is not None:
        return ""
    facts = inputs.facts()
    facts.learn(finding.requirement)
    others = {each.taken for each in trial.decisions if each.taken.symbols <= finding.requirement.symbols}
    count = sum(implied(other, facts) for other in others - {finding.requirement})
    return (
        f", and {count} check{'s' if count > 1 else ''} that follow{'' if count > 1 else 's'} from it" if count else ""
    )


def _asked_by(decision: Decision) -> str:
    if decision.operator is not None:
        return f"   by {decision.operator}"
    return "   assumed by torch" if decision.kind is Kind.ASSUMED else ""


def _place(decision: Decision) -> SourceLocation | None:
    return decision.where or decision.framework


def in_user_terms(point: Mapping[str, int], names: Mapping[str, str]) -> Point:
    """Return a point by the user's names for its sizes."""
    return {names.get(name, name): value for name, value in sorted(point.items())}


def domain_texts(formulas: Sequence[Formula], inputs: Inputs) -> tuple[str, ...]:
    """Return the formulas of a domain in the user's names."""
    return tuple(format_formula(formula, rename=inputs.user_names) for formula in formulas)
