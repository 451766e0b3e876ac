"""Objects that run code when they are read, among a script's globals and in a model: no export reads them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.trace.python.builtins import users_functions

MODELS = [
    "names_none",
    "names_them",
    "compares_them",
    "has_them_beside_a_branch",
    "has_them_beside_a_text",
    "has_them_beside_data",
    "by_registry",
]


@pytest.fixture(name="script")
def _script(monkeypatch):
    spec = importlib.util.spec_from_file_location("users_script", Path(__file__).parents[2] / "hostile_script.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "users_script", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", MODELS)
def test_objects_that_run_code_when_they_are_read_are_not_read(script, name):
    forward = getattr(script, name)
    model = type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()
    report = check(model, (torch.ones(3, 4),), dynamic_shapes={"x": {0: Dim("n", min=2, max=8)}})
    assert script.READ == []
    assert report.status == "proved"


def test_a_model_may_hold_objects_that_run_code_when_they_are_read(script):
    model = torch.nn.ReLU()
    vars(model).update(table=script.LAZY_DICT, cells=script.LAZY_LIST, lazy=[script.LAZY_OBJECT])
    assert users_functions(model)
    assert script.READ == []


def test_functions_in_tables_of_any_class_are_found(script):
    found = users_functions(torch.nn.ReLU())
    assert script.halved in found
    for table in script.TABLES.values():
        model = torch.nn.ReLU()
        model.table = table
        assert script.own in users_functions(model)


STAR = """
from transformers import *
import torch
from torch.export import Dim
from shapeproof.export import check

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)[: int(x.shape[0] / 1)]

print(check(Model(), (torch.ones(3, 4),), dynamic_shapes={"x": {0: Dim("n", max=8)}}).status)
"""


@pytest.mark.thorough
def test_a_script_that_imports_all_names_of_a_library_can_export(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "script.py").write_text(STAR)
    ran = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert ran.stdout.strip().endswith("proved"), ran.stderr
