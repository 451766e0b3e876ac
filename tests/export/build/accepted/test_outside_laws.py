"""Law: a program agrees with eager or refuses, whatever memory, layout and kind of tensor it is given."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agreement import agree
from tests.export.build.accepted.test_outside import (
    OURS,
    AsksContiguous,
    Counts,
    ReadsOfAResult,
    ReadsOffset,
    ReadsStrides,
    Writes,
    WritesState,
    WritesWhatMayBeACopy,
    of_matrices,
)
from tests.thoroughness import examples


class Plain(torch.nn.Module):
    def forward(self, x, y):
        return (x.reshape(-1) * 2).sum() + y.t() @ y


LAWFUL = (Plain, Writes, Counts, WritesState)
READING = (ReadsStrides, AsksContiguous, ReadsOfAResult, WritesWhatMayBeACopy, ReadsOffset)


@functools.cache
def lawful(model, form):
    """The program of a model of two equal matrices, or of one, in some form."""
    return OURS[form](of_matrices(model, 2 if model in LAWFUL else 1))


@st.composite
def matrices(draw, count):
    """Tensors that may lie in one memory, of any size, rank, dtype and layout."""
    base = torch.arange(-40.0, 72.0)
    n, m = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    made = []
    for _ in range(count):
        offset, order = draw(st.integers(0, 60)), draw(st.permutations([0, 1]))
        step = draw(st.sampled_from([1, 1, 1, 2]))
        strides = [step * (m if order == [0, 1] else 1), step * (1 if order == [0, 1] else n)]
        own = base if draw(st.booleans()) else base.clone()
        fits = offset + sum((size - 1) * stride for size, stride in zip((n, m), strides, strict=True)) < 112
        tensor = own.as_strided((n, m), strides, offset) if fits and n and m else torch.ones(n, m)
        kind = draw(st.sampled_from(["", "", "", "", "dtype", "rank", "requires_grad", "sparse"]))
        made.append(
            {
                "dtype": lambda t: t.double(),
                "rank": lambda t: t[None],
                "requires_grad": lambda t: t.clone().requires_grad_(),
                "sparse": lambda t: t.to_sparse(),
            }.get(kind, lambda t: t)(tensor)
        )
    return tuple(made)


@pytest.mark.thorough
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), form=st.sampled_from(["module", "decomposed"]), model=st.sampled_from(LAWFUL + READING))
def test_a_program_agrees_with_eager_or_refuses(data, form, model):
    """Law: whatever it is given; and what the example is like, it takes."""
    args = data.draw(matrices(2 if model in LAWFUL else 1))
    run = lawful(model, form)
    assert agree(model(), run, args, may_refuse=True)
    if all(1 <= size <= 8 for size in args[0].shape):
        assert agree(model(), run, tuple(torch.randn(args[0].shape[-2:]) for _ in args))
