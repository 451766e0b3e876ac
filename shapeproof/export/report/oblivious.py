"""Finds the size-oblivious assumptions that are proved harmless: answers that torch assumes for all sizes.

Law: if every question with a fallback was answered by its fallback, the program is the one that the fallbacks give. If
that program is proved, these assumptions are harmless over its domain. The law does not cover a question that was
answered differently, or an assumption beside a branch on sizes: torch makes several programs of such a branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shapeproof.constraints.records.decisions import Decision, Kind, SourceLocation
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.export.explore.findings import Exploration
from shapeproof.export.trace.trial import Step
from shapeproof.wording import line_text, values_text


@dataclass(frozen=True, slots=True)
class Assumption:
    """An answer that torch assumes for all sizes.

    Attributes:
        text: the assumption, in the user's names.
        harmless: true if a program that assumes it does the same as eager over the domain, else false; None if unknown.
        witness: sizes in the domain at which a program that assumes it was seen to differ from eager, if any.
        where: the user's line.
        operator: the operator that assumes it.
    """

    text: str
    harmless: bool | None
    witness: Mapping[str, int] | None = None
    where: SourceLocation | None = None
    operator: str | None = None

    def __str__(self) -> str:
        verdict = {True: "harmless (proved)", None: "not known to be harmless", False: "does harm"}[self.harmless]
        at = f" at {values_text(self.witness)}" if self.witness else ""
        line = f"   {line_text(self.where)}" if self.where else ""
        by = f"   by {self.operator}" if self.operator else ""
        return f"{self.text}: {verdict}{at}{by}{line}"


@dataclass(frozen=True, slots=True)
class Oblivious:
    """The size-oblivious assumptions of a program, and their consequence for torch.compile's `backed_size_oblivious`.

    Attributes:
        assumptions: in the order of the trace.
        one_path: true if the program is proved and has no branch on sizes besides these assumptions.
    """

    assumptions: tuple[Assumption, ...] = ()
    one_path: bool = False

    @property
    def advice(self) -> str:
        """Return one line for users of torch.compile."""
        harmful = next((each for each in self.assumptions if each.harmless is False), None)
        if harmful is not None:
            sizes = values_text(harmful.witness or {})
            wrong = f"it assumes {harmful.text}, which is wrong at {sizes}"
            return f"torch.compile: leave backed_size_oblivious=False: {wrong}"
        if self.one_path and all(each.harmless for each in self.assumptions):
            count = len(self.assumptions)
            said = {0: "none is made", 1: "the one that is made is harmless"}.get(count, f"all {count} are harmless")
            return (
                "torch.compile: backed_size_oblivious=True makes this program, which is right over the domain "
                f"(proved: of its size-oblivious assumptions {said})"
            )
        return "torch.compile: it is not known whether backed_size_oblivious=True is right"

    def __str__(self) -> str:
        return "\n".join([*map(str, self.assumptions), self.advice])


def size_oblivious(found: Exploration, status: str, names: Mapping[str, str]) -> Oblivious:
    """Return the verdicts on the assumptions of the main program, by the verdict on it, in the user's names."""
    trial = found.main.trial
    one_path = status == "proved" and not trial.of_kind(Kind.BRANCH)
    assumed = [_assumption(found, step, names, proved=one_path) for step in trial.of_kind(Kind.ASSUMED)]
    assumed += [
        Assumption(_text(each, names, taken=False), None, None, *_at(each)) for each in trial.questions.against.values()
    ]
    return Oblivious(tuple(_joined(assumed)), one_path)


def _assumption(found: Exploration, step: Step, names: Mapping[str, str], *, proved: bool) -> Assumption:
    decision = step.decision
    if step.fallback != decision.outcome:  # the program was traced the other way
        return Assumption(_text(decision, names, taken=step.fallback is None), None, None, *_at(decision))
    text, seen = _text(decision, names, taken=True), found.seen_to_differ(decision)
    if seen is not None:
        named = {names.get(name, name): size for name, size in seen.items()}
        return Assumption(text, harmless=False, witness=named, where=decision.where, operator=decision.operator)
    return Assumption(text, True if proved else None, None, *_at(decision))


def _joined(assumptions: Sequence[Assumption]) -> Iterator[Assumption]:
    """Yield one assumption for each text: the least favourable."""
    texts: dict[str, list[Assumption]] = {}
    for each in assumptions:
        texts.setdefault(each.text, []).append(each)
    for same in texts.values():
        yield min(same, key=lambda each: (each.harmless is not False, each.harmless is not None))


def _text(decision: Decision, names: Mapping[str, str], *, taken: bool) -> str:
    formula = decision.taken if taken else decision.taken.negation
    return format_formula(formula, rename=names)


def _at(decision: Decision) -> tuple[SourceLocation | None, str | None]:
    return decision.where, decision.operator
