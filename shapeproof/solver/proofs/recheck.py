"""Prove every claim of a certificate again, from its text alone, with Z3 and, where installed, cvc5.

The file is read as any solver reads it: no term, fact or rewrite of this package is used. The recheck cannot tell
whether the claims are the right ones. A digest in the head shows whether the file is unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shapeproof.constraints.errors import UsageError
from shapeproof.files import given_file, sha256
from shapeproof.solver.budget import Budget
from shapeproof.solver.proofs.certificate import CHECK, DIGEST, OPAQUE, REPORT, RESET, TITLE, VERDICT
from shapeproof.solver.smt.ask import Answer, solve_script

Solver = Callable[[str], Answer]

_RESOURCES = 500_000
"""The limit on cvc5's resource counter for one script: about half a second on a laptop of 2025."""
_COMMANDS = (";", "(assert ", "(declare-const ", "(declare-fun ", "(declare-sort ", "(define-fun ")


@dataclass(frozen=True, slots=True)
class Recheck:
    """The number of claims, and each solver's counts of unsat (which is a proof), sat and unknown."""

    claims: int
    answers: Mapping[str, Counter[str]]
    unproved: int
    """The number of claims without an answer: no solver proved or refuted them."""
    opaque: int = 0
    """The number of claims that are listed but not in SMT-LIB."""
    verdict: str | None = None
    """The verdict of the run; None if the claims are about no run."""
    report: str | None = None
    """The digest of the report that the certificate belongs to."""

    @property
    def of_claims(self) -> str:
        """One word: "refuted" if a solver refuted a claim, "undecided" if one is unproved or opaque, else "proved"."""
        if any(count[Answer.SAT.value] for count in self.answers.values()):
            return "refuted"
        return "undecided" if self.unproved or self.opaque else "proved"

    @property
    def status(self) -> str:
        """The verdict of the run, if all its claims are proved again; otherwise `of_claims`."""
        return self.verdict or "proved" if self.of_claims == "proved" else self.of_claims


def installed_solvers() -> dict[str, Solver]:
    """Return the available solvers by name."""
    solvers: dict[str, Solver] = {"z3": lambda script: solve_script(script, Budget())}
    return solvers | ({"cvc5": _by_cvc5} if find_spec("cvc5") is not None else {})


def _by_cvc5(script: str) -> Answer:
    """Return cvc5's answer to an SMT-LIB script, within a resource limit and with a fixed seed.

    Raises:
        ValueError: the text is not SMT-LIB.
    """
    import cvc5

    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("rlimit-per", str(_RESOURCES))
    solver.setOption("seed", "0")
    solver.setLogic("ALL")
    parser = cvc5.InputParser(solver)
    try:
        parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script, "claim")
        while not (command := parser.nextCommand()).isNull():
            command.invoke(solver, parser.getSymbolManager())
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    result = solver.checkSat()
    return Answer.SAT if result.isSat() else Answer.UNSAT if result.isUnsat() else Answer.UNKNOWN


def recheck(
    path: str | Path, solvers: Mapping[str, Solver] | None = None, progress: Callable[[str], None] = lambda _: None
) -> Recheck:
    """Ask every solver every question of a certificate.

    Raises:
        UsageError: the file is not a certificate, or was changed after it was written.

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
    """Return the head of a certificate, and the SMT-LIB of each claim."""
    try:
        title, second_line, body = given_file(path).decode().split("\n", 2)
    except UsageError:
        raise
    except ValueError:
        raise UsageError(f"{path} is not a certificate") from None
    if title != TITLE or not second_line.startswith(DIGEST):
        raise UsageError(f"{path} is not a certificate of the form that this release reads")
    if second_line != DIGEST + sha256(body):
        raise UsageError(f"{path} is not as it was written: it was changed or cut off")
    head, *blocks = body.split(f"\n{RESET}\n")
    scripts = [_script(block, path, number) for number, block in enumerate(blocks, 1)]
    opaque = body.split("\n").count(OPAQUE)
    if _counted(head) != len(scripts) + opaque:
        raise UsageError(f"{path} holds {len(scripts) + opaque} claims, which is not what its head says")
    return {"verdict": _verdict(head, path), "report": _said(head, REPORT), "opaque": opaque}, scripts


def _script(block: str, path: str | Path, number: int) -> str:
    """Return the block up to its `(check-sat)` line; a comment that contains the text does not count."""
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
    """Return the number of claims that the head states."""
    found = re.search(r"^; (\d{1,9}) claims: \d+ proved, \d+ refuted, \d+ unknown, \d+ opaque$", head, re.MULTILINE)
    return int(found[1]) if found else None


def _said(head: str, label: str) -> str | None:
    """Return the rest of the first head line that begins with the label."""
    begin = f"; {label}"
    return next((line.removeprefix(begin) for line in head.split("\n") if line.startswith(begin)), None)


def _answer(solve: Solver, script: str, path: str | Path, number: int) -> Answer:
    unknown = next((line for line in script.rstrip("\n").split("\n") if line and not line.startswith(_COMMANDS)), None)
    if unknown is not None:  # Z3 would silently skip an unknown command
        raise UsageError(f"claim {number} of {path} is not SMT-LIB: unknown command {unknown!r}")
    try:
        return solve(script)
    except ValueError as error:
        raise UsageError(f"claim {number} of {path} is not SMT-LIB: {error}") from None
