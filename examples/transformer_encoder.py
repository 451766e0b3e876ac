"""A small pre-norm transformer encoder with a padding mask: token ids in, one vector per sentence out.

Declared: every batch in [1, 64] and every length in [1, 512].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

VOCABULARY = 1000
LONGEST = 512


class Attention(nn.Module):
    """Multi-head self-attention that ignores padding."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Attend within each sentence; `bias` is very negative at padding."""
        batch, length, width = x.shape
        heads = self.project_in(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.project_out(mixed.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """Attention and a feed-forward network, each normalised first and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm_forward = nn.LayerNorm(width)
        self.forward_network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """One layer; the shape stays."""
        x = x + self.attention(self.norm_attention(x), bias)
        return x + self.forward_network(self.norm_forward(x))


class TransformerEncoder(nn.Module):
    """Embeds tokens and positions, runs the layers, averages over what is not padding."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(LONGEST, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Token ids and mask (True where there is a token), both [batch, length], to [batch, width]."""
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        # A finite bias: a sentence that is all padding gives an average, not NaN.
        bias = torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, -1e4)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, bias)
        kept = mask.unsqueeze(-1).to(x.dtype)
        return (self.norm(x) * kept).sum(1) / kept.sum(1).clamp(min=1)


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    batch, length = Dim("batch", min=1, max=64), Dim("length", min=1, max=LONGEST)
    tokens = torch.randint(0, VOCABULARY, (2, 10))
    mask = torch.arange(10) < torch.tensor([[10], [7]])
    shapes = {"tokens": {0: batch, 1: length}, "mask": {0: batch, 1: length}}
    return TransformerEncoder().eval(), (tokens, mask), {}, shapes
