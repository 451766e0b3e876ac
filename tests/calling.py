"""A model that is a function."""

from __future__ import annotations

import torch


class Calls(torch.nn.Module):
    """Its inputs are the function's, by their names."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


class CallsWithArgs(torch.nn.Module):
    """Its inputs are in one parameter, `*args`."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)
