"""What was found, as it is kept: one line a test, its verdict, and the class of the exception that ours ends with.

passes         with our export
torch-fails    with torch's own export too: the test is of another release
only-torch-fails  passes with ours alone
skipped        asks for what this machine does not have
policy:KEY     only with ours, for a reason that docs/how-to/torchs-own-tests.md gives under this key
fails          only with ours, and not explained
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
    """The verdict on a test; a policy that its line named before is kept as long as only ours fails."""
    if ours.outcome != "fails":
        return "only-torch-fails" if (ours.outcome, torchs.outcome) == ("passes", "fails") else ours.outcome
    if torchs.outcome == "fails":
        return "torch-fails"
    return before.verdict if before is not None and before.verdict.startswith(POLICY) else "fails"


def results() -> dict[str, Line]:
    """The lines that are kept, by name."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {each.name: each for each in (Line(*line.split()) for line in lines)}


def keep(lines: dict[str, Line]) -> None:
    """Write the lines, sorted by name."""
    RESULTS.write_text("".join(f"{lines[name]}\n" for name in sorted(lines)), encoding="utf-8")
