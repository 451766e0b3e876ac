"""The U-Net of a small diffusion model: noise and a time go in, with attention where the image is smallest.

Declared: every batch, every height and width in [8, 128], as people first write it. Two halvings and two doublings
meet again only at multiples of 4.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

WIDTH, GROUPS, TIMES = 8, 4, 16


class Block(nn.Module):
    """Two convolutions, normalised in groups, moved by the time, with a shortcut."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(GROUPS, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1))
        self.second = nn.Sequential(nn.GroupNorm(GROUPS, after), nn.SiLU(), nn.Conv2d(after, after, 3, padding=1))
        self.time, self.shortcut = nn.Linear(TIMES, after), nn.Conv2d(before, after, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """The image changes its channels, not its size."""
        return self.shortcut(x) + self.second(self.first(x) + self.time(time)[:, :, None, None])


class Attention(nn.Module):
    """Self-attention over the pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.project = nn.GroupNorm(GROUPS, width), nn.Conv2d(width, 3 * width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The shape stays."""
        query, key, value = self.project(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, -1)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return x + mixed.transpose(1, 2).reshape(x.shape)


class Diffusion(nn.Module):
    """Noisy images [batch, 3, height, width] and their times [batch] to the noise in them."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(TIMES, TIMES), nn.SiLU(), nn.Linear(TIMES, TIMES))
        self.enter, self.leave = nn.Conv2d(3, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 3, 3, padding=1)
        self.down = nn.ModuleList([Block(WIDTH, WIDTH), Block(WIDTH, 2 * WIDTH)])
        self.middle, self.attend = Block(2 * WIDTH, 2 * WIDTH), Attention(2 * WIDTH)
        self.up = nn.ModuleList([Block(4 * WIDTH, WIDTH), Block(2 * WIDTH, WIDTH)])

    def forward(self, noisy: Tensor, times: Tensor) -> Tensor:
        """The times become sines and cosines; the image is halved twice and doubled twice."""
        angles = times[:, None] * torch.exp(torch.arange(TIMES // 2) * (-math.log(1e4) / (TIMES // 2)))
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        x, skipped = self.enter(noisy), []
        for block in self.down:
            x = block(x, time)
            skipped.append(x)
            x = functional.avg_pool2d(x, 2)
        x = self.attend(self.middle(x, time))
        for block in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, skipped.pop()], 1), time)
        return self.leave(x)


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    batch = Dim("batch", min=1, max=8)
    noisy = {0: batch, 2: Dim("height", min=8, max=128), 3: Dim("width", min=8, max=128)}
    return (
        Diffusion().eval(),
        (torch.randn(2, 3, 32, 24), torch.rand(2) * 1000),
        {},
        {"noisy": noisy, "times": {0: batch}},
    )
