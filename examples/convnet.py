"""A small residual network for images: a stem, three residual blocks, an average pool, a classifier.

Declared: every batch in [1, 32], every height and width in [32, 512].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim


class Residual(nn.Module):
    """Two convolutions and a shortcut; halves height and width (rounding up) where `stride` is 2."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
            nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
        )
        self.shortcut = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The two ways must agree in height and width: (h + 2 - 3)//2 + 1 and (h - 1)//2 + 1 do."""
        return torch.relu(self.body(x) + self.shortcut(x))


class ConvNet(nn.Module):
    """Images [batch, 3, height, width] to scores [batch, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.blocks = nn.Sequential(Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of each class for each image."""
        return self.classifier(self.pool(self.blocks(self.stem(images))).flatten(1))


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    images = {
        0: Dim("batch", min=1, max=32),
        2: Dim("height", min=32, max=512),
        3: Dim("width", min=32, max=512),
    }
    return ConvNet().eval(), (torch.randn(2, 3, 64, 48),), {}, {"images": images}
