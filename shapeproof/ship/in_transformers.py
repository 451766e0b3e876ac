"""Have the exporters of transformers export by a proof: Dynamo's, and those that begin with it.

They have no argument for another function than torch.export.export, but a list of what is replaced around their call of
it. A file that they write is not run beside eager: that is what `ship` is for.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch

from shapeproof.export.api import export
from shapeproof.export.forms.programs import Regions, VerifiedProgram
from shapeproof.export.shim.replaced import bound

_proving = ContextVar("proving", default=False)
_torchs = torch.export.export


@contextlib.contextmanager
def proving() -> Iterator[None]:
    """Inside this block, the exporters of transformers call `shapeproof.export.export`, and raise what it raises.

    What else calls torch.export.export keeps torch's, and so do other threads.
    """
    _register()
    with bound(_proving, value=True):
        yield


@functools.cache
def _register() -> None:
    """Have a function chosen wherever an exporter is about to call torch.export.export."""
    from transformers.exporters.utils import register_patch

    register_patch("dynamo", "torch.export.export")(lambda torchs: _exported if _proving.get() else torchs)


def _exported(
    mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **more: Any
) -> VerifiedProgram | Regions | torch.export.ExportedProgram:
    """Export, and call the model once: the exporters note in its `forward` what a trace is given, and what it returns.

    The runs of a proof are those of copies. The exporters of two threads exchange torch.export.export for both.
    """
    if not _proving.get():
        return _torchs(mod, args, kwargs, **more)
    program: VerifiedProgram | Regions = export(mod, args, kwargs, **more)
    mod(*copy.deepcopy(args), **copy.deepcopy(kwargs or {}))
    return program
