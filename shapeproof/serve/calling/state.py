"""The model's own parameters and buffers, which its programs use, and the modes in which it is called.

A program holds copies of buffers. Here they are replaced by the model's own, so that the model and all its programs see
a step of an optimizer or a running mean. attributes.py watches the other attributes.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable
from typing import Any

import torch

from shapeproof.export.shim.modules import GLOBAL_HOOKS, parts, registered
from shapeproof.export.shim.process.default_device import default_device
from shapeproof.serve.calling.attributes import Attributes

_DTYPE, _DEVICE, _SHAPE, _REQUIRES_GRAD, _TRAINING = map(
    operator.attrgetter, ("dtype", "device", "shape", "requires_grad", "training")
)
_CASTING = ("cpu", "cuda")
"""The device types whose autocast state is a mode."""


class ModelState:
    """The tensors of a model as they are now, and its modes.

    >>> model = torch.nn.Linear(2, 2)
    >>> state = ModelState(model)
    >>> _ = model.eval()
    >>> [each for each in state.modes() if each not in ModelState(torch.nn.Linear(2, 2)).modes()]
    [(False,)]
    >>> model.weight = torch.nn.Parameter(torch.ones(2, 2))
    >>> state.is_current()
    False
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._attributes = Attributes(())
        self._take()

    def read(self) -> bool:
        """Record the current tensors and modules; return True if they are like the previous ones."""
        before = self._likeness()
        self._take()
        return before == self._likeness()

    def _likeness(self) -> list[Any]:
        """Return what programs depend on: the modules themselves, and everything about each tensor but its data."""
        first = {id(each): place for place, each in reversed(list(enumerate(self._held)))}
        shared = [first[id(each)] for each in self._held]
        looks = [_looks(each) if isinstance(each, torch.Tensor) else each for each in self._held]
        return [*looks, *shared, *self._counted, *self._attributes.likeness()]

    def _take(self) -> None:
        self._modules = list(self._model.modules())
        found = registered(self._modules)
        self._holders: list[dict[str, Any]] = [held for held, _ in found]
        self._names = [name for _, name in found]
        self._held = [held[name] for held, name in found]
        self._tensors = [each for each in self._held if isinstance(each, torch.Tensor)]
        self._parts = [*GLOBAL_HOOKS, *(each for module in self._modules for each in parts(module))]
        self._counted = self._counts()
        self._attributes.take(self._modules)

    def _counts(self) -> list[int]:
        """Return the number of parts and hooks of each module."""
        return list(map(len, self._parts))

    def is_current(self) -> bool:
        """True if no tensor, module, part, hook or attribute was replaced, added or removed."""
        try:
            same = all(map(operator.is_, map(operator.getitem, self._holders, self._names), self._held))
        except KeyError:
            return False
        return same and self._counts() == self._counted and self._attributes.is_current()

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the model itself."""
        return self._attributes.leave_alone(lambda: self._model(*args, **kwargs))

    def modes(self) -> tuple[Hashable, ...]:
        """Return the modes that a trace depends on beside its inputs; MODES describes each."""
        casting = tuple([torch.get_autocast_dtype(kind) for kind in _CASTING if torch.is_autocast_enabled(kind)])
        return (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            casting,
            torch.get_default_dtype(),
            tuple(map(_TRAINING, self._modules)),
            tuple(map(_DTYPE, self._tensors)),
            tuple(map(_DEVICE, self._tensors)),
            tuple(map(_SHAPE, self._tensors)),
            tuple(map(_REQUIRES_GRAD, self._tensors)),
            default_device(),
        )


def _looks(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype, tensor.device, tensor.layout, tensor.stride()


MODES = (
    "gradients are enabled",
    "inference mode is on",
    "dtypes of autocast",
    "the default dtype",
    "which modules are in training mode",
    "dtypes of parameters and buffers",
    "devices of parameters and buffers",
    "shapes of parameters and buffers",
    "which parameters and buffers require gradients",
    "the default device",
)
"""The entries of `modes`, in words."""


def share_state(module: torch.nn.Module, model: torch.nn.Module, constants: Iterable[str] = ()) -> None:
    """Have a module of a program use the model's own tensors; `constants` are attributes that are no buffers."""
    own: dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
    own |= dict(model.named_buffers(remove_duplicate=False))
    own |= {name: found for name in constants if isinstance(found := attribute(model, name), torch.Tensor)}
    for path, tensor in own.items():
        held = attribute(module, path)
        if isinstance(held, torch.Tensor) and held is not tensor and held.shape == tensor.shape:
            holder, _, name = path.rpartition(".")
            setattr(module.get_submodule(holder), name, tensor)


def attribute(module: torch.nn.Module, path: str) -> Any:
    """Return the attribute of a module at a dotted path; None if there is none."""
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name, None)
    return found
