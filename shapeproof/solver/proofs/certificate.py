"""A certificate: the proofs behind a run's verdict, as SMT-LIB that any solver can check without this package.

The file is one SMT-LIB script. Its head names what the claims support: the verdict, and the digest of the report. Each
claim is a block that begins with a reset. Comments state the claim, the facts, and earlier claims that Z3 needs as
lemmas. The block ends in a `(check-sat)` that must answer `unsat`.

There is one claim for each proved answer of the run, for each refuting point that Z3 or exhaustion found, and for each
rewrite and bound of the cheap steps; the last are found by deciding the same questions again. Claims about doubles,
bits and products of very many factors are opaque to Z3. They are listed as comments. So are questions that were refuted
by evaluation, and undecided questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from shapeproof.constraints.formulas import Formula, conjunction, eq
from shapeproof.constraints.meaning.evaluate import defined
from shapeproof.constraints.records.verdicts import Proved, Refuted, Undecided
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import symbol
from shapeproof.files import sha256, write_whole
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.history import BEGINNING, History
from shapeproof.solver.learned.audit import Auditor, Checked, Claim, auditing
from shapeproof.solver.ledger import Entry
from shapeproof.solver.prove import decide
from shapeproof.wording import values_text

RESET = "(reset)\n(set-logic ALL)"
CHECK = "(check-sat)"
TITLE = "; shapeproof certificate 2"
DIGEST = "; sha256 of the lines below: "
VERDICT = "verdict of the run: "
REPORT = "sha256 of the report of the run, as saved: "
"""The first words of the head lines that name what the claims support."""
OPAQUE = "; not in SMT-LIB: it speaks of doubles, bits or products of very many factors"
_SEARCHED = ("z3", "exhaustion")
"""The steps whose refutations become claims."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a certificate: all answers of a run, its budget, and the user's names of symbols."""

    entries: Sequence[Entry]
    names: Mapping[str, str] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    about: Sequence[str] = ()
    """Lines of text for the head of the file."""


def write_certificate(
    subject: Subject, path: str | Path, progress: Callable[[str], None] = lambda _: None
) -> dict[str, int]:
    """Write the certificate of a run.

    Returns:
        The number of claims that Z3 "proved", "refuted" or left "unknown", and of claims that are "opaque" to Z3.

    Raises:
        OSError: the file cannot be written.

    >>> import tempfile
    >>> from shapeproof.solver import prove
    >>> from shapeproof.solver.ledger import one_ledger
    >>> with one_ledger() as ledger, tempfile.TemporaryDirectory() as folder:
    ...     _ = prove("h % 2 == 0", given=["h % 4 == 0"])
    ...     write_certificate(Subject(ledger.entries), Path(folder) / "proof.smt2")["refuted"]
    0
    """
    claims = _claims(subject, progress)
    counts = Counter[str](proved=0, refuted=0, unknown=0, opaque=0)
    blocks = []
    for checked in claims.checked(subject.budget):
        counts[checked.answer] += 1
        blocks.append("\n".join(_block(checked, subject.names)))
        progress(f"claim {len(blocks)} of {len(claims.claims)} proved again")
    blocks += _listed(subject)
    total = f"{len(claims.claims)} claims: " + ", ".join(f"{count} {answer}" for answer, count in counts.items())
    head = [*subject.about, f"z3-solver {version('z3-solver')}; each {CHECK} must answer unsat", total]
    body = "\n".join([*map(_comment, head), "", *blocks, ""])
    write_whole(Path(path), "\n".join([TITLE, DIGEST + sha256(body), body]))
    return dict(counts)


def _claims(subject: Subject, progress: Callable[[str], None]) -> Auditor:
    """Return the proofs of the run, each after the claims of the cheap steps for the same question."""
    chosen = list(_distinct(subject.entries))
    with auditing() as auditor:
        nothing = Facts(budget=subject.budget)
        for done, entry in enumerate(chosen, 1):
            known = nothing.assuming(*entry.facts.formulas)  # learned again: the auditor records every step
            decide(entry.formula, known)
            for claim in _said(entry, known):
                auditor.claims[claim] = None
            progress(f"question {done} of {len(chosen)} decided again")
    return auditor


def _distinct(entries: Sequence[Entry]) -> Iterator[Entry]:
    """The answers to write: proofs not yet given from fewer facts, and points that a search found."""
    written: dict[tuple[Formula, bool], list[History]] = {}
    for entry in entries:
        before = written.setdefault((entry.formula, isinstance(entry.verdict, Proved)), [])
        if isinstance(entry.verdict, Proved):
            if any(history.within(entry.facts) for history in before):
                continue
        elif not _was_searched(entry) or entry.facts in before:
            continue
        before.append(entry.facts)
        yield entry


def _was_searched(entry: Entry) -> bool:
    return isinstance(entry.verdict, Refuted) and entry.verdict.evidence.step in _SEARCHED


def _said(entry: Entry, known: Facts) -> Iterator[Claim]:
    """The answer as claims: each conjunct of a proof, from the facts alone; the formula's failure at a point."""
    definitions = tuple(known.known.definitions.items())
    match entry.verdict:
        case Proved(evidence):
            for part in (*defined(entry.formula).conjuncts, *entry.formula.conjuncts):
                if part.constant is not True:
                    yield Claim(f"proved by {evidence}", entry.facts, definitions, part)
        case Refuted(witness, evidence):
            point = BEGINNING
            for name, value in sorted(witness.items()):
                point = point.then(eq(symbol(name), value))
            fails = conjunction(defined(entry.formula), entry.formula).negation
            yield Claim(f"refuted by {evidence}", point, (), conjunction(*entry.facts.formulas, fails))


def _block(checked: Checked, names: Mapping[str, str]) -> Iterator[str]:
    claim = checked.claim
    yield _comment(f"{claim.rule}: {format_formula(claim.statement, names)}")
    for hypothesis in checked.hypotheses:
        yield _comment(f"  from {format_formula(hypothesis, names)}")
    for lemma in checked.lemmas:
        yield _comment(f"  and, proved above, {format_formula(lemma, names)}")
    if checked.answer == "opaque":
        yield f"{OPAQUE}\n"
        return
    script = checked.script
    yield RESET
    for name, constant in (*script.integers.items(), *script.booleans.items()):
        yield _comment(f"{constant} is {names.get(name, name)}")
    yield script.text
    yield f"{CHECK}\n"


def _listed(subject: Subject) -> Iterator[str]:
    """Comments on answers that no solver checks: points found by evaluation, and undecided questions."""
    lines: dict[str, None] = {}
    for entry in subject.entries:
        text = format_formula(entry.formula, subject.names)
        match entry.verdict:
            case Refuted(witness) if not _was_searched(entry):
                at = values_text(dict(sorted(witness.items())), subject.names)
                lines.setdefault(f"refuted by evaluation: {text} at {at or 'any point'}")
            case Undecided(reason):
                lines.setdefault(f"undecided: {text}: {reason}")
    yield from map(_comment, lines)


def _comment(text: str) -> str:
    """Return the text as a comment: one line, with unprintable characters of names replaced by spaces."""
    return f"; {''.join(each if each.isprintable() else ' ' for each in text)}"
