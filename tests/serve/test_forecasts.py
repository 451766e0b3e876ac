"""How many programs a domain needs: held against brute force on random branching models, and on the guide's own."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.export import ConstraintViolation
from shapeproof.serve import forecast
from shapeproof.serve.forecasts import fewest_blocks, fewest_to_cover
from tests.agreement import outcome, same
from tests.export.random_programs import branch, comparisons_of, conditions_of, few, indented, terms_over


class Branches(torch.nn.Module):
    def forward(self, x):
        if x.size()[0] == 10:
            return x * 10
        if x.size()[0] <= 30:
            return x * 200
        return x * x.size()[0]


@pytest.mark.parametrize("example", [10, 20, 40])
def test_three_branches_need_two_programs_from_every_example(example):
    found = forecast(Branches(), (torch.rand(example),), dynamic_shapes={"x": {0: Dim("n", min=0, max=100)}})
    assert (found.programs, found.at_least, found.least, found.static) == (2, 2, True, 101)
    assert set(found.regions) == {"x.shape[0] >= 31 or x.shape[0] == 10", "x.shape[0] != 10 and x.shape[0] <= 30"}
    assert "2 programs (the least number)" in str(found)


def test_one_program_is_the_least_number():
    found = forecast(torch.nn.ReLU(), (torch.rand(4),), dynamic_shapes=({0: Dim("n", min=0)},))
    assert (found.programs, found.least, found.regions, found.borders, found.static) == (
        1, True, ("every size",), (), None,
    )  # fmt: skip


@pytest.mark.thorough
def test_what_is_equal_and_not_proved_to_be_is_not_called_the_least():
    class Twice(torch.nn.Module):
        def forward(self, x):
            return x + x if x.shape[0] == 7 else x * 2

    found = forecast(Twice(), (torch.rand(4),), dynamic_shapes=({0: Dim("n", min=0, max=20)},))
    assert (found.programs, found.at_least, found.least) == (2, 1, False)
    (border,) = found.borders
    assert str(border).startswith("x.shape[0] == 7 at test_forecasts.py:")


def test_a_domain_that_is_not_supported_is_an_error():
    with pytest.raises(ConstraintViolation):
        forecast(torch.nn.Unflatten(0, (2, -1)), (torch.ones(4),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))


LEAVES = ["x * 2", "x * 3", "x * a", "x * b", "x * (a + b)", "x + 1", "x + a"]
COMPARISONS = comparisons_of(terms_over(["a", "b"], ["2", "3"]))
BLOCKS = st.recursive(
    st.sampled_from(LEAVES).map(lambda leaf: [f"return {leaf}"]),
    lambda blocks: st.builds(branch, conditions_of(COMPARISONS), blocks, blocks),
    max_leaves=5,
)


def model_of(lines):
    """A model of these lines, from a file that can be shown."""
    from tests.export.random_programs import built

    forward = ["def forward(self, x):", *indented(["a, b = x.shape", *lines])]
    return built("\n".join(["class Model(torch.nn.Module):", *indented(forward), ""]))


def brute_force(model, leaves, box):
    """The fewest of the straight programs that, between them, do what the model does at every point."""
    served = {leaf: set() for leaf in leaves}
    for point in box:
        x = torch.arange(1.0, 1.0 + point[0] * point[1]).reshape(point) + 0.37  # of 1, `x * 2` is `x + 1`
        wanted = outcome(model, (x,))
        for leaf in leaves:
            if same(wanted, outcome(model_of([f"return {leaf}"]), (x,))):
                served[leaf].add(point)
    return fewest_to_cover(frozenset(box), map(frozenset, served.values()))


def held_against_brute_force(lines):
    model = model_of(lines)
    box = list(
        itertools.product(range(1, 5), repeat=2)
    )  # of no elements, all programs are equal, and none is proved to be
    shapes = ({0: Dim("a", min=1, max=4), 1: Dim("b", min=1, max=4)},)
    found = forecast(model, (torch.rand(2, 3),), dynamic_shapes=shapes)
    leaves = [leaf for leaf in LEAVES if f"return {leaf}" in "\n".join(lines)]
    number = brute_force(model, leaves, box)
    assert found.at_least <= number <= found.programs, (lines, number, str(found))
    return found.least


@few(30)
@given(BLOCKS)
def test_the_number_is_that_of_brute_force(lines):
    held_against_brute_force(lines)


@pytest.mark.slow
def test_the_least_number_is_that_of_300_random_models():
    least = []

    @settings(few(1), max_examples=300)
    @given(BLOCKS)
    def each(lines):
        least.append(held_against_brute_force(lines))

    each()
    assert sum(least) >= 0.9 * len(least)


@given(st.lists(st.frozensets(st.integers(0, 5)), max_size=6))
def test_the_fewest_to_cover_is_that_of_all_subsets(sets):
    whole = frozenset().union(*sets)
    sizes = [
        n for n in range(len(sets) + 1) for some in itertools.combinations(sets, n) if frozenset().union(*some) == whole
    ]
    assert fewest_to_cover(whole, sets) == min(sizes)


@given(st.sets(st.frozensets(st.integers(0, 4), min_size=2)))
def test_the_fewest_blocks_are_a_partition_of_blocks_that_may_be(allowed):
    blocks = fewest_blocks(5, lambda block: frozenset(block) in allowed)
    assert sorted(itertools.chain.from_iterable(blocks)) == list(range(5))
    assert all(len(block) == 1 or frozenset(block) in allowed for block in blocks)
