"""One call of an operator, its sizes and integers: what output_sizes.py and value_ranges.py are given.

Data only: nothing is read from torch here and nothing is concluded.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shapeproof.constraints.terms import Term, constant, maximum, minimum


@dataclass(frozen=True, slots=True)
class Span:
    """Integers from `low` to `high`, both included; an end that is None is not known."""

    low: Term | None = None
    high: Term | None = None

    def __or__(self, other: Span) -> Span:
        """What holds every integer of both."""
        return Span(both(minimum, self.low, other.low), both(maximum, self.high, other.high))

    @property
    def known(self) -> bool:
        """Whether anything is known."""
        return self.low is not None or self.high is not None


def both(combine: Any, left: Term | None, right: Term | None) -> Term | None:
    """The ends combined, where both are known."""
    return None if left is None or right is None else combine(left, right)


ANYTHING = Span()


def span(low: Term | int | None, high: Term | int | None) -> Span:
    """The span between two ends.

    Args:
        low: the smallest integer; None if it is not known.
        high: the greatest.
    """
    return Span(*(constant(end) if isinstance(end, int) else end for end in (low, high)))


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a tensor: its sizes, its dtype's name, and where the integers in it lie.

    `strides` and `offset` say how it lies in its storage, where that was asked for.
    """

    sizes: tuple[Term, ...]
    dtype: str = ""
    content: Span = ANYTHING
    strides: tuple[Term, ...] = ()
    offset: Term | None = None

    @property
    def numel(self) -> Term:
        """The number of elements."""
        return product(self.sizes)

    def size(self, dim: object) -> Term | None:
        """The size of a dimension; None where there is none such.

        Args:
            dim: its index as a constant term, counted from the end where negative.
        """
        if not isinstance(dim, Term) or not dim.is_constant:
            return None
        index = dim.constant_value
        return self.sizes[index] if -len(self.sizes) <= index < len(self.sizes) else None


def product(sizes: Iterable[Term]) -> Term:
    """The number of elements that sizes make."""
    return functools.reduce(operator.mul, sizes, constant(1))


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, its arguments by name, and its results in order.

    A tensor is a Shape and an int a Term; lists are tuples of them. Anything else (flags, dtypes, None) is as it was;
    what is not understood (a sparse tensor, a float) is None.
    """

    name: str
    arguments: Mapping[str, Any]
    results: Sequence[Any]

    def tensor(self, name: str) -> Shape | None:
        """A tensor argument; None where it is none.

        Args:
            name: its name in the schema.
        """
        found = self.arguments.get(name)
        return found if isinstance(found, Shape) else None

    def integer(self, name: str) -> Term | None:
        """An int argument; None where it is none.

        Args:
            name: its name in the schema.
        """
        found = self.arguments.get(name)
        return found if isinstance(found, Term) else None

    def result(self, index: int = 0) -> Shape | None:
        """A tensor among the results; None where it is none.

        Args:
            index: which of them.
        """
        found = self.results[index] if index < len(self.results) else None
        return found if isinstance(found, Shape) else None


@dataclass(slots=True)
class Running:
    """An operator that is being run."""

    func: Any
    args: Any
    kwargs: Mapping[str, Any]
    meanings: list[Term] | None = None
    """What the symbols mean that are still to be made for a view."""
    taken: int = 0
    """How many numbers it has taken from data."""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = str(self.func)
