"""What a model's code can read, as it was, in a form that is compared with the present in microseconds."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import chain
from typing import Any

from shapeproof.serve.calling.reach import Reach, bytes_of, number_of


class Snapshot:
    """The objects that a model's code can read, each by its identity; the contents of arrays by their bytes.

    >>> import torch
    >>> layer = torch.nn.ReLU()
    >>> layer.scales = [1.0, 2.0]
    >>> now = Snapshot(Reach(layer))
    >>> layer.scales[1] = 3.0
    >>> now.is_current()
    False
    """

    def __init__(self, reach: Reach) -> None:
        spaces = _by_holder(reach)
        self._holders = [held for held, _ in spaces]
        self._getters = [operator.itemgetter(*keys, keys[0]) for _, keys in spaces]  # of two keys it gives a tuple
        sized = [*(each.held for each in reach.namespaces if each.whole), *(each[0] for each in reach.containers)]
        self._empty = [each for each in sized if not len(each)]
        self._sized = [each for each in sized if len(each)]
        self._containers = [each for read in reach.containers if len(read[0]) for each in read]
        self._members, self._owners = [get for get, _ in reach.fields], [owner for _, owner in reach.fields]
        self._absent = [scope for scope, _ in reach.absent], [name for _, name in reach.absent]
        self._memory, self._tensors = reach.memory, reach.numbers
        self._objects = list(self._read())
        self._lengths = list(map(len, self._sized))
        self._has_contents = bool(reach.absent or reach.memory or reach.numbers)
        self._contents = self._read_contents() if self._has_contents else None

    def _read(self) -> Iterator[Any]:
        """Return the objects that names, containers and fields hold now."""
        named = chain.from_iterable(map(operator.call, self._getters, self._holders))
        return chain(named, chain.from_iterable(self._containers), map(operator.call, self._members, self._owners))

    def _read_contents(self) -> tuple[list[Any], ...]:
        """Return whether absent names are there now, the bytes of arrays, and the numbers in tensors."""
        return (
            list(map(operator.contains, *self._absent)),
            list(map(bytes_of, self._memory)),
            list(map(number_of, self._tensors)),
        )

    def is_current(self) -> bool:
        """True if nothing was replaced, added or removed."""
        try:
            return (
                not any(self._empty)
                and list(map(len, self._sized)) == self._lengths
                and all(map(operator.is_, self._read(), self._objects))
                and not (self._has_contents and self._read_contents() != self._contents)
            )
        except (LookupError, AttributeError, ValueError, RuntimeError):  # a name or a field is gone
            return False


def _by_holder(reach: Reach) -> list[tuple[Any, list[Any]]]:
    """Return what is read by name, with all names of one holder together."""
    found: dict[int, tuple[Any, list[Any]]] = {}
    for each in reach.namespaces:
        found.setdefault(id(each.held), (each.held, []))[1].extend(each.keys)
    return [(held, keys) for held, keys in found.values() if keys]
