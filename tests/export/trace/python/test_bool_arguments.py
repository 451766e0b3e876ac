"""A condition on sizes for a function of torch that takes only a bool is decided, as in eager.

The fault: torch's parser of arguments refuses a SymBool, and so was the model; where a library had replaced torch's
attention, its TypeError was taken for a mistake of shapeproof's.
"""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.export import export
from tests.agreement import agree
from tests.calling import Calls

attention = functional.scaled_dot_product_attention


def causal_behind_a_closure(x):
    def call(query):
        return attention(query, query, query, is_causal=x.shape[0] > 2)

    return call(x[None])


GIVEN = {
    "keyword": lambda x: x.sum(0, keepdim=x.shape[0] > 2),
    "positional": lambda x: torch.topk(x, 1, 1, x.shape[0] > 3)[0],
    "of a float": lambda x: x.sum(0, keepdim=x.shape[0] / 2 > 1.5),
    "equality": lambda x: x.sort(dim=0, descending=x.shape[0] == 1)[0],
    "closure": causal_behind_a_closure,
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("example", [1, 5])
def test_a_condition_is_decided_for_a_function_that_takes_a_bool(given, example):
    model, shapes = Calls(GIVEN[given]), {"x": {0: Dim("n", min=1, max=6)}}
    found = export(model, (torch.randn(example, 4),), dynamic_shapes=shapes, branches="split")
    assert all(agree(model, found.module(), (torch.randn(n, 4),)) for n in range(1, 7))


def test_other_comparisons_of_that_model_are_decided_at_every_size():
    model = Calls(lambda x: (x.sum(0, keepdim=x.shape[0] > 0), x + 1 if x.shape[0] > 3 else x - 1))
    shapes = {"x": {0: Dim("n", min=1, max=6)}}
    found = export(model, (torch.randn(2, 4),), dynamic_shapes=shapes, branches="split")
    assert len(found.domains) == 2
    assert all(agree(model, found.module(), (torch.randn(n, 4),)) for n in range(1, 7))
