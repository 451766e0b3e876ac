"""docs/architecture.md says what the source says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter

import pytest

from shapeproof.export import limits
from tests.layering import at_run_time, imported_names
from tests.rooms import EXPORT_ROOMS, ROOT, matrix, picture, running, upward

MOST_LIMITS = 20
"""The most numbers that bound the work of an export."""
MOST_LOADED = 242
"""The most modules of the package that an export of one layer loads."""

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("drawn", [picture, matrix])
def test_the_page_shows_the_imports_as_they_are(drawn):
    assert drawn() in PAGE, f"the page is to show\n{drawn()}"


def test_every_room_of_export_is_in_the_matrix():
    folders = {path.parent.name for path in (ROOT / "shapeproof" / "export").glob("*/__init__.py")}
    assert folders | {"verify"} == set(EXPORT_ROOMS)


def test_no_room_of_export_imports_one_above_it():
    assert upward() == set()


def test_only_the_type_of_a_program_is_known_below_the_room_that_builds_it():
    assert upward(counted=str) == {("report", "build")}


def test_no_modules_import_each_other_in_a_circle_inside_functions_either():
    assert list(TopologicalSorter(running()).static_order())


@pytest.mark.parametrize("text", ["from a import b", "def late():\n    from a import b", "class C:\n    import a.b"])
def test_an_import_counts_wherever_it_stands(text):
    assert "a.b" in imported_names(at_run_time(text), "here")


def test_an_import_for_type_checkers_does_not_count():
    assert imported_names(at_run_time("if TYPE_CHECKING:\n    from a import b"), "here") == set()


def test_an_export_loads_no_more_than_it_uses():
    """Forms, profiles and whatever a simple export does without are loaded by their first use."""
    program = (
        "import sys, torch\n"
        "from shapeproof.export import export\n"
        "export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))\n"
        "print(*(name for name in sys.modules if name.startswith('shapeproof')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = done.stdout.split()
    forms = {name for name in loaded if name.startswith(("shapeproof.export.forms", "shapeproof.seen"))}
    assert forms == {f"shapeproof.{name}" for name in ("export.forms", "export.forms.programs", "seen", "seen.plots")}
    assert len(loaded) <= MOST_LOADED


def test_the_page_has_every_limit():
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    noted = dict(re.findall(r"^\| `([A-Z_]+)` \| ([\d,]+) \|", page, re.MULTILINE))
    real = {name: f"{value:,}" for name, value in vars(limits).items() if name.isupper()}
    assert noted == real
    assert len(real) <= MOST_LIMITS


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
