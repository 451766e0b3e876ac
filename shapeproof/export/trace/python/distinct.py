"""A set of sizes: Python's own looks for each by a hash, which a size has not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any


class Distinct(AbstractSet[Any]):
    """The values, each once: whether two sizes are one is asked where both are put in, and nothing else is."""

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[Any]) -> None:
        self._values: list[Any] = []
        self._values += (value for value in values if value not in self)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What `isinstance` sees."""
        return set

    def __contains__(self, value: object) -> bool:
        return any(bool(value == each) for each in self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
