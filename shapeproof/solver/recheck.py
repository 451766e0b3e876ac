"""Proves every claim of a certificate again, from its text alone, with Z3 and with cvc5 where that is installed.

It reads the file as any solver would: no term, no fact and no rewrite of this package takes part. What it cannot see is
whether the claims are the right ones; that the file is as it was written is seen by a digest in its head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shapeproof.constraints.errors import UsageError
from shapeproof.solver import second
from shapeproof.solver.ask import solve_script
from shapeproof.solver.budget import Budget
from shapeproof.solver.certificate import CHECK, DIGEST, RESET, TITLE, digest
from shapeproof.solver.session import Answer

Solver = Callable[[str], Answer]

_COMMANDS = (";", "(assert ", "(declare-const ", "(declare-fun ", "(declare-sort ", "(define-fun ")


@dataclass(frozen=True, slots=True)
class Recheck:
    """How many claims there are, and how often each solver answered unsat (which is a proof), sat and unknown."""

    claims: int
    answers: Mapping[str, Counter[str]]
    unproved: int
    """Claims that no solver proved, and none refuted."""

    @property
    def status(self) -> str:
        """One word: proved (each claim, by some solver, and none refuted), refuted (some claim) or undecided."""
        if any(count[Answer.SAT.value] for count in self.answers.values()):
            return "refuted"
        return "undecided" if self.unproved else "proved"


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
    >>> from shapeproof.solver.budget import one_ledger
    >>> from shapeproof.solver.certificate import Subject, write_certificate
    >>> with one_ledger() as ledger, tempfile.TemporaryDirectory() as folder:
    ...     _ = prove("h % 2 == 0", given=["h % 4 == 0"])
    ...     _ = write_certificate(Subject(ledger.entries), Path(folder) / "proof.smt2")
    ...     recheck(Path(folder) / "proof.smt2").status
    'proved'
    """
    scripts = _scripts(path)
    asked = solvers or installed_solvers()
    answers: dict[str, Counter[str]] = {name: Counter() for name in asked}
    unproved = 0
    for number, script in enumerate(scripts, 1):
        given = {name: _answer(solve, script, path, number) for name, solve in asked.items()}
        for name, answer in given.items():
            answers[name][answer.value] += 1
        unproved += not {Answer.SAT, Answer.UNSAT} & set(given.values())
        progress(f"{number * 10 // len(scripts) * 10}% of {len(scripts)} claims proved again")
    return Recheck(len(scripts), answers, unproved)


def _scripts(path: str | Path) -> list[str]:
    """The SMT-LIB of each claim."""
    try:
        title, second_line, body = Path(path).read_text(encoding="utf-8").split("\n", 2)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path} is not a certificate") from None
    if title != TITLE or not second_line.startswith(DIGEST):
        raise UsageError(f"{path} is not a certificate of the form that this release reads")
    if second_line != DIGEST + digest(body):
        raise UsageError(f"{path} is not as it was written: it was changed or cut off")
    return [block.partition(CHECK)[0] for block in body.split(f"\n{RESET}\n")[1:]]


def _answer(solve: Solver, script: str, path: str | Path, number: int) -> Answer:
    unknown = next((line for line in script.splitlines() if not line.startswith(_COMMANDS)), None)
    if unknown is not None:  # Z3 would pass over a command that it does not know
        raise UsageError(f"claim {number} of {path} is not SMT-LIB: unknown command {unknown!r}")
    try:
        return solve(script)
    except ValueError as error:
        raise UsageError(f"claim {number} of {path} is not SMT-LIB: {error}") from None
