"""The site has every page and every public name, without mkdocs: `make docs` builds it."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import subprocess

import pytest

from shapeproof.export.shim.versions import SUPPORTED_TORCH
from tests.documents import examples
from tests.repository.project import ROOT, supported_pythons
from tests.site import foreign

DOCS = ROOT / "docs"
SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
ROOMS = ("shapeproof.export", "shapeproof.contract", "shapeproof.operators", "shapeproof.serve", "shapeproof.seen",
         "shapeproof.ship", "shapeproof.solver")  # fmt: skip
NAMES = ["shapeproof.guard", *(f"{room}.{name}" for room in ROOMS for name in importlib.import_module(room).__all__)]
CODE = "\n".join(each.code for page in PAGES.values() for each in examples(page))


def test_the_navigation_names_every_page_once():
    named = re.findall(r"([\w/-]+\.md)$", SETTINGS.partition("\nnav:\n")[2], re.MULTILINE)
    assert sorted(named) == sorted(PAGES)


def test_the_index_names_every_page():
    """A reader on GitHub has no navigation."""
    named = set(
        re.findall(r"\]\(([\w/-]+\.md)", PAGES["index.md"] + PAGES["errors/README.md"].replace("](", "](errors/"))
    )
    assert set(PAGES) - named == {"index.md"}


def test_every_public_name_is_on_a_page_of_the_reference():
    told = [name for page in PAGES.values() for name in re.findall(r"(?m)^::: (\S+)$", page)]
    told = [name if name in NAMES else name.rpartition(".")[0] for name in told]  # solver.prove.prove: not its module
    assert sorted([*told, "shapeproof.export.Dim"]) == sorted(NAMES)  # which is torch's own, and has a heading


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example_that_runs(name):
    """In its docstring, or on a page: the suite runs both."""
    room, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(room), last)
    members = [each for each in vars(found).values() if callable(each)] if inspect.isclass(found) else []
    docstrings = "".join(inspect.getdoc(each) or "" for each in (found, *members))
    assert ">>> " in docstrings or re.search(rf"\b{last}\b", CODE)


def test_the_table_of_versions_has_what_is_supported():
    lines = [line for line in PAGES["versions.md"].splitlines() if line.startswith(("| ", "|-"))]
    head, _, *rows = (line.split("|")[1:-1] for line in lines)
    assert [each.strip() for each in head] == ["Python", *(f"torch {each}" for each in SUPPORTED_TORCH)]
    assert [row[0].strip() for row in rows if len(row) == len(head)] == supported_pythons()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_the_site_is_built_without_a_warning_and_opens_without_an_error(tmp_path):
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    assert done.returncode == 0, done.stdout
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    for page in ("index", "api/export", "how-to/continuous-integration", "errors/divides"):
        place = (ROOT / "build" / "site" / f"{page}.html").as_uri()
        shown = subprocess.run(
            [*browser, f"--user-data-dir={tmp_path}", place], capture_output=True, text=True, check=True
        )
        assert "</h1>" in shown.stdout
        assert [line for line in shown.stderr.splitlines() if "CONSOLE" in line] == []


def test_what_a_page_loads_from_elsewhere_is_seen():
    assert foreign('<link rel="canonical" href="https://a.org/"><img src=https://a.org/x.png>') == [
        "https://a.org/x.png"
    ]
    assert foreign('<script src="assets/a.js"></script><a href="https://a.org">a</a>') == []
