"""What operators gave in other traces of a model, for calls like theirs in a part of the same domain.

A cell of the domain is traced anew, and calls the operators of the main trace again. What one of these gave while
nothing was known but the domain, all its decisions settled, it gives for every input in the domain; so it need not be
run in a trace of a part of it.

So it is with a decision that was found to make no difference to an operator (settle.py).

Law: an entry holds wherever its facts do, for calls of the same operator, modes and arguments, sizes as terms; so a
trace whose own facts contain them may take it. What means something else in each trace is in no entry: numbers from
data, and what is told by torch's names for sizes alone. Nothing is decided here, and only what a trace may repeat
(repeats.py) is noted.
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
    """What an operator gave, but for its elements, and the facts under which it does: a tensor of its own."""

    known: frozenset[Formula]
    sizes: tuple[Term, ...]
    strides: tuple[Term, ...]
    dtype: torch.dtype
    device: torch.device
    differentiable: bool


class Recalled:
    """What the traces of one model have given, by calls."""

    def __init__(self) -> None:
        self._given: dict[Hashable, list[Given]] = {}
        self._harmless: dict[Hashable, list[frozenset[Formula]]] = {}

    def note(self, call: Hashable, given: Given) -> None:
        """Note what a call gave under the facts of a trace alone."""
        if _portable(call) and self.of(call, given.known) is None:
            self._given.setdefault(call, []).append(given)

    def of(self, call: Hashable, known: frozenset[Formula]) -> Given | None:
        """What a call gives wherever these facts hold, if that is known."""
        return next((given for given in self._given.get(call, ()) if given.known <= known), None)

    def note_harmless(self, call: Hashable, taken: Formula, known: frozenset[Formula]) -> None:
        """Note that a call gives the same whether this holds or not, wherever these facts hold."""
        if _portable(call):
            self._harmless.setdefault((call, taken), []).append(known)

    def is_harmless(self, call: Hashable, taken: Formula, known: frozenset[Formula]) -> bool:
        """Whether that is known wherever these facts hold."""
        return any(facts <= known for facts in self._harmless.get((call, taken), ()))


def _portable(call: Hashable) -> bool:
    """Whether a call means the same in another trace: it holds no number that only torch's names tell."""
    if isinstance(call, tuple):
        return all(map(_portable, call))
    return _is_told(call) if isinstance(call, Term) else call is not torch.SymFloat and call is not torch.SymBool


@functools.lru_cache(maxsize=4096)
def _is_told(term: Term) -> bool:
    return not any(isinstance(node, Unknown) for node in postorder(term))
