"""For test dashboards: JUnit's XML, a suite for each spec and a case for each model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from shapeproof.ci.jobs import Outcome
from shapeproof.ci.render.findings import shown
from shapeproof.export.report.render import pointers

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as test suites."""
    root = ET.Element("testsuites", _counts(outcomes))
    for file, group in groupby(outcomes, lambda outcome: shown(outcome.check.file)):
        members = list(group)
        suite = ET.SubElement(root, "testsuite", {"name": _legal(file)} | _counts(members))
        for outcome in members:
            _add_case(suite, file, outcome)
    ET.indent(root, " ")
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _counts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    skipped = sum(outcome.skipped for outcome in outcomes)
    errors = sum(outcome.result.status is None for outcome in outcomes) - skipped
    failures = sum(not outcome.passed for outcome in outcomes) - errors - skipped
    seconds = sum(outcome.result.seconds for outcome in outcomes)
    numbers = {"tests": len(outcomes), "failures": failures, "errors": errors, "skipped": skipped}
    return {name: str(value) for name, value in numbers.items()} | {"time": f"{seconds:.3f}"}


def _add_case(suite: ET.Element, file: str, outcome: Outcome) -> None:
    check, result = outcome.check, outcome.result
    place = {"classname": _legal(file), "name": _legal(check.name), "file": _legal(file), "line": str(check.line)}
    case = ET.SubElement(suite, "testcase", place | {"time": f"{result.seconds:.3f}"})
    if outcome.passed:
        return
    if outcome.skipped:
        ET.SubElement(case, "skipped", {"message": result.text})
        return
    kind = "error" if result.status is None else "failure"
    message = f"{result.status or 'no verdict'}, expected is {check.expected}"
    told = ET.SubElement(case, kind, {"type": result.status or "no-verdict", "message": message})
    told.text = _legal(result.text + pointers(result.diagnostics))


def _legal(text: str) -> str:
    """Replace the characters that XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
