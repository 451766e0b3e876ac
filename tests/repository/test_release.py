"""A release as its users get it: each archive is installed, and used in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import shapeproof
from tests.repository.project import ROOT

pytestmark = pytest.mark.slow
MODEL = """\
import torch

class Scores(torch.nn.Module):
    def forward(self, q, k):
        return torch.softmax(q @ k.transpose(1, 2), dim=-1)

def example():
    return torch.randn(2, 5, 8), torch.randn(2, 7, 8)

def build():
    return torch.nn.Linear(4, 2), (torch.ones(3, 4),), {}, ({0: torch.export.Dim("n", min=1, max=8)},)
"""
BUILDERS = {"wheel": WheelBuilder, "source": SdistBuilder}


@pytest.fixture(scope="module", params=BUILDERS)
def run(request, tmp_path_factory):
    """Runs a program of an environment that has the package from an archive, and the rest from this one."""
    folder = tmp_path_factory.mktemp(request.param)
    (archive,) = BUILDERS[request.param](str(ROOT)).build(directory=str(folder / "dist"))
    venv.create(folder / "env", with_pip=False, symlinks=True)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(packages), archive], check=True)
    (packages / "rest.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    (folder / "empty").mkdir()
    (folder / "empty" / "model.py").write_text(MODEL, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def ran(*arguments):
        command = [folder / "env" / "bin" / "python", *arguments]
        empty = folder / "empty"
        return subprocess.run(command, cwd=empty, env=kept, capture_output=True, text=True, check=False)

    return ran


def test_a_model_is_explained(run):
    done = run("-m", "shapeproof", "explain", "./model.py:build")
    assert (done.returncode, done.stdout.partition(":")[0]) == (0, "proved"), done.stderr


def test_a_spec_is_written_and_checked(run):
    assert run("-m", "shapeproof", "init", "model:Scores", "model:example", "--force").returncode == 0
    done = run("-m", "shapeproof", "check")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed, 0 failed"), done.stderr


def test_what_is_used_is_the_archive(run):
    place = run("-c", "import shapeproof; print(shapeproof.__file__, shapeproof.__version__)").stdout.split()
    assert place[0].partition("/lib/")[0].endswith("/env")
    assert place[1] == shapeproof.__version__


def test_the_pages_of_diagnostics_are_in_it(run):
    assert run("-m", "shapeproof", "rule", "divides").stdout.startswith("# divides: ")
