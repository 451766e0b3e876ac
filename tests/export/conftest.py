"""What every test of exports begins with."""

from __future__ import annotations

import pytest
import torch

collect_ignore = ["hostile_script.py"]
"""A script whose objects run code when they are read, as pytest reads them in its search for docstrings."""


@pytest.fixture(autouse=True)
def the_same_random_numbers():
    """Examples are drawn at random: a failure is to be had again."""
    torch.manual_seed(0)
