"""The default device that is read cheaply is torch's, however it was set."""

from __future__ import annotations

import threading

import torch
from torch.overrides import TorchFunctionMode

from shapeproof.export.shim.process.default_device import default_device


class Watching(TorchFunctionMode):
    """Another mode on the stack. A mode is off the stack while it handles a call."""

    def __init__(self):
        super().__init__()
        self.met = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.met.append((default_device(), torch.get_default_device()))
        return func(*args, **kwargs or {})


def same():
    return default_device() == torch.get_default_device()


def test_the_default_device_is_the_one_that_torch_has():
    found, watching = [], Watching()
    assert same()
    with torch.device("meta"):
        assert same()
        with watching:
            torch.ones(1)
            assert same()
        other = threading.Thread(target=lambda: found.append(same()))
        other.start()
        other.join()
    try:
        torch.set_default_device("meta")
        with watching:
            torch.ones(1)
        assert same()
    finally:
        torch.set_default_device(None)
    assert same()
    assert found == [True]
    assert watching.met
    assert all(mine == torchs for mine, torchs in watching.met)
