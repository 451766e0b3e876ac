"""What the archives of a release hold: the source archive all that is tracked, so that the suite runs from it."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from tests.repository.project import ROOT

pytestmark = pytest.mark.thorough
WRITTEN_BY_THE_BUILD = {"PKG-INFO"}


def tracked():
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607 - git
    return set(done.stdout.split("\0")[:-1])


@pytest.fixture(scope="module")
def source_archive(tmp_path_factory):
    """The names in the source archive, and their contents."""
    (path,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("sdist")))
    with tarfile.open(path) as archive:
        return {each.name.partition("/")[2]: archive.extractfile(each).read() for each in archive if each.isfile()}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is the source archive: it knows of no tracked files")
def test_the_source_archive_holds_what_is_tracked_and_nothing_else(source_archive):
    assert set(source_archive) - WRITTEN_BY_THE_BUILD == tracked()


def test_the_source_archive_holds_files_as_they_are(source_archive):
    names = set(source_archive) - WRITTEN_BY_THE_BUILD
    assert [name for name in names if source_archive[name] != (ROOT / name).read_bytes()] == []


def test_the_wheel_holds_the_package_its_pages_and_its_licence(tmp_path):
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
    package = {f.relative_to(ROOT).as_posix() for f in (ROOT / "shapeproof").rglob("*") if f.suffix in {".py", ".json"}}
    pages = {f"shapeproof/errors/{page.name}" for page in (ROOT / "docs" / "errors").iterdir()}
    assert package | pages <= names
    assert all(name.startswith("shapeproof/") for name in names)
    assert len(licences) == 1
