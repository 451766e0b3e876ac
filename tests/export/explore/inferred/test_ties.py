"""The equalities of the example that a large model needs: found by runs, before its one trace; right at every size.

A model is large here by its number of modules. Small ones are searched for a wider domain.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree
from tests.tiny_transformers import LONGEST, TRANSFORMERS


class Large(torch.nn.Module):
    """Layers that keep a row's four numbers, before a function of the rows and the other inputs."""

    def __init__(self, function):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(20)))
        self.function = function

    def forward(self, x, other, mask):
        return self.function(self.layers(x), other, mask)


def masked(x, other, mask):
    """In eager a mask of ones is not looked at, however many rows it has."""
    if not torch.compiler.is_compiling() and bool(mask.all()):
        return x * 2, other + 1
    return torch.where(mask[torch.arange(x.shape[0])].bool()[:, None], x * 2, x), other + 1


def added(x, other, mask):
    """The rows of `other` may also be one."""
    return x + other[:, None], mask + 1


def stated(x, other, mask):
    """A size that the model's own code refuses to see changed."""
    if other.shape[0] != 5:
        raise ValueError("five are expected")
    return x.sum(0), other * 2, mask + other.shape[0]


def bounded(x, other, mask):
    """Positions of a table: the example is as long as can be."""
    return x + torch.arange(5.0)[: x.shape[0], None], other + 1, mask + x.shape[0]


def even(x, other, mask):
    """Rows by twos."""
    return x.reshape(-1, 2, 4).sum(1), other + 1, mask + 1


def branching(x, other, mask):
    """Another program where two sizes are equal, as they are in the example by chance."""
    return x * (3 if x.shape[0] == other.shape[0] else 2), other + 1, mask + 1


def both(x, other, mask):
    """All three have as many rows."""
    return x * other[:, None], mask * other


SAMPLES = {
    "masked": (masked, (3, 3, 3), {(3, 3, 3), (1, 4, 1), (4, 1, 4)}),
    "added": (added, (3, 3, 4), {(3, 3, 4), (1, 1, 2), (4, 4, 1)}),
    "stated": (stated, (3, 5, 2), {(3, 5, 2), (1, 5, 1), (4, 5, 5)}),
    "stated, equal by chance": (stated, (5, 5, 5), {(5, 5, 5), (1, 5, 2), (4, 5, 1)}),
    "bounded": (bounded, (5, 3, 2), {(5, 3, 2), (4, 1, 1), (1, 2, 3)}),
    "even": (even, (4, 3, 2), {(4, 3, 2), (2, 2, 2), (6, 1, 1)}),
    "branching": (branching, (3, 3, 2), {(3, 3, 2)}),
    "both": (both, (3, 3, 3), {(3, 3, 3), (1, 1, 1), (4, 4, 4)}),
}


def inputs(rows, others, ones):
    return torch.randn(rows, 4), torch.randn(others), torch.ones(ones, dtype=torch.int64)


def inferred(function, sizes):
    args = inputs(*sizes)
    mod = Large(function)
    dims = tuple(dict.fromkeys(range(x.dim()), Dim.AUTO) for x in args)
    return mod, check(mod, args, dynamic_shapes=dims)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SAMPLES)
def test_a_domain_that_runs_suggest_is_right_at_every_size_and_keeps_what_the_model_serves(name):
    """With data that are looked at and data that are not."""
    function, sizes, served = SAMPLES[name]
    mod, report = inferred(function, sizes)
    assert report.status == "proved", str(report)
    run = report.program.module()
    for each in [*served, *itertools.product((0, 1, 2, 3, 5), repeat=3)]:
        x, other, ones = inputs(*each)
        for mask in (ones, torch.zeros_like(ones)):
            assert agree(mod, run, (x, other, mask), may_refuse=each not in served), each


@pytest.mark.parametrize("name", ["masked", "added", "stated", "both"])
def test_what_runs_tell_saves_the_traces(name):
    """The fault: unequal sizes, the example's and equal ones were traced in turn."""
    function, sizes, _ = SAMPLES[name]
    assert inferred(function, sizes)[1].statistics["traces"] == 1


def test_an_inferred_equality_names_the_line_that_asks_for_it():
    notes = [note for note in inferred(*SAMPLES["masked"][:2])[1].notes if "mask.shape[0] == x.shape[0]" in note]
    assert len(notes) == 1
    assert "asked for at" in notes[0]


def test_the_largest_length_is_a_bound_and_no_constant():
    """The fault that it guards: a size that cannot grow would be taken for one that cannot change."""
    assert "x.shape[0] <= 5" in inferred(*SAMPLES["bounded"][:2])[1].domain


CORNERS = [(1, 1), (1, LONGEST), (2, 7), (5, 2), (64, 3)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer_with_every_axis_inferred_is_traced_once_and_keeps_a_batch_of_one(name):
    """The fault: up to 17 traces; and no batch of 1 for GPT-2."""
    make, of, lengths = TRANSFORMERS[name]
    model, example = make(), of(2, 7)
    dims = {key: dict.fromkeys(range(x.dim()), Dim.AUTO) for key, x in example.items()}
    report = check(model, (), example, dynamic_shapes=dims)
    assert (report.status, report.statistics["traces"]) == ("proved", 1), str(report)
    run = report.program.module()
    for batch, length in CORNERS if lengths else [(1, 0), (7, 0)]:
        given = of(batch, length)
        want, got = model(**given), run(**given)
        for key, value in want.items():
            torch.testing.assert_close(got[key], value, rtol=1e-4, atol=1e-5)
