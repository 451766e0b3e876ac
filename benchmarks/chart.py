"""The page and the chart of what exports cost, written from the committed results.

    python -m benchmarks.chart

It measures nothing: `make bench-publish` measures first. The figures in docs/explanation/what-exports-cost.md stand
between two comments; the words around them are written by hand.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bars import bars
from benchmarks.models import MODELS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "exports.json"
PAGE = ROOT / "docs" / "explanation" / "what-exports-cost.md"
CHART = PAGE.with_name("what-exports-cost.svg")
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->"
ROW, LEFT, WIDTH, MOST = 20, 190, 480, 4.0
"""Pixels of a row, of the names and of the bars; bars end at this ratio."""
COLORS = {"proved": "#2a7f62", "refuted": "#4c6fa5", "undecided": "#b8860b"}


def status(row: Mapping[str, Any]) -> str:
    """The verdict of a row, in one word; `export` raises what it refutes.

    >>> status({"shapeproof": {"outcome": "ConstraintViolation"}})
    'refuted'
    """
    outcome = str(row["shapeproof"]["outcome"])
    return "refuted" if outcome == "ConstraintViolation" else outcome


def measured(record: Mapping[str, Any]) -> str:
    """The figures of the page, as Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    lines = [f"{record['machine']}; Python {record['python']}, {versions}; the best of {record['repeats']}.", ""]
    missing = [name for name in MODELS if name not in {row["model"] for row in record["rows"]}]
    lines += [f"Not measured in this run: {', '.join(missing)}.", ""] if missing else []
    lines += ["| bar | figure | at most | |", "|---|---:|---:|---|"]
    for bar in bars(record):
        met = "met" if bar.is_met else bar.remark or "not met"
        lines.append(f"| {bar.name} | {bar.figure:.2f} | {bar.most:g} | {met} |")
    lines += ["", "| model | torch.export | shapeproof | ratio | verdict |", "|---|---:|---:|---:|---|"]
    for row in record["rows"]:
        seconds = (f"{row[name]['seconds']:.2f} s" for name in ("torch", "shapeproof"))
        lines.append(f"| {row['model']} | {' | '.join(seconds)} | {row['ratio']:.2f} | {status(row)} |")
    return "\n".join(lines) + "\n"


def chart(rows: Sequence[Mapping[str, Any]]) -> str:
    """The ratios as horizontal bars, as SVG; the line stands at torch.export's own time."""
    size = f'width="{LEFT + WIDTH + 60}" height="{ROW * len(rows) + 40}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    title = f'<text x="{LEFT}" y="14">processor time of an export, by that of torch.export (line: 1.0)</text>'
    at = LEFT + WIDTH / MOST
    line = f'<line x1="{at:g}" y1="20" x2="{at:g}" y2="{ROW * len(rows) + 26}" stroke="#888"/>'
    ranked = sorted(rows, key=lambda row: float(row["ratio"]))
    body = (part for index, row in enumerate(ranked) for part in _bar(ROW * index + 24, row))
    return "\n".join(['<?xml version="1.0"?>', head, title, *body, line, "</svg>"]) + "\n"


def _bar(top: int, row: Mapping[str, Any]) -> Iterator[str]:
    width = WIDTH * min(row["ratio"], MOST) / MOST
    color = COLORS.get(status(row), "#999")
    yield f'<text x="{LEFT - 8}" y="{top + 12}" text-anchor="end">{html.escape(row["model"])}</text>'
    yield f'<rect x="{LEFT}" y="{top}" width="{width:.0f}" height="{ROW - 5}" fill="{color}"/>'
    yield f'<text x="{LEFT + width + 5:.0f}" y="{top + 12}">{row["ratio"]:.2f}</text>'


def with_figures(page: str, record: Mapping[str, Any]) -> str:
    """The page's text with the record's figures between its two comments."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n" + measured(record) + "\n" + END + rest.partition(END)[2]


def main() -> None:
    """Write the figures into the page, and the chart beside it."""
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")
    CHART.write_text(chart(record["rows"]), encoding="utf-8")


if __name__ == "__main__":
    main()
