"""Models with flex_attention: dynamo reads the user's functions, and torch.vmap leaves unreadable constants."""

from __future__ import annotations

import functools

import pytest
import torch
from torch.export import Dim
from torch.nn.attention.flex_attention import create_block_mask, flex_attention, or_masks
from torch.nn.attention.flex_attention import flex_attention as flexible

from shapeproof.export import export
from shapeproof.export.shim.process.transforms import is_transformed
from tests.agreement import agree

SIZES = (1, 1), (1, 33), (3, 1), (2, 130)
"""Batches and lengths: a block of a mask has 128 rows."""


def causal(_b, _h, i, j):
    return i >= j


def masked_score(s, _b, _h, i, j):
    return torch.where(i >= j, s, float("-inf"))


def slope(by, s, _b, _h, i, j):
    return s + by * (i - j)


def near(_b, _h, i, j):
    return (i >= j) & (i - j <= 8)


def blocks(q, k, mask=causal, batch=None):
    return create_block_mask(mask, B=batch, H=None, Q_LEN=q.shape[2], KV_LEN=k.shape[2], device="cpu")


def of_documents(q, k, v):
    document = q.mean((1, 3)).cumsum(1) // 0.25
    mask = blocks(q, k, lambda b, _h, i, j: (document[b, i] == document[b, j]) & (i >= j), q.shape[0])
    return flex_attention(q, k, v, block_mask=mask)


def compiled(q, k, v):
    return torch.compile(flex_attention)(q, k, v, score_mod=slope_of_one, block_mask=blocks(q, k))


def slope_of_one(s, _b, _h, i, j):
    return s + (i - j)


def with_builtins(q, k, v):
    def score(s, _b, _h, i, j):
        return torch.where(i >= j, s * max(1, 2) + len((1, 2)), -float("inf"))

    return flex_attention(q, k, v, score_mod=score)


def nested(q, k, v):
    def doubled(x):
        return x * int(2.5)

    def score(s, _b, _h, i, j):
        return doubled(s) + (i - j)

    return flex_attention(q, k, v, score_mod=score)


def captured(q, k, v):
    bias = q.mean(-1)[0]
    return flex_attention(q, k, v, score_mod=lambda s, _b, h, i, _j: s + bias[h, i])


MODELS = {
    "plain": flex_attention,
    "score": functools.partial(flex_attention, score_mod=masked_score),
    "mask": lambda q, k, v: flex_attention(q, k, v, block_mask=blocks(q, k)),
    "sliding": lambda q, k, v: flex_attention(q, k, v, block_mask=blocks(q, k, near)),
    "prefix": lambda q, k, v: flex_attention(q, k, v, block_mask=blocks(q, k, or_masks(causal, lambda *at: at[3] < 5))),
    "documents": of_documents,
    "capped": lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, *_: 20 * torch.tanh(s / 20)),
    "compiled": compiled,
    "both": lambda q, k, v: flex_attention(q, k, v, score_mod=masked_score, block_mask=blocks(q, k)),
    "grouped": lambda q, k, v: flex_attention(q.repeat(1, 2, 1, 1), k, v, enable_gqa=True),
    "captured": captured,
    "builtins": with_builtins,
    "nested": nested,
    "lambda": lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, *_: s * 2),
    "partial": lambda q, k, v: flex_attention(q, k, v, score_mod=functools.partial(slope, 0.5)),
    "sums": lambda q, k, v: flex_attention(q, k, v, return_lse=True),
    "another name": lambda q, k, v: flexible(q, k, v, score_mod=masked_score),
}


class Attention(torch.nn.Module):
    """Calls one of them, or has a score as an attribute."""

    def __init__(self, attend=None):
        super().__init__()
        self.attend, self.score = attend, masked_score

    def forward(self, q, k, v):
        if self.attend is None:
            return flex_attention(q, k, v, score_mod=self.score)
        return self.attend(q, k, v)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*MODELS, "attribute"])
def test_flex_attention_is_exported_and_equal_at_every_size(name):
    model, b, s = Attention(MODELS.get(name)), Dim("b", min=1, max=8), Dim("s", min=1, max=512)
    with torch.no_grad():
        program = export(model, heads(3, 12), dynamic_shapes=({0: b, 2: s},) * 3)
        assert program.report.status == "proved", program.report
        forms = program.module(), program.run_decompositions().module(), torch.export.unflatten(program)
        for sizes in SIZES:
            inputs = heads(*sizes)
            assert [agree(model, form, inputs) for form in forms] == [True] * 3, sizes


def heads(batch, size):
    return tuple(torch.randn(batch, 2, size, 16) for _ in range(3))


class Vmapped(torch.nn.Module):
    def forward(self, x):
        n = x.shape[0]
        return torch.vmap(lambda row: row.new_zeros(n + 1)[:n] + row.sum())(x)


def test_unflatten_keeps_where_a_vmap_begins_and_ends():
    program = export(Vmapped(), (torch.randn(5, 4),), dynamic_shapes=({0: Dim("n", min=1, max=64)},))
    assert program.report.status == "proved"
    module = torch.export.unflatten(program)
    assert all(agree(Vmapped(), module, (torch.randn(n, 4),)) for n in (1, 2, 9))


def test_a_constant_of_a_transform_that_has_ended_is_recognised():
    kept = []
    torch.vmap(lambda x: kept.append(x) or x)(torch.ones(3))
    assert is_transformed(kept[0])
    assert not is_transformed(torch.ones(3))
    with pytest.raises(RuntimeError):
        kept[0].min()


def test_a_body_may_call_builtins_in_any_operator_that_dynamo_reads():
    from torch._higher_order_ops.map import map as mapped

    class Mapped(torch.nn.Module):
        def forward(self, x):
            return mapped(lambda row: row * float("2") + max(1, 2), x)

    x = torch.ones(6, 4)
    program = export(Mapped(), (x,), dynamic_shapes=({0: Dim("n", min=2, max=64)},))
    assert torch.equal(program.module()(x[:3]), Mapped()(x[:3]))
