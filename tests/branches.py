"""Print which branches of each room a run of `make coverage` has taken; fail where these are too few."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

LEAST = 89.0
"""Percent, of all rooms together; to be raised to 92."""
FOUND = Path("build/coverage/branches.json")


def main() -> None:
    from coverage import Coverage  # only `make coverage` installs it

    measured = Coverage()
    measured.load()
    measured.json_report(outfile=str(FOUND))
    every, taken = Counter[str](), Counter[str]()
    for name, file in json.loads(FOUND.read_text(encoding="utf-8"))["files"].items():
        for room in (str(Path(name).parent), "all rooms"):
            every[room] += file["summary"]["num_branches"]
            taken[room] += file["summary"]["covered_branches"]
    for room in sorted(every, key=lambda each: every[each] - taken[each]):
        sys.stdout.write(f"{room:45} {taken[room]:6} of {every[room]:6}\n")
    percent = 100 * taken["all rooms"] / every["all rooms"]
    sys.stdout.write(f"{percent:.1f} % of the branches\n")
    sys.exit(percent < LEAST)


if __name__ == "__main__":
    main()
