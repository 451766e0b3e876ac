"""Models that branch on their sizes, split into regions: they partition the domain, and each program serves its own."""

from __future__ import annotations

import inspect
import json
import math

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.export import ConstraintViolation, check, export, load_regions
from shapeproof.export.shim.archives import programs_in, save_archive, texts_in
from tests.agreement import RAISES, agree, outcome

N = Dim("n", min=0, max=100)


class Three(torch.nn.Module):
    """Another program at ten, up to thirty, and above."""

    def forward(self, x):
        if x.shape[0] == 10:
            return x * 2
        if x.shape[0] <= 30:
            return x + 1
        return x - 1


@pytest.fixture(scope="module")
def three():
    return export(Three(), (torch.randn(5),), dynamic_shapes={"x": {0: N}}, branches="split")


def test_three_branches_are_three_regions(three):
    assert three.report.status == "proved"
    assert sorted(three.domains) == sorted(three.report.regions)
    assert set(three.domains) == {
        "x.shape[0] == 10",
        "x.shape[0] != 10 and x.shape[0] <= 30",
        "x.shape[0] >= 31",
    }


def test_the_module_does_what_eager_does_at_every_size(three):
    run = three.module()
    assert all(agree(Three(), run, (torch.randn(n),)) for n in range(101))
    assert outcome(run, (torch.randn(101),)) == RAISES


def test_each_program_alone_refuses_the_other_regions(three):
    for program, formula in zip(three.programs, three.holds, strict=True):
        run = program.module()
        (name,) = formula.symbols
        for n in (0, 9, 10, 11, 30, 31, 100):
            inside = holds(formula, {name: n})
            assert (outcome(run, (torch.randn(n),)) != RAISES) == inside
            assert agree(Three(), run, (torch.randn(n),), may_refuse=not inside)


def test_regions_are_one_archive(three, tmp_path):
    three.save(tmp_path / "three.pt2")
    loaded = load_regions(tmp_path / "three.pt2")
    assert loaded.domains == three.domains
    run = loaded.module()
    assert all(agree(Three(), run, (torch.randn(n),)) for n in (0, 9, 10, 11, 30, 31, 100))


def test_a_file_without_regions_is_one_sentence(tmp_path):
    path = tmp_path / "nothing.pt2"
    path.write_bytes(b"nothing")
    with pytest.raises(UsageError, match=r"nothing\.pt2 holds no regions"):
        load_regions(path)


def damaged(manifest):
    """What may be wrong with the manifest of an archive, and the sentence for it."""
    yield None, "holds no regions: it was not written by Regions.save"
    yield "no JSON", "holds damaged regions: Expecting value"
    yield json.dumps([]), "holds damaged regions: "
    yield json.dumps(manifest | {"format": 99}), "holds regions of format 99; this release reads format 2"
    yield json.dumps(manifest | {"holds": [*manifest["holds"], "n == 1"]}), "'region3' is missing"
    yield json.dumps(manifest | {"holds": ["n =="]}), "holds damaged regions: "
    for part in manifest:
        yield json.dumps({key: manifest[key] for key in manifest if key != part}), f"'{part}' is missing"


@pytest.mark.thorough
def test_damaged_regions_are_one_sentence(three, tmp_path):
    three.save(tmp_path / "three.pt2")
    with (tmp_path / "three.pt2").open("rb") as file:
        text, programs = texts_in(file)[(name := "shapeproof_regions")], programs_in(file)
    for index, (changed, sentence) in enumerate(damaged(json.loads(text))):
        path = tmp_path / f"{index}.pt2"
        with path.open("w+b") as file:
            save_archive(file, programs, {} if changed is None else {name: changed})
        with pytest.raises(UsageError, match=sentence) as caught:
            load_regions(path)
        assert "\n" not in str(caught.value)


def test_an_archive_that_is_cut_off_is_one_sentence(three, tmp_path):
    three.save(tmp_path / "three.pt2")
    (tmp_path / "cut.pt2").write_bytes((tmp_path / "three.pt2").read_bytes()[:1000])
    with pytest.raises(UsageError, match=r"cut\.pt2 holds no regions"):
        load_regions(tmp_path / "cut.pt2")


def test_a_model_without_branches_is_one_region():
    regions = export(torch.nn.ReLU(), (torch.randn(5),), dynamic_shapes=({0: N},), branches="split")
    assert len(regions.programs) == 1
    assert agree(torch.nn.ReLU(), regions.module(), (torch.randn(1),))


def added_in_a_for(x):
    total = x.sum()
    for row in range(x.shape[0]):
        total = total + row * x[row]
    return total


def added_in_a_while(x):
    total, row = x.sum(), 0
    while row < x.shape[0]:
        total, row = total + x[row], row + 1
    return total


def stacked(x):
    return torch.stack([x[row].sin() for row in range(x.shape[0])])


def unbound(x):
    total = x.sum()
    for row in x.unbind(0):
        total = total + row
    return total


def shorter(x):
    return x if x.shape[0] <= 1 else shorter(x[1:]) + x[0]


