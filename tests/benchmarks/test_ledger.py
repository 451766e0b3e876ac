"""The ledger of verdicts: its lines are read as they are written, and the kept ones say what an export says today."""

from __future__ import annotations

import pytest
import torch

from benchmarks.ledger.difference import verdicts_in_words
from benchmarks.ledger.lines import Line, read_lines, write_lines
from benchmarks.ledger.running import line_of, lines_of
from benchmarks.ledger.sources import FILES, collection
from shapeproof.export import Dim, check
from shapeproof.export.shim.versions import SUPPORTED_TORCH
from tests.thoroughness import examples

SAMPLE = {"models": 9, "random": 40, "operators": 40}
"""Of each collection every so manieth model is exported again."""
as_kept = pytest.mark.skipif(
    not torch.__version__.startswith(f"{SUPPORTED_TORCH[0]}."),
    reason="the ledger is kept for the first release of torch",
)


def kept():
    return {name: line for path in FILES.values() for name, line in read_lines(path.read_bytes()).items()}


class Halves(torch.nn.Module):
    def forward(self, x):
        return x.view(2, -1)


def halved(size):
    return check(Halves(), (torch.ones(4),), dynamic_shapes=({0: size},))


@pytest.mark.parametrize("name", ["lines.jsonl", "lines.jsonl.xz"])
def test_lines_are_read_as_they_were_written(tmp_path, name):
    lines = [line_of("two", lambda: halved(2 * Dim("k", max=8))), Line("one", "ended with -11")]
    write_lines(tmp_path / name, lines)
    found = read_lines((tmp_path / name).read_bytes())
    assert list(found) == ["one", "two"]
    assert [str(found[line.name]) for line in lines] == list(map(str, lines))


def test_a_line_says_what_the_report_says():
    line = Line.of_report("odd", halved(Dim("n", max=8)))
    assert (line.status, line.ids, line.witnesses) == ("refuted", ("divides",), ({"x.shape[0]": 1},))
    assert line.spent["traces"] >= 1


def test_an_error_is_a_verdict():
    assert line_of("none", lambda: check(Halves(), (1, 2))).status == "UsageError"


def test_a_verdict_that_changes_is_said_and_a_cost_is_not():
    proved = Line("a", "proved", ("n <= 8",), spent={"traces": 1})
    assert verdicts_in_words({"a": proved}, {"a": Line("a", "proved", ("n <= 8",), spent={"traces": 2})}) == []
    assert verdicts_in_words({"a": proved}, {"a": Line("a", "refuted")}) == ["1 proved -> refuted: a"]


@as_kept
@pytest.mark.thorough
def test_every_model_has_a_line():
    there = {f"{group}/{name}" for group in SAMPLE for name in collection(group, FILES["cases"])}
    assert {name for name in kept() if not name.startswith("cases/")} == there


@as_kept
@pytest.mark.thorough
def test_a_sample_has_the_verdicts_that_are_kept(tmp_path):
    wanted = [(group, name) for group, step in SAMPLE.items() for name in list(collection(group, tmp_path))[::step]]
    found = {line.name: line for line in lines_of(wanted, tmp_path)}
    lines = kept()
    assert verdicts_in_words({name: lines[name] for name in found}, found) == []


@pytest.mark.thorough
def test_loading_torchs_operators_leaves_the_profile_of_hypothesis_alone(tmp_path):
    """The fault: torch's own profile, of 10 examples, was that of every law that ran later in the process."""
    collection("operators", tmp_path)
    assert examples(300) in {60, 150, 300, 20_000}
