"""Padding buckets: the best that there are, against brute force; profiles; invalid requests."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import export
from shapeproof.seen import Seen
from shapeproof.serve import buckets
from shapeproof.serve.padded.plans import Search, dominates, fewest, least_waste


def subsets(items, most):
    return itertools.chain.from_iterable(itertools.combinations(items, count) for count in range(1, most + 1))


def cheapest(costs, chosen, index):
    return min((costs[each] for each in chosen if each >= index), default=None)


def by_hand_of_one(seed):
    draw = random.Random(seed)
    count, at_most = draw.randint(1, 8), draw.randint(1, 4)
    weights = [draw.randint(0, 5) for _ in range(count)]
    costs = sorted(draw.randint(0, 20) for _ in range(count))
    plans = [chosen for chosen in subsets(range(count), count) if count - 1 in chosen]

    def spent(chosen):
        return sum(weight * cheapest(costs, chosen, index) for index, weight in enumerate(weights))

    found = least_waste(weights, costs, at_most)
    assert len(found) <= at_most
    assert spent(found) == min(spent(chosen) for chosen in plans if len(chosen) <= at_most), (weights, costs, at_most)
    ratio = Fraction(draw.randint(10, 30), 10)

    def serves(chosen):
        return all(cheapest(costs, chosen, index) <= ratio * cost for index, cost in enumerate(costs))

    assert serves(fewest(costs, ratio))
    assert len(fewest(costs, ratio)) == min(len(chosen) for chosen in plans if serves(chosen))


def by_hand_of_several(seed):
    draw = random.Random(seed)
    points = sorted({(draw.randint(1, 4), draw.randint(1, 4)) for _ in range(draw.randint(1, 6))})
    weights = [draw.randint(1, 5) for _ in points]
    one, other, at_most = draw.randint(0, 5), draw.randint(0, 5), draw.randint(1, 3)
    corners = sorted(itertools.product({b for b, _ in points}, {s for _, s in points}))
    cost = {(b, s): b * s + one * b + other * s for b, s in corners}
    search = Search(points, weights, [cost[point] for point in points], corners, cost)

    def spent(chosen):
        prices = [[cost[each] for each in chosen if dominates(each, point)] for point in points]
        return sum(w * min(p) for w, p in zip(weights, prices, strict=True)) if all(prices) else None

    found = search.least_waste(at_most)
    best = min(total for chosen in subsets(corners, at_most) if (total := spent(chosen)) is not None)
    assert found.best
    assert spent(found.corners) == best, (points, weights, at_most)
    ratio = Fraction(draw.randint(10, 30), 10)

    def serves(chosen):
        return all(any(dominates(c, p) and cost[c] <= ratio * cost[p] for c in chosen) for p in points)

    covering = search.fewest(ratio)
    assert serves(covering.corners)
    assert not any(serves(chosen) for chosen in itertools.combinations(corners, len(covering.corners) - 1))


def test_a_plan_is_as_good_as_the_best_of_all():
    for seed in range(30):
        by_hand_of_one(seed)
        by_hand_of_several(seed)


@pytest.mark.slow
def test_300_plans_are_as_good_as_the_best_of_all():
    for seed in range(30, 330):
        by_hand_of_one(seed)
        by_hand_of_several(seed)


def test_what_is_said_of_a_plan_is_counted_over_every_size():
    found = buckets({"n": (1, 40)}, at_most=3, cost="n*n + 8*n")
    cost = {n: n * n + 8 * n for n in range(1, 41)}
    padded = {n: min(b for b in found.sizes if b >= n) for n in cost}
    assert found.waste == Fraction(sum(cost[padded[n]] for n in cost), sum(cost.values()))
    assert found.worst == max(Fraction(cost[padded[n]], cost[n]) for n in cost)
    assert all(found.bucket(n=n) == padded[n] for n in cost)
    assert found.status == "proved"


def test_no_size_is_padded_beyond_the_ratio():
    found = buckets({"b": (1, 8), "s": (1, 16)}, waste="2", cost="b*(s*s + 4*s)")
    assert found.worst <= 2
    assert all(isinstance(each, dict) for each in found.sizes)


def test_sizes_from_zero_are_covered():
    found = buckets({"n": (0, 9)}, at_most=2)
    assert found.bucket(n=0) in found.sizes
    assert found.worst is None  # a size that costs nothing is padded


def test_buckets_of_what_was_seen_are_of_sizes_seen():
    seen = Seen()
    for size in (3, 3, 17, 60):
        seen.add((torch.ones(size, 4), torch.ones(size)), names=("x", "y"))
    found = buckets(seen, at_most=2)
    assert found.names == ("x.shape[0]",)
    assert set(found.sizes) <= {3, 17, 60}


def test_profiles_touch_and_cover():
    found = buckets({"n": Dim("n", min=1, max=64)}, at_most=3)
    profiles = [profile["x"] for profile in found.tensorrt({"x": ("n", 16)})]
    assert profiles[0][0] == (1, 16)
    assert profiles[-1][2] == (64, 16)
    assert all(after[0][0] == before[2][0] + 1 for before, after in itertools.pairwise(profiles))


class Kept(torch.nn.Module):
    def forward(self, x):
        return x.relu()


def test_buckets_of_a_program_are_sizes_that_it_takes():
    program = export(Kept(), (torch.ones(8, 2),), dynamic_shapes={"x": {0: 8 * Dim("h", min=1, max=9)}})
    found = buckets(program, at_most=2)
    args, _ = found.pad((torch.ones(16, 2),))
    assert args[0].shape[0] % 8 == 0
    assert found.call(torch.ones(16, 2)).shape == (16, 2)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (({"n": (1, 9)}, {}), "expected either at_most= (how many buckets) or waste="),
        (({"n": (1, 9)}, {"at_most": 2, "waste": "2"}), "expected either at_most="),
        (({"n": (1, 9)}, {"at_most": 0}), "at_most: expected an int of at least 1, got 0"),
        (({"n": (1, 9)}, {"at_most": True}), "at_most: expected an int of at least 1, got True"),
        (({"n": (1, 9)}, {"waste": "much"}), "waste: expected a ratio such as '1.25', got 'much'"),
        (({"n": (1, 9)}, {"waste": "0.5"}), "waste: expected a ratio of at least 1"),
        (({"n": (1, None)}, {"at_most": 2}), "n has no upper bound"),
        (({"n": Dim("n", min=1)}, {"at_most": 2}), "n has no upper bound"),
        (({"n": (9, 1)}, {"at_most": 2}), "n: expected 0 <= least <= greatest, got (9, 1)"),
        (({"n": 9}, {"at_most": 2}), "n: expected its least and greatest size, such as (1, 4096), got 9"),
        (({"n": (1, 10**9)}, {"at_most": 2}), "n has 1000000000 sizes"),
        (({}, {"at_most": 2}), "expected dims such as"),
        (({"n": (1, 9)}, {"at_most": 2, "cost": "m*n"}), "cost: 'm*n' names 'm'; the dims are n"),
        (({"n": (1, 9)}, {"at_most": 2, "cost": "n >"}), "cost: 'n >' cannot be read"),
        (
            ({"n": (1, 9)}, {"at_most": 2, "cost": "10 - n"}),
            "cost: expected a cost that never decreases, got 9 at n = 1",
        ),
        (({"n": (1, 9)}, {"at_most": 2, "cost": "n - 5"}), "cost: expected a cost of at least 0, got -4 at n = 1"),
        (({"n": (0, 9)}, {"at_most": 2, "cost": "8 // n"}), "cost: it has no value at n = 0"),
        ((Seen(), {"at_most": 2}), "expected calls of one kind to plan buckets for, got 0 kinds"),
    ],
)
def test_an_invalid_request_is_one_clear_sentence(arguments, sentence):
    domain, options = arguments
    with pytest.raises(UsageError) as caught:
        buckets(domain, **options)
    assert sentence in str(caught.value)


def test_a_size_in_no_bucket_is_refused():
    found = buckets({"n": (2, 9)}, at_most=2)
    for size in (1, 10):
        with pytest.raises(UsageError, match=f"no bucket holds n = {size}"):
            found.bucket(n=size)
    with pytest.raises(UsageError, match="belong to no program"):
        found.pad((torch.ones(3),))
