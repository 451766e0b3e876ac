"""A model of tables: numbers, and sets of categories as torch's embedding bags take them, in one list with offsets.

Declared: a number of rows for the numbers and another one for the offsets, as people first write it; they are equal.
How many categories there are in all is a size of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

NUMBERS, CATEGORIES, WIDTH = 6, 200, 8


class Tabular(nn.Module):
    """Numbers [rows, 6], categories [entries] and where each row's begin [rows], to a probability for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(CATEGORIES, WIDTH, mode="sum")
        self.norm = nn.BatchNorm1d(NUMBERS)
        self.mix = nn.Sequential(nn.Linear(NUMBERS + WIDTH, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, numbers: Tensor, categories: Tensor, offsets: Tensor) -> Tensor:
        """One probability for each row."""
        mixed = self.mix(torch.cat([self.norm(numbers), self.bag(categories, offsets)], 1))
        return mixed.squeeze(1).sigmoid()


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The model, example arguments and the declared sizes, as torch.export takes them."""
    shapes = {
        "numbers": {0: Dim("rows", min=1, max=1024)},
        "categories": {0: Dim("entries", min=1, max=8192)},
        "offsets": {0: Dim("offsets", min=1, max=1024)},
    }
    arguments = (torch.randn(3, NUMBERS), torch.randint(0, CATEGORIES, (7,)), torch.tensor([0, 2, 5]))
    return Tabular().eval(), arguments, {}, shapes
