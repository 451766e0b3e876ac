"""An entry of the zoo: a public architecture with random weights, and what a user of it would declare.

The sizes of a tensor are written in words: `"batch 3 32*height"`. A name is a dim, and the dims that many entries share
have their ranges in `DIMS`.

>>> images = floats("batch 3 32*height+1")
>>> images.at({"batch": 2, "height": 3}).shape
torch.Size([2, 3, 97])
>>> images.declared({"batch": "b", "height": Dim("h", min=1, max=9)})[0]
'b'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree as pytree

VOCABULARY = 64


class Range(NamedTuple):
    """The declared range of a dim, and its size in the example."""

    least: int
    most: int
    example: int


DIMS: Mapping[str, Range] = {
    "batch": Range(1, 64, 2),
    "length": Range(1, 512, 9),
    "target": Range(1, 512, 7),
    "past": Range(1, 512, 5),
    "step": Range(1, 64, 3),
    "height": Range(32, 512, 64),
    "width": Range(32, 512, 96),
    "frames": Range(1, 2048, 100),
    "samples": Range(4000, 160_000, 8000),
    "nodes": Range(1, 4096, 11),
    "edges": Range(0, 65_536, 30),
    "length2": Range(1, 512, 11),
    "rows": Range(1, 64, 6),
    "columns": Range(1, 64, 5),
}
"""What is declared of a dim where an entry says nothing else."""

FAR = 600
"""No dim is larger where programs run beside eager."""
Point = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Sized:
    """A tensor whose sizes are written in words, and what fills it."""

    sizes: str
    fill: Callable[[Sequence[int]], Tensor]

    def at(self, point: Point) -> Tensor:
        """The tensor, where dims have these sizes."""
        return self.fill([each.of(point) for each in _read(self.sizes)])

    def declared(self, dims: Mapping[str, Any]) -> dict[int, Any] | None:
        """Its entry of `dynamic_shapes`; None if all sizes are fixed."""
        terms = enumerate(_read(self.sizes))
        return {index: each.of(dims) for index, each in terms if each.name} or None

    def listed(self) -> list[int | str]:
        """Its sizes as a spec file has them.

        >>> floats("batch 3 32*height+1").listed()
        ['batch', 3, '32*height + 1']
        """
        return [each.written() for each in _read(self.sizes)]

    @property
    def names(self) -> set[str]:
        """The dims that it names."""
        return {each.name for each in _read(self.sizes) if each.name}


class _Term(NamedTuple):
    """`factor*name + offset`, or the offset alone."""

    factor: int
    name: str
    offset: int

    def of(self, values: Mapping[str, Any]) -> Any:
        """The size, or the dim."""
        if not self.name:
            return self.offset
        scaled = values[self.name] if self.factor == 1 else self.factor * values[self.name]
        return scaled + self.offset if self.offset else scaled

    def written(self) -> int | str:
        """The size in words; a number if it has no name."""
        if not self.name:
            return self.offset
        scaled = self.name if self.factor == 1 else f"{self.factor}*{self.name}"
        return f"{scaled} + {self.offset}" if self.offset else scaled


_TERM = re.compile(r"(?:(?P<factor>\d+)\*)?(?P<name>[a-z_]+\d?)?(?:\+?(?P<offset>\d+))?")


def _read(sizes: str) -> list[_Term]:
    found = [_TERM.fullmatch(word) for word in sizes.split()]
    if None in found:
        raise ValueError(f"expected sizes such as 'batch 3 8*height+1', got {sizes!r}")
    parts = [each.groupdict() for each in found if each]
    return [_Term(int(each["factor"] or 1), each["name"] or "", int(each["offset"] or 0)) for each in parts]


def floats(sizes: str) -> Sized:
    """Numbers of either sign."""
    return Sized(sizes, torch.randn)


def shares(sizes: str) -> Sized:
    """Numbers between 0 and 1."""
    return Sized(sizes, torch.rand)


def integers(sizes: str, below: int, least: int = 0) -> Sized:
    """Integers in a range, such as class labels or positions in a table."""
    return Sized(sizes, lambda given: torch.randint(least, below, tuple(given)))


def tokens(sizes: str = "batch length", vocabulary: int = VOCABULARY) -> Sized:
    """Numbers of words; the first three are kept for padding, begin and end."""
    return integers(sizes, vocabulary, 3)


def mask(sizes: str = "batch length", dtype: torch.dtype = torch.int64) -> Sized:
    """A padding mask: each row has ones, at least one, and then zeros."""

    def filled(given: Sequence[int]) -> Tensor:
        *rows, length = given
        ends = torch.randint(1, length + 1, (*rows, 1)) if length else torch.zeros(*rows, 1)
        return (torch.arange(length) < ends).to(dtype)

    return Sized(sizes, filled)


def ones(sizes: str, dtype: torch.dtype = torch.int64) -> Sized:
    """Ones."""
    return Sized(sizes, lambda given: torch.ones(tuple(given), dtype=dtype))


def places(sizes: str) -> Sized:
    """0, 1, 2, ... along the last dimension."""
    return Sized(sizes, lambda given: torch.arange(given[-1]).expand(*given).contiguous())


@dataclass(frozen=True, slots=True)
class Made:
    """An input that is no tensor nor a container of tensors: what makes it of its parts, how its sizes are listed."""

    parts: Any
    make: Callable[[Any], Any]
    listed: Callable[[Any], Any]


@dataclass(frozen=True)
class Entry:
    """A model, its inputs by name, and what is declared of them.

    Attributes:
        model: builds it; True asks for the published size.
        inputs: by the names of the model's arguments: `Sized`, `Made`, or a value that stays.
        dims: ranges that differ from those of `DIMS`.
        constraints: relations of the architecture.
        needs: the package that has it.
    """

    model: Callable[[bool], nn.Module]
    inputs: Mapping[str, Any]
    dims: Mapping[str, Range] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    needs: str = "transformers"

    @property
    def ranges(self) -> dict[str, Range]:
        """The dims that its inputs name, and their ranges."""
        leaves = pytree.tree_leaves([each.parts if isinstance(each, Made) else each for each in self.inputs.values()])
        names = {name for each in leaves if isinstance(each, Sized) for name in each.names}
        return {name: {**DIMS, **self.dims}[name] for name in sorted(names)}

    @property
    def example(self) -> Point:
        """The sizes of the example."""
        return {name: each.example for name, each in self.ranges.items()}

    def at(self, point: Point) -> dict[str, Any]:
        """The inputs of these sizes; the same on each call."""
        torch.manual_seed(0)
        return {name: _at(each, point) for name, each in self.inputs.items()}

    def dynamic_shapes(self) -> dict[str, Any]:
        """What `torch.export.export` takes."""
        dims = {name: Dim(name, min=each.least, max=each.most) for name, each in self.ranges.items()}
        return {name: _declared(each, dims) for name, each in self.inputs.items()}

    def points(self) -> list[Point]:
        """The example, corners of the domain (sizes that are small enough to run), and a point inside."""
        low = {name: each.least for name, each in self.ranges.items()}
        high = {name: min(each.most, 2 * each.least + 15) for name, each in self.ranges.items()}
        inside = {name: min(each.most, each.least + 4) for name, each in self.ranges.items()}
        batch = {"batch"} & low.keys()
        many = high | {name: min(high[name], 3) for name in batch}
        mixed = [{name: (a if name in batch else b)[name] for name in low} for a, b in ((low, high), (high, low))]
        steps = [inside | {name: low[name]} for name in low if name not in batch]
        far = low | {
            name: max(low[name], min(each.most, FAR)) for name, each in self.ranges.items() if name not in batch
        }
        every = [self.example, low, inside, *mixed, many, *steps, far]
        distinct = [each for index, each in enumerate(every) if each not in every[:index]]
        return [each for each in distinct if self._has(each)]

    def _has(self, point: Point) -> bool:
        return all(eval(each, {}, dict(point)) for each in self.constraints)  # noqa: S307 - written in families/


def _at(given: Any, point: Point) -> Any:
    if isinstance(given, Made):
        return given.make(_at(given.parts, point))
    return pytree.tree_map(lambda each: each.at(point) if isinstance(each, Sized) else each, given)


def _declared(given: Any, dims: Mapping[str, Any]) -> Any:
    if isinstance(given, Made):
        return given.listed(_declared(given.parts, dims))
    if not isinstance(given, (list, tuple, dict, Sized)):
        return None
    return pytree.tree_map(lambda each: each.declared(dims) if isinstance(each, Sized) else None, given)
