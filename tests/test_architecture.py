"""docs/architecture.md says what the source says."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter

import pytest

from shapeproof.export import limits
from tests.rooms import EXPORT_ROOMS, ROOT, loading, matrix, picture, upward

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("drawn", [picture, matrix])
def test_the_page_shows_the_imports_as_they_are(drawn):
    assert drawn() in PAGE, f"the page is to show\n{drawn()}"


def test_every_room_of_export_is_in_the_matrix():
    folders = {path.parent.name for path in (ROOT / "shapeproof" / "export").glob("*/__init__.py")}
    assert folders == set(EXPORT_ROOMS)


def test_no_room_of_export_imports_one_above_it():
    assert upward() == set()


def test_only_the_type_of_a_program_is_known_below_the_room_that_builds_it():
    assert upward(counted=str) == {("report", "build")}


def test_no_modules_wait_for_each_other_when_they_are_loaded():
    assert list(TopologicalSorter(loading()).static_order())


def test_the_page_has_every_limit():
    noted = dict(re.findall(r"^\| `([A-Z_]+)` \| ([\d,]+) \|", PAGE, re.MULTILINE))
    real = {name: f"{value:,}" for name, value in vars(limits).items() if name.isupper()}
    assert noted == real


def test_the_files_that_the_page_names_are_there():
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", PAGE)
    folders = [ROOT, ROOT / "shapeproof", ROOT / "shapeproof" / "export"]
    assert not [name for name in named if not any((folder / name).exists() for folder in folders)]


def test_no_cache_keeps_code_for_ever():
    """A process may make new lambdas without end: what is remembered by code is forgotten in time."""
    unbounded = [
        f"{path.name}: {function.name}"
        for path in sorted((ROOT / "shapeproof").rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        and "functools.cache" in map(ast.unparse, function.decorator_list)
        and "CodeType" in [ast.unparse(each.annotation) for each in function.args.args if each.annotation]
    ]
    assert unbounded == []
