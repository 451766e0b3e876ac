"""The contents of a torch.nn.Module, as torch stores them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def registered(modules: Iterable[torch.nn.Module]) -> list[tuple[dict[str, Any], str]]:
    """Return each parameter, buffer and submodule, as the dict that holds it and its name there."""
    return [
        (held, name)
        for module in modules
        for held in (module._parameters, module._buffers, module._modules)
        for name in held
    ]


GLOBAL_HOOKS: tuple[dict[int, Any], ...] = (
    torch.nn.modules.module._global_forward_hooks,
    torch.nn.modules.module._global_forward_pre_hooks,
)
"""The hooks that every module's call runs."""


def parts(module: torch.nn.Module) -> tuple[dict[Any, Any], ...]:
    """Return the dicts of a module whose length changes when a part or a hook is added or removed."""
    held = (module._parameters, module._buffers, module._modules)
    return (*held, module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
