r"""Recorded questions as text: one a line in Python syntax, in program order. Reads and writes; decides nothing.

    # unet: ... in program order; Python syntax, one a line.
    # Example: batch=2, height=50. Declared: 1 <= batch <= 16, 8 <= height <= 512.
    height//2 != 1  # assumed True
    batch*(height//2) >= 2  # static

The comment after a question says why it was asked, and for a decision the outcome, which holds from there on:

- `static`    what is known is asked, and nothing learned;
- `branch`    code took a side because of a size;
- `assumed`   the tracer assumed an answer that eager never asks for;
- `asserted`  eager raises exactly where it fails;
- `promised`  an operator promises it: no question, a fact.

A line without a comment is a branch that was taken, as in the first such file (swin_guards.txt).

>>> text = "# Example: n=6. Declared: 1 <= n <= 9, max(n, 2) <= 8.\nn//2 == 1  # assumed False\n"
>>> recording = parse(text, "halves")
>>> recording.declared, recording.example, recording.questions[0].learned
((n >= 1 and n <= 9, max(n, 2) <= 8), {'n': 6}, n//2 != 1)
>>> parse(recording.text, "halves") == recording
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.syntax.text import FormulaSyntaxError, parse_formula

CORPORA = Path(__file__).parent / "corpora"
GUARDS = Path(__file__).parents[1] / "tests" / "constraints" / "swin_guards.txt"
"""437 decisions of a two-stage Swin, recorded from torch's own ShapeEnv, as torch writes them."""

KINDS = ("static", "branch", "assumed", "asserted", "promised")
_HEAD = re.compile(r"^# Example: (?P<example>.*?)\. Declared: (?P<declared>.*)\.$", re.MULTILINE)
_BETWEEN = re.compile(r",\s+(?![^()]*\))")
_NOTE = re.compile(r"^(?P<formula>.*?)(?:\s+# (?P<kind>\w+)(?: (?P<outcome>True|False))?)?$")


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, why, and the outcome that was gone on with; None where nothing was learned from it.

    `written` is the text as it stands in the file: a formula is canonical as soon as it is parsed, and who is to
    be compared must be asked the same.
    """

    formula: Formula
    kind: str
    outcome: bool | None
    written: str

    @property
    def learned(self) -> Formula | None:
        """What holds from here on, if anything is learned."""
        if self.outcome is None:
            return None
        return self.formula if self.outcome else self.formula.negation

    @property
    def text(self) -> str:
        """The line in the file."""
        return f"{self.written}  # {self.kind}" + ("" if self.outcome is None else f" {self.outcome}")


@dataclass(frozen=True, slots=True)
class Recording:
    """The declared domain, the sizes of the trace, and the questions in order."""

    name: str
    declared: tuple[Formula, ...]
    example: Mapping[str, int]
    questions: tuple[Question, ...]
    about: tuple[str, ...] = ()
    """What the file says about itself."""

    @property
    def text(self) -> str:
        """The file."""
        sizes = ", ".join(f"{name}={value}" for name, value in self.example.items())
        declared = ", ".join(map(str, self.declared))
        head = [*(f"# {line}" for line in self.about), f"# Example: {sizes}. Declared: {declared}."]
        return "\n".join([*head, *(question.text for question in self.questions)]) + "\n"


def parse(text: str, name: str) -> Recording:
    """The recording that a file is.

    Raises:
        UsageError: a line is none; the sentence says which.
    """
    head = _HEAD.search(text)
    if head is None:
        message = f"{name} does not say `# Example: n=6. Declared: 1 <= n <= 9.`"
        raise UsageError(message)
    example = {key.strip(): int(value) for key, value in (pair.split("=") for pair in head["example"].split(","))}
    declared = formulas(head["declared"])
    about = [line[2:] for line in text.splitlines() if line.startswith("# ") and line != head[0]]
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line and not line.startswith("#")]
    questions = tuple(_question(line, f"{name}:{number}") for number, line in lines)
    return Recording(name, declared, example, questions, tuple(about))


def formulas(text: str) -> tuple[Formula, ...]:
    """The formulas between the commas of a list.

    >>> formulas("1 <= n <= 9, max(n, 2) <= 8")
    (n >= 1 and n <= 9, max(n, 2) <= 8)
    """
    return tuple(map(parse_formula, _BETWEEN.split(text)))


def load(path: Path) -> Recording:
    """The recording in a file, by the name of the file."""
    return parse(path.read_text(encoding="utf-8"), path.stem)


def _question(line: str, place: str) -> Question:
    parts = _NOTE.match(line)
    kind, outcome = (parts["kind"] or "branch", parts["outcome"]) if parts else ("", None)
    if parts is None or kind not in KINDS or (outcome is None) != (kind == "static" or parts["kind"] is None):
        message = f"{place}: after a question stands one of {', '.join(KINDS)}, and the outcome of a decision"
        raise UsageError(message)
    try:
        formula = parse_formula(parts["formula"])
    except FormulaSyntaxError as error:
        message = f"{place}: {error}"
        raise UsageError(message) from None
    taken = None if kind == "static" else outcome != "False"
    return Question(formula, kind, taken, parts["formula"])
