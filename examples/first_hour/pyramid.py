"""A feature pyramid: three scales of an image, the coarse ones doubled and added to the fine ones.

Declared: every height and width in [32, 512], as people first write it. Doubling meets the finer scale only where
height and width are multiples of 8.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

WIDTHS = (8, 16, 32)


class Pyramid(nn.Module):
    """Images [batch, 3, height, width] to three maps of as many channels, the finest first."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Conv2d(before, after, 3, stride=2, padding=1)
            for before, after in zip((3, *WIDTHS), WIDTHS, strict=False)
        )
        self.lateral = nn.ModuleList(nn.Conv2d(width, WIDTHS[0], 1) for width in WIDTHS)

    def forward(self, images: Tensor) -> list[Tensor]:
        """From the coarsest scale to the finest, each added to the double of the one before."""
        maps = []
        for stage in self.stages:
            images = torch.relu(stage(images))
            maps.append(images)
        merged = [self.lateral[-1](maps[-1])]
        for lateral, finer in zip(self.lateral[-2::-1], maps[-2::-1], strict=True):
            merged.append(lateral(finer) + functional.interpolate(merged[-1], scale_factor=2.0, mode="nearest"))
        return merged[::-1]


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    images = {0: Dim("batch", min=1, max=8), 2: Dim("height", min=32, max=512), 3: Dim("width", min=32, max=512)}
    return Pyramid().eval(), (torch.randn(2, 3, 64, 96),), {}, {"images": images}
