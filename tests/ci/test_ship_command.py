"""The commands `ship` and `verify`: what they print, what they leave, and their exit statuses."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from shapeproof.ci import cli

MODEL = """
import torch
from torch.export import Dim

class Padded(torch.nn.Module):
    def __init__(self, added=0):
        super().__init__()
        self.added = added

    def forward(self, x):
        return torch.nn.functional.pad(x, (-x.shape[0] % 8, 0)) + self.added

class Branching(torch.nn.Module):
    def forward(self, x):
        return x * 100 if x.shape[0] == 1 else x

def declared(model):
    return model, (torch.ones(3),), {}, {"x": {0: Dim("n", min=1, max=20)}}

def build(): return declared(Padded())
def other(): return declared(Padded(1))
def branching(): return declared(Branching())
def broken(): raise OSError("no weights")
"""


@pytest.fixture
def folder(fresh_folder):
    (fresh_folder / "shipped_model.py").write_text(MODEL, encoding="utf-8")
    return fresh_folder


def called(*arguments):
    done = CliRunner().invoke(cli.app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done


def ship(builder, *more, to="pt2"):
    return called("ship", f"shipped_model:{builder}", "--to", to, "-o", "model.pt2", *more)


@pytest.mark.thorough
def test_a_model_is_shipped_and_verified(folder):
    done = ship("build", "--header", "padded.h")
    assert "namespace padded" in (folder / "padded.h").read_text(encoding="utf-8")
    assert (done.exit_code, (folder / "model.pt2").is_file()) == (0, True)
    assert done.stdout.splitlines()[-1] == "same: model.pt2 does what eager does at 20 points"
    beside = called("verify", "model.pt2", "shipped_model:build", "--format", "json")
    assert (beside.exit_code, json.loads(beside.stdout)["status"]) == (0, "same")
    other = called("verify", "model.pt2", "shipped_model:other")
    assert other.exit_code == 1
    assert "differs: model.pt2 does something else than eager at x.shape[0] = 1: result 0[0]: expected" in other.stdout
    alone = called("verify", "model.pt2")
    assert (alone.exit_code, "nothing was compared with eager" in alone.stdout) == (3, True)


def test_a_model_that_is_refuted_is_not_shipped(folder):
    done = ship("branching")
    assert (done.exit_code, done.stdout.splitlines()[0][:18]) == (1, "error[other-progra")
    data = json.loads(ship("branching", "--format", "json").stdout)
    assert (data["status"], data["text"].startswith("error[other-program]")) == ("refuted", True)
    assert not (folder / "model.pt2").exists()


def test_a_wrong_call_is_one_sentence(folder):
    assert ship("broken").exit_code == 2
    assert "OSError: no weights" in ship("broken").stderr
    assert "unknown target 'onxn'; did you mean `onnx`?" in ship("build", to="onxn").stderr
    assert called("verify", "shipped_model.py").exit_code == 2
    assert "holds no contract" in called("verify", "shipped_model.py").stderr
    assert not (folder / "model.pt2").exists()


def test_a_header_takes_the_place_of_no_file_that_it_is_for(folder):
    refused = ship("build", "--header", "./model.pt2")
    assert (refused.exit_code, "give the header another name" in refused.stderr) == (2, True)
    (folder / "model.contract.json").write_text("{}", encoding="utf-8")
    refused = called("header", "model.contract.json", "-o", "model.contract.json")
    assert (refused.exit_code, "give the header another name" in refused.stderr) == (2, True)
    assert (folder / "model.contract.json").read_text(encoding="utf-8") == "{}"
