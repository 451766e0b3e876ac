"""One call of an operator with its sizes and integers: the input of output_sizes.py and value_ranges.py.

Data only.
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
    """Integers from `low` to `high`, both included; None is an unknown end."""

    low: Term | None = None
    high: Term | None = None

    def __or__(self, other: Span) -> Span:
        """Return the smallest span that contains both spans."""
        return Span(both(minimum, self.low, other.low), both(maximum, self.high, other.high))

    @property
    def known(self) -> bool:
        """True if an end is known."""
        return self.low is not None or self.high is not None

    @property
    def value(self) -> Term | None:
        """The one integer in the span, if its ends are known to be equal."""
        return self.low if self.low is self.high else None


def both(combine: Any, left: Term | None, right: Term | None) -> Term | None:
    """Combine two ends; None unless both are known."""
    return None if left is None or right is None else combine(left, right)


ANYTHING = Span()


def span(low: Term | int | None, high: Term | int | None) -> Span:
    """Return the span between two ends.

    Args:
        low: the smallest integer; None if it is not known.
        high: the greatest.
    """
    return Span(*(constant(end) if isinstance(end, int) else end for end in (low, high)))


@dataclass(frozen=True, slots=True)
class Shape:
    """The known properties of a tensor: its sizes, its dtype's name, and the bounds of its integers.

    `strides` and `offset` describe the layout in the storage; they are set only if the reader was asked for them.
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
        """Return the size of a dimension; None if there is no such dimension.

        Args:
            dim: its index as a constant term, counted from the end where negative.
        """
        if not isinstance(dim, Term) or not dim.is_constant:
            return None
        index = dim.constant_value
        return self.sizes[index] if -len(self.sizes) <= index < len(self.sizes) else None


def product(sizes: Iterable[Term]) -> Term:
    """Return the number of elements of a shape: the product of its sizes."""
    return functools.reduce(operator.mul, sizes, constant(1))


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, its arguments by name, and its results in order.

    A tensor is a Shape, an int is a Term, and a list is a tuple of these. Other values (flags, dtypes, None) are
    unchanged; a value that is not understood (a sparse tensor, a float) is None.
    """

    name: str
    arguments: Mapping[str, Any]
    results: Sequence[Any]

    def tensor(self, name: str) -> Shape | None:
        """Return a tensor argument; None if there is no such tensor.

        Args:
            name: its name in the schema.
        """
        found = self.arguments.get(name)
        return found if isinstance(found, Shape) else None

    def integer(self, name: str) -> Term | None:
        """Return an int argument; None if there is no such int.

        Args:
            name: its name in the schema.
        """
        found = self.arguments.get(name)
        return found if isinstance(found, Term) else None

    def result(self, index: int = 0) -> Shape | None:
        """Return a tensor among the results; None if there is no such tensor.

        Args:
            index: its position among the results.
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
    """The meanings of the symbols that are still to be made for a view."""
    taken: int = 0
    """The number of numbers that the operator has taken from data."""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = str(self.func)
