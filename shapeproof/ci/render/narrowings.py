"""Writes the result of `shapeproof diff` in the form that a reader wants."""

from __future__ import annotations

import json
import linecache
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import shapeproof
from shapeproof.ci.locked.narrowing import Compared, Narrowing
from shapeproof.ci.plain import plain_line
from shapeproof.ci.render import github, sarif
from shapeproof.ci.render.findings import Remark, shown

FORMAT = 1
"""The version of the JSON form."""


class DiffFormat(StrEnum):
    """The forms of `shapeproof diff --format`."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


def render_diff(found: Sequence[Compared], new: Sequence[str], form: DiffFormat) -> str:
    """Return the comparison of each locked model, and the models that are not locked, in a form."""
    remarks = [_remark(each.name, each.narrowing) for each in found if each.narrowing]
    match form:
        case DiffFormat.TEXT:
            return _text(found, new)
        case DiffFormat.JSON:
            return _json(found, new)
        case DiffFormat.SARIF:
            return sarif.log(remarks)
        case DiffFormat.GITHUB:
            return github.annotated(remarks, _text(found, new))


def _text(found: Sequence[Compared], new: Sequence[str]) -> str:
    lost = [each for each in found if each.narrowing]
    lines = [_line(each.name, each.narrowing) for each in lost if each.narrowing]
    lines += [f"note: {plain_line(name)} is not locked; `shapeproof lock` adds it" for name in new]
    return "\n".join([*lines, f"{len(found) - len(lost)} accept all that they did, {len(lost)} do not"])


def _line(name: str, found: Narrowing) -> str:
    source = linecache.getline(str(found.file), found.line).strip()
    said = plain_line(f"{found.kind}: {name}: {found.message}")
    return f"{said}\n{plain_line(f'  --> {shown(found.file)}:{found.line}   {source}')}"


def _json(found: Sequence[Compared], new: Sequence[str]) -> str:
    passed = all(each.narrowing is None for each in found)
    models = [{"name": each.name, "passed": each.narrowing is None} | _fields(each.narrowing) for each in found]
    document = {"format": FORMAT, "shapeproof": shapeproof.__version__, "passed": passed}
    return json.dumps(document | {"models": models, "not_locked": list(new)}, indent=1)


def _fields(found: Narrowing | None) -> dict[str, Any]:
    if found is None:
        return {}
    sizes = None if found.sizes is None else dict(found.sizes)
    place = {"file": shown(found.file), "line": found.line}
    return {"kind": found.kind, "message": found.message, "sizes": sizes} | place


def _remark(name: str, found: Narrowing) -> Remark:
    return Remark(found.kind.replace(" ", "-"), "error", name, found.message, found.file, found.line)
