"""What the package says of itself: its version, its classifiers, how to cite it, what is safe."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import trove_classifiers
import yaml
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import shapeproof
from shapeproof.export.source import instructions
from tests.repository.project import HOME, PROJECT, ROOT, supported_pythons

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_a_build_takes_the_version_from_the_package():
    assert ProjectMetadata(str(ROOT), PluginManager()).version == shapeproof.__version__


def test_the_version_is_written_in_one_place():
    written = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "pyproject.toml", ROOT / "CITATION.cff", *sorted((ROOT / "shapeproof").rglob("*.py")))
        if f'"{shapeproof.__version__}"' in path.read_text(encoding="utf-8")
    ]
    assert written == ["shapeproof/__init__.py"]


def test_the_changelog_has_the_page_of_this_version():
    assert f"\n## {shapeproof.__version__} (" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_classifiers_are_known_to_the_registry():
    assert set(PROJECT["classifiers"]) <= trove_classifiers.classifiers
    assert PROJECT["classifiers"] == sorted(PROJECT["classifiers"])


READ_BUT_NOT_RUN = "3.12"
"""Its instructions are read by their tables; the suite has run on the other releases alone."""


def test_the_classifiers_name_the_pythons_that_are_read_and_were_run():
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", each)]
    assert named == [each for each in supported_pythons() if each != READ_BUT_NOT_RUN]
    source = Path(instructions.__file__).read_text(encoding="utf-8")
    lowest, highest = map(ast.literal_eval, re.search(r"(?m)^READ = (.*) <= .* <= (.*)$", source).groups())
    assert supported_pythons() == [f"3.{minor}" for minor in range(lowest[1], highest[1] + 1)]


def test_every_address_is_one_of_the_project():
    assert all(url == HOME or url.startswith(f"{HOME}/") for url in PROJECT["urls"].values())
    pages = [url.removeprefix(f"{HOME}/blob/main/") for url in PROJECT["urls"].values() if "/blob/main/" in url]
    assert pages
    assert all((ROOT / page).is_file() for page in pages)


@pytest.mark.parametrize("key", ["cff-version", "message", "title", "authors"])
def test_the_citation_has_what_its_schema_requires(key):
    assert CITATION[key]


def test_the_citation_says_what_the_package_says():
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] == "software"
    assert (CITATION["title"], CITATION["license"]) == (PROJECT["name"], PROJECT["license"])
    assert [author["name"] for author in CITATION["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert (CITATION["repository-code"], CITATION["abstract"].strip()) == (HOME, f"{PROJECT['description']}.")
    known = {"cff-version", "message", "title", "authors", "type", "license", "repository-code", "abstract", "keywords"}
    assert set(CITATION) <= known


LOADERS = ("pickle", "cloudpickle", "dill", "marshal", "shelve")


def unsafe_loads(source):
    r"""The lines of a text that load a pickle which may be more than data.

    >>> unsafe_loads("import pickle\ntorch.load(file, weights_only=True)\ntorch.load(file)")
    [1, 3]
    """
    if not any(name in source for name in ("torch.load", *LOADERS)):
        return []
    nodes = list(ast.walk(ast.parse(source)))
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load"]
    loads = [call.lineno for call in calls if "weights_only=True" not in map(ast.unparse, call.keywords)]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    named = {node.lineno: {getattr(node, "module", None), *(each.name for each in node.names)} for node in imports}
    return sorted([*loads, *(line for line, names in named.items() if names & set(LOADERS))])


def test_what_the_page_on_security_says_of_pickles_holds():
    found = {str(path): unsafe_loads(path.read_text(encoding="utf-8")) for path in (ROOT / "shapeproof").rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_files_that_the_page_on_security_names_are_there():
    """The fault: the page named a module after it had become a part of another."""
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (ROOT / "shapeproof" / name).is_file()] == []
