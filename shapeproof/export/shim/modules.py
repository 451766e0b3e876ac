"""What a torch.nn.Module holds, as torch keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def registered(modules: Iterable[torch.nn.Module]) -> list[tuple[dict[str, Any], str]]:
    """Each parameter, buffer and submodule, as the dict that holds it and its name there."""
    return [
        (held, name)
        for module in modules
        for held in (module._parameters, module._buffers, module._modules)
        for name in held
    ]
