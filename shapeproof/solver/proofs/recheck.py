"""Proves every claim of a certificate again, from its text alone, with Z3 and with cvc5 where that is installed.

It reads the file as any solver would: no term, no fact and no rewrite of this package takes part. What it cannot see is
whether the claims are the right ones; that the file is as it was written is seen by a digest in its head.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shapeproof.constraints.errors import UsageError
from shapeproof.files import read_bounded
from shapeproof.solver.budget import Budget
from shapeproof.solver.proofs import second
from shapeproof.solver.proofs.certificate import CHECK, DIGEST, OPAQUE, REPORT, RESET, TITLE, VERDICT, digest
from shapeproof.solver.smt.ask import solve_script
from shapeproof.solver.smt.session import Answer

Solver = Callable[[str], Answer]

_COMMANDS = (";", "(assert ", "(declare-const ", "(declare-fun ", "(declare-sort ", "(define-fun ")


@dataclass(frozen=True, slots=True)
class Recheck:
    """How many claims there are, and how often each solver answered unsat (which is a proof), sat and unknown."""

    claims: int
    answers: Mapping[str, Counter[str]]
    unproved: int
    """Claims that no solver proved, and none refuted."""
    opaque: int = 0
    """Claims that are listed, and are not in SMT-LIB."""
    verdict: str | None = None
    """What the run said of its model; None where the claims are about none."""
    report: str | None = None
    """The digest of the report that the certificate belongs to."""

    @property
    def of_claims(self) -> str:
        """One word: proved (each claim, by some solver, and none refuted), refuted (some claim) or undecided."""
        if any(count[Answer.SAT.value] for count in self.answers.values()):
            return "refuted"
        return "undecided" if self.unproved or self.opaque else "proved"

    @property
    def status(self) -> str:
        """The verdict of the run, if the claims that it rests on are proved again; else what became of them."""
        return self.verdict or "proved" if self.of_claims == "proved" else self.of_claims


def installed_solvers(budget: Budget | None = None) -> dict[str, Solver]:
    """The solvers that can be asked, by name."""
    limit = budget or Budget()
    solvers: dict[str, Solver] = {"z3": lambda script: solve_script(script, limit)}
    return solvers | ({"cvc5": second.solve} if second.available() else {})


def recheck(
    path: str | Path, solvers: Mapping[str, Solver] | None = None, progress: Callable[[str], None] = lambda _: None
) -> Recheck:
    """Ask every solver every question of a certificate.

    Raises:
        UsageError: the file is not a certificate, or not as it was written.

    >>> import tempfile
    >>> from shapeproof.solver import prove
    >>> from shapeproof.solver.ledger import one_ledger
    >>> from shapeproof.solver.proofs.certificate import Subject, write_certificate
    >>> with one_ledger() as ledger, tempfile.TemporaryDirectory() as folder:
    ...     _ = prove("h % 2 == 0", given=["h % 4 == 0"])
    ...     _ = write_certificate(Subject(ledger.entries), Path(folder) / "proof.smt2")
    ...     recheck(Path(folder) / "proof.smt2").status
    'proved'
    """
    head, scripts = _read(path)
    asked = solvers or installed_solvers()
    answers: dict[str, Counter[str]] = {name: Counter() for name in asked}
    unproved = 0
    for number, script in enumerate(scripts, 1):
        given = {name: _answer(solve, script, path, number) for name, solve in asked.items()}
        for name, answer in given.items():
            answers[name][answer.value] += 1
        unproved += not {Answer.SAT, Answer.UNSAT} & set(given.values())
        progress(f"{number * 10 // len(scripts) * 10}% of {len(scripts)} claims proved again")
    return Recheck(len(scripts), answers, unproved, **head)


def _read(path: str | Path) -> tuple[dict[str, Any], list[str]]:
    """What a certificate says of itself, and the SMT-LIB of each claim."""
    try:
        title, second_line, body = read_bounded(Path(path)).decode().split("\n", 2)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path} is not a certificate") from None
    if title != TITLE or not second_line.startswith(DIGEST):
        raise UsageError(f"{path} is not a certificate of the form that this release reads")
    if second_line != DIGEST + digest(body):
        raise UsageError(f"{path} is not as it was written: it was changed or cut off")
    head, *blocks = body.split(f"\n{RESET}\n")
    scripts = [_script(block, path, number) for number, block in enumerate(blocks, 1)]
    opaque = body.split("\n").count(OPAQUE)
    if _counted(head) != len(scripts) + opaque:
        raise UsageError(f"{path} holds {len(scripts) + opaque} claims, which is not what its head says")
    return {"verdict": _verdict(head, path), "report": _said(head, REPORT), "opaque": opaque}, scripts


def _script(block: str, path: str | Path, number: int) -> str:
    """The block up to the line that asks; what a comment says is no such line."""
    script, asks, _ = f"\n{block}".partition(f"\n{CHECK}\n")
    if not asks:
        raise UsageError(f"claim {number} of {path} is not SMT-LIB: it has no {CHECK}")
    return script.removeprefix("\n") + "\n"


def _verdict(head: str, path: str | Path) -> str | None:
    found = _said(head, VERDICT)
    if found not in {None, "proved", "refuted", "undecided", "vacuous"}:
        raise UsageError(f"{path} is of a run whose verdict is {found!r}, which is none")
    return found


def _counted(head: str) -> int | None:
    """How many claims the head speaks of."""
    found = re.search(r"^; (\d{1,9}) claims: \d+ proved, \d+ refuted, \d+ unknown, \d+ opaque$", head, re.MULTILINE)
    return int(found[1]) if found else None


def _said(head: str, label: str) -> str | None:
    """What the first line of the head says that begins so."""
    begin = f"; {label}"
    return next((line.removeprefix(begin) for line in head.split("\n") if line.startswith(begin)), None)


def _answer(solve: Solver, script: str, path: str | Path, number: int) -> Answer:
    unknown = next((line for line in script.rstrip("\n").split("\n") if line and not line.startswith(_COMMANDS)), None)
    if unknown is not None:  # Z3 would pass over a command that it does not know
        raise UsageError(f"claim {number} of {path} is not SMT-LIB: unknown command {unknown!r}")
    try:
        return solve(script)
    except ValueError as error:
        raise UsageError(f"claim {number} of {path} is not SMT-LIB: {error}") from None
