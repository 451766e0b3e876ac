"""How far a guard and a dim travel: docs/architecture.md follows both, and the way may not grow longer unnoticed."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest
import sympy
import torch
from torch.export import Dim

import shapeproof
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.nodes import Node
from shapeproof.constraints.records.decisions import Decision
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.constraints.records.domain import Declaration, Variable
from shapeproof.export import check
from shapeproof.export.declare.reading import Leaf
from shapeproof.export.explore.findings import Finding, Narrowing
from shapeproof.export.report.remedies import Cause
from shapeproof.export.shim.inputs.dims import NamedDim
from shapeproof.export.trace.trial import Step

ROOMS = Path(shapeproof.__file__).parent / "export"
RECORDS = (Decision, Step, Finding, Narrowing, Cause, Diagnostic)


class Scaled(torch.nn.Module):
    """Does something else for five rows."""

    def forward(self, x):
        return x * 100 if x.shape[0] == 5 else x + 1


def reported(model, dim):
    return check(model, (torch.ones(3, 4),), dynamic_shapes=({0: dim},))


def file_in_export(frame):
    path = Path(frame.f_code.co_filename)
    return path.relative_to(ROOMS) if path.is_relative_to(ROOMS) else None


def is_of_guard(record):
    """Whether a record is of the guard `b == 5`; reads it past `__getattribute__`."""
    plain = object.__getattribute__
    if isinstance(record, Diagnostic):
        return "5" in plain(record, "message")
    for name in ("decision", "finding"):
        if name in type(record).__dataclass_fields__:
            return is_of_guard(plain(record, name))
    return str(plain(record, "formula")) in {"b == 5", "b != 5"}


@pytest.mark.thorough
def test_few_files_handle_a_guard_from_its_decision_to_its_line(monkeypatch):
    """A file handles it if its code reads a field of a record of this guard: the decision, the finding, and so on."""
    dim, files = Dim("b", min=1, max=8), set()
    plain = object.__getattribute__

    def reading(record, name):
        frame = sys._getframe(1)
        while frame is not None and file_in_export(frame) is None:
            frame = frame.f_back
        if frame is not None and not name.startswith("__") and is_of_guard(record):
            files.add(str(file_in_export(frame)))
        return plain(record, name)

    for record in RECORDS:
        monkeypatch.setattr(record, "__getattribute__", reading, raising=False)
    assert "b != 5" in str(reported(Scaled(), dim))
    assert "report/render.py" in files
    assert len(files) <= 13, sorted(files)


def is_guard(value, depth=0):
    """Whether a value is the guard, as sympy's expression, a formula or a record, or a container of one."""
    if isinstance(value, RECORDS):
        return is_of_guard(value)
    if isinstance(value, Formula):
        return str(value) in {"b == 5", "b != 5"}
    if isinstance(value, sympy.Rel):
        return 5 in value.args
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list | set) else ()
    return depth < 2 and any(is_guard(each, depth + 1) for each in nested)


@pytest.mark.thorough
def test_few_files_hold_a_guard_in_a_variable():
    """Stricter: a file counts if a function of it holds the guard, be it only to pass it on."""
    dim, files = Dim("b", min=1, max=8), set()

    def returned(frame, event, _):
        file = file_in_export(frame) if event == "return" else None
        if file is not None and file not in files and any(map(is_guard, list(frame.f_locals.values()))):
            files.add(file)

    sys.setprofile(returned)
    try:
        report = reported(Scaled(), dim)
    finally:
        sys.setprofile(None)
    assert "b != 5" in str(report)
    assert len(files) <= 16, sorted(map(str, files))


def carries(value, dim, depth=0):
    """Whether a value is the dim, in one of its forms, or holds it."""
    if value is dim or (isinstance(value, NamedDim) and value.root == "zebra"):
        return True
    if isinstance(value, Node):
        return "zebra" in value.symbols
    if isinstance(value, Variable | Declaration | Leaf):
        return "zebra" in repr(value)
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list | set) else ()
    return depth < 3 and any(carries(each, dim, depth + 1) for each in nested)


@pytest.mark.thorough
def test_a_dim_crosses_from_one_room_to_another_at_most_twice():
    """A crossing is a function of one room of `export` that calls one of another with the dim among its arguments."""
    dim, crossings = Dim("zebra", min=2, max=9), defaultdict(set)

    def called(frame, event, _):
        callee, caller = file_in_export(frame) if event == "call" else None, frame.f_back
        while callee is not None and caller is not None and file_in_export(caller) is None:
            caller = caller.f_back
        if callee is None or caller is None or len(callee.parts) == 1:
            return
        rooms = file_in_export(caller).parts[0], callee.parts[0]
        way = caller.f_code.co_qualname, frame.f_code.co_qualname
        if rooms[0] == rooms[1] or way in crossings[rooms]:
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(carries(frame.f_locals.get(name), dim) for name in names):
            crossings[rooms].add(way)

    sys.setprofile(called)
    try:
        report = reported(torch.nn.ReLU(), dim)
    finally:
        sys.setprofile(None)
    assert report.status == "proved", str(report)
    assert crossings["declare", "shim"]
    assert not {rooms: ways for rooms, ways in crossings.items() if len(ways) > 2}
