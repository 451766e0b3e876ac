"""An index whose copies are cheap: a copy shares the entries of each key until either changes them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)


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
        self._items: dict[Key, dict[Item, None]] = {}

    def copy(self) -> Index[Key, Item]:
        """Return a copy with the same entries."""
        twin: Index[Key, Item] = Index()
        twin._items = self._items.copy()
        return twin

    def add(self, keys: Iterable[Key], item: Item) -> None:
        """Add the item under each of the keys."""
        for key in keys:
            self._items[key] = {**self._items.get(key, {}), item: None}

    def discard(self, keys: Iterable[Key], item: Item) -> None:
        """Remove the item under each of the keys, where present."""
        for key in keys:
            if item in self._items.get(key, ()):
                self._items[key] = self._items[key].copy()
                del self._items[key][item]

    def of(self, key: Key) -> Iterable[Item]:
        """Return the items under the key."""
        return self._items.get(key, ())

    def among(self, keys: Iterable[Key]) -> list[Item]:
        """Return the items under any of the keys, once each, in the order of the keys."""
        return list(dict.fromkeys(item for key in keys for item in self.of(key)))
