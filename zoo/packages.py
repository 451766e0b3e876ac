"""torchvision, where its binaries cannot be loaded: they are built for one release and kind of torch.

`import torchvision` declares fake kernels for two operators, which fails without the binaries, and timm fails with it.
Declared without a kernel, all of torchvision that is plain torch works: its classifiers, and timm.
"""

from __future__ import annotations

import contextlib
import importlib.util
from functools import cache
from pathlib import Path

import torch

FAKED = ("nms", "qnms")


@cache
def with_torchvision() -> torch.library.Library | None:
    """Make torchvision importable; None if it is as it is, or is not installed."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return None
    for binary in Path(found.origin).parent.glob("_C*.so"):
        with contextlib.suppress(OSError):
            torch.ops.load_library(str(binary))
            return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in FAKED:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library
