"""A certificate: what was claimed on the way to the verdicts, as SMT-LIB that any solver can check again.

The file is one SMT-LIB script. Each claim is a block of its own that begins with `(reset)`, says in comments what it
claims from which facts, and ends in a `(check-sat)` that must answer `unsat`. Claims about doubles and bits, which have
no theory here, are listed as comments and counted, never passed over in silence.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from shapeproof.constraints.text import format_formula
from shapeproof.solver.ask import solve_script
from shapeproof.solver.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shapeproof.solver.audit import Auditor, Checked

_RESET = "(reset)"
_HEADER = "; shapeproof certificate"


def write_certificate(
    auditor: Auditor, path: str | Path, names: Mapping[str, str] | None = None, budget: Budget | None = None
) -> dict[str, int]:
    """Write all claims; `names` says what the user calls each symbol. The answer counts the claims by what Z3 said."""
    counts: dict[str, int] = {}
    blocks = []
    for checked in auditor.checked(budget):
        counts[checked.answer] = counts.get(checked.answer, 0) + 1
        blocks.append("\n".join(_block(checked, names or {})))
    total = ", ".join(f"{count} {answer}" for answer, count in sorted(counts.items()))
    head = (
        f"{_HEADER}: {total or 'no claims'}\n; z3-solver {version('z3-solver')}; each (check-sat) must answer unsat\n"
    )
    Path(path).write_text("\n".join([head, *blocks, ""]), encoding="utf-8")
    return counts


def _block(checked: Checked, names: Mapping[str, str]) -> Iterator[str]:
    claim = checked.claim
    yield f"; {claim.rule}: {format_formula(claim.statement, names)}"
    for hypothesis in checked.hypotheses:
        yield f";   from {format_formula(hypothesis, names)}"
    if checked.answer == "opaque":
        yield "; not in SMT-LIB: it speaks of doubles or bits\n"
        return
    script = checked.script
    yield _RESET
    for name, constant in (*script.integers.items(), *script.booleans.items()):
        yield f"; {constant} is {names.get(name, name)}"
    yield script.text
    yield "(check-sat)\n"


def recheck(path: str | Path, budget: Budget | None = None) -> dict[str, int]:
    """Ask Z3 every question of a certificate again, and count the answers: "unsat" is a claim proved once more."""
    text = Path(path).read_text(encoding="utf-8")
    counts: dict[str, int] = {}
    for block in text.split(f"\n{_RESET}\n")[1:]:
        answer = solve_script(block.split("(check-sat)")[0], budget or Budget()).value
        counts[answer] = counts.get(answer, 0) + 1
    return counts
