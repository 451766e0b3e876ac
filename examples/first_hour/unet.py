"""A U-Net for segmentation: four halvings, four doublings, and what was halved is joined to what is doubled.

Declared: every height and width in [16, 512], as people first write it. The two meet only at multiples of 16.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

WIDTHS = (4, 8, 8, 16, 16)


def _block(before: int, after: int) -> nn.Sequential:
    """A convolution, normalised."""
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())


class UNet(nn.Module):
    """Images [batch, 3, height, width] to scores of two classes for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        pairs = list(pairwise(WIDTHS))
        self.enter, self.leave = _block(3, WIDTHS[0]), nn.Conv2d(WIDTHS[0], 2, 1)
        self.down = nn.ModuleList(_block(fine, coarse) for fine, coarse in pairs)
        self.grow = nn.ModuleList(nn.ConvTranspose2d(coarse, fine, 2, stride=2) for fine, coarse in reversed(pairs))
        self.up = nn.ModuleList(_block(2 * fine, fine) for fine, _ in reversed(pairs))
        self.pool = nn.MaxPool2d(2)

    def forward(self, images: Tensor) -> Tensor:
        """Down, keeping each scale, and up again."""
        scales = [self.enter(images)]
        for block in self.down:
            scales.append(block(self.pool(scales[-1])))
        x = scales.pop()
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(torch.cat([grow(x), scales.pop()], 1))
        return self.leave(x)


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    images = {0: Dim("batch", min=1, max=4), 2: Dim("height", min=16, max=512), 3: Dim("width", min=16, max=512)}
    return UNet().eval(), (torch.randn(2, 3, 64, 48),), {}, {"images": images}
