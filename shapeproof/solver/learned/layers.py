"""Dictionaries with cheap copies: a copy shares the original's entries and costs the square root of its size.

A long run copies all knowledge at every guard, and still takes time proportional to the number of guards.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, MutableMapping
from itertools import chain
from math import isqrt
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Item = TypeVar("Item", bound=Hashable)

_GONE: Any = object()
_LEAST_CHANGES = 32


class Layered(MutableMapping[Key, Value]):
    """A dictionary in insertion order; a key that was deleted and added again may move.

    >>> one: Layered[str, int] = Layered()
    >>> one["a"] = 1
    >>> two = one.copy()
    >>> two["b"] = 2
    >>> del two["a"]
    >>> dict(one), dict(two), len(two)
    ({'a': 1}, {'b': 2}, 1)
    """

    __slots__ = ("_base", "_changes", "_length")

    def __init__(self) -> None:
        self._base: dict[Key, Value] = {}  # shared with copies, so it is not mutated
        self._changes: dict[Key, Value] = {}
        self._length = 0

    def copy(self) -> Layered[Key, Value]:
        """Return a copy with the same entries."""
        twin: Layered[Key, Value] = Layered.__new__(Layered)
        twin._base, twin._changes, twin._length = self._base, self._changes.copy(), self._length
        return twin

    def get(self, key: Key, default: Any = None) -> Any:
        """Return the value of the key, or the default."""
        value = self._changes.get(key, self) if self._changes else self
        if value is self:
            return self._base.get(key, default)
        return default if value is _GONE else value

    def __contains__(self, key: Any) -> bool:
        value = self._changes.get(key, self) if self._changes else self
        return key in self._base if value is self else value is not _GONE

    def __getitem__(self, key: Key) -> Value:
        value: Any = self._changes.get(key, self) if self._changes else self
        if value is _GONE:
            raise KeyError(key)
        found: Value = self._base[key] if value is self else value
        return found

    def __setitem__(self, key: Key, value: Value) -> None:
        self._length += key not in self
        self._change(key, value)

    def __delitem__(self, key: Key) -> None:
        if key not in self:
            raise KeyError(key)
        self._length -= 1
        self._change(key, _GONE)

    def __iter__(self) -> Iterator[Key]:
        base, changes = self._base, self._changes
        if not changes:
            return iter(base)
        kept = (key for key in base if changes.get(key) is not _GONE)
        return chain(kept, (key for key, value in changes.items() if value is not _GONE and key not in base))

    def __len__(self) -> int:
        return self._length

    def _change(self, key: Key, value: Value) -> None:
        self._changes[key] = value
        if len(self._changes) > _LEAST_CHANGES + isqrt(len(self._base)):
            merged = self._base | self._changes
            for gone in [each for each, now in self._changes.items() if now is _GONE]:
                del merged[gone]
            self._base, self._changes = merged, {}


class Index(Generic[Key, Item]):
    """An index from keys to items; an item may have several keys.

    >>> index: Index[str, int] = Index()
    >>> index.add("ab", 1)
    >>> index.add("b", 2)
    >>> index.discard("a", 1)
    >>> [*index.of("a")], [*index.of("b")], index.among("ab")
    ([], [1, 2], [1, 2])
    """

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: Layered[Key, Layered[Item, None]] = Layered()

    def copy(self) -> Index[Key, Item]:
        """Return a copy with the same entries."""
        twin: Index[Key, Item] = Index.__new__(Index)
        twin._items = self._items.copy()
        return twin

    def add(self, keys: Iterable[Key], item: Item) -> None:
        """Add the item under each of the keys."""
        for key in keys:
            found = self._items.get(key)
            items: Layered[Item, None] = Layered() if found is None else found.copy()
            items[item] = None
            self._items[key] = items

    def discard(self, keys: Iterable[Key], item: Item) -> None:
        """Remove the item under each of the keys, where present."""
        for key in keys:
            found = self._items.get(key)
            if found is not None and item in found:
                self._items[key] = found.copy()
                del self._items[key][item]

    def of(self, key: Key) -> Iterable[Item]:
        """Return the items under the key."""
        found: Iterable[Item] = self._items.get(key, ())
        return found

    def among(self, keys: Iterable[Key]) -> list[Item]:
        """Return the items under any of the keys, once each, in the order of the keys."""
        return list(dict.fromkeys(item for key in keys for item in self.of(key)))
