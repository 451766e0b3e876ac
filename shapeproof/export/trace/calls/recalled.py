"""Results of operators in other traces of a model, for calls like theirs in a part of the same domain.

The trace of a cell of the domain calls the main trace's operators again. If an operator ran while only the domain was
known, and all its decisions were settled, its result is valid for every input in the domain. So a trace of a part of
the domain need not run it again. The same holds for a decision that made no difference to an operator (settle.py).

Law: an entry holds wherever its facts hold, for calls with the same operator, modes and arguments, where sizes are
compared as terms. So a trace may use an entry if its own facts contain the entry's facts. An entry contains nothing
whose meaning differs between traces: no number from data, and no size that only torch's name identifies. Only results
that a trace may repeat (repeats.py) are noted.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import dataclass

import torch

from shapeproof.constraints.atoms import Unknown
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import Term


@dataclass(frozen=True, slots=True)
class Given:
    """A fresh tensor that an operator returned, without its elements, and the facts under which it is returned."""

    known: frozenset[Formula]
    sizes: tuple[Term, ...]
    strides: tuple[Term, ...]
    dtype: torch.dtype
    device: torch.device
    differentiable: bool


class Recalled:
    """Results of the traces of one model, by call."""

    def __init__(self) -> None:
        self._given: dict[Hashable, list[Given]] = {}
        self._harmless: dict[Hashable, list[frozenset[Formula]]] = {}

    def note(self, call: Hashable, given: Given) -> None:
        """Note the result of a call under the facts of a trace alone."""
        if _portable(call) and self.of(call, given.known) is None:
            self._given.setdefault(call, []).append(given)

    def of(self, call: Hashable, known: frozenset[Formula]) -> Given | None:
        """Return the result of a call wherever these facts hold, if it is known."""
        return next((given for given in self._given.get(call, ()) if given.known <= known), None)

    def note_harmless(self, call: Hashable, taken: Formula, known: frozenset[Formula]) -> None:
        """Note that a call returns the same result whether `taken` holds or not, wherever the facts `known` hold."""
        if _portable(call):
            self._harmless.setdefault((call, taken), []).append(known)

    def is_harmless(self, call: Hashable, taken: Formula, known: frozenset[Formula]) -> bool:
        """True if `note_harmless` noted the call and `taken` under facts that `known` contains."""
        return any(facts <= known for facts in self._harmless.get((call, taken), ()))


def _portable(call: Hashable) -> bool:
    """True if a call means the same in another trace: it contains no number that only torch's names identify."""
    if isinstance(call, tuple):
        return all(map(_portable, call))
    return _is_told(call) if isinstance(call, Term) else call is not torch.SymFloat and call is not torch.SymBool


@functools.lru_cache(maxsize=4096)
def _is_told(term: Term) -> bool:
    return not any(isinstance(node, Unknown) for node in postorder(term))
