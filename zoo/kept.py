"""The results as they are kept: a file a family, a line an entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zoo.families import ENTRIES

RESULTS = Path(__file__).parent / "results"


def results(family: str) -> dict[str, dict[str, Any]]:
    """What was found of a family, by name."""
    path = RESULTS / f"{family}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {each["name"]: each for each in map(json.loads, lines)}


def keep(family: str, found: dict[str, Any]) -> None:
    """Write the result among those of its family, sorted by name."""
    kept = {name: each for name, each in (results(family) | {found["name"]: found}).items() if name in ENTRIES}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{family}.jsonl"
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text("".join(json.dumps(kept[name]) + "\n" for name in sorted(kept)), encoding="utf-8")
    unfinished.replace(path)
