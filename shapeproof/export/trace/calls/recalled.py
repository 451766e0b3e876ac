"""Results of operators in other traces of a model, for calls like theirs in a part of the same domain.

The trace of a cell of the domain calls the main trace's operators again. If an operator ran while only the domain was
known, and all its decisions were settled, its result is valid for every input in the domain. So a trace of a part of
the domain need not run it again.

Law: an entry holds wherever its facts hold, for calls with the same operator, modes and arguments, where sizes are
compared as terms. So a trace may use an entry if its own facts contain the entry's facts. An entry contains nothing
whose meaning differs between traces: no number from data, and no size that only torch's name identifies. Only results
that a trace may repeat (repeats.py) are noted. Within one trace, `Trial.memo` holds both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints.atoms import Unknown
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import Term


@dataclass(frozen=True, slots=True)
class Like:
    """A fresh tensor that an operator returns, without its elements; for all traces of a model, its sizes are terms."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...] | None
    """None if the tensor is contiguous, row by row."""
    dtype: torch.dtype
    device: torch.device
    differentiable: bool

    def over(self, change: Callable[[Any], Any]) -> Like:
        """Return it with each size and stride changed."""
        strides = None if self.strides is None else tuple(map(change, self.strides))
        return replace(self, sizes=tuple(map(change, self.sizes)), strides=strides)


class Recalled:
    """What the traces of one model found about calls, each with the facts under which it holds."""

    def __init__(self) -> None:
        self._found: dict[Hashable, list[tuple[frozenset[Formula], Any]]] = {}

    def note(self, call: Hashable, known: frozenset[Formula], found: object) -> None:
        """Note what was found about a call under these facts alone."""
        if _portable(call) and self.of(call, known) is None:
            self._found.setdefault(call, []).append((known, found))

    def of(self, call: Hashable, known: frozenset[Formula]) -> Any:
        """Return what is known about a call wherever these facts hold; None if nothing is."""
        return next((found for facts, found in self._found.get(call, ()) if facts <= known), None)


def _portable(call: Hashable) -> bool:
    """True if a call means the same in another trace: it contains no number that only torch's names identify."""
    if isinstance(call, tuple):
        return all(map(_portable, call))
    return _is_told(call) if isinstance(call, Term) else call is not torch.SymFloat and call is not torch.SymBool


@functools.lru_cache(maxsize=4096)
def _is_told(term: Term) -> bool:
    return not any(isinstance(node, Unknown) for node in postorder(term))
