"""How the solver's time grows: with dims, with decisions, and with the nesting of divisions.

    python -m benchmarks.scaling [--largest 10000] [--json build/scaling.json]

Each family is a series of questionnaires of growing size, made here: no model is traced. A questionnaire is asked as an
export asks it: each question under what was learned before, and each that is open is learned as it was answered. Side
by side stand the time per question and the exponent of growth since the size before it: 1.0 is linear in the size.
Seconds are of this machine (of its processor, whatever else it does), exponents are not.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.table import Table

from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.solver.facts import Facts
from shapeproof.solver.ledger import one_ledger
from shapeproof.solver.prove import truth

DOMAIN = ("b >= 1", "b <= 64", "h >= 8", "h <= 1024", "w >= 8", "w <= 1024")
LEARN = "learn "
"""What begins a line that is a fact and not a question."""


@dataclass(frozen=True, slots=True)
class Family:
    """A series of questionnaires: the text of each line, for a size."""

    name: str
    lines: Callable[[int], Iterator[str]]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One questionnaire: how many questions it asked, in what time, with how much of Z3, and how many stayed open."""

    family: str
    size: int
    questions: int
    seconds: float
    z3_rlimit: int
    undecided: int


def dims(count: int) -> Iterator[str]:
    """As many dims, each with a few questions of its own and of its neighbour: eight questions a dim."""
    for i in range(count):
        yield f"{LEARN}1 <= d{i} <= 4096"
    for i in range(count):
        yield f"(d{i} + 7)//8*8 - d{i} < 8"
        yield f"d{i}*d{(i + 1) % count} >= 1"
        yield f"d{i} % 4 == 0"
        yield f"d{i}//4 != 0"
        yield f"d{i}*16 % 64 == 0"
        yield f"min(d{i}, d{(i + 1) % count}) <= d{i}"
        yield f"d{i} <= d{(i + 1) % count}" if i % 4 == 0 else f"d{i} != {2 * i + 3}"
        yield " + ".join(f"d{j}" for j in range(count)) + f" >= {i + 1}"


def layers(count: int) -> Iterator[str]:
    """A deep network over a fixed domain: each layer pads, splits into windows, and asks of its channels."""
    yield from _domain()
    for i in range(count // 4):
        window, channels = 2 + i % 31, 8 * (1 + i % 97)
        padded = f"(h + {window - 1})//{window}*{window}"
        yield f"{padded} >= h"
        yield f"{padded}*w*{channels} % {window} == 0"
        yield f"b*{channels}*h*w != 0"
        yield f"({padded}) // {window} != {i + 1100}"


def sizes_of_data(count: int) -> Iterator[str]:
    """A size that depends on data in every block, bounded by the sizes of the inputs."""
    yield from _domain()
    for i in range(count // 4):
        yield f"{LEARN}0 <= u{i} <= b*h"
        yield f"u{i}*w >= 0"
        yield f"u{i} <= 65536"
        yield f"u{i} != 0"
        yield f"u{i}*4 % 2 == 0"


def open_questions(count: int) -> Iterator[str]:
    """The worst case: every question about one size is open, so that every answer is one more fact about it."""
    yield "learn h >= 8"
    for i in range(count):
        yield f"h != {3 * i + 70}"


def divisions(depth: int) -> Iterator[str]:
    """A pyramid: each level halves, rounding up, and asks of the level before."""
    yield from _domain()
    level = "h"
    for i in range(depth):
        below = f"({level} + 1)//2"
        yield f"{below} <= {level}"
        yield f"2*({below}) - ({level}) <= 1"
        yield f"{below} >= 1"
        yield f"{below} != {1024 + i}"
        level = below


def _domain() -> Iterator[str]:
    return (LEARN + text for text in DOMAIN)


def families(largest: int) -> list[Family]:
    """All series, with at most so many decisions."""
    decisions = tuple(size for size in (100, 300, 1000, 3000, 10_000) if size <= largest)
    return [
        Family("dims", dims, (1, 2, 4, 8, 16, 32)),
        Family("layers", layers, decisions),
        Family("sizes of data", sizes_of_data, decisions),
        Family("all open", open_questions, decisions),
        Family("nested divisions", divisions, (4, 8, 16, 32, 64)),
    ]


def measure(family: Family, size: int) -> Row:
    """Ask one questionnaire.

    >>> row = measure(Family("dims", dims, (2,)), 2)
    >>> row.questions, row.undecided
    (16, 0)
    """
    lines = [(line.startswith(LEARN), parse_formula(line.removeprefix(LEARN))) for line in family.lines(size)]
    questions = undecided = 0
    with one_ledger() as ledger:
        facts = Facts()
        start = time.process_time()
        for given, formula in lines:
            answer = None if given else truth(formula, facts)
            if answer is not None:
                questions += 1
                undecided += answer.undecided
            if answer is None or answer.always is None:
                facts = facts.fork()
                facts.learn(formula)
        seconds = time.process_time() - start
    return Row(family.name, size, questions, seconds, ledger.rlimit, undecided)


class Timed(Protocol):
    """A row of a family, with its size and its time."""

    @property
    def family(self) -> str:
        """The name of the family."""

    @property
    def size(self) -> int:
        """The size of the case."""

    @property
    def seconds(self) -> float:
        """What the case took."""


def exponent(before: Timed | None, row: Timed) -> float | None:
    """The power of the size by which the time grew; None for the first of a family.

    >>> exponent(Row("f", 10, 10, 1.0, 0, 0), Row("f", 20, 20, 4.0, 0, 0))
    2.0
    """
    if before is None or before.family != row.family:
        return None
    return math.log(row.seconds / before.seconds) / math.log(row.size / before.size)


def exponents(rows: Sequence[Timed]) -> list[float | None]:
    """The power by which the time grew since the row before; None for the first of a family."""
    return [exponent(before, row) for before, row in zip([None, *rows], rows, strict=False)]


def table(rows: Sequence[Row]) -> Table:
    """The rows, for people."""
    result = Table("family", title="how the solver's time grows")
    for name in ("size", "questions", "seconds", "ms each", "exponent", "rlimit", "undecided"):
        result.add_column(name, justify="right")
    for row, power in zip(rows, exponents(rows), strict=True):
        each = f"{1000 * row.seconds / row.questions:.2f}"
        grown = "" if power is None else f"{power:.2f}"
        counts = (f"{row.z3_rlimit:,}", str(row.undecided))
        result.add_row(row.family, str(row.size), str(row.questions), f"{row.seconds:.2f}", each, grown, *counts)
    return result


def main() -> None:
    """Measure every family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=10_000, help="at most so many decisions")
    parser.add_argument("--json", type=Path, default=Path("build/scaling.json"))
    options = parser.parse_args()
    console = Console()
    measure(Family("warm-up", dims, (2,)), 2)
    rows = []
    for family in families(options.largest):
        for size in family.sizes:
            with console.status(f"{family.name}: {size}"):
                rows.append(measure(family, size))
    console.print(table(rows))
    saved = [asdict(row) | {"exponent": power} for row, power in zip(rows, exponents(rows), strict=True)]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
