"""The page of the zoo, and the specs that `shapeproof zoo` prints, from the results: `python -m zoo.page`.

It measures nothing.
"""

from __future__ import annotations

import json
import statistics
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from zoo.declared import FORMS, spec_text
from zoo.families import ENTRIES, FAMILIES
from zoo.kept import results

PAGE = Path(__file__).parents[1] / "docs" / "zoo.md"
SPECS = Path(__file__).parent / "specs.json"
TITLES = {"auto": "With every size AUTO", "specs": "In torch's spec language"}
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


def of_ours(row: Row, *, inferred: bool = False) -> str:
    """Our status, in a word; whatever differs from eager inside a proved domain is wrong.

    Where the domain is inferred, a program may refuse what eager takes.

    A repair that fixes a dim to the example's size is none that a user would take.

    >>> of_ours({"shapeproof": {"status": "proved", "beside_eager": {"agrees": 7, "refuses": 1}}})
    'wrong'
    """
    found = row["shapeproof"]
    counts = dict(found.get("beside_eager", {}))
    if found["status"] == "proved" and counts.keys() - {"agrees", "both raise"}:
        return "narrows" if inferred and counts.keys() <= {"agrees", "both raise", "refuses"} else "wrong"
    repair = found.get("repair", {})
    fixed = [line for line in repair.get("code", []) if line.partition(" = ")[2].isdigit()]
    repaired = repair.get("status") == "proved" and not fixed
    return "repaired" if found["status"] == "refuted" and repaired else str(found["status"])


def ratio(row: Row) -> float | None:
    """Our time by torch's, where both came to an end of their own."""
    ours, theirs = (row[each] for each in ("shapeproof", "torch"))
    ended = ours["status"] in {"proved", "refuted", "undecided"} and theirs["status"] in {"exported", "rejects"}
    return ours["seconds"] / theirs["seconds"] if ended and theirs["seconds"] else None


Found = Mapping[str, Mapping[str, Row]]
"""Results by family and name."""


def measured(families: Found, others: Mapping[str, Found]) -> str:
    """The figures and tables of the page, as Markdown; `others`: what was found of other forms of declarations."""
    rows = [row for family in families.values() for row in family.values()]
    lines = [*_summary(rows), ""]
    for form, found in others.items():
        every = [row for family in found.values() for row in family.values()]
        lines += [f"## {TITLES[form]}", "", *_summary(every, inferred=form == "auto"), ""] if every else []
    for family, found in families.items():
        lines += [f"## {family.capitalize()}", "", *_table(found.values()), "", *_reasons(found.values())]
    return "\n".join(lines).rstrip() + "\n"


def _summary(rows: list[Row], *, inferred: bool = False) -> Iterable[str]:
    said = [of_ours(row, inferred=inferred) for row in rows]
    ours, theirs = Counter(said), Counter(map(of_torch, rows))
    both = [by for row in rows if row["torch"]["status"] == "exported" and (by := ratio(row)) is not None]
    torch = ", ".join(sorted({row["versions"]["torch"] for row in rows}))
    pairs = Counter(zip(said, map(of_torch, rows), strict=True))
    ahead = ours["proved"] - pairs["proved", "is right"]
    yield f"{len(rows)} architectures, torch {torch}."
    yield ""
    yield "| | " + " | ".join(theirs) + " | all |"
    yield "|---|" + "---:|" * (len(theirs) + 1)
    for status, count in ours.most_common():
        cells = [pairs[status, each] for each in theirs]
        yield f"| **{status}** | " + " | ".join(map(str, cells)) + f" | {count} |"
    yield "| all | " + " | ".join(map(str, theirs.values())) + f" | {len(rows)} |"
    yield ""
    yield f"Proved where torch.export rejects, narrows or is wrong: {ahead}. "
    yield f"Time by that of torch.export, where it exports: median {statistics.median(both):.2f}, most {max(both):.1f}."


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
        if of_ours(row) != "proved":
            yield f"- **{row['name']}** ({of_ours(row)}): {_reason(row).replace('<', '&lt;')}"
    yield ""


def _reason(row: Row) -> str:
    found = row["shapeproof"]
    said = [f"{why['says']}{' at `' + why['line'] + '`' if why['line'] else ''}" for why in found.get("why", [])]
    reason = "; ".join(said) or found.get("said") or f"no verdict in {found['seconds']:.0f} seconds"
    repair = found.get("repair", {})
    code = [*repair.get("code", []), *repair.get("constraints", [])]
    proved = f" Declare {', '.join(_bounds(code))}: {repair['status']}." if code and "status" in repair else ""
    return reason.replace("\n", " ").rstrip(".") + "." + proved


def with_figures(page: str, families: Found, others: Mapping[str, Found]) -> str:
    """The page's text with the results between its two comments."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n" + measured(families, others) + "\n" + END + rest.partition(END)[2]


def specs(families: Found) -> str:
    """The spec of each entry that is measured, by its name, as JSON."""
    rows = sorted((name, row) for found in families.values() for name, row in found.items())
    return json.dumps({name: spec_text(name, ENTRIES[name], _comment(row)) for name, row in rows}, indent=0) + "\n"


def _comment(row: Row) -> str:
    """What was found of an entry, and the line and the repair where that is no proof."""
    made = ", ".join(f"{package} {release}" for package, release in row["versions"].items())
    said = of_ours(row) if of_ours(row) == "proved" else f"{of_ours(row)}: {_reason(row)}"
    return "\n# ".join(textwrap.wrap(f"{row['name']}, {made}: {said}", 110, break_long_words=False))


def found_in(form: str) -> Found:
    """All results of a form of declarations."""
    return {family: results(family, form) for family in FAMILIES}


def main() -> None:
    """Write the results into the page and the specs."""
    families, others = found_in("dims"), {form: found_in(form) for form in FORMS if form != "dims"}
    PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8"), families, others), encoding="utf-8")
    SPECS.write_text(specs(families), encoding="utf-8")


if __name__ == "__main__":
    main()
