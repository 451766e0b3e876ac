"""What is inferred is the weakest domain that the model supports: it contains the example, is said, and is enforced."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree


class Rows(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 4)


class Branches(torch.nn.Module):
    """Two branches that do something else, one that does not."""

    def forward(self, x):
        if x.shape[0] == 3:
            return x * 5
        if 8 < x.shape[0] < 12:
            return x * 3
        if x.shape[0] == 7:
            return x + 1
        return x + 1


class Sum(torch.nn.Module):
    def forward(self, x, y):
        return x + y


class Quotient(torch.nn.Module):
    def forward(self, x):
        return x.repeat(24 // x.shape[0])


def vector(n):
    return torch.arange(float(n))


def accepted(program, inputs):
    """Which of the inputs the program takes."""
    found = []
    for args in inputs:
        try:
            program.module()(*args)
        except (RuntimeError, AssertionError):
            continue
        found.append(tuple(len(arg) for arg in args))
    return found


@pytest.mark.parametrize("example", [4, 8, 12])
def test_auto_keeps_every_size_that_the_model_supports(example):
    report = check(Rows(), (vector(example),), dynamic_shapes=({0: Dim.AUTO},))
    assert report.status == "proved"
    assert report.domain == ("x.shape[0] >= 0", "x.shape[0] % 4 == 0")
    inputs = [(vector(n),) for n in range(14)]
    assert accepted(report.program, inputs) == [(0,), (4,), (8,), (12,)]
    assert all(agree(Rows(), report.program.module(), args) for args in inputs)


@pytest.mark.parametrize("shape", [Dim.AUTO, Dim.DYNAMIC])
def test_only_the_branches_that_differ_are_given_up(shape):
    report = check(Branches(), (vector(6),), dynamic_shapes=({0: shape},))
    assert report.status == "proved"
    kept = [(n,) for n in range(16) if n not in {3, 9, 10, 11}]
    assert accepted(report.program, [(vector(n),) for n in range(16)]) == kept
    assert any("x.shape[0] != 3" in note for note in report.notes)


@pytest.mark.thorough
def test_a_size_that_must_stay_dynamic_does_not_become_a_constant():
    args = (vector(3),)
    assert check(Branches(), args, dynamic_shapes=({0: Dim.AUTO},)).domain[-1] == "x.shape[0] == 3"
    assert check(Branches(), args, dynamic_shapes=({0: Dim.DYNAMIC},)).status == "refuted"


def test_what_is_inferred_of_two_sizes_is_said_in_a_line():
    report = check(Sum(), (vector(6), vector(6)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    assert report.status == "proved"
    assert report.domain[-1] == "x.shape[0] == y.shape[0]"


@pytest.mark.thorough
def test_narrow_infers_what_was_claimed():
    shapes = {"x": {0: Dim("n", min=0, max=16)}}
    assert check(Quotient(), (vector(5),), dynamic_shapes=shapes).status == "refuted"
    report = check(Quotient(), (vector(5),), dynamic_shapes=shapes, narrow=True)
    assert report.status == "proved"
    assert any("inferred and enforced at run time: x.shape[0] >= 1" in note for note in report.notes)
    inputs = [(vector(n),) for n in range(18)]
    assert accepted(report.program, inputs) == [(n,) for n in range(1, 17)]
    assert all(agree(Quotient(), report.program.module(), args) for args in inputs[1:17])


def test_a_claim_that_holds_is_not_narrowed():
    shapes = {"x": {0: Dim("n", min=0, max=16)}}
    report = check(torch.nn.ReLU(), (vector(5),), dynamic_shapes={"input": shapes["x"]}, narrow=True)
    assert (report.status, report.notes) == ("proved", ())


class Multiplies(torch.nn.Module):
    def forward(self, x, y):
        return (x + 1) @ y


@pytest.mark.thorough
def test_sizes_that_are_all_1_in_the_example_are_not_taken_for_1():
    """Where all that belongs together is equal by chance, what is needed is still said in general."""
    auto = ({0: Dim.AUTO, 1: Dim.AUTO}, {0: Dim.AUTO, 2: Dim.AUTO})
    report = check(Multiplies(), (torch.randn(1, 1, 4), torch.randn(1, 4, 1)), dynamic_shapes=auto)
    assert report.status == "proved", str(report)
    run = report.program.module()
    for b, t, u in [(1, 1, 1), (5, 1, 1), (5, 2, 3), (2, 1, 6)]:
        assert agree(Multiplies(), run, (torch.randn(b, t, 4), torch.randn(b, 4, u)))


@pytest.mark.thorough
@pytest.mark.parametrize("mark", [Dim.AUTO, Dim.DYNAMIC])
def test_a_batch_of_one_is_kept_where_only_the_noted_size_is_another_elsewhere(mark):
    """The fault: `einsum` notes q's batch, and k's where q's is 1: every batch of 1 was excluded."""

    class Attention(torch.nn.Module):
        def forward(self, q, k):
            weights = torch.einsum("bqhd,bkhd->bhqk", q, k).softmax(-1)
            return torch.einsum("bhqk,bkhd->bqhd", weights, k)

    def rows(batch, q, k):
        return torch.rand(batch, q, 2, 4), torch.rand(batch, k, 2, 4)

    with torch.no_grad():
        report = check(Attention(), rows(2, 5, 7), dynamic_shapes=({0: mark, 1: mark},) * 2)
        assert report.status == "proved", str(report)
        run = report.program.module()
        assert all(agree(Attention(), run, rows(b, q, k)) for b in (1, 2, 3) for q in (1, 2, 4) for k in (1, 3))


