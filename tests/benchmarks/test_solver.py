from __future__ import annotations

import json
import sys

import pytest

from benchmarks import solver
from benchmarks.corpus import CORPORA, GUARDS, load, parse
from benchmarks.peers.worker import Step

RECORDING = parse(
    "# Example: n=6, m=5. Declared: 1 <= n <= 9, m <= 8, m != n.\n"
    "u <= n  # promised True\n"
    "n == 1 or m == 1  # assumed False\n"
    "(n//2) > 1  # asserted True\n"
    "n >= 4  # static\n",
    "small",
)


def test_a_recording_is_asked_in_its_own_words():
    session = solver.session_of(RECORDING, 5.0)
    assert session.bounds == {"n": (1, 9), "m": (None, 8)}
    assert session.declared[1:] == ("m <= 8", "m != n")
    assert session.steps == (
        Step(None, "u <= n"),
        Step("n == 1 or m == 1", "not (n == 1 or m == 1)"),
        Step("(n//2) > 1", "(n//2) > 1"),
        Step("n >= 4", None),
    )


def test_recordings_are_chosen_by_name():
    assert solver.recorded(["unet", "swin_guards"]) == [CORPORA / "unet.txt", GUARDS]
    assert len(solver.recorded([])) == 1 + len(list(CORPORA.glob("*.txt")))
    with pytest.raises(SystemExit, match="There is no recording unets; there are swin_guards, bert"):
        solver.recorded(["unet", "unets"])


def run(monkeypatch, tmp_path, *arguments):
    monkeypatch.setattr(sys, "argv", ["solver", *arguments, "--json", str(tmp_path / "out" / "solver.json")])
    with pytest.raises(SystemExit) as ended:
        solver.main()
    return ended.value.code, json.loads((tmp_path / "out" / "solver.json").read_text(encoding="utf-8"))


@pytest.mark.thorough
def test_one_recording_from_end_to_end(monkeypatch, tmp_path, capsys):
    code, saved = run(monkeypatch, tmp_path, "unet", "--peers", "Z3, plain")
    assert not code
    questions = [question.written for question in load(CORPORA / "unet.txt").questions]
    for peer in ("shapeproof", "Z3, plain"):
        assert [each["question"] for each in saved["answers"][peer]["unet"]] == questions
    assert {each["wrong"] for each in saved["answers"]["shapeproof"]["unet"]} == {None}
    assert "which step of the ladder answered" in capsys.readouterr().out


def test_a_peer_that_cannot_be_installed_is_left_out(monkeypatch, tmp_path, capsys):
    def not_here(spec, groups):
        if spec is solver.OURS:
            return asked(spec, groups)
        raise solver.NotInstalledError(f"{spec.name} is left out: no network")

    asked = solver.ask_all
    monkeypatch.setattr(solver, "ask_all", not_here)
    code, saved = run(monkeypatch, tmp_path, "unet", "--peers", "jax.export")
    assert (code, saved["left_out"]) == (False, ["jax.export is left out: no network"])
    assert "jax.export is left out: no network" in capsys.readouterr().out