def in_each_other(x):
    total = x.sum()
    for row in range(x.shape[0] // 2):
        for column in range(row):
            total = total * x[column]
    return total


def without_a_loop(x):
    return x.sin() if x.shape[0] == 5 else x


LOOPS = [added_in_a_for, added_in_a_while, stacked, unbound, shorter, in_each_other]


def model(forward):
    """A model of one function."""
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


@pytest.mark.thorough
@pytest.mark.parametrize("forward", [*LOOPS, without_a_loop])
def test_a_loop_over_a_size_is_recognised(forward):
    report = check(model(forward), (torch.randn(5),), dynamic_shapes={"x": {0: Dim("n", min=1, max=8)}})
    first, last = inspect.getsourcelines(forward)[1], len(inspect.getsourcelines(forward)[0])
    assert report.status == "refuted"
    repeats = [d for d in report.diagnostics if any(note.label == "loop" for note in d.notes)]
    assert bool(repeats) == (forward in LOOPS), str(report)
    assert all(d.file == __file__ and first <= d.line < first + last for d in repeats)


@pytest.mark.slow
@pytest.mark.parametrize("forward", [added_in_a_for, added_in_a_while, unbound, shorter])
def test_a_loop_over_a_size_is_not_split_without_end(forward):
    with pytest.raises(ConstraintViolation) as caught:
        export(model(forward), (torch.randn(5),), dynamic_shapes={"x": {0: N}}, branches="split")
    (diagnostic,) = caught.value.report.diagnostics
    assert diagnostic.id == "many-programs"
    assert diagnostic.message.endswith("another for each number of rounds of a loop over a size")
    assert diagnostic.file == __file__


@pytest.mark.slow
def test_a_loop_with_few_rounds_is_split():
    def forward(x):
        for start in range(0, x.shape[0], 8):
            x = x + x[start : start + 1]
        return x

    mod = model(forward)
    regions = export(mod, (torch.randn(5),), dynamic_shapes={"x": {0: Dim("n", min=0, max=18)}}, branches="split")
    assert all(agree(mod, regions.module(), (torch.randn(n),)) for n in range(19))


@pytest.mark.thorough
def test_a_loop_in_steps_has_a_region_and_a_trace_for_each_number_of_rounds():
    def in_chunks(x):
        parts = [x[start : start + 8].softmax(0) for start in range(0, x.shape[0], 8)]
        return torch.cat(parts) if parts else x

    mod = model(in_chunks)
    regions = export(mod, (torch.randn(5),), dynamic_shapes={"x": {0: Dim("n", min=0, max=20)}}, branches="split")
    # Of no elements there is nothing to tell apart: one round serves none.
    assert set(regions.domains) == {
        "x.shape[0] <= 8",
        "x.shape[0] >= 9 and x.shape[0] <= 16",
        "x.shape[0] >= 17",
    }
    assert regions.report.statistics["traces"] <= len(regions.programs) + 1
    assert all(agree(mod, regions.module(), (torch.randn(n),)) for n in range(21))


@pytest.mark.thorough
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_programs_that_are_the_same_only_whole_are_not_one_region(rows):
    """The fault: taken apart, `roll` divides by the number of rows; a program of none was made, and thrown away."""

    class Rolls(torch.nn.Module):
        def forward(self, x):
            x = x.roll(1, 0)
            x[:3].reshape(-1).mul_(2)
            return x

    regions = export(Rolls(), (torch.ones(rows, 2),), dynamic_shapes=({0: Dim("n", min=0, max=5)},), branches="split")
    assert set(regions.domains) == {"x.shape[0] == 0", "x.shape[0] != 0"}
    apart = [program.run_decompositions().module() for program in regions.programs]
    for n in range(6):
        assert agree(Rolls(), regions.module(), (torch.ones(n, 2),))
        assert all(agree(Rolls(), run, (torch.ones(n, 2),), may_refuse=True) for run in apart)


@pytest.mark.parametrize("branches", ["error", "split"])
def test_an_example_that_torchs_general_path_does_not_take_is_judged(branches):
    """The fault: with the one row of the example torch's general path raises; its error was the answer."""

    class Expands(torch.nn.Module):
        def forward(self, x, y):
            return x.expand(y.shape[0], 2).clone()

    shapes = ({0: Dim("a", min=0, max=3)}, {0: Dim("b", min=0, max=3)})
    report = check(Expands(), (torch.ones(1, 2), torch.ones(0, 2)), dynamic_shapes=shapes, branches=branches)
    assert report.status == "refuted"
    (diagnostic,) = report.diagnostics
    assert diagnostic.witness == {"x.shape[0]": 0, "y.shape[0]": 1}


def test_where_eager_raises_no_region_helps():
    class Refuses(torch.nn.Module):
        def forward(self, x):
            if x.shape[0] == 7:
                raise ValueError
            return x + 1 if x.shape[0] > 3 else x

    report = check(Refuses(), (torch.randn(5),), dynamic_shapes={"x": {0: N}}, branches="split")
    assert report.status == "refuted"
    assert report.program is None
    assert [diagnostic.witness for diagnostic in report.diagnostics] == [{"x.shape[0]": 7}]


class TakesADivisor(torch.nn.Module):
    """At n <= 1 the slice has n rows; the program of larger sizes computes 0."""

    def forward(self, x):
        n = x.shape[0]
        first = x[: math.gcd(n >> 1, 6)]
        y = x * 1 + first.sum()
        return torch.where(y > n, y, n)


def test_a_decision_that_is_forgotten_while_programs_are_compared_is_no_fact_of_the_comparison():
    """The fault: the program was run again, took `n != 1` in passing, and was compared as if that were known."""
    model, shapes = TakesADivisor(), ({0: Dim("n", min=0, max=8)},)
    module = export(model, (torch.randn(8),), dynamic_shapes=shapes, branches="split").module()
    x = torch.tensor([3.0, 1, 2, -1, 4, 5, 6, 7])
    for n in range(9):
        torch.testing.assert_close(module(x[:n]), model(x[:n]))
