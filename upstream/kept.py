"""What was found, as it is kept: one line a test, its verdict, and the class of the exception that ours ends with.

docs/how-to/torchs-own-tests.md says what each verdict means, and the policies.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upstream.suite import Found

RESULTS = Path(__file__).parent / "results.txt"
POLICY = "policy:"


@dataclass(frozen=True, slots=True)
class Line:
    """One test: its name, the verdict, and the class of our exception."""

    name: str
    verdict: str
    error: str = ""

    def __str__(self) -> str:
        return f"{self.name:<88} {self.verdict:<19} {self.error}".rstrip()


def verdict(torchs: Found, ours: Found, before: Line | None) -> str:
    """The verdict on a test; the policy of its line is kept as long as only ours fails, with the same class."""
    if ours.outcome != "fails":
        return "only-torch-fails" if (ours.outcome, torchs.outcome) == ("passes", "fails") else ours.outcome
    if torchs.outcome == "fails":
        return "torch-fails"
    explained = before is not None and before.verdict.startswith(POLICY) and before.error == ours.error
    return before.verdict if before is not None and explained else "fails"


def results() -> dict[str, Line]:
    """The lines that are kept, by name."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {each.name: each for each in (Line(*line.split()) for line in lines)}


def keep(lines: dict[str, Line]) -> None:
    """Write the lines, sorted by name."""
    RESULTS.write_text("".join(f"{lines[name]}\n" for name in sorted(lines)), encoding="utf-8")
