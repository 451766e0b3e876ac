"""A log of the cheap steps' claims, so that Z3 can prove each claim again from the facts alone.

Inside `with auditing() as auditor:` a Claim is recorded for every rewrite by facts, every bound that settled a
comparison and every consequence drawn while learning. `auditor.check()` proves each claim with Z3 from the original
facts, without simplification and without assumed signs. Make new Facts inside the block: older Facts may hold memoised
answers, which make no claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from shapeproof.constraints.formulas import TRUE, Formula, conjunction, connected, disjunction, eq
from shapeproof.constraints.meaning.evaluate import defined
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.reals import Real
from shapeproof.constraints.terms import Apply, Term, symbol
from shapeproof.solver.budget import Budget
from shapeproof.solver.history import History
from shapeproof.solver.learned.knowledge import Knowledge
from shapeproof.solver.ledger import Ledger
from shapeproof.solver.smt import ask
from shapeproof.solver.smt.ask import Answer
from shapeproof.solver.smt.lower import Script, script


@dataclass(frozen=True, slots=True)
class Claim:
    """A step inferred `statement` from the facts by this rule; `definitions` define the made-up names.

    The claim covers the points at which the statement is defined; definedness is a separate claim.
    """

    rule: str
    facts: History
    definitions: tuple[tuple[str, Term], ...]
    statement: Formula

    @property
    def provable(self) -> bool:
        """True if Z3 interprets everything in the statement; doubles and bits are opaque to it."""
        return not any(isinstance(node, Real | Apply) for node in postorder(self.statement))

    def hypotheses(self) -> list[Formula]:
        """Return the facts, their definedness and the definitions, restricted to those that concern the statement."""
        facts = (part for fact in self.facts.formulas for part in (defined(fact), fact))
        meanings = (eq(symbol(name), term) for name, term in self.definitions)
        everything = [each for each in dict.fromkeys((*facts, *meanings, defined(self.statement))) if each is not TRUE]
        return connected(self.statement.symbols, everything) if self.statement.symbols else everything


@dataclass(slots=True)
class Auditor:
    """The claims of a run, in order and without repetitions."""

    claims: dict[Claim, None] = field(default_factory=dict)

    def check(self, budget: Budget | None = None) -> dict[str, list[Claim]]:
        """Return every claim by Z3's answer: "proved", "refuted", "unknown", or "opaque" if Z3 cannot tell.

        If Z3 cannot prove a claim from the facts alone, it is asked again with claims proved earlier from the same
        facts. Doubles, bits and products of very many factors are opaque: Z3 may prove a claim without their meaning,
        and refutes none.
        """
        report: dict[str, list[Claim]] = {answer: [] for answer in ("proved", "refuted", "unknown", "opaque")}
        for checked in self.checked(budget):
            report[checked.answer].append(checked.claim)
        return report

    def checked(self, budget: Budget | None = None) -> Iterator[Checked]:
        """The claims one by one, each with its answer as in `check`."""
        proved: list[Claim] = []
        for claim in self.claims:
            checked = _checked(claim, proved, budget or Budget())
            proved += [claim] if checked.answer == "proved" else []
            yield checked


@dataclass(frozen=True, slots=True)
class Checked:
    """A claim, Z3's answer, and the assumptions: facts and definitions, and claims proved before."""

    claim: Claim
    answer: str
    hypotheses: tuple[Formula, ...]
    lemmas: tuple[Formula, ...] = ()

    @property
    def script(self) -> Script:
        """The question as SMT-LIB: unsatisfiable if the claim follows."""
        return script([*self.hypotheses, *self.lemmas, self.claim.statement.negation], None)


def _checked(claim: Claim, proved: list[Claim], budget: Budget) -> Checked:
    checked = Checked(claim, "opaque", tuple(claim.hypotheses()))
    for lemmas in _lemmas(claim, proved) if claim.provable else ():
        asked = [*checked.hypotheses, *lemmas, claim.statement.negation]
        answer = ask.satisfy(asked, None, budget, Ledger()).answer
        if answer is Answer.UNSAT or (answer is Answer.SAT and checked.script.exact):
            return replace(checked, answer="proved" if answer is Answer.UNSAT else "refuted", lemmas=lemmas)
    return replace(checked, answer="unknown") if claim.provable and checked.script.exact else checked


def _lemmas(claim: Claim, proved: list[Claim]) -> Iterator[tuple[Formula, ...]]:
    """Lemmas to add to the facts: none; the proved claims over the same symbols; all proved claims."""
    yield ()
    facts, symbols = set(claim.facts.formulas), claim.statement.symbols
    alike = dict.fromkeys(each.statement for each in proved if facts.issuperset(each.facts.formulas))
    near = tuple(each for each in alike if each.symbols <= symbols)
    yield near
    if len(near) < len(alike):
        yield tuple(alike)


_listening: ContextVar[Auditor | None] = ContextVar("auditor", default=None)


@contextmanager
def auditing() -> Iterator[Auditor]:
    """Record the claims made inside the block.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> with auditing() as auditor:
    ...     facts = Facts([parse_formula("h % 4 == 0"), parse_formula("h >= 5")])
    ...     facts.reduce(parse_formula("h // 4 != 1"))
    True
    >>> {answer: len(claims) for answer, claims in auditor.check().items() if answer != "proved"}
    {'refuted': 0, 'unknown': 0, 'opaque': 0}
    """
    auditor = Auditor()
    token = _listening.set(auditor)
    try:
        yield auditor
    finally:
        _listening.reset(token)


def listening() -> bool:
    """True inside of `auditing`: facts are to be learned again there, since a state learned before makes no claims."""
    return _listening.get() is not None


def note(rule: str, known: Knowledge, statement: Formula) -> None:
    """Claim that the statement follows from what is known."""
    auditor = _listening.get()
    if auditor is not None and statement.constant is not True:
        auditor.claims[Claim(rule, known.sources, tuple(known.definitions.items()), statement)] = None


def note_equal(rule: str, known: Knowledge, before: Term, after: Term) -> None:
    """Claim that the two terms are equal by what is known."""
    if _listening.get() is not None:
        note(rule, known, eq(before, after))


def note_same(rule: str, known: Knowledge, before: Formula, after: Formula) -> None:
    """Claim that the two formulas hold at the same points by what is known."""
    if _listening.get() is not None and before is not after:
        both = conjunction(before, after)
        neither = conjunction(before.negation, after.negation)
        note(rule, known, disjunction(both, neither))
