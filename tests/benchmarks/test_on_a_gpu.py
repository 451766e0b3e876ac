"""The script for a machine with CUDA runs on the CPU, too, so that it is not found broken there."""

from __future__ import annotations

import sys

import pytest

from benchmarks import on_a_gpu


@pytest.mark.thorough
def test_each_way_is_tried_and_told(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["on_a_gpu", "--device", "cpu", "--models", "dims_1"])
    assert on_a_gpu.main() == 0
    told = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert told == [["dims_1", way, "proved"] for way in ("float32", "bfloat16", "autocast")]


def test_an_error_fails_the_script_and_names_the_model(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["on_a_gpu", "--device", "cpu", "--models", "no_such_model"])
    assert on_a_gpu.main() == 1
    assert "no_such_model" in capsys.readouterr().out
