"""A live model is watched: what its calls show is what `add` reads of them, from every thread, inside the block."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check, watching
from shapeproof.seen import Seen
from tests.thoroughness import examples


class Model(torch.nn.Module):
    def forward(self, x, more=None, *rest, scale=1, **others):  # noqa: ARG002
        return x


class Simple(torch.nn.Module):
    def forward(self, x, n=0):  # noqa: ARG002
        return x * 2


TENSORS = st.builds(
    lambda shape, dtype: torch.empty(shape, dtype=dtype),
    st.lists(st.integers(0, 4), max_size=3),
    st.sampled_from([torch.float32, torch.int64]),
)
TREES = st.recursive(
    st.one_of(TENSORS, st.integers(-3, 3), st.none(), st.booleans(), st.sampled_from(["a", 2.5])),
    lambda trees: st.one_of(
        st.lists(trees, max_size=2),
        st.lists(trees, max_size=2).map(tuple),
        st.dictionaries(st.sampled_from("kn"), trees, max_size=2),
    ),
    max_leaves=4,
)
CALLS = st.tuples(st.lists(TREES, max_size=2).map(tuple), st.dictionaries(st.sampled_from(["scale", "z"]), TREES))


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(TENSORS, CALLS), min_size=1, max_size=5))
def test_a_watched_call_is_what_add_reads(calls):
    model, seen, by_hand = Model(), Seen(), Seen()
    with watching(model, seen):
        for x, (args, kwargs) in [*calls, *calls]:
            model(x, *args, **kwargs)
            named = {key: value for key, value in kwargs.items() if key != "scale"}
            positional = dict(zip(["more"], args[:1], strict=False)) | ({"rest": args[1:]} if args[1:] else {})
            scale = {"scale": kwargs["scale"]} if "scale" in kwargs else {}
            by_hand.add((), {"x": x} | positional | scale | ({"others": named} if named else {}))
    assert seen == by_hand


def test_the_model_is_watched_in_the_block_alone():
    model, seen = Simple(), Seen()
    with watching(model, seen) as same:
        model(torch.ones(3))
        model(n=4, x=torch.ones(5))
    model(torch.ones(3, 3))
    assert same is seen
    assert str(seen) == (
        "L['n']: scalar 4\nL['x']: tensor size=[5] stride=[1]\n\nL['x']: tensor size=[3] stride=[1]".replace(
            "tensor ", "tensor float32 "
        )
    )
    assert not model._forward_pre_hooks


def test_threads_are_watched_together():
    model, seen, alone = Simple(), Seen(), Seen()
    sizes = [range(k, 4000, 7) for k in range(4)]

    def traffic(mine):
        for n in mine:
            model(torch.empty(n))

    with watching(model, seen):
        threads = [threading.Thread(target=traffic, args=(mine,)) for mine in sizes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for mine in sizes:
        for n in mine:
            alone.add((torch.empty(n),), names=("x",))
    assert seen == alone


def test_what_an_export_runs_is_no_traffic():
    model, seen = Simple(), Seen()
    with watching(model, seen):
        assert check(model, (torch.ones(3),), dynamic_shapes={"x": {0: torch.export.Dim.AUTO}}).status == "proved"
        torch.export.export(model, (torch.ones(3),))
    assert not seen


def test_a_call_that_is_wrong_is_the_models_to_refuse():
    model, seen = Simple(), Seen()
    with watching(model, seen), pytest.raises(TypeError, match="positional"):
        model(1, 2, 3)
    assert not seen
    with pytest.raises(UsageError, match=r"expected a torch.nn.Module to watch, got int"), watching(1, seen):
        pass


def test_a_copy_of_a_watched_model_tells_the_same_profile():
    model, seen = Simple(), Seen()
    with watching(model, seen):
        copy.deepcopy(model)(torch.ones(2))
    assert len(seen.joints) == 1
