"""Containers of sizes: Python's own `range` takes plain numbers only, and its `set` looks elements up by hash.

A symbolic size has no hash. A range has the meaning of Python's: an iteration asks for the number of elements, and its
text for the ends. The ends, the length and the elements are sizes, and computing them asks nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import torch


class Range(Sequence[Any]):
    """The numbers `start`, `start + step`, and so on, before `stop`."""

    __slots__ = ("length", "start", "step", "stop")

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        if step == 0:
            raise ValueError("range() arg 3 must not be zero")
        self.start, self.stop, self.step = start, stop, step
        self.length = torch.sym_max(0, -((start - stop) // step))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class that `isinstance` sees."""
        return range

    def __len__(self) -> int:
        return int(self.length)

    def __bool__(self) -> bool:
        return bool(self.length > 0)

    def __iter__(self) -> Iterator[Any]:
        return (self._at(number) for number in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return (self._at(number) for number in reversed(range(len(self))))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            taken = range(len(self))[index]
            return Range(self._at(taken.start), self._at(taken.stop), self.step * taken.step)
        number = index + self.length if index < 0 else index
        if number < 0 or number >= self.length:
            raise IndexError("range object index out of range")
        return self._at(number)

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | torch.SymInt):
            return any(value == each for each in self)
        if self.step > 0:
            return bool(self.start <= value < self.stop and (value - self.start) % self.step == 0)
        return bool(self.stop < value <= self.start and (self.start - value) % -self.step == 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, range):
            return NotImplemented
        count = getattr(other, "length", None)
        count = len(other) if count is None else count
        if self.length != count:
            return False
        return bool(self.length == 0 or (self.start == other.start and (self.length == 1 or self.step == other.step)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(range(*map(int, (self.start, self.stop, self.step))))

    def count(self, value: Any) -> int:
        """Return 1 if the value is among the numbers, else 0."""
        return int(value in self)

    def index(self, value: Any, *_: Any) -> Any:
        """Return the position of the value among the numbers."""
        if value not in self:
            raise ValueError(f"{value} is not in range")
        return (value - self.start) // self.step

    def _at(self, number: Any) -> Any:
        return self.start + self.step * number


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
