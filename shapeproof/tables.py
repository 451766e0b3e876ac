"""Tables as HTML, for notebooks: escaped, without a style sheet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows under their titles; empty if there are none.

    >>> table(("n",), [("<=4",)]).splitlines()[-2]
    '<tr><td style="text-align: left">&lt;=4</td></tr>'
    """
    found = [_row("td", row) for row in rows]
    return "\n".join(["<table>", _row("th", titles), *found, "</table>"]) if found else ""


def _row(cell: str, texts: Sequence[str]) -> str:
    cells = "".join(f'<{cell} style="text-align: left">{escape(text)}</{cell}>' for text in texts)
    return f"<tr>{cells}</tr>"
