"""The zoo: its entries declare what they build, and its page says what its results say."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import tomllib
from pathlib import Path

import pytest
from torch.export import Dim

from shapeproof.ci.specs.spec import parse_spec
from zoo import attempt
from zoo.declared import FORMS
from zoo.entry import DIMS, Entry, Range, floats, integers, mask
from zoo.families import ENTRIES, FAMILIES
from zoo.kept import results
from zoo.measuring import executor
from zoo.page import PAGE, SPECS, found_in, of_ours, of_torch, specs, with_figures

SAMPLE = ("bert", "llama_static", "patchtst", "resnet", "t5")


def test_the_page_shows_the_results():
    page = PAGE.read_text(encoding="utf-8")
    others = {form: found_in(form) for form in FORMS if form != "dims"}
    assert with_figures(page, found_in("dims"), others) == page


def test_each_entry_has_a_spec_that_can_be_read():
    kept = SPECS.read_text(encoding="utf-8")
    assert specs(found_in("dims")) == kept
    for name, text in json.loads(kept).items():
        assert [*parse_spec(tomllib.loads(text)).models] == [name]


def test_what_is_inferred_may_be_narrower_and_not_wrong():
    found = {"shapeproof": {"status": "proved", "beside_eager": {"agrees": 5, "refuses": 1}}}
    assert of_ours(found, inferred=True) == "narrows"
    found["shapeproof"]["beside_eager"]["differs"] = 1
    assert of_ours(found, inferred=True) == "wrong"


def test_every_size_is_inferred_where_the_form_says_so():
    entry = Entry(lambda _: None, {"x": floats("batch 3 4*rows+1"), "flag": True}, constraints=("batch <= rows",))
    assert FORMS["auto"](entry, None, {}) == {"dynamic_shapes": {"x": {0: Dim.AUTO, 2: Dim.AUTO}, "flag": None}}


def test_no_name_stands_for_two_entries():
    assert len(ENTRIES) == sum(map(len, FAMILIES.values()))


def test_every_result_is_of_an_entry():
    assert {name for family in FAMILIES for name in results(family)} <= ENTRIES.keys()


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_what_is_declared_holds_of_the_example_and_of_every_point(name):
    entry = ENTRIES[name]
    assert entry.example in entry.points()
    for point in entry.points():
        assert all(each.least <= point[dim] <= each.most for dim, each in entry.ranges.items())


def test_points_keep_the_relations_of_an_entry():
    sizes = {"length": Range(1, 9, 4), "target": Range(1, 9, 2)}
    entry = Entry(lambda _: None, {"x": floats("length"), "y": floats("2*target")}, sizes, ("length >= 2*target",))
    assert entry.points()
    assert all(each["length"] >= 2 * each["target"] for each in entry.points())


def test_sizes_in_words_are_those_of_the_tensor_and_of_the_declaration():
    inputs = {"x": floats("batch 3 4*rows+1"), "y": integers("7", 5), "flag": True}
    entry = Entry(lambda _: None, inputs)
    point = {"batch": 2, "rows": 5}
    assert entry.at(point)["x"].shape == (2, 3, 21)
    assert entry.ranges == {"batch": DIMS["batch"], "rows": DIMS["rows"]}
    shapes = entry.dynamic_shapes()
    assert shapes["x"].keys() == {0, 2}
    assert (shapes["y"], shapes["flag"]) == (None, None)


def test_every_row_of_a_padding_mask_has_a_token_and_then_only_padding():
    rows = mask("batch length").at({"batch": 50, "length": 6})
    assert rows[:, 0].all()
    assert (rows.diff(dim=1) <= 0).all()


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"agrees": 3}, "is right"),
        ({"agrees": 3, "refuses": 1}, "narrows"),
        ({"agrees": 3, "refuses": 1, "differs": 1}, "is wrong"),
        ({"agrees": 3, "returns where eager raises": 1}, "is wrong"),
        ({"agrees": 3, "both raise": 1}, "raises late"),
    ],
)
def test_a_program_of_torch_is_called_what_it_does(counts, said):
    assert of_torch({"torch": {"status": "exported", "beside_eager": counts}}) == said


def test_a_proved_program_that_refuses_a_declared_size_is_wrong():
    assert of_ours({"shapeproof": {"status": "proved", "beside_eager": {"agrees": 5, "refuses": 1}}}) == "wrong"


@pytest.mark.parametrize(("code", "said"), [("n = Dim('n', min=4)", "repaired"), ("n = 9", "refuted")])
def test_a_repair_that_is_the_example_is_none(code, said):
    found = {"status": "refuted", "repair": {"status": "proved", "code": [code]}}
    assert of_ours({"shapeproof": found}) == said


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_is_proved_and_its_programs_agree_with_eager(name):
    if importlib.util.find_spec(ENTRIES[name].needs) is None:
        pytest.skip(f"{ENTRIES[name].needs} is not installed")
    found = attempt.attempt("shapeproof", name)
    assert found["status"] == "proved"
    assert found["beside_eager"].keys() == {"agrees"}


@pytest.mark.slow
def test_an_attempt_that_does_not_end_in_time_is_ended_and_said_to_be_so():
    assert attempt.apart("shapeproof", "bert", "dims", limit=0)["status"] == "not ended"


def fragile(name, lost, _):
    """The first time that it is asked for `b`, the worker ends as if its machine were lost."""
    if name == "b" and not Path(lost).exists():
        Path(lost).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"name": name}


@pytest.mark.slow
def test_a_worker_that_is_lost_loses_no_entry(tmp_path):
    with executor(None, 2) as run:
        found = [each["name"] for each in run(fragile, ["a", "b", "c"], str(tmp_path / "lost"), 0)]
    assert (tmp_path / "lost").exists()
    assert sorted(found) == ["a", "b", "c"]
