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
  layout afterwards, the induction fails: `Trial.doubtful`.
- An operator that shares with its operand or copies it (`reshape`) may do one here and the other there. Only a program
  that writes into one of the two can tell: it is traced again, and nothing is settled in place (`Traced.doubtful`).

A rule for the sizes of a result (ops/shapes/shape_functions.py) may need what the operator checks, and so not spare its
run. It then spares the runs under other answers: where it gives the result that the operator gave, whatever some of the
decisions say, these make no difference.

Decisions outside an operator (in Python code, or in decompositions that emit other nodes) are not handled here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.definedness import defined
from shapeproof.constraints.records.decisions import Kind
from shapeproof.constraints.terms import Term
from shapeproof.export.limits import RERUNS
from shapeproof.export.ops.layouts import Sizes, same_layout, sharing
from shapeproof.export.trace.calls.recalled import Recalled
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
        by_rule: True if a rule gives the result wherever these facts hold.
        alias_or_copy: True if the graph records an operator that shares with its operand or copies it, by sizes.
    """

    key: Hashable
    operands: Sequence[torch.Tensor]
    result: Sequence[Any]
    again: Callable[[Trial], tuple[Sequence[torch.Tensor], Sequence[Any]]]
    read: Callable[[int | torch.SymInt], Term]
    by_rule: Callable[[Facts], bool] = lambda _: False
    alias_or_copy: bool = False


def settle(trial: Trial, first: int, known: int, call: Call, recalled: Recalled | None = None) -> None:
    """Forget the decisions since step `first`, all made by one operator, that make no difference to its results.

    The operator's promises are the facts that the trial has learned after its first `known` facts. A verdict for one
    call holds for every later call like it with the same results: the region only shrinks while a trial runs.
    `recalled`: verdicts of other traces of the model, which also learn from this trace.
    """
    if not trial.in_place:
        return
    steps = trial.steps[first:]
    key = (call.key, tuple((step.decision.taken, step.teaches) for step in steps))
    if key not in trial.memo:
        trial.memo[key] = frozenset(_harmless_ones(trial, steps, trial.learned[known:], call, recalled))
    trial.forget(first, trial.memo[key], known)


def _harmless_ones(
    trial: Trial, steps: Sequence[Step], promised: Sequence[Formula], call: Call, recalled: Recalled | None
) -> Iterator[int]:
    checks = [step.decision.taken for step in steps if _is_check(step) and step.teaches]
    base, checks = _met(checks, steps[0].given.assuming(*promised))
    passed_over = _passed_over(steps, base, call)
    as_taken = f.conjunction(*(steps[index].decision.taken for index in passed_over))
    for index, step in enumerate(steps):
        if index in passed_over:
            yield index
            continue
        if not _is_check(step) and _makes_no_difference(trial, step, base, call, recalled, first=as_taken):
            yield index
        if step.teaches:
            base, checks = _met(checks, base.assuming(step.decision.taken))


def _met(checks: Sequence[Formula], base: Facts) -> tuple[Facts, list[Formula]]:
    """Return the facts with the checks that they show to be defined, and the other checks."""
    met = [check for check in checks if implied(defined(check), base)]
    return base.assuming(*met), [check for check in checks if check not in met]


def _passed_over(steps: Sequence[Step], base: Facts, call: Call) -> frozenset[int]:
    """Return the decisions whatever whose answers a rule gives the result, as long as the others are as taken."""
    left = [index for index, step in enumerate(steps) if not _is_check(step)]

    def gives(needed: Sequence[int]) -> bool:
        return call.by_rule(base.assuming(*(steps[index].decision.taken for index in needed if steps[index].teaches)))

    if gives(()):
        return frozenset(left)
    needed = left
    if len(left) < 2 or not gives(needed):
        return frozenset()
    for index in left:
        fewer = [each for each in needed if each != index]
        needed = fewer if gives(fewer) else needed
    return frozenset(left) - frozenset(needed)


def _is_check(step: Step) -> bool:
    return step.decision.kind is Kind.ASSERTED


def _makes_no_difference(  # noqa: PLR0913 - one decision of one call
    trial: Trial, step: Step, base: Facts, call: Call, recalled: Recalled | None, *, first: Formula
) -> bool:
    """True if the operator returns the same under the other answer; with data, no other trace is consulted.

    `first`: where the operator is run first, if the decision allows it.
    """
    if recalled is None or trial.origins:
        return _harmless(trial, base.assuming(step.flipped), call, first)
    asked, known = (call.key, step.decision.taken), frozenset(base.formulas)
    if recalled.of(asked, known):
        return True
    found = _harmless(trial, base.assuming(step.flipped), call, first)
    if found:
        recalled.note(asked, known, found)
    return found


def _harmless(trial: Trial, cell: Facts, call: Call, first: Formula) -> bool:
    """True if the operator returns the same in a whole cell: run it at a point, then in the parts left out."""
    cells = [cell]
    for _ in range(RERUNS):
        if not cells:
            return True
        rest = _left_out(trial, cells.pop(), call, first)
        if rest is None:
            return False
        first = f.TRUE
        cells += rest
    return not cells


def _left_out(trial: Trial, cell: Facts, call: Call, where: Formula) -> list[Facts] | None:
    """Return the parts of a cell that one run does not cover; None if the run returns something else, or raises."""
    point = find(where, cell)
    if not isinstance(point, dict) and where is not f.TRUE:
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
    mine, others = [*call.operands, *call.result], [*operands, *result]
    if not _same(mine, others, sizes) or not (call.alias_or_copy or sharing(mine) == sharing(others)):
        return None
    return [step.beyond for step in again.steps]


def _same(mine: Sequence[Any], others: Sequence[Any], sizes: Sizes) -> bool:
    """True if the values agree one by one."""
    return len(mine) == len(others) and all(_same_value(*pair, sizes) for pair in zip(mine, others, strict=True))


def _same_value(mine: Any, other: Any, sizes: Sizes) -> bool:
    if isinstance(mine, torch.Tensor) and isinstance(other, torch.Tensor):
        return same_layout(mine, other, sizes)
    if isinstance(mine, int | torch.SymInt) and isinstance(other, int | torch.SymInt):
        return type(mine) is not bool and type(other) is not bool and sizes.equal(mine, other)
    return mine is None and other is None
