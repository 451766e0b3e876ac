"""Reads one call: its flat sizes, and as a key everything else that a program may depend on.

Law: two calls with one key differ in sizes and data alone. No program serves a call that cannot be read.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch

from shapeproof.export.shim.trees import flattened

_CONSTANTS = frozenset({bool, str, float, complex, type(None)})
_PLAIN = _CONSTANTS | {torch.Tensor, int}


class Unreadable(Exception):
    """An input is no plain tensor, number, text or None."""


class CallForm(NamedTuple):
    """A call without its sizes and data: the structure of its inputs, and the kind of each flat input."""

    structure: Hashable
    inputs: tuple[Hashable, ...]


class Key(NamedTuple):
    """Everything that the calls of one program have in common, except sizes and data."""

    form: CallForm
    modes: tuple[Hashable, ...]


class Request(NamedTuple):
    """A call that was read, with its key."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    key: Key
    sizes: list[int]
    inputs: Sequence[Any]

    @property
    def identity(self) -> Hashable:
        """Everything except data."""
        return self.key, tuple(self.sizes)


def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[CallForm, list[int], Sequence[Any]]:
    """Return the form of a call, its flat sizes and its flat inputs.

    Raises:
        Unreadable: it has an input that no program can take.

    >>> form, sizes, _ = read((torch.ones(2, 3), 7), {"scale": None})
    >>> sizes, len(form.inputs)
    ([2, 3, 7], 3)
    """
    leaves: Sequence[Any] = (*args, *kwargs.values()) if kwargs else args
    structure: Hashable = (len(args), *kwargs)
    if not _PLAIN.issuperset(map(type, leaves)):
        leaves, structure = flattened((args, kwargs))
    kinds: list[Hashable] = []
    graded = torch.is_grad_enabled()
    sizes: list[int] = []
    for each in leaves:
        kind = type(each)
        if kind is torch.Tensor:
            if each.is_conj() or each.is_neg():
                raise Unreadable("a tensor that is to be conjugated or negated")
            shape = each.shape
            sizes += shape
            kinds.append((each.dtype, each.device, each.layout, len(shape), graded and each.requires_grad))
        elif kind is int:
            sizes.append(each)
            kinds.append(int)
        elif kind in _CONSTANTS:
            kinds.append((kind, repr(each)))
        else:
            raise Unreadable(kind.__name__)
    return CallForm(structure, tuple(kinds)), sizes, leaves
