"""pytest looks into every folder that has tests or examples: its own list of folders to leave out has `build`."""

from __future__ import annotations

from fnmatch import fnmatch

from tests.repository.project import ROOT


def test_no_folder_of_the_package_or_of_the_tests_is_left_out(pytestconfig):
    """The fault: no example in a docstring of `shapeproof/export/build` was run."""
    left_out = pytestconfig.getini("norecursedirs")
    folders = {path.parent for top in ("shapeproof", "tests", "benchmarks") for path in (ROOT / top).rglob("*.py")}
    assert ROOT / "shapeproof" / "export" / "build" in folders
    inner = {each for folder in folders for each in folder.relative_to(ROOT).parts}
    assert [name for name in sorted(inner) if any(fnmatch(name, pattern) for pattern in left_out)] == []
