"""Writes outcomes in the form that a reader wants: one file for each form.

text.py         for people
html.py         a page for people
github.py       annotations of a pull request
gcc.py          for editors
json.py, junit.py, sarif.py   for other tools
findings.py     the remarks that all forms share
narrowings.py   the forms of `shapeproof diff`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from shapeproof.ci.jobs import Outcome
from shapeproof.ci.render import gcc, github, html, json, junit, sarif, text


class Format(StrEnum):
    """The forms of `shapeproof check --format`."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    HTML = "html"
    GCC = "gcc"


_RENDERERS: Mapping[Format, Callable[[Sequence[Outcome]], str]] = {
    Format.JSON: json.render,
    Format.SARIF: sarif.render,
    Format.JUNIT: junit.render,
    Format.GITHUB: github.render,
    Format.HTML: html.render,
    Format.GCC: gcc.render,
}


def render(outcomes: Sequence[Outcome], form: Format, *, quiet: bool = False) -> str:
    """Return the outcomes in a form; `quiet` shortens the text to the failed models and the last line."""
    if form is Format.TEXT:
        return text.render(outcomes, quiet=quiet)
    return _RENDERERS[form](outcomes)
