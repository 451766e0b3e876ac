"""The results as they are kept: a file a family, a line an entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zoo.families import ENTRIES

RESULTS = Path(__file__).parent / "results"


def _file(family: str, form: str) -> Path:
    return RESULTS / ("" if form == "dims" else form) / f"{family}.jsonl"


def results(family: str, form: str = "dims") -> dict[str, dict[str, Any]]:
    """What was found of a family whose sizes are declared in this form, by name."""
    path = _file(family, form)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {each["name"]: each for each in map(json.loads, lines)}


def keep(family: str, form: str, found: dict[str, Any]) -> None:
    """Write the result among those of its family, sorted by name."""
    kept = {name: each for name, each in (results(family, form) | {found["name"]: found}).items() if name in ENTRIES}
    path = _file(family, form)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text("".join(json.dumps(kept[name]) + "\n" for name in sorted(kept)), encoding="utf-8")
    unfinished.replace(path)
