"""Writes the ledger anew, or compares it with the one of a commit.

    python -m benchmarks.ledger [--only COLLECTION[/MODEL] ...] [--cases FOLDER]
    python -m benchmarks.ledger --against COMMIT
    python -m benchmarks.ledger --plainly [--only COLLECTION[/MODEL] ...] [--cases FOLDER]

The first writes the files under benchmarks/ledger/kept; with names, their lines alone. It takes some twenty minutes on
two cores. The second ends with status 1 if a verdict differs. So does the third, which exports in the plain way
(shapeproof/plain.py), compares with the lines that are there, and writes none.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.ledger.difference import costs_in_words, plain_in_words, verdicts_in_words
from benchmarks.ledger.lines import FOLDER, Line, read_lines, write_lines
from benchmarks.ledger.running import lines_of
from benchmarks.ledger.sources import FILES, collection

_ROOT = FOLDER.parents[2]
_CASES = _ROOT.parent / "shared" / "cases"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger", description="a ledger of verdicts")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="how names begin: models, cases/issue_6")
    parser.add_argument("--cases", type=Path, default=_CASES, help="the folder of users' cases")
    parser.add_argument("--against", metavar="COMMIT", help="compare the lines that are there with those of a commit")
    parser.add_argument("--plainly", action="store_true", help="compare with the lines that are there")
    chosen = parser.parse_args()
    if chosen.against is not None:
        return _compare(chosen.against)
    return _export(chosen.only, chosen.cases, plainly=chosen.plainly)


def _export(only: Sequence[str] | None, cases: Path, *, plainly: bool) -> int:
    every = [(group, name) for group in FILES for name in collection(group, cases)]
    wanted = [each for each in every if only is None or "/".join(each).startswith(tuple(only))]
    if not wanted:
        print(f"no model is called {' or '.join(only or ())}: the collections are {', '.join(FILES)}", file=sys.stderr)
        return 2
    lines: list[Line] = []
    for line in lines_of(wanted, cases, plainly=plainly):
        lines.append(line)
        print(f"{len(lines)} of {len(wanted)}: {line.name}: {line.status}", file=sys.stderr, flush=True)
    if plainly:
        return _compare_plain(lines)
    for group, path in FILES.items():
        mine = {line.name: line for line in lines if line.name.startswith(f"{group}/")}
        if mine:
            kept = _content(path) if only is not None else {}
            write_lines(path, (kept | mine).values())
    return 0


def _compare_plain(lines: Sequence[Line]) -> int:
    fast = {name: line for path in FILES.values() for name, line in _content(path).items()}
    both = {line.name: line for line in lines if line.name in fast}
    differing = plain_in_words(fast, both)
    print(*differing, *costs_in_words({name: fast[name] for name in both}, both), sep="\n")
    print(f"{len(both)} models: {'the same verdicts both ways' if not differing else 'verdicts differ'}")
    return int(bool(differing))


def _content(path: Path) -> dict[str, Line]:
    return read_lines(path.read_bytes()) if path.exists() else {}


def _compare(commit: str) -> int:
    if _git("rev-parse", "--verify", f"{commit}^{{commit}}").returncode:
        print(f"{commit} is no commit of this repository", file=sys.stderr)
        return 2
    old: dict[str, Line] = {}
    new: dict[str, Line] = {}
    for path in FILES.values():
        old |= _committed(commit, path)
        new |= _content(path)
    verdicts = verdicts_in_words(old, new)
    print(*verdicts, *costs_in_words(old, new), sep="\n")
    print(f"{len(new)} models: {'no verdict differs' if not verdicts else 'verdicts differ'} from {commit}")
    return int(bool(verdicts))


def _committed(commit: str, path: Path) -> dict[str, Line]:
    done = _git("show", f"{commit}:{path.relative_to(_ROOT)}")
    return read_lines(done.stdout) if done.returncode == 0 else {}


def _git(*command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(_ROOT), *command], capture_output=True, check=False)  # noqa: S607


if __name__ == "__main__":
    sys.exit(main())
