"""One call of an operator with its sizes and integers, as output_sizes.py and value_ranges.py get it; and its record.

Data only.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shapeproof.constraints.terms import Term, constant, maximum, minimum

if TYPE_CHECKING:
    from shapeproof.export.ops import output_sizes, value_ranges
    from shapeproof.export.ops.shapes.shape_functions import ShapeFunction


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


@dataclass(frozen=True, slots=True)
class Index:
    """The arguments of an operator that indexes along a dim and rejects an index below 0.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html
    """

    source: str = "self"
    index: str = "index"
    dim: str | None = "dim"
    """None: the first dim."""


@dataclass(frozen=True, slots=True)
class Copies:
    """An operator that copies its operand if all numbers of an argument have one value; without argument, always.

    The argument may be a tensor of such numbers, as a mask. A value of None stands for the operand's own last sizes.
    """

    argument: str | None = None
    value: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What is known of an operator.

    Attributes:
        sizes: facts about the sizes, or the number, that its result takes from data.
        is_number: its result is a number taken from data.
        counts: its result has a row for each nonzero element of this operand.
        stored: its result has one "row" or one "column" for each element that its operand, a sparse tensor, stores.
        coalesced: it raises for an uncoalesced sparse tensor, which may store an element twice.
        values: bounds of the integers in its results.
        view: the meanings of the symbols that torch makes for a view.
        as_asked: the argument with the sizes of its result, a view or a copy; one of them may be -1.
        order: its result is a view of the whole operand, whose dims it has, and dims of size 1, as in a sample.
        copies_view: the viewing operator whose result it copies; torch computes its sizes from an example.
        shape: the sizes of its result where its operands are contiguous.
        steps: for a recurrent operator, the number of its states, and of its gates.
        index: how it indexes along a dim.
        by_position: it takes one index per dim; an index may count from the end.
        selects: it takes the row at an index that is a number.
        offsets: its operand whose first size bounds its offsets, and the offsets, which are at least 0.
        lengths: its operand, the lengths that add up to a size of the operand, and the dim.
        needs_element: "dim" or "all": eager raises without an element there, and the fake kernel does not check.
        reduces_all: the method that reduces a tensor to the same number, if no more arguments are given.
        copies: it returns a copy of its operand.
        alias_or_copy: it returns its operand, a view of it or a copy, depending on sizes and types.
        drops: it is a dropout: without effect, eager returns the operand itself.
        in_order: its result has the elements of its operand, in order.
        unchanged: its result has the sizes, strides and elements of its operand.
        moves: each element of its result is one of its operands', their position, a number that it is given, or 0.
        resizes_image: its result has the elements of its operand, an image, if the sizes asked for are the image's.
        rounds_once: it rounds each element of its result once, so the layout of an operand makes no difference to it.
        broadcasts: the position of an operand that is broadcast to the operand that is mutated.
        rejects_itself: eager raises if it reads the very memory that it writes, too.
        resizes: it may change the size of a storage.
        reads_beyond: it reads elements of the storage outside of its operand.
        reads: the method of a tensor that reads the same number off it.
        reads_layout: it acts on strides or an offset that reach no element: those of a tensor without elements, too.
        states_range: it states the user's range of a number.
        divides_by: its kernel divides by these sizes of its operands unchecked: where one is 0, the process ends. None
            stands for each size of its first operand.
        least_rank: its kernel reads memory beyond the sizes of a tensor with fewer dims.
        wrong_when_empty: what torch has wrong where there are no elements, as a sentence about `{}`.
    """

    sizes: output_sizes.Rule | None = None
    is_number: bool = False
    counts: str | None = None
    stored: str | None = None
    coalesced: bool = False
    values: value_ranges.Rule | None = None
    view: Callable[[Call], list[Term]] | None = None
    as_asked: str | None = None
    order: bool = False
    copies_view: str | None = None
    shape: ShapeFunction | None = None
    steps: tuple[int, int] | None = None
    index: Index | None = None
    by_position: bool = False
    selects: bool = False
    offsets: tuple[str, str] | None = None
    lengths: tuple[str, str, str] | None = None
    needs_element: str | None = None
    reduces_all: str | None = None
    copies: Copies | None = None
    alias_or_copy: bool = False
    drops: bool = False
    in_order: bool = False
    unchanged: bool = False
    moves: bool = False
    resizes_image: bool = False
    rounds_once: bool = False
    broadcasts: int | None = None
    rejects_itself: bool = False
    resizes: bool = False
    reads_beyond: bool = False
    reads: Callable[..., Any] | None = None
    reads_layout: bool = False
    states_range: bool = False
    divides_by: tuple[int, ...] | None = ()
    least_rank: int | None = None
    wrong_when_empty: str | None = None
