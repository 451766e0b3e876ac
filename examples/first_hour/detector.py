"""A detector: a map of scores and boxes for each cell; boxes that score well, and the smallest of their scores.

Declared: every height and width in [8, 256], as people first write it. Where nothing is found the smallest score does
not exist: eager raises, and so does the program.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

STRIDE, WIDTH = 4, 12


class Detector(nn.Module):
    """An image [3, height, width] to boxes [found, 4], their scores [found], and the least of them."""

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__()
        self.threshold = threshold
        self.body = nn.Sequential(nn.Conv2d(3, WIDTH, 3, 2, 1), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, 2, 1), nn.ReLU())
        self.score, self.shift = nn.Conv2d(WIDTH, 1, 1), nn.Conv2d(WIDTH, 4, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Centres of cells, moved by what the network says of each."""
        x = self.body(image[None])
        scores = self.score(x).sigmoid().flatten()
        rows = torch.arange(x.shape[2], dtype=x.dtype).repeat_interleave(x.shape[3])
        columns = torch.arange(x.shape[3], dtype=x.dtype).repeat(x.shape[2])
        centres = torch.stack([columns, rows, columns, rows], 1) * STRIDE
        boxes = centres + self.shift(x).flatten(2)[0].T
        kept = (scores > self.threshold).nonzero().squeeze(-1)
        return boxes[kept], scores[kept], scores[kept].min()


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    image = {1: Dim("height", min=8, max=256), 2: Dim("width", min=8, max=256)}
    return Detector().eval(), (torch.randn(3, 40, 56),), {}, {"image": image}
