"""The package runs from its source tree, without the metadata that installation writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import shapeproof

ROOT = Path(shapeproof.__file__).parent.parent
PROGRAM = """
import importlib.metadata, sys

found = importlib.metadata.Distribution.from_name.__func__

def of(cls, name):
    if name == "shapeproof":
        raise importlib.metadata.PackageNotFoundError(name)
    return found(cls, name)

importlib.metadata.Distribution.from_name = classmethod(of)

import torch
from torch.export import Dim
from shapeproof.export import export, load_report
from shapeproof.seen import Seen

folder = sys.argv[1]
program = export(torch.nn.ReLU(), (torch.ones(3),), dynamic_shapes=({0: Dim("n", max=8)},))
program.report.save(folder + "/report.json")
program.report.certificate(folder + "/certificate")
torch.export.save(program, folder + "/program.pt2")
seen = Seen()
seen.add((torch.ones(3),))
seen.save(folder + "/seen.json")
print(load_report(folder + "/report.json").status)
"""


def test_no_module_asks_for_installed_metadata_of_the_package(tmp_path):
    """The fault: PackageNotFoundError, where the package lies on PYTHONPATH alone."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["proved"], done.stderr
