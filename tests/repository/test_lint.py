"""`make lint` answers alike wherever it runs: it finds every package that it reads, or is told not to look for it."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys

from packaging.requirements import Requirement

from tests.repository.project import PROJECT, PYPROJECT, ROOT

MYPY = PYPROJECT["tool"]["mypy"]


def imported(folders):
    """The top-level names of the packages that the files of folders import, lazily or not."""
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    plain = {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {each.partition(".")[0] for each in plain | modules}


def installed_with(requirements):
    """The names, as `import` spells them, of what a list of requirements installs, and of what that needs."""
    known, asked = set(), [Requirement(each) for each in requirements]
    while asked:
        one = asked.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        if name not in known and (one.marker is None or one.marker.evaluate({"extra": ""})):
            known.add(name)
            asked += map(Requirement, importlib.metadata.distribution(name).requires or ())
    spelled = importlib.metadata.packages_distributions().items()
    return {each for each, names in spelled if known & {re.sub(r"[-_.]+", "-", name).lower() for name in names}}


def test_the_type_checker_needs_no_extra_but_its_own():
    needed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["lint"]]
    excepted = {
        name.partition(".")[0]
        for each in MYPY["overrides"]
        if each.get("ignore_missing_imports")
        for name in each["module"]
    }
    own = {path.name for path in ROOT.iterdir() if path.is_dir()}
    assert imported(MYPY["files"]) - own - excepted - installed_with(needed) <= set(sys.stdlib_module_names)
