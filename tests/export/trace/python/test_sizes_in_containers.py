"""Ranges of sizes, and sizes that are looked up in dicts and sets, mean what they mean in Python."""

from __future__ import annotations

import collections
import functools
import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from shapeproof.export.trace.python.plain_numbers import Distinct, Range
from tests.agreement import agree
from tests.export import handled

N = Dim("n", min=0, max=9)
SHORT = range(-4, 5)
STEPS = [step for step in range(-3, 4) if step]
TABLE = {5: 2, 7: 2}
PAIRED = {(5, 1): 2, (7, "a"): 2}
COUNTED = collections.Counter([3, 3])
ALLOWED = {5, 6}
REMEMBERED = {}


@pytest.mark.parametrize(("start", "stop", "step"), itertools.product(SHORT, SHORT, STEPS))
def test_a_range_is_as_pythons(start, stop, step):
    own, pythons = Range(start, stop, step), range(start, stop, step)
    assert isinstance(own, range)
    assert (own.start, own.stop, own.step, repr(own)) == (start, stop, step, repr(pythons))
    assert (list(own), len(own), bool(own)) == (list(pythons), len(pythons), bool(pythons))
    assert list(reversed(own)) == list(reversed(pythons))
    assert own == pythons
    for value in range(-6, 7):
        assert (value in own, own.count(value)) == (value in pythons, pythons.count(value))
        assert outcome(own.index, value) == outcome(pythons.index, value)
        assert outcome(own.__getitem__, value) == outcome(pythons.__getitem__, value)
    for cut in (slice(1, 3), slice(None, None, -1), slice(-2, None), slice(0, 9, 2)):
        assert list(own[cut]) == list(pythons[cut])


def test_ranges_are_equal_as_pythons_are():
    ends = list(itertools.product((-1, 0, 2), (0, 1, 3), (1, 2, -1)))
    for one, other in itertools.product(ends, ends):
        assert (Range(*one) == Range(*other)) == (range(*one) == range(*other))


def test_a_step_of_zero_is_refused():
    with pytest.raises(ValueError, match="must not be zero"):
        Range(0, 3, 0)


def two(_):
    return 2


def outcome(function, *args):
    try:
        return function(*args)
    except (ValueError, IndexError) as error:
        return type(error)


def test_a_set_of_sizes_is_a_set():
    own = Distinct([3, 1, 3, 2])
    assert isinstance(own, set)
    assert (len(own), sorted(own), 3 in own, 4 in own) == (3, [1, 2, 3], True, False)
    assert own == {1, 2, 3}
    assert own & {1, 9} == {1}


def held(function):
    """The status of a model that multiplies by what a function of its size gives, after it was held against eager."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return x * function(x.shape[0])

    report = check(Model(), (torch.ones(5),), dynamic_shapes=({0: N},))
    for n in range(10) if report.program is not None else ():
        refusing = report.status == "undecided"
        assert agree(Model(), report.program.module(), (torch.arange(float(n)),), may_refuse=refusing)
    return report.status


@functools.lru_cache
def doubled(n):
    return n * 2


PROVED = {
    "stop": lambda n: range(0, n, 4).stop,
    "start": lambda n: range(n, 20, 4).start,
    "step": lambda n: range(0, 20, n + 1).step,
    "length": lambda n: len(range(0, n, 4)),
    "downwards": lambda n: len(range(n, 0, -2)),
    "number": lambda n: range(0, 2 * n + 1, 2)[n],
    "last": lambda n: range(0, n + 3, 2)[-1],
    "slice": lambda n: len(range(n + 5)[2:4]),
    "index": lambda n: range(0, 2 * n + 2, 2).index(2 * n),
    "rounds": lambda n: sum(range(n, n + 3)) + list(range(n, n + 4, 2))[1],
    "set": lambda n: two(n in {5, 6}),
    "no set": lambda n: two(n + 1 not in ALLOWED),
    "tuple": lambda n: two(n in (5, 6)),
    "range": lambda n: two(n in range(3, 9, 2)),
    "built": lambda n: two(n in frozenset([5, 6])),
    "dict": lambda n: TABLE.get(n, 2),
    "literal": lambda n: {5: 2, 6: 2}.get(n, 2),
    "keys": lambda n: two(n in TABLE.keys()),  # noqa: SIM118 - the point
    "pair": lambda n: PAIRED.get((n, 1), 2),
    "distinct": lambda n: len(set((n, n + 1))),  # noqa: C405 - the point
    "cached": doubled,
    "text": lambda n: two(n in {"a", 2.5}),
    "text of a range": lambda n: two(str(range(n)) == f"{range(5)}"),
    "same text": lambda n: {"7": 2}.get(str(n), 2),
}


def matched(n):
    match n:
        case 5:
            return 2
        case 6 | 7:
            return 2
    return 2


PROVED |= {"match": matched, "said": handled.said}


@pytest.mark.parametrize("name", PROVED)
def test_what_makes_no_difference_is_proved(name):
    assert held(PROVED[name]) == "proved"


def test_a_text_that_is_only_said_costs_no_trace():
    class Says(torch.nn.Module):
        def forward(self, x):
            return x * handled.said(x.shape[0])

    report = check(Says(), (torch.ones(5),), dynamic_shapes=({0: Dim("n", min=0, max=29)},))
    assert (report.status, report.statistics["regions"]) == ("proved", 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda n: 2 if n in {5, 6} else 3,
        lambda n: 2 if n in ALLOWED else 3,
        lambda n: TABLE.get(n, 4),
        lambda n: TABLE[n] if n in TABLE else 4,  # noqa: SIM401 - the point
        lambda n: 2 if (n, 1) in PAIRED else 3,
        lambda n: TABLE[n],
        lambda n: len([0] * n) + 1,
        lambda n: {"7": 2}.get(f"{n}", 1),
        lambda n: 2 if str((n, n)) == "(7, 7)" else 1,
        lambda n: 2 if f"{n:03d}" == "007" else 1,
        lambda n: 2 if "l7" in [f"l{n}", "a"] else 1,
    ],
)
def test_what_makes_one_is_not(function):
    assert held(function) in {"refuted", "undecided"}


def kept(n):
    if n not in REMEMBERED:
        REMEMBERED[n] = n * 2
    return REMEMBERED[n]


@pytest.mark.parametrize("function", [kept, lambda n: {n: 2}[n], lambda n: len({n, 5}), lambda n: COUNTED[n], hash])
def test_where_a_size_is_put_into_a_dict_that_is_said_with_the_line(function):
    with pytest.raises(
        UsageError, match=r"test_sizes_in_containers\.py:\d+: a size cannot be put into a dict or a set"
    ):
        held(function)
    assert not any(isinstance(key, torch.SymInt) for key in REMEMBERED)


class OneOfBoth(torch.nn.Module):
    def forward(self, x):
        return x * two(x.shape in {(3, 2), (4, 2)}) * len(set(x.shape[1:]))


def test_whole_shapes_are_looked_up():
    report = check(OneOfBoth(), (torch.ones(6, 2),), dynamic_shapes=({0: N},))
    assert report.status == "proved"
    assert all(agree(OneOfBoth(), report.program.module(), (torch.ones(n, 2),)) for n in range(10))


class LooksUpData(torch.nn.Module):
    def forward(self, x):
        return x * two(x.sum().item() in {3, 4})


def test_data_is_looked_up():
    report = check(LooksUpData(), (torch.tensor([1, 1]),))
    assert report.status == "proved"
    assert agree(LooksUpData(), report.program.module(), (torch.tensor([1, 2]),))
