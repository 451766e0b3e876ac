"""Reads one call of a model for `Seen`, quickly if a call of the same form was read before.

The form of a call is everything except sizes, ints and constants: types, containers, dtypes, ranks. A call of a known
form is read in one walk over its arguments. Arguments in other than plain containers are flattened by torch each time.
"""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import torch

from shapeproof.export.shim.inputs.binding import flat_inputs
from shapeproof.export.shim.trees import map_all
from shapeproof.seen.calls import CONSTANTS, LONGEST_VALUE, Call, Kind, layout, read_call

MOST_FORMS = 1024
"""Maximum number of remembered forms; beyond it, all are forgotten and learned again."""
MOST_RECENT = 1024
"""Maximum number of remembered calls; beyond it, all are forgotten."""
_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
"""The types of tensors whose sizes are plain ints."""


_Leaf = tuple[tuple[int, ...], tuple[int, ...] | None, str | None]
"""The reading of an input: its numbers, its strides, and its text if it is a constant."""
_NOTHING: _Leaf = ((), None, None)


def _form(value: Any, leaves: list[_Leaf]) -> Any:
    """Return the form of a value, and append its leaves.

    Raises:
        TypeError: the value contains something other than plain containers, tensors and numbers.
    """
    kind = type(value)
    if kind in _TENSORS:
        shape = value.shape
        leaves.append((shape, value.stride(), None))
        return value.dtype, len(shape)
    if kind is tuple or kind is list:
        return kind, *[_form(each, leaves) for each in value]
    if kind is dict:
        return kind, *[(name, _form(each, leaves)) for name, each in value.items()]
    if kind is int:
        leaves.append(((value,), None, None))
    elif kind in CONSTANTS:
        leaves.append(((), None, repr(value)[:LONGEST_VALUE]))
    elif value is None:
        leaves.append(_NOTHING)
    else:
        raise TypeError(kind)
    return kind


class CallReader:
    """Reads the calls of one model."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._signature = inspect.signature(model.forward)
        self._recent: set[Any] = set()
        self._known: dict[Any, tuple[Kind, list[int]]] = {}

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        """Read a call; None if an identical reading is among the remembered calls.

        Raises:
            UsageError: a size is not an int.
            TypeError: the arguments do not fit the model.
        """
        leaves: list[_Leaf] = []
        try:
            form = _form(args, leaves), _form(kwargs, leaves)
        except (TypeError, RuntimeError, NotImplementedError):  # other containers, or a tensor without strides
            return read_call(flat_inputs(self._signature, args, kwargs))
        key = form, tuple(leaves)
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
        ordered = [leaves[i] for i in order]
        texts = [text if strides is None else layout(numbers, strides) for numbers, strides, text in ordered]
        return Call(
            kind,
            tuple(itertools.chain.from_iterable([numbers for numbers, _, _ in ordered])),
            tuple([strides for _, strides, _ in ordered]),
            tuple(texts),
        )

    def _learned(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Kind, list[int]]:
        """Return the kind of a call, and the position in the walk of each of its inputs."""
        kind = read_call(flat_inputs(self._signature, args, kwargs)).kind
        count = itertools.count()
        places = dict(flat_inputs(self._signature, *map_all((args, kwargs), lambda _: next(count))))
        return kind, [places[slot.source] for slot in kind]
