"""A report as text in colour: the words for how bad something is."""

from __future__ import annotations

from rich.text import Text

_COLOURS = {
    r"(?m)^(error(?=\[)|(refuted|vacuous|differs|refuses)(?=:|$))": "bold red",
    r"(?m)^(warning(?=\[)|undecided(?=:|$))": "bold yellow",
    r"(?m)^(note|help)(?=:|\[)": "bold cyan",
    r"(?m)^(proved|same)(?=:|$)": "bold green",
}


def coloured(text: str) -> Text:
    """Return the text in colour. Square brackets stay text; they are no markup.

    >>> [(str(span.style), span.start, span.end) for span in coloured("error[divides]: no").spans]
    [('bold red', 0, 5)]
    """
    shown = Text(text)
    for pattern, style in _COLOURS.items():
        shown.highlight_regex(pattern, style)
    return shown
