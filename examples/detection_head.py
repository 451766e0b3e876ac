"""The last step of an object detector: keep the anchors that score well, at most a hundred, the best first.

Declared: every number of anchors in [1, 4096]. How many boxes come out depends on the data: none, or
up to min(anchors, 100).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

MOST = 100


class DetectionHead(nn.Module):
    """Features and anchors to scored boxes."""

    def __init__(self, channels: int = 32, threshold: float = 0.5) -> None:
        super().__init__()
        self.threshold = threshold
        self.score = nn.Linear(channels, 1)
        self.shift = nn.Linear(channels, 4)

    def forward(self, features: Tensor, anchors: Tensor) -> tuple[Tensor, Tensor]:
        """Features [anchors, channels] and anchors [anchors, 4] to boxes [found, 4] and scores [found]."""
        scores = self.score(features).squeeze(-1).sigmoid()
        kept = (scores > self.threshold).nonzero().squeeze(-1)
        best = scores[kept].argsort(descending=True, stable=True)[:MOST]
        kept = kept[best]
        return anchors[kept] + self.shift(features[kept]), scores[kept]


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    count = Dim("count", min=1, max=4096)
    shapes = {"features": {0: count}, "anchors": {0: count}}
    return DetectionHead().eval(), (torch.randn(20, 32), torch.rand(20, 4)), {}, shapes
