"""Reads the arguments of one call: which inputs there are, of what kind, and the joint point of their sizes.

Inputs are known by what they answer to (`.shape`, `.dtype`, `.stride()`), so that no torch is needed. An input is named
by torch's source name, `L['x']['mask'][0]`. Data is never read, nor a size that is not a plain int.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shapeproof.constraints.errors import UsageError

MOST_INPUTS = 10_000
"""A call with more inputs than this is refused: a container may hold itself."""
LONGEST_VALUE = 80
"""Characters that are kept of a constant's text."""
CONSTANTS = (bool, float, complex, str)
"""The types of inputs that torch.export takes for constants, beside ints: what they were is kept."""


class Slot(NamedTuple):
    """One flat input as all calls of a kind have it. `kind` is "tensor", "int", or the name of a type."""

    source: str
    kind: str
    dtype: str = ""
    rank: int = 0

    @property
    def name(self) -> str:
        """What a user calls the input: `x['mask'][0]`; `args[0]` where only its place is known."""
        return user_name(self.source)

    @property
    def is_placed(self) -> bool:
        """Whether only the place of the argument is known, and no name."""
        return re.match(r"L\[\d+\]", self.source) is not None

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of its numbers: `x.shape[0]`, or `n` for an int."""
        if self.kind == "int":
            return (self.name,)
        return tuple(f"{self.name}.shape[{index}]" for index in range(self.rank))

    def renamed(self, names: Sequence[str]) -> Slot:
        """The slot of a positional argument under the name of its parameter."""
        placed = re.match(r"L\[(\d+)\]", self.source)
        if placed is None or int(placed[1]) >= len(names):
            return self
        return self._replace(source=f"L[{names[int(placed[1])]!r}]{self.source[placed.end() :]}")

    @property
    def text(self) -> str:
        """What the input is, in words.

        >>> Slot("L['x']", "tensor", "float32", 2).text, Slot("L['n']", "int").text
        ('2-dimensional float32', 'int')
        """
        return f"{self.rank}-dimensional {self.dtype}" if self.kind == "tensor" else self.kind


Kind = tuple[Slot, ...]
"""What all calls of a kind have in common, in the order of the sources: points of one kind have the same numbers."""
Strides = tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its kind, the joint point, and for each slot its strides, and a text: its constant value, or layout."""

    kind: Kind
    point: tuple[int, ...]
    strides: tuple[Strides, ...]
    constants: tuple[str | None, ...]


def user_name(source: str) -> str:
    """What a user calls an input.

    >>> user_name("L['x'][0]"), user_name("L[1]['a']")
    ('x[0]', "args[1]['a']")
    """
    named = re.fullmatch(r"L\['(\w+)'\](.*)", source, re.DOTALL)
    return f"{named[1]}{named[2]}" if named else f"args{source.removeprefix('L')}"


def size_names(kind: Kind) -> tuple[str, ...]:
    """The names of the numbers of a point, in order."""
    return tuple(name for slot in kind for name in slot.sizes)


def flattened(args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """The flat inputs with their sources; a positional argument is named by its place where `names` ends.

    >>> list(flattened(([1, None],), {"k": 2}))
    [('L[0][0]', 1), ('L[0][1]', None), ("L['k']", 2)]
    """
    for index, value in enumerate(args):
        key: object = names[index] if index < len(names) else index
        yield from unpacked(f"L[{key!r}]", value)
    for key, value in kwargs.items():
        yield from unpacked(f"L[{key!r}]", value)


def unpacked(source: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The flat inputs in a value: of the standard library's containers, named tuples and dataclasses.

    Raises:
        UsageError: it holds too many.
    """
    left = [(source, value)]
    for _ in range(MOST_INPUTS):
        if not left:
            return
        path, each = left.pop()
        parts = _parts(each)
        if parts is None:
            yield path, each
        else:
            left += [(f"{path}{key}", part) for key, part in reversed(parts)]
    raise UsageError(f"`{user_name(source)}` holds more than {MOST_INPUTS} inputs, or holds itself")


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    if is_tensor(value):
        return None
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", part) for name, part in zip(value._fields, value, strict=True)]
    if isinstance(value, tuple | list):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f".{each.name}", getattr(value, each.name)) for each in dataclasses.fields(value)]
    return None


def is_tensor(value: Any) -> bool:
    """Whether a value has sizes and a dtype."""
    return hasattr(value, "dtype") and (getattr(value, "is_nested", False) or hasattr(value, "shape"))


def read_call(leaves: Iterable[tuple[str, Any]]) -> Call:
    """The call that has these flat inputs.

    Raises:
        UsageError: a size is not an int, or two inputs have one source.
    """
    read = sorted((_read(source, value) for source, value in leaves), key=lambda each: each[0])
    kind = tuple(slot for slot, *_ in read)
    if len({slot.source for slot in kind}) < len(kind):
        raise UsageError("an input is given twice, by its place and by its name")
    point = tuple(number for _, numbers, _, _ in read for number in numbers)
    return Call(kind, point, tuple(each[2] for each in read), tuple(each[3] for each in read))


def _read(source: str, value: Any) -> tuple[Slot, tuple[int, ...], Strides, str | None]:
    if getattr(value, "is_nested", False):  # torch raises where its sizes are read
        raise UsageError(f"expected sizes that are ints, got a nested tensor for `{source}`")
    if is_tensor(value):
        sizes = _plain(source, value.shape)
        slot, strides = Slot(source, "tensor", str(value.dtype).removeprefix("torch."), len(sizes)), _strides(value)
        return slot, sizes, strides, None if strides is None else layout(sizes, strides)
    if type(value) is int:
        return Slot(source, "int"), (value,), None, None
    name = "None" if value is None else type(value).__qualname__
    said = repr(value)[:LONGEST_VALUE] if isinstance(value, CONSTANTS) else None
    return Slot(source, name), (), None, said


@functools.lru_cache(maxsize=1024)  # many tensors of a call are alike
def layout(sizes: tuple[int, ...], strides: tuple[int, ...]) -> str:
    """How a tensor lies in memory: "rows", its dimensions from the outermost in, or "apart" where it is not dense.

    >>> layout((3, 4), (4, 1)), layout((3, 4), (1, 3)), layout((3, 4), (8, 1))
    ('rows', '1, 0', 'apart')
    """
    if _is_dense(sizes, strides):
        return "rows"
    order = sorted(range(len(sizes)), key=lambda dim: (strides[dim], sizes[dim] != 1), reverse=True)
    if _is_dense([sizes[dim] for dim in order], [strides[dim] for dim in order]):
        return ", ".join(map(str, order))
    return "apart"


def _is_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether dimensions from the outermost in leave no gap. It is asked of every tensor of every new call."""
    step = 1
    for i in range(len(sizes) - 1, -1, -1):
        if strides[i] != step:
            return False
        step *= sizes[i] or 1
    return True


def _plain(source: str, shape: Iterable[Any]) -> tuple[int, ...]:
    sizes = tuple(shape)
    if any(type(size) is not int for size in sizes):
        raise UsageError(f"expected sizes that are ints, got {sizes!r} for `{user_name(source)}`")
    return sizes


def _strides(value: Any) -> tuple[int, ...] | None:
    """The strides in elements, of a tensor that has any: a sparse one has none."""
    stride = getattr(value, "stride", None)
    with contextlib.suppress(RuntimeError, TypeError, NotImplementedError):
        found = tuple(stride()) if callable(stride) else ()
        if len(found) == len(value.shape) and all(type(each) is int for each in found):
            return found
    return None
