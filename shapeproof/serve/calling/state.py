"""The state of a model that its programs depend on, and the modes in which it is called.

A program holds copies of buffers. Here they are replaced by the model's own, so that the model and all its programs see
a step of an optimizer or a running mean. reach.py says what else the model's code reads.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from typing import Any

import torch

from shapeproof.export.shim.process.default_device import default_device, intercepting
from shapeproof.serve.calling.reach import Reach
from shapeproof.serve.calling.rehearsal import own_changes

_DTYPE, _DEVICE, _SHAPE, _REQUIRES_GRAD, _TRAINING = map(
    operator.attrgetter, ("dtype", "device", "shape", "requires_grad", "training")
)
_CASTING = ("cpu", "cuda")
"""The device types whose autocast state is a mode."""


class ModelState:
    """What a model's code reads, as it is now, and its modes.

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
        self._own: frozenset[str] = frozenset()
        self._read: set[str] = set()
        self._take()

    def read(self) -> bool:
        """Record the present state; return True if it is like the previous one."""
        before = self._reach
        self._take()
        return before.looks == self._reach.looks

    def _take(self) -> None:
        self._reach = Reach(self._model, self._own)
        self._snapshot = Snapshot(self._reach)
        self._modules, self._tensors = self._reach.modules, self._reach.tensors

    def is_current(self) -> bool:
        """True if nothing that the model's code can read was replaced, added or removed."""
        return self._snapshot.is_current()

    def rehearse(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Ignore from now on the state that a call changes and does not read; return the path of what it may read."""
        own, read = own_changes(self._model, args, kwargs, Reach(self._model), self._own)
        self._read |= {read} if read else set()
        if own != self._own:
            self._own = own
            self._take()
        return read

    @property
    def is_restless(self) -> bool:
        """True if a call changed state that the model may read: a call of another size might do so again."""
        return not self._read <= self._own

    @property
    def unreadable(self) -> str:
        """The first value whose state cannot be read; empty if there is none."""
        return self._reach.unreadable[0] if self._reach.unreadable else ""

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
            intercepting(),
            tuple([each.stride() if each.layout is torch.strided else None for each in self._tensors]),
        )


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
    "a mode that sees each call of torch",
    "strides of parameters and buffers",
)
"""The entries of `modes`, in words."""


class Snapshot:
    """The objects that a model's code can read, as they were, to be compared with the present in microseconds.

    Each is compared by its identity, the contents of arrays by their bytes.

    >>> layer = torch.nn.ReLU()
    >>> layer.scales = [1.0, 2.0]
    >>> now = Snapshot(Reach(layer))
    >>> layer.scales[1] = 3.0
    >>> now.is_current()
    False
    """

    def __init__(self, reach: Reach) -> None:
        named = [(held, keys) for held, keys in reach.named.values() if keys]
        self._holders = [held for held, _ in named]
        self._getters = [operator.itemgetter(*keys, keys[0]) for _, keys in named]  # of two keys it gives a tuple
        self._empty = [each for each in reach.sized if not len(each)]
        self._sized = [each for each in reach.sized if len(each)]
        self._containers = [each for each in reach.containers if len(each)]
        self._members, self._owners = [get for get, _ in reach.fields], [owner for _, owner in reach.fields]
        self._contents = [(read, read()) for read in reach.contents]
        self._objects = list(self._read())
        self._lengths = list(map(len, self._sized))

    def _read(self) -> Iterator[Any]:
        """Return the objects that names, containers and fields hold now."""
        named = chain.from_iterable(map(operator.call, self._getters, self._holders))
        return chain(named, chain.from_iterable(self._containers), map(operator.call, self._members, self._owners))

    def is_current(self) -> bool:
        """True if nothing was replaced, added or removed."""
        try:
            return (
                not any(self._empty)
                and list(map(len, self._sized)) == self._lengths
                and all(map(operator.is_, self._read(), self._objects))
                and all(read() == known for read, known in self._contents)
            )
        except (LookupError, AttributeError, ValueError, RuntimeError):  # a name or a field is gone
            return False


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
