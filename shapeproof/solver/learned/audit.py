"""What the cheap steps claimed, written down so that Z3 can prove it again from the facts alone.

Inside `with auditing() as auditor:` every rewrite by facts, every bound that settled a comparison and every consequence
drawn on learning leaves a Claim. `auditor.check()` proves each with Z3 on the facts as they were given, with nothing
simplified and no sign taken for granted. Facts made before the block may remember answers from before it: make new
ones.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shapeproof.constraints.formulas import TRUE, Formula, conjunction, disjunction, eq
from shapeproof.constraints.meaning.definedness import defined
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.reals import Real
from shapeproof.constraints.terms import Apply, Term, symbol
from shapeproof.solver.budget import Budget
from shapeproof.solver.ledger import Ledger
from shapeproof.solver.smt import ask
from shapeproof.solver.smt.lower import Script, script
from shapeproof.solver.smt.session import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shapeproof.solver.history import History
    from shapeproof.solver.learned.knowledge import Knowledge


@dataclass(frozen=True, slots=True)
class Claim:
    """`statement` was taken to follow from the facts, by this rule; made-up names mean what `definitions` say.

    It is claimed of the points at which it is defined: that it is everywhere is a claim of its own.
    """

    rule: str
    facts: History
    definitions: tuple[tuple[str, Term], ...]
    statement: Formula

    @property
    def provable(self) -> bool:
        """Whether Z3 knows what the statement is about: it knows nothing of doubles and bits."""
        return not any(isinstance(node, Real | Apply) for node in postorder(self.statement))

    def hypotheses(self) -> list[Formula]:
        """The facts, each defined where it holds, and the definitions, as far as they bear on the statement."""
        facts = (part for fact in self.facts.formulas for part in (defined(fact), fact))
        meanings = (eq(symbol(name), term) for name, term in self.definitions)
        everything = [each for each in dict.fromkeys((*facts, *meanings, defined(self.statement))) if each is not TRUE]
        return _connected(everything, self.statement.symbols) if self.statement.symbols else everything


@dataclass(slots=True)
class Auditor:
    """The claims of a run, in order and without repetitions."""

    claims: dict[Claim, None] = field(default_factory=dict)

    def check(self, budget: Budget | None = None) -> dict[str, list[Claim]]:
        """Every claim under the answer that Z3 gave: "proved", "refuted", "unknown", or "opaque" where it cannot say.

        A claim that Z3 does not prove from the facts alone is tried again with what it has proved before from the
        same facts. Doubles, bits and products of very many factors are opaque: Z3 may prove without their meaning, and
        refutes nothing.
        """
        report: dict[str, list[Claim]] = {answer: [] for answer in ("proved", "refuted", "unknown", "opaque")}
        for checked in self.checked(budget):
            report[checked.answer].append(checked.claim)
        return report

    def checked(self, budget: Budget | None = None) -> Iterator[Checked]:
        """The claims one by one with the answers of `check`."""
        proved: list[Claim] = []
        for claim in self.claims:
            checked = _checked(claim, proved, budget or Budget())
            proved += [claim] if checked.answer == "proved" else []
            yield checked


@dataclass(frozen=True, slots=True)
class Checked:
    """A claim, what Z3 said of it, and what was taken for granted: facts with definitions, and claims proved before."""

    claim: Claim
    answer: str
    hypotheses: tuple[Formula, ...]
    lemmas: tuple[Formula, ...] = ()

    @property
    def script(self) -> Script:
        """The question as SMT-LIB: unsatisfiable where the claim follows."""
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
    """What to go by beside the facts: nothing, what was proved of the same symbols, all that was proved."""
    yield ()
    facts, symbols = set(claim.facts.formulas), claim.statement.symbols
    alike = dict.fromkeys(each.statement for each in proved if facts.issuperset(each.facts.formulas))
    near = tuple(each for each in alike if each.symbols <= symbols)
    yield near
    if len(near) < len(alike):
        yield tuple(alike)


def _connected(formulas: list[Formula], symbols: frozenset[str]) -> list[Formula]:
    """The formulas that share symbols with these, or with such formulas, and so on; and those without symbols."""
    reached, left = set(symbols), formulas
    while True:
        touching = {each for each in left if not reached.isdisjoint(each.symbols)}
        if not touching:
            return [each for each in formulas if not each.symbols or not reached.isdisjoint(each.symbols)]
        left = [each for each in left if each not in touching]
        reached.update(*(each.symbols for each in touching))


_listening: ContextVar[Auditor | None] = ContextVar("auditor", default=None)


@contextmanager
def auditing() -> Iterator[Auditor]:
    """Collect the claims made inside the block.

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


def note(rule: str, known: Knowledge, statement: Formula) -> None:
    """The statement follows from what is known."""
    auditor = _listening.get()
    if auditor is not None and statement.constant is not True:
        auditor.claims[Claim(rule, known.sources, tuple(known.definitions.items()), statement)] = None


def note_equal(rule: str, known: Knowledge, before: Term, after: Term) -> None:
    """The two terms are equal by what is known."""
    if _listening.get() is not None:
        note(rule, known, eq(before, after))


def note_same(rule: str, known: Knowledge, before: Formula, after: Formula) -> None:
    """The two formulas hold at the same points, by what is known."""
    if _listening.get() is not None and before is not after:
        both = conjunction(before, after)
        neither = conjunction(before.negation, after.negation)
        note(rule, known, disjunction(both, neither))
