"""Reads one call of a model as `Seen` has it, quickly where a call of the same form was read before.

The form of a call is all but its sizes, ints and constants: types, containers, dtypes, ranks. For a form that is known,
reading is one walk over the arguments. What is not made of plain containers is flattened by torch, each time.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.export.shim.binding import flat_inputs
from shapeproof.seen.calls import CONSTANTS, LONGEST_VALUE, Call, Kind, layout, read_call

MOST_FORMS = 1024
"""Forms that are remembered; then all are forgotten, and learned again."""
MOST_RECENT = 1024
"""Calls that are remembered, likewise."""
_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
"""The types of tensors whose sizes are plain ints."""
_PLAIN = frozenset({int, type(None), *CONSTANTS})


@dataclass(slots=True)
class _Walk:
    """What one walk over the arguments finds, in the order of the walk."""

    numbers: list[tuple[int, ...]]
    strides: list[tuple[int, ...] | None]
    constants: list[str | None]

    def form(self, value: Any) -> Any:
        """The form of a value, whose numbers are taken on the way.

        Raises:
            TypeError: it is not made of plain containers, tensors and numbers.
        """
        kind = type(value)
        if kind in _TENSORS:
            shape = value.shape
            self.numbers.append(shape)
            self.strides.append(value.stride())
            self.constants.append(None)
            return value.dtype, len(shape)
        if kind is tuple or kind is list:
            return kind, *map(self.form, value)
        if kind is dict:
            return kind, *((name, self.form(each)) for name, each in value.items())
        self.numbers.append((value,) if kind is int else ())
        self.strides.append(None)
        self.constants.append(repr(value)[:LONGEST_VALUE] if kind in CONSTANTS else None)
        if kind not in _PLAIN:
            raise TypeError(kind)
        return kind

    def said(self, place: int) -> str | None:
        """The text that is kept of an input: a constant, or the layout of a tensor."""
        strides = self.strides[place]
        return self.constants[place] if strides is None else layout(self.numbers[place], strides)


class CallReader:
    """Reads the calls of one model."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._signature = inspect.signature(model.forward)
        self._recent: set[Any] = set()
        self._known: dict[Any, tuple[Kind, list[int]]] = {}

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        """What a call shows; None if a like one was read lately.

        Raises:
            UsageError: a size is not an int.
            TypeError: the arguments do not fit the model.
        """
        walk = _Walk([], [], [])
        try:
            form = walk.form(args), walk.form(kwargs)
        except (TypeError, RuntimeError, NotImplementedError):  # not plain, or a tensor without strides
            return read_call(flat_inputs(self._signature, args, kwargs))
        key = form, tuple(walk.numbers), tuple(walk.strides), tuple(walk.constants)
        if key in self._recent:
            return None
        if len(self._recent) >= MOST_RECENT:
            self._recent.clear()
        self._recent.add(key)
        known = self._known.get(form)
        if known is None:
            if len(self._known) >= MOST_FORMS:
                self._known.clear()
            known = self._known[form] = self._learned(args, kwargs)
        kind, order = known
        return Call(
            kind,
            tuple(number for i in order for number in walk.numbers[i]),
            tuple(walk.strides[i] for i in order),
            tuple(walk.said(i) for i in order),
        )

    def _learned(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Kind, list[int]]:
        """The kind of a call, and the place in the walk of each of its inputs."""
        kind = read_call(flat_inputs(self._signature, args, kwargs)).kind
        numbered, _ = _numbered((list(args), kwargs), 0)
        places = dict(flat_inputs(self._signature, tuple(numbered[0]), numbered[1]))
        return kind, [places[slot.source] for slot in kind]


def _numbered(value: Any, start: int) -> tuple[Any, int]:
    """The containers again, each leaf being its place in the walk; and the next place."""
    kind = type(value)
    if kind is dict:
        values, start = _numbered(list(value.values()), start)
        return dict(zip(value, values, strict=True)), start
    if kind not in {tuple, list}:
        return start, start + 1
    parts = []
    for each in value:
        part, start = _numbered(each, start)
        parts.append(part)
    return kind(parts), start
