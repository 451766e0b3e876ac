"""Attributes of a model beside its parameters and buffers: plain values, and tensors in any containers.

A program holds their values at the time of the trace. It shares the tensors themselves, so it sees writes into them. If
code outside the model replaces an attribute, the programs belong to another model. Attributes that the model itself
changes when it runs, such as a counter, are ignored from then on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from shapeproof.export.shim.modules import attributes

_LENGTH = object()


class Attributes:
    """The attributes of modules as they are now.

    >>> layer = torch.nn.ReLU()
    >>> layer.scales = [1.0, 2.0]
    >>> now = Attributes([layer])
    >>> layer.scales[1] = 3.0
    >>> now.is_current()
    False
    """

    def __init__(self, modules: Sequence[torch.nn.Module]) -> None:
        self._own: dict[tuple[int, Any], Any] = {}
        """Attributes that the model changes itself: the holder and the key."""
        self.take(modules)

    def take(self, modules: Sequence[torch.nn.Module]) -> None:
        """Record the current attributes."""
        self._modules = modules
        found = list(attributes(modules))
        watched = [(held, key) for held, keys in found for key in keys if (id(held), key) not in self._own]
        containers = [held for held, _ in found if (id(held), _LENGTH) not in self._own]
        values = [held[key] for held, key in watched]
        self._now = ([held for held, _ in watched], [key for _, key in watched], values, containers, _sizes(containers))

    def is_current(self) -> bool:
        """True if no attribute was replaced, added or removed."""
        holders, keys, values, containers, lengths = self._now
        try:
            same = all(map(operator.is_, map(operator.getitem, holders, keys), values))
        except (KeyError, IndexError):
            return False
        return same and _sizes(containers) == lengths

    def likeness(self) -> list[Any]:
        """Return what programs depend on: values, and the identities of tensors."""
        _, _, values, _, lengths = self._now
        return [*(id(each) if isinstance(each, torch.Tensor) else repr(each) for each in values), *lengths]

    def leave_alone(self, call: Callable[[], Any]) -> Any:
        """Run a call of the model; ignore from now on the attributes that the call changes."""
        current = self.is_current()
        try:
            return call()
        finally:
            if current and not self.is_current():
                before = {at: value for at, _, value in self._all()}
                self.take(self._modules)
                changed = (at_held[:2] for at_held in self._all() if not _is_same(before.get(at_held[0]), at_held[2]))
                self._own |= dict(changed)
                self.take(self._modules)

    def _all(self) -> list[tuple[tuple[int, Any], Any, Any]]:
        """For each value, and each container's length: its key, its holder, and the value."""
        holders, keys, values, containers, lengths = self._now
        found = [((id(held), key), held, value) for held, key, value in zip(holders, keys, values, strict=True)]
        return found + [((id(held), _LENGTH), held, size) for held, size in zip(containers, lengths, strict=True)]


def _sizes(containers: Sequence[Any]) -> list[int]:
    return list(map(len, containers))


def _is_same(mine: Any, other: Any) -> bool:
    return mine is other or (type(mine) is type(other) is int and mine == other)
