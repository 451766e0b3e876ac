"""The page of the zoo, written from its results: `python -m zoo.page`. It measures nothing."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from zoo.families import FAMILIES
from zoo.kept import results

PAGE = Path(__file__).parents[1] / "docs" / "zoo.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->"
Row = Mapping[str, Any]


def of_torch(row: Row) -> str:
    """What torch.export makes of the declaration, in a word.

    >>> of_torch({"torch": {"status": "exported", "beside_eager": {"agrees": 5, "refuses": 1}}})
    'narrows'
    """
    found = row["torch"]
    counts = found.get("beside_eager", {})
    if found["status"] != "exported":
        return found["status"]
    if counts.get("differs") or counts.get("returns where eager raises"):
        return "is wrong"
    return "narrows" if counts.get("refuses") else "raises late" if counts.get("both raise") else "is right"


def of_ours(row: Row) -> str:
    """Our status, in a word; whatever differs from eager inside a proved domain is wrong.

    A repair that fixes a dim to the example's size is none that a user would take.

    >>> of_ours({"shapeproof": {"status": "proved", "beside_eager": {"agrees": 7, "refuses": 1}}})
    'wrong'
    """
    found = row["shapeproof"]
    counts = dict(found.get("beside_eager", {}))
    if found["status"] == "proved" and counts.keys() - {"agrees", "both raise"}:
        return "wrong"
    repair = found.get("repair", {})
    fixed = [line for line in repair.get("code", []) if line.partition(" = ")[2].isdigit()]
    repaired = repair.get("status") == "proved" and not fixed
    return "repaired" if found["status"] == "refuted" and repaired else str(found["status"])


def ratio(row: Row) -> float | None:
    """Our time by torch's, where both came to an end of their own."""
    ours, theirs = (row[each] for each in ("shapeproof", "torch"))
    ended = ours["status"] in {"proved", "refuted", "undecided"} and theirs["status"] in {"exported", "rejects"}
    return ours["seconds"] / theirs["seconds"] if ended and theirs["seconds"] else None


def measured(families: Mapping[str, Mapping[str, Row]]) -> str:
    """The figures and tables of the page, as Markdown."""
    rows = [row for family in families.values() for row in family.values()]
    lines = [*_summary(rows), ""]
    for family, found in families.items():
        lines += [f"## {family.capitalize()}", "", *_table(found.values()), "", *_reasons(found.values())]
    return "\n".join(lines).rstrip() + "\n"


def _summary(rows: list[Row]) -> Iterable[str]:
    ours, theirs = Counter(map(of_ours, rows)), Counter(map(of_torch, rows))
    both = [each for each in map(ratio, rows) if each is not None]
    torch = ", ".join(sorted({row["versions"]["torch"] for row in rows}))
    ahead = sum(of_ours(row) == "proved" and of_torch(row) != "is right" for row in rows)
    yield f"{len(rows)} architectures, torch {torch}."
    yield ""
    yield "| | " + " | ".join(theirs) + " | all |"
    yield "|---|" + "---:|" * (len(theirs) + 1)
    for status, count in ours.most_common():
        cells = [sum(of_ours(row) == status and of_torch(row) == each for row in rows) for each in theirs]
        yield f"| **{status}** | " + " | ".join(map(str, cells)) + f" | {count} |"
    yield "| all | " + " | ".join(map(str, theirs.values())) + f" | {len(rows)} |"
    yield ""
    yield f"Proved where torch.export rejects, narrows or is wrong: {ahead}. "
    yield f"Time by that of torch.export: median {statistics.median(both):.2f}, most {max(both):.1f}."


def _table(rows: Iterable[Row]) -> Iterable[str]:
    yield "| architecture | verdict | contract | torch.export | seconds, ours | ratio |"
    yield "|---|---|---|---|---:|---:|"
    for row in rows:
        by = ratio(row)
        ours = row["shapeproof"]
        contract = "; ".join(_bounds(ours.get("contract", []) or ours.get("repair", {}).get("code", [])))
        cells = (
            row["name"],
            of_ours(row),
            contract,
            of_torch(row),
            f"{ours['seconds']:.1f}",
            f"{by:.1f}" if by else "",
        )
        yield "| " + " | ".join(cells) + " |"


def _bounds(formulas: Iterable[str]) -> Iterable[str]:
    """Texts as code; two bounds of one size are one.

    >>> list(_bounds(["x >= 1", "x <= 64", "x % 2 == 0"]))
    ['`1 <= x <= 64`', '`x % 2 == 0`']
    """
    lines = list(formulas)
    for index, each in enumerate(lines):
        size, _, least = each.partition(" >= ")
        most = [later for later in lines[index:] if least and later.startswith(f"{size} <= ")]
        if most:
            lines.remove(most[0])
        shown = f"{least} <= {most[0]}" if most else each
        yield "`" + shown.replace("|", "\\|") + "`"


def _reasons(rows: Iterable[Row]) -> Iterable[str]:
    """What is not proved, and why: the line, what is said there, and what to declare instead."""
    for row in rows:
        found = row["shapeproof"]
        if of_ours(row) == "proved":
            continue
        said = [f"{why['says']}{' at `' + why['line'] + '`' if why['line'] else ''}" for why in found.get("why", [])]
        reason = "; ".join(said) or found.get("said") or f"no verdict in {found['seconds']:.0f} seconds"
        repair = found.get("repair", {})
        code = [*repair.get("code", []), *repair.get("constraints", [])]
        proved = f" Declare {', '.join(_bounds(code))}: {repair['status']}." if code and "status" in repair else ""
        yield f"- **{row['name']}** ({of_ours(row)}): {_plain(reason)}.{proved}"
    yield ""


def _plain(text: str) -> str:
    return text.replace("\n", " ").replace("<", "&lt;").rstrip(".")


def with_figures(page: str, families: Mapping[str, Mapping[str, Row]]) -> str:
    """The page's text with the results between its two comments."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n" + measured(families) + "\n" + END + rest.partition(END)[2]


def main() -> None:
    """Write the results into the page."""
    found = {family: results(family) for family in FAMILIES}
    PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
