"""Writes the result of `shapeproof diff` in the form that a reader wants."""

from __future__ import annotations

import json
import linecache
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, TypeAlias

import shapeproof
from shapeproof.ci.plain import plain_line
from shapeproof.ci.render import gcc, github, html, sarif
from shapeproof.ci.render.findings import Remark, shown
from shapeproof.constraints.records.diagnostics import Diagnostic

FORMAT = 1
"""The version of the JSON form."""


class DiffFormat(StrEnum):
    """The forms of `shapeproof diff --format`."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    HTML = "html"
    GCC = "gcc"


Compared: TypeAlias = tuple[str, Diagnostic | None]
"""The name of a locked model, and the inputs that it no longer accepts."""


def render_diff(
    found: Sequence[Compared], new: Sequence[str], form: DiffFormat, contracts: Sequence[html.Contracts] = ()
) -> str:
    """Return the comparison of each locked model, and the models that are not locked, in a form.

    `contracts`: what each of the locked models accepted and accepts; the page alone shows it.
    """
    remarks = [(name, lost) for name, lost in found if lost]
    match form:
        case DiffFormat.TEXT:
            return _text(len(found), remarks, new)
        case DiffFormat.JSON:
            return _json(found, new)
        case DiffFormat.SARIF:
            return sarif.log(remarks)
        case DiffFormat.GCC:
            return gcc.lines(remarks)
        case DiffFormat.GITHUB:
            return github.annotated(remarks, _text(len(found), remarks, new))
        case DiffFormat.HTML:
            told = [(name, "same" if lost is None else _kind(lost), lost) for name, lost in found]
            return html.compared(told, new, contracts)


def _text(count: int, lost: Sequence[Remark], new: Sequence[str]) -> str:
    lines = [_line(*each) for each in lost]
    lines += [f"note: {plain_line(name)} is not locked; `shapeproof lock` adds it" for name in new]
    return "\n".join([*lines, f"{count - len(lost)} accept all that they did, {len(lost)} do not"])


def _line(name: str, found: Diagnostic) -> str:
    file, line = found.file or "", found.line or 0
    place = f"  --> {shown(file)}:{line}   {linecache.getline(file, line).strip()}"
    return f"{plain_line(f'{_kind(found)}: {name}: {found.message}')}\n{plain_line(place)}"


def _kind(found: Diagnostic) -> str:
    return found.id.replace("-", " ")


def _json(found: Sequence[Compared], new: Sequence[str]) -> str:
    models = [{"name": name, "passed": lost is None} | _fields(lost) for name, lost in found]
    passed = all(each["passed"] for each in models)
    document = {"format": FORMAT, "shapeproof": shapeproof.__version__, "passed": passed}
    return json.dumps(document | {"models": models, "not_locked": list(new)}, indent=1)


def _fields(found: Diagnostic | None) -> dict[str, Any]:
    if found is None:
        return {}
    place = {"file": shown(found.file or ""), "line": found.line}
    return {"kind": _kind(found), "message": found.message, "sizes": found.witness} | place
