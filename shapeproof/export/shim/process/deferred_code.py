"""Defers the Python code of the graphs that torch.export makes.

Torch generates the code of a graph after each of its passes, and runs none of it. With torch's own flag it generates
the code of a graph only where the graph is called or its code is read. No graph is changed here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module


def code_deferred() -> AbstractContextManager[None]:
    """Inside this block, torch defers the code of the graphs that it makes. The flag is the process's."""
    return _use_lazy_graph_module(should_use=True)


def code_generated(module: torch.fx.GraphModule) -> None:
    """Generate all code that was deferred, of bodies too, so that nobody finds a trace of the flag."""
    for each in module.modules():
        if isinstance(each, _LazyGraphModule):
            plain = type(torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph()))  # each module has its own class
            plain.__name__ = type(each).__name__
            each.__class__ = plain  # type: ignore[assignment]
            each.recompile()
