"""Laws of watching: whatever changes a result is seen; and watching costs no more than counted comparisons."""

from __future__ import annotations

import collections
import functools
import types

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from shapeproof.serve import compile as served
from shapeproof.serve.calling.reach import Reach
from shapeproof.serve.calling.state import ModelState, Snapshot
from tests.export.random_programs import few
from tests.serve.test_watched_state import Slots, first, model_of

numbers = st.integers(1, 4).map(float)
holders = st.sampled_from(
    [
        list,
        tuple,
        collections.deque,
        lambda items: dict(enumerate(items)),
        lambda items: types.SimpleNamespace(**{f"a{index}": item for index, item in enumerate(items)}),
        lambda items: Slots(tuple(items)),
        lambda items: functools.partial(len, *items),
        lambda items: lambda: items,
        lambda items: staticmethod(items[0]) if callable(items[0]) else np.array([total(each) for each in items]),
    ]
)
structures = st.recursive(
    numbers,
    lambda inner: st.builds(lambda make, items: make(items), holders, st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)


def parts(value):
    """What a structure holds, each with a function that puts another in its place, if there is one."""
    match value:
        case list() | collections.deque() | np.ndarray():
            return [(each, functools.partial(value.__setitem__, index)) for index, each in enumerate(value)]
        case dict():
            return [(each, functools.partial(value.__setitem__, key)) for key, each in value.items()]
        case tuple():
            return [(each, None) for each in value]
        case types.SimpleNamespace():
            return [(each, functools.partial(setattr, value, name)) for name, each in vars(value).items()]
        case Slots():
            return [(value.s, functools.partial(setattr, value, "s"))]
        case functools.partial():
            return [(each, None) for each in value.args]
        case staticmethod():
            return [(value.__func__, None)]
        case types.FunctionType():
            cell = value.__closure__[0]
            return [(cell.cell_contents, functools.partial(setattr, cell, "cell_contents"))]
    return []


def total(value):
    inner = [total(each) for each, _ in parts(value)]
    return float(value) if isinstance(value, float) else sum(place * each for place, each in enumerate(inner, 1))


def changes(value):
    """All functions that replace something within a structure by a number."""
    for each, put in parts(value):
        if put is not None:
            yield put
        yield from changes(each)


@few(300)
@given(structures, st.data())
def test_whatever_changes_what_a_model_reads_is_seen(value, data):
    model = model_of(first, value)
    state, before = ModelState(model), total(value)
    assert state.is_current()
    put = data.draw(st.sampled_from([*changes(model.v), functools.partial(setattr, model, "v")]))
    put(data.draw(numbers))
    if total(model.v) != before:
        assert not state.is_current()
        assert not state.read()
    else:
        state.read()
    assert state.is_current()
    assert state.read()


@pytest.mark.thorough
@few(15)
@given(structures, st.data())
def test_a_served_model_does_what_eager_does_after_every_change(value, data):
    model = model_of(lambda self, x: x * total(self.v), value)
    run = served(model)
    for rows in (2, 3, 2):
        x = torch.ones(rows)
        assert torch.equal(run(x), model(x))
        put = data.draw(st.sampled_from([*changes(model.v), functools.partial(setattr, model, "v")]))
        put(data.draw(numbers))
        assert torch.equal(run(x), model(x))


def test_watching_grows_with_the_modules_and_walks_once():
    def compared(count):
        snapshot = Snapshot(Reach(nn.Sequential(*(nn.Linear(2, 2) for _ in range(count)))))
        return len(snapshot._objects) + len(snapshot._sized)

    few_, many = compared(10), compared(210)
    assert many - few_ <= 200 * 32
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    run = served(model)
    for rows in (2, 3):
        run(torch.ones(rows, 2))
    reach = run._state._reach
    for rows in range(20):
        run(torch.ones(rows, 2))
    assert run._state._reach is reach
