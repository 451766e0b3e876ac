"""Which points are run beside eager, and how large they are (explore/points.py)."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.limits import NODE_ELEMENTS, REPLAY_GROWTH


class Rows(torch.nn.Module):
    """Notes the shapes that eager is run at."""

    def __init__(self):
        super().__init__()
        self.shapes = Shapes()

    def forward(self, x):
        if not torch.compiler.is_exporting():
            self.shapes.append(tuple(x.shape))
        return x * 2


class Shapes(list):
    """All copies of a model have the same list."""

    def __deepcopy__(self, _):
        return self


def shapes(example, dims):
    mod = Rows()
    assert check(mod, (torch.randn(example),), dynamic_shapes=(dims,)).status == "proved"
    return set(mod.shapes)


def test_all_ends_that_fit_are_run_together():
    run = shapes((3, 4), {0: Dim("n", min=1, max=9), 1: Dim("m", min=2, max=7)})
    assert {(1, 2), (1, 7), (9, 2), (9, 7)} <= run


def test_ends_that_fit_alone_only_are_run_alone():
    run = shapes((80, 90), {0: Dim("n", min=1, max=1000), 1: Dim("m", min=2, max=1000)})
    assert {(1, 2), (1, 1000), (1000, 2)} <= run
    assert all(n * m <= REPLAY_GROWTH // 2 * 80 * 90 for n, m in run), run


@pytest.mark.parametrize("size", [1, 2])
def test_large_inputs_are_run_at_no_more_than_one_general_size(size):
    run = {n for n, _ in shapes((size, 2 * NODE_ELEMENTS // size), {0: Dim("n", min=1, max=64)})}
    assert run == {1, 2}


def test_a_size_that_another_run_has_shown_is_not_run_again():
    model = Rows()
    dims = {0: Dim("n", min=1, max=2)}
    assert check(model, (torch.randn(2, 4 * NODE_ELEMENTS),), dynamic_shapes=(dims,)).status == "proved"
    assert sorted(n for n, _ in model.shapes) == [1, 2, 2], "the second call shows what the first leaves in the model"


@pytest.mark.parametrize("least", [1, 2])
def test_ends_that_the_domain_rejects_are_approached_together(least):
    dim = Dim("n", min=least, max=9)
    run = shapes((4, 8), {0: dim, 1: 2 * dim})
    assert {(least, 2 * least), (9, 18)} <= run
