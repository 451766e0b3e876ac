"""What a model's code can read, as it was, in a form that is compared with the present in microseconds."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import chain
from typing import Any

from shapeproof.serve.calling.reach import Reach


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
