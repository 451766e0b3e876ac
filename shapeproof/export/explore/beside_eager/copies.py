"""Deep copies of models for replays.

A model's parameters are copied once for all replays of an export; the copies share that memory until one of them is
written into. It is torch's storage that is copied when it is written, so that no way of writing is missed, and it is
never the model's own: its memory stays where it is.
"""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from shapeproof.export.shim.modules import deep_copied
from shapeproof.export.shim.replaced import bound
from shapeproof.export.shim.storages import copied_when_written, holds_floats, is_copied_when_written, writes

_ModuleT = TypeVar("_ModuleT", bound=torch.nn.Module)


@dataclass(frozen=True, slots=True)
class _Copied:
    """A parameter, how often it had been written into, and the copy of its data."""

    own: torch.nn.Parameter
    writes: int | None
    data: torch.Tensor


_copies: ContextVar[dict[int, _Copied] | None] = ContextVar("copies", default=None)


def parameters_copied_once() -> AbstractContextManager[object]:
    """Inside this block, copies share the memory of parameters that no copy has written into."""
    return bound(_copies, {})


def copied(module: _ModuleT) -> _ModuleT:
    """Return a deep copy: what is written into one of the two is not seen in the other.

    >>> layer = torch.nn.Linear(2, 2)
    >>> with parameters_copied_once(), torch.no_grad():
    ...     other = copied(layer)
    ...     _ = other.weight.zero_()
    ...     bool(layer.weight.any())
    True
    """
    return deep_copied(module, _parameters(module))[0]


def copied_state(program: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a copy of a program that nobody changes: its state is copied, and its graphs are not."""
    parts = (each for each in program.modules() if isinstance(each, torch.fx.GraphModule))
    return copy.deepcopy(program, {**_parameters(program), **{id(each.graph): each.graph for each in parts}})


def _parameters(module: torch.nn.Module) -> dict[int, Any]:
    """The copies of the parameters, by their ids, as `copy.deepcopy` takes them; none outside of a block."""
    known = _copies.get()
    if known is None:
        return {}
    return {
        id(each): _copy(each, known)
        for each in module.parameters()
        if type(each) is torch.nn.Parameter and holds_floats(each)
    }


def _copy(parameter: torch.nn.Parameter, known: dict[int, _Copied]) -> torch.nn.Parameter:
    """As the parameter would copy itself: its data, in dense memory, and whether it requires gradients."""
    return torch.nn.Parameter(copied_when_written(_source(parameter, known)), parameter.requires_grad)


def _source(parameter: torch.nn.Parameter, known: dict[int, _Copied]) -> torch.Tensor:
    if is_copied_when_written(parameter):
        return parameter.data
    found = known.get(id(parameter))
    if found is None or found.writes is None or found.writes != writes(parameter):
        data = parameter.data.clone(memory_format=torch.preserve_format)
        found = known[id(parameter)] = _Copied(parameter, writes(parameter), data)
    return found.data
