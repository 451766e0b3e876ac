"""A decoder that is given its cache: one step of generation, or the prefill where the cache is empty.

Declared: every batch, every number of cached and of new tokens up to 128, as people first write it. The table of
positions has 128 rows, so that `past + step <= 128` is missing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 96, 16, 2, 2, 128


class Layer(nn.Module):
    """Causal attention over what is cached and what is new, and a feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention, self.norm_forward = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project_in, self.project_out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """New tokens [batch, step, width] and the cache [batch, heads, past, width of a head]; both, grown."""
        batch, step, _ = x.shape
        heads = self.project_in(self.norm_attention(x)).view(batch, step, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        seen = torch.arange(keys.shape[2])[None, :] <= torch.arange(step)[:, None] + (keys.shape[2] - step)
        mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)
        x = x + self.project_out(mixed.transpose(1, 2).reshape(batch, step, WIDTH))
        return x + self.feed(self.norm_forward(x)), keys, values


class Decoder(nn.Module):
    """Scores of the next token, and the cache to hand in with it."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor, cache: list[list[Tensor]]) -> tuple[Tensor, list[list[Tensor]]]:
        """Token ids [batch, step] to scores [batch, step, vocabulary]."""
        past, step = cache[0][0].shape[2], tokens.shape[1]
        x = self.tokens(tokens) + self.positions.weight[past : past + step]
        grown = []
        for layer, (keys, values) in zip(self.layers, cache, strict=True):
            x, *pair = layer(x, keys, values)
            grown.append(pair)
        return self.head(x), grown


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    batch, step, past = Dim("batch", min=1, max=8), Dim("step", min=1, max=LONGEST), Dim("past", min=0, max=LONGEST)
    cache = [[torch.randn(2, HEADS, 5, WIDTH // HEADS) for _ in range(2)] for _ in range(LAYERS)]
    shapes = {"tokens": {0: batch, 1: step}, "cache": [[{0: batch, 2: past}] * 2] * LAYERS}
    return Decoder().eval(), (torch.randint(0, VOCABULARY, (2, 3)), cache), {}, shapes
