"""Merging what was seen is a join, also where what is kept is cut off; adding a call is a join with it alone."""

from __future__ import annotations

import dataclasses
import functools
import pickle
import random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.seen import Seen
from shapeproof.seen import joint as joints
from shapeproof.seen import points as kept
from shapeproof.seen import seen as profiles
from shapeproof.seen.calls import flattened, read_call, size_names
from shapeproof.seen.joint import Joint
from tests.seen.calls import STREAMS, Tensor, random_stream
from tests.thoroughness import examples


def watched(stream):
    seen = Seen()
    for inputs in stream:
        seen.add((), inputs)
    return seen


@pytest.fixture(params=[None, 2])
def limit(request, monkeypatch):
    """A limit so low that most streams pass it."""
    if request.param:
        monkeypatch.setattr(kept, "SAMPLE", request.param)
        monkeypatch.setattr(joints, "MOST_VALUES", request.param)
        monkeypatch.setattr(profiles, "MOST_KINDS", request.param)


def merging_is_a_join(stream, chance):
    """The law, at one stream that is cut and shuffled at random."""
    whole = watched(stream)
    assert watched(chance.sample(stream, len(stream))) == whole
    cut = chance.randint(0, len(stream))
    one, other = watched(stream[:cut]), watched(stream[cut:])
    assert one | other == other | one == whole
    assert whole | whole == whole | one == whole
    assert watched([*stream, *stream[:cut]]) == whole
    middle = chance.randint(cut, len(stream))
    assert one | (watched(stream[cut:middle]) | watched(stream[middle:])) == whole


@pytest.mark.usefixtures("limit")
def test_merging_is_a_join_on_a_thousand_random_streams():
    """With either limit: 2,000 streams in all; one drawn by `random` takes a millisecond, one by Hypothesis ten."""
    chance = random.Random(0)
    for _ in range(1000):
        merging_is_a_join(random_stream(chance), chance)


@pytest.mark.usefixtures("limit")
def test_a_call_is_shown_where_a_join_with_it_changes_nothing():
    chance = random.Random(1)
    for _ in range(500):
        *stream, last = (read_call(flattened((), inputs)) for inputs in random_stream(chance))
        for known in functools.reduce(Seen.__or__, map(of_call, stream), of_call(last)).joints.items():
            alike = [call for call in (*stream, last, *map(moved, stream)) if call.kind == known[0]]
            assert all(known[1].shows(call) == (known[1] | Joint.of(call) == known[1]) for call in alike)


def of_call(call):
    return Seen({call.kind: Joint.of(call)})


def moved(call):
    """A call of the same kind with other sizes."""
    return dataclasses.replace(call, point=tuple(size + 1 for size in call.point))


@pytest.mark.thorough
@pytest.mark.usefixtures("limit")
@settings(max_examples=1000, suppress_health_check=[HealthCheck.function_scoped_fixture])  # one limit for all examples
@given(STREAMS, st.randoms(use_true_random=False))
def test_merging_is_a_join(stream, chance):
    merging_is_a_join(stream, chance)


@settings(max_examples=examples(200))
@given(STREAMS)
def test_all_that_was_seen_is_covered_and_keeps_every_relation(stream):
    seen = watched(stream)
    assert all(seen.covers((), inputs) for inputs in stream)
    for kind, joint in seen.joints.items():
        for relation in seen.relations()[kind]:
            names = size_names(kind)
            assert all(holds(relation.formula, dict(zip(names, point, strict=True))) for point in joint.points)
            assert relation.witnesses >= 2


@settings(max_examples=examples(100))
@given(STREAMS)
def test_it_survives_a_process(stream):
    seen = watched(stream)
    assert pickle.loads(pickle.dumps(seen)) == seen  # noqa: S301 - written here


def test_layouts_are_kept():
    seen = Seen()
    for strides in ((5, 1), (1, 3), (10, 2)):
        tensor = Tensor(3, 5)
        tensor.stride = lambda strides=strides: strides
        seen.add((tensor,), names=("x",))
    assert str(seen) == "L['x']: tensor size=[3, 5] stride=[?, ?] order=[1, 0] or [apart] or [rows]"


def test_places_take_the_names_of_parameters():
    by_place, by_name = Seen(), Seen()
    for n in (4, 7, 9):
        by_place.add(({"b": Tensor(n, 2)}, n), {"k": 3})
        by_name.add((), {"z": {"b": Tensor(n, 2)}, "a": n, "k": 3})
    assert by_place.named(("z", "a")) == by_name == by_name.named(("u", "v"))
    assert (by_place | by_name).named(("z", "a")) == by_name
    mixed = Seen()
    mixed.add((Tensor(1), 4), names=("x",))
    assert [slot.source for kind in mixed.joints for slot in kind] == ["L['x']", "L[1]"]


def test_what_no_input_can_be_is_refused():
    own = []
    own.append(own)
    for args, kwargs, match in (
        ((own,), {}, "more than 10000 inputs, or holds itself"),
        ((Tensor(2.0),), {}, r"expected sizes that are ints, got \(2.0,\) for `args\[0\]`"),
    ):
        with pytest.raises(UsageError, match=match):
            Seen().add(args, kwargs)
    with pytest.raises(UsageError, match="given twice"):
        Seen().add((1,), {"x": 2}, names=("x",))


def test_what_is_read_of_a_call():
    class Pair(NamedTuple):
        left: list
        right: None

    seen = Seen()
    seen.add((Pair([1, 2], None), {"a b": (True, 2.5)}, "text", object()))
    assert str(seen).splitlines() == [
        "L[0].left[0]: scalar 1",
        "L[0].left[1]: scalar 2",
        "L[0].right: None",
        "L[1]['a b'][0]: bool True",
        "L[1]['a b'][1]: float 2.5",
        "L[2]: str 'text'",
        "L[3]: object",
    ]
