"""An encoder of speech for CTC: frames subsampled by four, and how many of them are real, as shares of the longest.

Declared: every batch, every number of frames from 1, as people first write it. Two convolutions without padding need
at least seven frames.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

FEATURES, WIDTH, LETTERS = 20, 16, 29


class Speech(nn.Module):
    """Features [batch, frames, 20] and lengths [batch], each in [0, 1], to log-probabilities and their lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.subsample = nn.Sequential(
            nn.Conv1d(FEATURES, WIDTH, 3, 2), nn.ReLU(), nn.Conv1d(WIDTH, WIDTH, 3, 2), nn.ReLU()
        )
        self.mix = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True)
        self.letters = nn.Linear(WIDTH, LETTERS)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities [batch, steps, letters], and the number of real steps of each sentence."""
        x = self.subsample(features.transpose(1, 2)).transpose(1, 2)
        real = torch.round(lengths * x.shape[1]).long().clamp(min=1)
        padding = torch.arange(x.shape[1])[None, :] >= real[:, None]
        x = self.mix(x, src_key_padding_mask=padding)
        return self.letters(x).log_softmax(-1), real


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    batch, frames = Dim("batch", min=1, max=16), Dim("frames", min=1, max=3000)
    arguments = (torch.randn(2, 50, FEATURES), torch.tensor([1.0, 0.6]))
    return Speech().eval(), arguments, {}, {"features": {0: batch, 1: frames}, "lengths": {0: batch}}
