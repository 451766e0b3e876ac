"""A report as HTML, for notebooks: the words of the text form, escaped, with tables for lists.

The HTML has no script, style sheet or link, so it looks the same in every notebook viewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from shapeproof.export.report.render import diagnostic_text, sized
from shapeproof.seen.plots import plot_html

if TYPE_CHECKING:
    from shapeproof.export.report.bounds import Bound
    from shapeproof.export.report.report import Report

_COLOURS = {"proved": "#1a7f37", "refuted": "#cf222e", "undecided": "#9a6700", "vacuous": "#cf222e"}


def report_html(report: Report) -> str:
    """Return the whole report."""
    colour = _COLOURS[report.status]
    counts = ", ".join(sized(count, name) for name, count in report.statistics.items() if count)
    parts = [f'<div><b style="color: {colour}">{report.status}</b> {escape(counts)}</div>']
    parts += [f"<pre>{escape(diagnostic_text(each))}</pre>" for each in report.diagnostics]
    parts += [_table(("input", "sizes"), ((name, ", ".join(sizes)) for name, sizes in report.inputs.items()))]
    parts += [_table(("for every input with",), ((each,) for each in report.domain))]
    parts += [_table(("region", "where"), ((str(number), text) for number, text in enumerate(report.regions, 1)))]
    parts += [report.regions._repr_svg_() or "", plot_html(report.seen), bounds_html(report.bounds)]
    parts += [f"<div>note: {escape(each)}</div>" for each in report.notes]
    return "\n".join(part for part in parts if part)


def bounds_html(bounds: Iterable[Bound]) -> str:
    """Return a table of the tensors with a size from data; empty if there are none."""
    rows = [(each.name, each.dtype, ", ".join(each.sizes), each.missing) for each in bounds]
    return _table(("from data", "dtype", "sizes", "what would bound it"), rows)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    found = [_row("td", row) for row in rows]
    return "\n".join(["<table>", _row("th", titles), *found, "</table>"]) if found else ""


def _row(cell: str, texts: Sequence[str]) -> str:
    cells = "".join(f'<{cell} style="text-align: left">{escape(text)}</{cell}>' for text in texts)
    return f"<tr>{cells}</tr>"
