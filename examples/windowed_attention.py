"""Attention inside windows of 8 x 8, as in Swin: pad, partition, attend, put together, crop.

Declared: every batch in [1, 8], every height and width in [8, 256]. That the padded sizes divide by 8,
and that the crop gives back the size that came in, holds by arithmetic; nothing needs to be declared.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

WINDOW = 8


class WindowedAttention(nn.Module):
    """A transformer layer on images [batch, height, width, channels] that attends within windows."""

    def __init__(self, channels: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(channels)
        self.project_in = nn.Linear(channels, 3 * channels)
        self.project_out = nn.Linear(channels, channels)

    def attend(self, windows: Tensor) -> Tensor:
        """Self-attention over the pixels of each window: [windows, pixels, channels]."""
        count, pixels, channels = windows.shape
        heads = self.project_in(windows).view(count, pixels, 3, self.heads, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.project_out(mixed.transpose(1, 2).reshape(count, pixels, channels))

    def forward(self, x: Tensor) -> Tensor:
        """The image with what its windows attended to added; the shape stays."""
        batch, height, width, channels = x.shape
        y = functional.pad(self.norm(x), (0, 0, 0, -width % WINDOW, 0, -height % WINDOW))
        rows, columns = y.shape[1] // WINDOW, y.shape[2] // WINDOW
        y = y.view(batch, rows, WINDOW, columns, WINDOW, channels).transpose(2, 3)
        y = self.attend(y.reshape(batch * rows * columns, WINDOW * WINDOW, channels))
        y = y.view(batch, rows, columns, WINDOW, WINDOW, channels).transpose(2, 3)
        y = y.reshape(batch, rows * WINDOW, columns * WINDOW, channels)
        return x + y[:, :height, :width]


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    x = {
        0: Dim("batch", min=1, max=8),
        1: Dim("height", min=8, max=256),
        2: Dim("width", min=8, max=256),
    }
    return WindowedAttention().eval(), (torch.randn(2, 30, 44, 16),), {}, {"x": x}
