"""Settles a decision where it was made: the one operator is run again under the other answer.

Most decisions are made inside one operator's fake implementation and touch only its results' metadata. If the operator
gives the same under every answer that the domain allows, then by induction over the operators the decision makes no
difference to the program, and no other trace is needed (DESIGN 8.2).

*The same* is: rank, sizes, dtype, device, layout, offset, which operands and results share storage, strides except
those that no element is reached by (of a size of 1, or where there are no elements), and the same of every operand,
which an operator in place may change.

Laws:
- A decision is forgotten only together with everything that was concluded from it: the region goes back to what it was
  before the operator, and learns again what is kept. A later question is asked anew.
- An assertion is never settled here: eager raises there. Nor is a decision of an operator that checks data or may
  change the size of a storage. One that takes sizes from data must give the same ones again, as torch remembers them
  with its operand.
- What is forgotten may have been a question about a layout, whose answer the tensor remembers. Where the model reads a
  layout afterwards, the induction does not hold: `Trial.doubtful`.

Decisions outside an operator (Python code, decompositions that emit other nodes) never come here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Kind
from shapeproof.constraints.terms import ONE, Term
from shapeproof.export.shim.storages import storages
from shapeproof.export.trace.calls.recalled import Recalled
from shapeproof.export.trace.trial import Step, Trial, flipped
from shapeproof.solver.answers.witness import find
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide

RERUNS = 16
"""How often one operator is run again at most for one decision."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operator as it was called, and how to call it again in another trial.

    Attributes:
        key: tells calls apart that may ask or give otherwise, or whose results are other terms.
        operands: the tensors among its arguments, after the call.
        result: what it gave.
        again: runs it again on fresh aliases of the operands as they were; gives the aliases and the result. It
            raises where the operator does, or takes sizes from data.
        read: the term of a size, a stride or an offset.
    """

    key: Hashable
    operands: Sequence[torch.Tensor]
    result: Sequence[Any]
    again: Callable[[Trial], tuple[Sequence[torch.Tensor], Sequence[Any]]]
    read: Callable[[int | torch.SymInt], Term]


def settle(trial: Trial, first: int, known: int, call: Call, recalled: Recalled | None = None) -> None:
    """Forget those decisions since step `first`, all made by one operator, that make no difference to its results.

    What it promised is what the trial has learned after the first `known` facts. What was found for one call holds for
    a later one like it, with the same results: the region only shrinks while a trial goes on. `recalled`: what was
    found in other traces of the model, which learn from this one.
    """
    if not trial.in_place:
        return
    steps = trial.steps[first:]
    key = (call.key, tuple((step.decision.taken, step.teaches) for step in steps))
    if key not in trial.judged:
        trial.judged[key] = frozenset(_harmless_ones(trial, steps, trial.learned[known:], call, recalled))
    trial.forget(first, trial.judged[key], known)


def _harmless_ones(
    trial: Trial, steps: Sequence[Step], promised: Sequence[Formula], call: Call, recalled: Recalled | None
) -> Iterator[int]:
    base = steps[0].given.fork()
    for promise in promised:
        base.learn(promise)
    for index, step in enumerate(steps):
        if step.decision.kind is not Kind.ASSERTED and _makes_no_difference(trial, step, base, call, recalled):
            yield index
        if step.teaches:
            base.learn(step.decision.taken)


def _makes_no_difference(trial: Trial, step: Step, base: Facts, call: Call, recalled: Recalled | None) -> bool:
    """Whether the operator gives the same where a decision is taken otherwise; with data only this trace can tell."""
    if recalled is None or trial.origins:
        return _harmless(trial, _without(base, step), call)
    taken, known = step.decision.taken, frozenset(base.formulas)
    if recalled.is_harmless(call.key, taken, known):
        return True
    found = _harmless(trial, _without(base, step), call)
    if found:
        recalled.note_harmless(call.key, taken, known)
    return found


def _without(given: Facts, step: Step) -> Facts:
    cell = given.fork()
    cell.learn(flipped(step))
    return cell


def _harmless(trial: Trial, cell: Facts, call: Call) -> bool:
    """Whether the operator gives the same all over a cell: it is run at a point, then in what that run leaves out."""
    cells = [cell]
    for _ in range(RERUNS):
        if not cells:
            return True
        rest = _left_out(trial, cells.pop(), call)
        if rest is None:
            return False
        cells += rest
    return not cells


def _left_out(trial: Trial, cell: Facts, call: Call) -> list[Facts] | None:
    """The parts of a cell that one run there does not speak for; None if it gives something else, or raises."""
    point = find(f.TRUE, cell)
    if point is None:
        return []
    if not isinstance(point, dict):
        return None
    again = trial.elsewhere(cell, point)
    try:
        operands, result = call.again(again)
    except Exception:  # noqa: BLE001 - it raises there: not the same
        return None
    if any(step.decision.kind is Kind.ASSERTED for step in again.steps):
        return None
    if not _Comparison(call.read, again.region).same([*call.operands, *call.result], [*operands, *result]):
        return None
    return [_without(step.given, step) for step in again.steps]


class _Comparison:
    """Whether values of fake tensors are the same on a region."""

    def __init__(self, read: Callable[[int | torch.SymInt], Term], region: Facts) -> None:
        self._read = read
        self._region = region

    def same(self, mine: Sequence[Any], others: Sequence[Any]) -> bool:
        """Whether they agree one by one, and share storage with each other alike."""
        return (
            len(mine) == len(others) and all(map(self._same_value, mine, others)) and sharing(mine) == sharing(others)
        )

    def _same_value(self, mine: Any, other: Any) -> bool:
        if isinstance(mine, torch.Tensor) and isinstance(other, torch.Tensor):
            return self._same_tensor(mine, other)
        if isinstance(mine, int | torch.SymInt) and isinstance(other, int | torch.SymInt):
            return type(mine) is not bool and type(other) is not bool and self._equal(mine, other)
        return mine is None and other is None

    def _same_tensor(self, mine: torch.Tensor, other: torch.Tensor) -> bool:
        kinds = [(t.dtype, t.device, t.layout, t.dim(), t.is_conj(), t.is_neg()) for t in (mine, other)]
        return (
            kinds[0] == kinds[1]
            and mine.layout == torch.strided
            and all(map(self._equal, mine.shape, other.shape))
            and self._equal(mine.storage_offset(), other.storage_offset())
            and (all(map(self._equal, mine.stride(), other.stride())) or self._same_reach(mine, other))
        )

    def _same_reach(self, mine: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether every stride that differs reaches no element: there is none where the sizes multiply to 0."""
        if self._proved(f.eq(prod(map(self._read, mine.shape), start=ONE), 0)):
            return True
        return all(
            self._equal(a, b) or self._proved(f.le(self._read(size), ONE))
            for size, a, b in zip(mine.shape, mine.stride(), other.stride(), strict=True)
        )

    def _equal(self, a: int | torch.SymInt, b: int | torch.SymInt) -> bool:
        mine, other = self._read(a), self._read(b)
        return mine is other or self._proved(f.eq(mine, other))

    def _proved(self, formula: Formula) -> bool:
        return decide(formula, self._region).status == "proved"


def sharing(values: Sequence[Any]) -> list[int | None]:
    """For each tensor the first one that lies in the same storage."""
    seen: dict[Any, int] = {}
    return [
        seen.setdefault(found[0], index) if (found := storages(value)) else None for index, value in enumerate(values)
    ]
