"""What a model's code can read, as it was, in a form that is compared with the present in microseconds."""

from __future__ import annotations

import operator
from collections.abc import Iterable
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
        self._values, self._items, self._fields = map(list, self._read())
        self._lengths = list(map(len, self._sized))
        self._bytes = list(map(bytes_of, self._memory))
        self._numbers = list(map(number_of, self._tensors))

    def _read(self) -> tuple[Iterable[Any], ...]:
        """Return what names, containers and fields hold now."""
        return (
            chain.from_iterable(map(operator.call, self._getters, self._holders)),
            chain.from_iterable(self._containers),
            map(operator.call, self._members, self._owners),
        )

    def is_current(self) -> bool:
        """True if nothing was replaced, added or removed."""
        try:
            values, items, fields = self._read()
            return (
                not any(self._empty)
                and list(map(len, self._sized)) == self._lengths
                and all(map(operator.is_, values, self._values))
                and all(map(operator.is_, items, self._items))
                and all(map(operator.is_, fields, self._fields))
                and not any(map(operator.contains, *self._absent))
                and list(map(bytes_of, self._memory)) == self._bytes
                and list(map(number_of, self._tensors)) == self._numbers
            )
        except (LookupError, AttributeError, ValueError, RuntimeError):  # a name or a field is gone
            return False


def _by_holder(reach: Reach) -> list[tuple[Any, list[Any]]]:
    """Return what is read by name, with all names of one holder together."""
    found: dict[int, tuple[Any, list[Any]]] = {}
    for each in reach.namespaces:
        found.setdefault(id(each.held), (each.held, []))[1].extend(each.keys)
    return [(held, keys) for held, keys in found.values() if keys]
