"""Who decides what real exports ask: shapeproof's solver and its peers, on the same questions, in one run.

    python -m benchmarks.solver [--peers NAME ...] [--seconds 150] [--json build/solver.json] [recording ...]

Asked are: the 437 guards of swin_guards.txt; every recording in corpora/, each question under the domain and the
outcomes before it; and the textbook facts of facts.txt. Each peer is a process of its own, one after the other.
What is claimed is held against points of the domain (scoring.py). Ends with 1 if shapeproof leaves a question
undecided or answers one wrongly. Seconds are those that this machine's processor spent; ratios and counts carry over.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks import tables
from benchmarks.corpus import CORPORA, GUARDS, Recording, formulas, load
from benchmarks.peers.processes import OURS, PEERS, NotInstalledError, Spec, answers
from benchmarks.peers.worker import Session, Step
from benchmarks.scoring import Scored, first_point, scored
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.domain import ranges

FACTS = Path(__file__).with_name("facts.txt")
TEXTBOOK = "textbook facts"
WIDTH = 110
"""The tables need so many columns, wherever they are written to."""


def session_of(recording: Recording, seconds: float) -> Session:
    """The questions of a recording, as they are put to a peer."""
    steps = [
        Step(None if question.kind == "promised" else question.written, _learned(question.written, question.outcome))
        for question in recording.questions
    ]
    return Session(
        recording.name,
        tuple(map(str, recording.declared)),
        _bounds(recording.declared),
        dict(recording.example),
        tuple(steps),
        seconds,
    )


def _learned(written: str, outcome: bool | None) -> str | None:  # noqa: FBT001 - an outcome, not a flag
    """What is learned, in the words of the question."""
    return None if outcome is None else written if outcome else f"not ({written})"


def _bounds(declared: Iterable[Formula]) -> dict[str, tuple[int | None, int | None]]:
    return {name: (interval.lower, interval.upper) for name, interval in ranges(declared).items()}


def textbook(text: str, seconds: float) -> list[Session]:
    r"""One session for each line `formula  # domain`.

    >>> [session.declared for session in textbook("# About n.\nn//2*2 <= n  # 1 <= n <= 9, n != 4", 1.0)]
    [('n >= 1 and n <= 9', 'n != 4')]
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [_fact(line, seconds) for line in lines]


def _fact(line: str, seconds: float) -> Session:
    formula, domain = line.split("  # ")
    declared = formulas(domain)
    texts, bounds = tuple(map(str, declared)), _bounds(declared)
    return Session(formula, texts, bounds, first_point(texts, bounds), (Step(formula),), seconds)


def ask_all(spec: Spec, groups: Mapping[str, Sequence[Session]]) -> dict[str, list[Scored]]:
    """What a peer answers to each group of sessions, and where it is wrong."""
    return {
        name: [
            each for session, given in zip(group, answers(spec, group), strict=True) for each in scored(session, given)
        ]
        for name, group in groups.items()
    }


def recorded(names: Sequence[str]) -> list[Path]:
    """The files of these recordings; all of them if none is named.

    Raises:
        SystemExit: there is none of that name.
    """
    paths = {path.stem: path for path in (GUARDS, *sorted(CORPORA.glob("*.txt")))}
    if unknown := set(names) - paths.keys():
        sys.exit(f"There is no recording {', '.join(sorted(unknown))}; there are {', '.join(paths)}.")
    return [paths[name] for name in names or paths]


def main() -> None:
    """Ask, score and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*", metavar="recording")
    parser.add_argument(
        "--peers", nargs="*", choices=[spec.name for spec in PEERS], help="beside shapeproof; default: all"
    )
    parser.add_argument("--seconds", type=float, default=150.0, help="what a peer may spend on one recording")
    parser.add_argument("--json", type=Path, default=Path("build/solver.json"))
    options = parser.parse_args()
    groups = {path.stem: [session_of(load(path), options.seconds)] for path in recorded(options.recordings)}
    if not options.recordings:
        groups[TEXTBOOK] = textbook(FACTS.read_text(encoding="utf-8"), options.seconds)
    console = Console()
    console.width = max(console.width, WIDTH)
    results: dict[str, dict[str, list[Scored]]] = {}
    left_out: list[str] = []
    for spec in PEERS:
        if spec is OURS or options.peers is None or spec.name in options.peers:
            with console.status(f"asking {spec.name}"):
                try:
                    results[spec.name] = ask_all(spec, groups)
                except NotInstalledError as reason:
                    left_out.append(str(reason))
    for table in tables.all_tables(results, OURS.name, GUARDS.stem, TEXTBOOK):
        console.print(table)
    for line in (*left_out, *tables.findings(results, OURS.name, GUARDS.stem)):
        console.print(line)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(_saved(results, left_out), indent=1) + "\n", encoding="utf-8")
    ours = [each for group in results[OURS.name].values() for each in group]
    sys.exit(any(each.wrong or not each.decided for each in ours))


def _saved(results: Mapping[str, Mapping[str, Sequence[Scored]]], left_out: Sequence[str]) -> dict[str, object]:
    """Everything, for machines."""
    packages = ("shapeproof", "torch", "z3-solver")
    return {
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "requirements": {spec.name: spec.requirement for spec in PEERS if spec.requirement},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "left_out": list(left_out),
        "answers": {
            peer: {group: [asdict(each) for each in every] for group, every in groups.items()}
            for peer, groups in results.items()
        },
    }


if __name__ == "__main__":
    main()
