"""For code scanning: SARIF 2.1.0, one result for each diagnostic of a model that did not pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import shapeproof
from shapeproof.ci.jobs import Outcome
from shapeproof.ci.pages import pages, title
from shapeproof.ci.render.findings import Remark, in_repository, remarks
from shapeproof.export.report.render import page_command
from shapeproof.files import sha256

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a log with one run."""
    return log([remark for outcome in outcomes for remark in remarks(outcome)])


def log(found: Sequence[Remark]) -> str:
    """Return remarks as a log with one run."""
    known = pages()
    rules = [_rule(name, known.get(name)) for name in sorted({each.id for _, each in found})]
    driver = {"name": "shapeproof", "version": shapeproof.__version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": list(map(_result, found))}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _rule(name: str, page: str | None) -> dict[str, Any]:
    """Describe a diagnostic with its page, which has no address on the web; a remark without a verdict has no page."""
    if page is None:
        return {"id": name}
    return {
        "id": name,
        "shortDescription": {"text": title(page)},
        "fullDescription": {"text": f"{title(page)}; {page_command(name)}: what it means, and what to do"},
        "help": {"text": page, "markdown": page},
    }


def _result(remark: Remark) -> dict[str, Any]:
    model, found = remark
    same_on_any_line = sha256(json.dumps([model, found.id, found.message]))
    place = {"artifactLocation": {"uri": _uri(found.file or "")}, "region": {"startLine": found.line}}
    return {
        "ruleId": found.id,
        "level": found.severity,
        "message": {"text": f"{model}: {found.message}"},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"shapeproof/v1": same_on_any_line},
    }


def _uri(path: str) -> str:
    """Return the URI of a path relative to the root of the repository."""
    text = in_repository(path)
    return Path(text).as_uri() if text.startswith("/") else Path("/", text).as_uri().removeprefix("file:///")
