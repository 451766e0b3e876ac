"""Tiny models that users ship, each with its declaration, inputs of three sizes of the domain, and one outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import Dim

Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Shipped:
    """A model with what a shipping test needs.

    Attributes:
        build: makes the model.
        made: makes its inputs of a size.
        declared: its dynamic_shapes.
        sizes: three sizes of the domain, the example last.
        outside: a size outside of it, which eager takes; None if there is none.
    """

    build: Callable[[], nn.Module]
    made: Callable[..., Inputs]
    declared: Any
    sizes: tuple[tuple[int, ...], ...]
    outside: tuple[int, ...] | None = None

    @property
    def example(self) -> Inputs:
        return self.made(*self.sizes[-1])


def data(*sizes: int) -> torch.Tensor:
    """Numbers that differ, the same each time."""
    return torch.linspace(-1, 1, torch.Size(sizes).numel()).reshape(sizes).sin()


class Pairs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 2, 4) * 2


class Patches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        x = x.reshape(batch, channels, height // 4, 4, width // 4, 4).permute(0, 2, 4, 1, 3, 5)
        return x.reshape(batch, (height // 4) * (width // 4), channels * 16).softmax(-1)


class FirstColumns(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :4] + x.shape[1]


class LastRows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[-4:].relu()


class Ctc(nn.Module):
    """Relative lengths become a mask over the frames that are left after a convolution of stride 2."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv1d(3, 8, 3, stride=2, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.convolution(x.transpose(1, 2)).transpose(1, 2)
        frames = y.shape[1]
        kept = torch.arange(frames)[None] < lengths[:, None] * float(frames)
        return self.head(y).log_softmax(-1) * kept[..., None], kept.sum(1)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.linear(x).chunk(2, dim=-1)
        return value * gate.sigmoid()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mixed = nn.Linear(8, 24)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.mixed(self.norm(x)).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).reshape(batch, length, 8)


class Towers(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y.t()).softmax(-1)


class Halved(nn.Module):
    """A size that is computed by floats."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(int(x.shape[0] * 0.5)) + x.sum() / x.shape[0]


class Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.down = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.up = nn.Conv2d(4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.interpolate(self.up(self.down(x).relu()), scale_factor=2.0)
        return x + y


class Masked(nn.Module):
    """A size from data that the model bounds: when operators run again it has another symbol, and the same bounds."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        longest = int(lengths.max().item())
        torch._check(longest >= 1)
        torch._check(longest <= x.shape[1])
        return x[:, :longest] * (torch.arange(longest)[None, :] < lengths[:, None])


BATCH = Dim("batch", min=1, max=4)
D = Dim("d", min=1, max=8)
H, W = Dim("h", min=1, max=4), Dim("w", min=1, max=4)

MODELS = {
    "pairs": Shipped(Pairs, lambda d: (data(2 * d, 4),), ({0: 2 * D},), ((1,), (8,), (3,)), (9,)),
    "patches": Shipped(
        Patches,
        lambda b, h, w: (data(b, 3, 4 * h, 4 * w),),
        ({0: BATCH, 2: 4 * H, 3: 4 * W},),
        ((1, 1, 1), (4, 4, 4), (2, 2, 3)),
        (5, 2, 3),
    ),
    "first columns": Shipped(
        FirstColumns, lambda n: (data(3, n),), ({1: Dim("n", min=1, max=8)},), ((1,), (8,), (6,)), (9,)
    ),
    "last rows": Shipped(LastRows, lambda n: (data(n, 2),), ({0: Dim("n", min=1, max=8)},), ((1,), (8,), (3,)), (9,)),
    "ctc": Shipped(
        Ctc,
        lambda b, t: (data(b, t, 3), torch.linspace(0.3, 1.0, b)),
        ({0: BATCH, 1: Dim("t", min=1, max=16)}, {0: BATCH}),
        ((1, 1), (4, 16), (2, 9)),
        (2, 17),
    ),
    "gated": Shipped(Gated, lambda b: (data(b, 3, 4),), ({0: BATCH},), ((1,), (4,), (2,)), (5,)),
    "attention": Shipped(
        Attention,
        lambda b, t: (data(b, t, 8),),
        ({0: BATCH, 1: Dim("t", min=1, max=8)},),
        ((1, 1), (4, 8), (2, 5)),
        (2, 9),
    ),
    "towers": Shipped(
        Towers,
        lambda b, c: (data(b, 4), data(c, 4)),
        ({0: BATCH}, {0: Dim("c", min=1, max=5)}),
        ((1, 1), (4, 5), (2, 3)),
        (2, 6),
    ),
    "halved": Shipped(Halved, lambda n: (data(n, 2),), ({0: Dim("n", min=2, max=16)},), ((2,), (16,), (7,)), (17,)),
    "masked": Shipped(
        Masked,
        lambda b, t: (data(b, t), torch.full((b,), (t + 1) // 2)),
        ({0: BATCH, 1: Dim("t", min=2, max=16)}, {0: BATCH}),
        ((1, 2), (4, 16), (2, 9)),
        (2, 17),
    ),
    "pyramid": Shipped(
        Pyramid,
        lambda h, w: (data(1, 2, 2 * h, 2 * w),),
        ({2: 2 * H, 3: 2 * W},),
        ((1, 1), (4, 4), (2, 3)),
        (5, 3),
    ),
}
