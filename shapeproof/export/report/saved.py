"""A report to and from JSON: the reader validates every part of the file."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import shapeproof
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Decision, Kind, Question, SourceLocation
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.contract import Contract
from shapeproof.contract.archives import saved_text
from shapeproof.contract.contract import from_data, to_data
from shapeproof.export.explore.findings import SharedFailure
from shapeproof.export.report.region_map import RegionMap
from shapeproof.export.report.sizes import Bound, Bounds

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from shapeproof.export.report.report import Report

FORMAT = 3
"""The version of the file format."""


@dataclass(frozen=True, slots=True)
class _Decision:
    formula: str
    kind: Kind
    outcome: bool
    where: SourceLocation | None
    operator: str | None
    framework: SourceLocation | None


@dataclass(frozen=True, slots=True)
class _Regions:
    holds: list[str]
    domain: list[str]
    refuted: list[str]
    names: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Saved:
    format: Literal[3]
    status: Literal["proved", "refuted", "undecided", "vacuous"]
    domain: tuple[str, ...]
    inputs: dict[str, list[str]]
    notes: tuple[str, ...]
    regions: _Regions
    statistics: dict[str, int]
    spent: dict[str, int]
    bounds: tuple[Bound, ...]
    peak_bytes_bound: int | None
    versions: dict[str, str]
    contract: dict[str, Any] | None
    diagnostics: tuple[Diagnostic, ...]
    decisions: tuple[_Decision, ...]
    shared_failures: tuple[SharedFailure, ...] = ()
    trusted: dict[str, int] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()


@functools.cache
def _form() -> TypeAdapter[_Saved]:
    from pydantic import TypeAdapter  # most exports read no report

    return TypeAdapter(_Saved)


def saved_report(report: Report) -> str:
    """Return the text of the file."""
    fields = [each.name for each in dataclasses.fields(_Saved) if each.name not in {"format", "versions"}]
    saved = {"format": FORMAT, "versions": _versions()} | {name: getattr(report, name) for name in fields}
    return json.dumps(saved, indent=1, default=_as_data) + "\n"


@functools.cache
def _versions() -> Mapping[str, str]:
    """Return the installed releases; each is read from a file."""
    return {"shapeproof": shapeproof.__version__, **{each: version(each) for each in ("torch", "z3-solver")}}


def _as_data(value: Any) -> Any:
    """Return a part of a report as JSON data, one level deep."""
    match value:
        case Contract():
            return to_data(value)
        case Formula():
            return str(value)
        case Kind():
            return value.value
        case _:
            return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def read_report(path: str | Path) -> dict[str, Any]:
    """Read the fields of a saved report, for Report; from an archive, those of the report that its program carries.

    Raises:
        UsageError: the file cannot be read, or is in another format than this release's.
    """
    return fields_of(*saved_text(path, "is not a saved report"))


def fields_of(text: str | bytes, path: str | Path) -> dict[str, Any]:
    """Read the fields of a report from text; `path` names its source in errors.

    Raises:
        UsageError: the text is not in this release's format.
    """
    try:
        content = json.loads(text)
        found = content["format"]
        if found == FORMAT:
            return _fields(_form().validate_python(content))
    except (
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ):  # UsageError and pydantic's ValidationError are ValueErrors
        raise UsageError(f"{path} is not a saved report") from None
    if type(found) is not int or abs(found) > 2**31:
        raise UsageError(f"{path} is not a saved report")
    raise UsageError(f"{path} is a report of format {found}; this release reads format {FORMAT}")


def _fields(saved: _Saved) -> dict[str, Any]:
    fields = {each.name: getattr(saved, each.name) for each in dataclasses.fields(saved)}
    del fields["format"], fields["versions"]
    parts = (saved.regions.holds, saved.regions.domain, saved.regions.refuted)
    holds, domain, refuted = (tuple(map(parse_formula, texts)) for texts in parts)
    regions = RegionMap(holds, domain, refuted, saved.regions.names)
    contract = None if saved.contract is None else from_data(saved.contract, "the report")
    decisions = tuple(map(_loaded_decision, saved.decisions))
    bounds = Bounds(saved.bounds)
    return fields | {"regions": regions, "decisions": decisions, "contract": contract, "bounds": bounds}


def _loaded_decision(saved: _Decision) -> Decision:
    formula = parse_formula(saved.formula)
    return Decision(formula, saved.kind, saved.outcome, saved.where, saved.operator, saved.framework)
