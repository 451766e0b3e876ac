"""Settle a decision where it was made, by running the one operator again under the other answer.

Most decisions are made inside one operator's fake implementation and affect only the metadata of its results. If the
operator returns the same under every answer that the domain allows, the decision makes no difference to the program, by
induction over the operators. Then no other trace is needed (DESIGN 8.2).

*The same* means equal rank, sizes, dtype, device, layout and offset, equal sharing of storage among operands and
results, and equal strides. A stride may differ if it reaches no element: its size is 1, or the tensor has no elements.
Every operand must also be the same, since an in-place operator may change it.

Laws:
- A decision is forgotten only together with every conclusion from it: the region returns to its state before the
  operator, and learns the kept decisions again. A later question is asked again.
- An assertion is never settled here: eager raises there. Inputs that violate the operator's own assertion belong to the
  assertion's cell, so the operator's other decisions are settled for the inputs that meet it. A decision that an
  operator makes before a check on data is never settled here either, since it may decide whether the check is made; nor
  is one of an operator that may change the size of a storage. An operator that takes sizes from data must return the
  same sizes again; torch remembers these with the operand.
- A forgotten decision may have been a question about a layout, whose answer the tensor remembers. If the model reads a
  layout afterwards, the induction fails: `Layouts.doubtful`.
- An operator that shares with its operand or copies it (`reshape`) may do one here and the other there. Only a program
  that writes into one of the two can tell: it is traced again, and nothing is settled in place (`Traced.doubtful`).
- The result of a recorded operator may also lie otherwise there, as of `reshape` and `einsum` at a size of 1: then the
  trial keeps in mind which decisions were forgotten for it (`Layouts.forgotten`), and takes them after all if the
  program can tell (graph/aliasing.py).

Decisions outside an operator (in Python code, or in decompositions that emit other nodes) are not handled here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import defined
from shapeproof.constraints.records.decisions import Kind
from shapeproof.constraints.terms import Term
from shapeproof.export.limits import RUNS
from shapeproof.export.ops.shapes.layouts import Sizes, same_layout, same_shape, sharing
from shapeproof.export.shim.storages import storages
from shapeproof.export.trace.trial import Step, Trial
from shapeproof.solver.answers.witness import find
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


@dataclass(frozen=True, slots=True)
class Call:
    """An operator call, and how to repeat it in another trial.

    Attributes:
        key: identifies the call: calls that may ask or return something else, or whose results are other terms, differ
            in it.
        operands: the tensors among the arguments, after the call.
        result: the result of the call.
        again: runs the operator again on fresh aliases of the original operands and returns the aliases and the result.
            It raises where the operator raises or takes sizes from data.
        read: returns the term of a size, a stride or an offset.
        recorded: True if the graph records the operator itself, which lays its result at each size as eager does.
        alias_or_copy: True if such an operator shares with its operand or copies it, by sizes.
        any_layout: True if it makes no difference how the result is laid.
    """

    key: Hashable
    operands: Sequence[torch.Tensor]
    result: Sequence[Any]
    again: Callable[[Trial], tuple[Sequence[torch.Tensor], Sequence[Any]]]
    read: Callable[[int | torch.SymInt], Term]
    recorded: bool = False
    alias_or_copy: bool = False
    any_layout: bool = False


def settle(trial: Trial, first: int, known: int, call: Call) -> None:
    """Forget the decisions since step `first`, all made by one operator, that make no difference to its results.

    The operator's promises are the facts that the trial has learned after its first `known` facts. A verdict for one
    call holds for every later call like it with the same results: the region only shrinks while a trial runs.
    """
    steps = trial.steps[first:]
    key = (call.key, trial.layouts.forgiving, tuple((step.decision.taken, step.teaches) for step in steps))
    if key not in trial.memo:
        trial.memo[key] = _verdict(trial, steps, trial.learned.formulas[known:], call)
    harmless, laying = trial.memo[key]
    trial.forget(first, harmless, known)
    forgotten = trial.layouts.forgotten
    for storage in storages([*call.result]) if laying else ():
        forgotten[storage] = *forgotten.get(storage, ()), *(steps[index] for index in laying)


def _verdict(
    trial: Trial, steps: Sequence[Step], promised: Sequence[Formula], call: Call
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the decisions that make no difference, and those of them that determine the layout of the result."""
    strict = frozenset(_harmless_ones(trial, steps, promised, call))
    if not (trial.layouts.forgiving and call.recorded) or len(strict) == len(steps):
        return strict, frozenset()
    found = frozenset(_harmless_ones(trial, steps, promised, replace(call, any_layout=True)))
    return found, found - strict


def _harmless_ones(trial: Trial, steps: Sequence[Step], promised: Sequence[Formula], call: Call) -> Iterator[int]:
    checks = [step.decision.taken for step in steps if _is_check(step) and step.teaches]
    base, checks = _met(checks, steps[0].given.assuming(*promised))
    for index, step in enumerate(steps):
        if not _is_check(step) and _harmless(trial, base.assuming(step.flipped), call):
            yield index
        if step.teaches:
            base, checks = _met(checks, base.assuming(step.decision.taken))


def _met(checks: Sequence[Formula], base: Facts) -> tuple[Facts, list[Formula]]:
    """Return the facts with the checks that they show to be defined, and the other checks."""
    met = [check for check in checks if implied(defined(check), base)]
    return base.assuming(*met), [check for check in checks if check not in met]


def _is_check(step: Step) -> bool:
    return step.decision.kind is Kind.ASSERTED


def _harmless(trial: Trial, cell: Facts, call: Call) -> bool:
    """True if the operator returns the same in a whole cell: run it at a point, then in the parts left out."""
    cells = [cell]
    for _ in range(RUNS):
        if not cells:
            return True
        rest = _left_out(trial, cells.pop(), call)
        if rest is None:
            return False
        cells += rest
    return not cells


def _left_out(trial: Trial, cell: Facts, call: Call) -> list[Facts] | None:
    """Return the parts of a cell that one run does not cover; None if the run returns something else, or raises."""
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
    if any(map(_is_check, again.steps)):
        return None
    sizes = Sizes(call.read, lambda formula: implied(formula, again.region))
    alike = same_shape if call.any_layout else same_layout
    if not (_same(call.operands, operands, sizes, same_layout) and _same(call.result, result, sizes, alike)):
        return None
    shared = sharing([*call.operands, *call.result]) == sharing([*operands, *result])
    return [step.beyond for step in again.steps] if call.alias_or_copy or shared else None


def _same(mine: Sequence[Any], others: Sequence[Any], sizes: Sizes, alike: Callable[..., bool]) -> bool:
    """True if the values agree one by one."""
    return len(mine) == len(others) and all(_same_value(*pair, sizes, alike) for pair in zip(mine, others, strict=True))


def _same_value(mine: Any, other: Any, sizes: Sizes, alike: Callable[..., bool]) -> bool:
    if isinstance(mine, torch.Tensor) and isinstance(other, torch.Tensor):
        return alike(mine, other, sizes)
    if isinstance(mine, int | torch.SymInt) and isinstance(other, int | torch.SymInt):
        return type(mine) is not bool and type(other) is not bool and sizes.equal(mine, other)
    return mine is None and other is None
