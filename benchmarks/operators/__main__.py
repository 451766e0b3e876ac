"""Holds torch's own operators against their fake kernels and decompositions, and lists where these disagree.

    python -m benchmarks.operators [--quick] [--only NAME...] [--journal FILE]

1. batch.py: torch's database of operators, at sizes 0, 1 and 2, in six dtypes and five other layouts.
2. symbolic.py: one call of each operator that was met, its sizes dynamic, as `check_operator` does it.
3. trying.py: each disagreement in programs that look at it: none may be proved, and do something else than eager.
   A call that only the kernel, or only the fake, refuses needs no trial: the program runs the kernel, or there is none.

The list is disagreements.json, and docs/explanation/where-fakes-differ.md. Exit status 1: a wrong "proved" was found.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.operators.gathering import Gathered, Journal, gather
from benchmarks.operators.listing import BECAUSE, figures, write
from benchmarks.operators.samples import names

_MOST, _QUICK = 4, 2
"""Samples of each dtype and function."""


def main() -> int:
    """Sweep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK} samples of each dtype instead of {_MOST}")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="functions of the database; the list is not written")
    parser.add_argument("--journal", type=Path, help="keep each batch here; a sweep that was broken off resumes")
    chosen = parser.parse_args()
    into, journal = Gathered(_QUICK if chosen.quick else _MOST), Journal(chosen.journal)
    journal.replay(into)
    gather("batch", chosen.only or names(), into, _progress, journal)
    gather("symbolic", [json.dumps(vars(call)) for call in into.seen.values()], into, _progress, journal)
    looked_at = [kept[0] for (_, _, kind), kept in into.found.items() if kind not in BECAUSE]
    gather("trying", [json.dumps(each.data()) for each in looked_at], into, _progress, journal)
    print(figures(into))
    if not chosen.only:
        write(into)
    return int(any(one["wrong"] for each in into.tried for one in each["tried"]))


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
