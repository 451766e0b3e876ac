"""The quick trace that `Dim.AUTO` begins with: it may serve as the program, and what it settles is right everywhere."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from benchmarks.models import MODELS as MODELS_OF_BENCHMARKS
from shapeproof.export import check
from tests.agreement import agree
from tests.thoroughness import examples


class Pinned(torch.nn.Module):
    """A size that must be 4: torch checks it where a layer is entered."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x, y):
        return self.layer(x).sum(-1) + y


class Halved(torch.nn.Module):
    """Two sizes that meet only where the first is even; the operator that checks this asks about a size of 1, too."""

    def forward(self, x, y):
        return functional.interpolate(functional.max_pool1d(x, 2), scale_factor=2.0) + x * y


class Both(torch.nn.Module):
    """Equal sizes, or one of them is 1."""

    def forward(self, x, y):
        return x.t().contiguous() * 2 + y.t()


class Branching(torch.nn.Module):
    """A branch at the size that the example has by chance."""

    def forward(self, x, y):
        return x.sum(-1) * (3 if x.shape[0] == 1 else 2) + y.sum()


class Windows(torch.nn.Module):
    """A multiple, and a size that the model reads in Python."""

    def forward(self, x, y):
        return (x.reshape(-1, 2, x.shape[1]).sum(1) * x.shape[0], y + 1)


MODELS = {
    "a constant": (Pinned(), [((3, 4), (3,)), ((1, 4), (1,)), ((4, 4), (4,))]),
    "an even size": (Halved(), [((2, 3, 4), (2, 3, 4)), ((1, 1, 2), (1, 1, 1)), ((2, 2, 2), (1, 2, 1))]),
    "broadcast": (Both(), [((2, 3), (2, 3)), ((1, 3), (2, 3)), ((2, 1), (2, 2)), ((1, 1), (1, 1))]),
    "a branch": (Branching(), [((1, 2), (1,)), ((3, 2), (4,))]),
    "windows": (Windows(), [((4, 3), (2,)), ((2, 2), (2,))]),
}
CASES = [(name, at) for name, (_, given) in MODELS.items() for at in range(len(given))]
MOST = 200
"""Points of a box that are run."""


def inferred(name, at):
    mod, given = MODELS[name]
    args = tuple(torch.randn(size) for size in given[at])
    return mod, args, check(mod, args, dynamic_shapes=tuple(dict.fromkeys(range(x.dim()), Dim.AUTO) for x in args))


@pytest.mark.parametrize(("name", "at"), CASES)
def test_what_is_inferred_from_an_example_is_right_at_every_size(name, at):
    """At each point of a small box, the program agrees with eager or refuses; it takes the example."""
    mod, args, report = inferred(name, at)
    assert report.status == "proved", str(report)
    run = report.program.module()
    assert agree(mod, run, args)
    ranks = [x.dim() for x in args]
    box = list(itertools.product(range(5), repeat=sum(ranks)))
    for sizes in box[:: max(1, len(box) // examples(MOST))]:
        shapes = sizes[: ranks[0]], sizes[ranks[0] :]
        assert agree(mod, run, tuple(torch.randn(size) for size in shapes), may_refuse=True), sizes


def test_the_trace_that_finds_the_domain_is_not_repeated():
    """The fault: a model was traced twice, once to find its domain and once in it."""
    assert inferred("a constant", 0)[2].statistics["traces"] == 1


def test_an_example_of_one_row_is_traced_again():
    """Torch's general path is another one there, although no operator gives something else."""
    report = inferred("a constant", 1)[2]
    assert report.statistics["traces"] > 1
    assert report.oblivious.one_path, str(report.oblivious)


def test_a_decision_beside_an_operators_own_check_is_settled_where_it_is_made():
    """The fault: where a product was run again with one row, its check of the sizes was taken for another result."""
    mod, args, kwargs, dims = MODELS_OF_BENCHMARKS["towers.auto"]()
    report = check(mod, args, kwargs, dynamic_shapes=dims)
    assert (report.status, report.statistics["traces"]) == ("proved", 1)