class Added(torch.nn.Module):
    def forward(self, a, b, c, d):
        return a + b, c + d


@pytest.mark.parametrize("sizes", [(3, 6), (4, 8), (3, 5), (5, 5)])
def test_a_sum_in_the_example_is_inferred_only_where_it_serves_more_sizes(sizes):
    """The fault: `c.shape[0] == a.shape[0] + b.shape[0]` was inferred of an example with 3, 3, 6 and 6 rows."""
    left, right = map(vector, sizes)
    report = check(Added(), (left, left, right, right), dynamic_shapes=({0: Dim.AUTO},) * 4)
    run = report.program.module()
    assert report.status == "proved"
    for n, m in itertools.product(range(4), repeat=2):
        assert agree(Added(), run, (vector(n), vector(n), vector(m), vector(m)))


class Masks(torch.nn.Module):
    """Skips the mask where nothing is cached, if the mask is not as long as what is new."""

    def forward(self, new, mask, past):
        keys = torch.cat((past, new))
        if past.shape[0] == 0 and (mask.shape[0] > new.shape[0] or mask.shape[0] < new.shape[0]):
            return keys * 2
        return keys * torch.nn.functional.pad(mask, (0, keys.shape[0] - mask.shape[0]))


class Pads(torch.nn.Module):
    def forward(self, new, mask, past):
        keys = torch.cat((past, new))
        return keys * torch.nn.functional.pad(mask[: keys.shape[0]], (0, keys.shape[0] - mask.shape[0]))


@pytest.mark.parametrize(
    ("kind", "said"),
    [(Masks, "mask.shape[0] == new.shape[0] + past.shape[0]"), (Pads, "mask.shape[0] <= new.shape[0] + past.shape[0]")],
)
def test_a_mask_is_as_long_as_what_is_cached_and_new_only_where_it_must_be(kind, said):
    """The fault: what was inferred left out a first step, with nothing cached and a mask as long as the input."""
    shapes = {"new": {0: Dim("n", min=1, max=4)}, "mask": {0: Dim.AUTO}, "past": {0: Dim("p", min=0, max=4)}}
    report = check(kind(), (vector(3), vector(7), vector(4)), dynamic_shapes=shapes)
    assert (report.status, [said in note for note in report.notes][:1]) == ("proved", [True])
    for new in range(1, 5):
        for past in range(5):
            assert agree(kind(), report.program.module(), (vector(new), vector(new + past), vector(past)))


@pytest.mark.thorough
def test_a_case_that_another_inferred_relation_decides_is_not_said():
    """The fault: `mask.shape[0] != 1 or mask.shape[0] != ids.shape[0]` beside `mask.shape[0] == ids.shape[0]`."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=99, n_embd=8, n_layer=1, n_head=2, use_cache=False)
    given = {"input_ids": torch.ones(2, 16, dtype=torch.int64), "attention_mask": torch.ones(2, 16, dtype=torch.int64)}
    shapes = {name: {0: Dim.AUTO, 1: Dim.AUTO} for name in given}
    report = check(transformers.GPT2Model(config).eval(), (), given, dynamic_shapes=shapes)
    assert report.status == "proved"
    assert "attention_mask.shape[0] == input_ids.shape[0]" in report.domain
    assert not any(" or " in each for each in report.domain)


class Projected(torch.nn.Module):
    """Takes rows of 8 numbers."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, x, y):
        return self.layer(x), self.layer(y)


def test_a_sum_by_chance_costs_no_trace_where_eager_takes_no_more_sizes():
    """The fault: a decoder with its cache, all axes inferred, took 42 traces, for each way in which 8 is a sum."""
    given = torch.ones(3, 8), torch.ones(5, 8)
    report = check(Projected(), given, dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},) * 2)
    assert (report.status, report.statistics["traces"]) == ("proved", 1)
    assert {"x.shape[1] == 8", "y.shape[1] == 8"} <= set(report.domain)
