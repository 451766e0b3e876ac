"""A set of sizes: Python's own set looks elements up by hash, and a symbolic size has no hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any


class Distinct(AbstractSet[Any]):
    """A set of values: two sizes are compared when the second one is added; nothing else is asked."""

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[Any]) -> None:
        self._values: list[Any] = []
        self._values += (value for value in values if value not in self)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class that `isinstance` sees."""
        return set

    def __contains__(self, value: object) -> bool:
        return any(bool(value == each) for each in self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
