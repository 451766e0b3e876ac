"""Amounts of a padding or a crop, so written that they are right where the model, which asks first, does neither.

    if n % 4: x = pad(x, (0, 4 - n % 4))   ->   pad(x, (0, (4 - n % 4) % 4))
    if p > 0: x = x[:, :-p]                ->   x[:, : x.shape[1] - p]

Law: an amount gives way to another only where the region proves both equal. Beyond it, where `n % 4 == 0`, the new one
is 0: padding by 0 is a copy, and a crop to the whole is a view. There the program is compared with the model's own
trace, as anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import Formula
from shapeproof.export.ops.table import SLICE
from shapeproof.export.trace.shape_env import ProofShapeEnv

Arguments = tuple[Sequence[Any], Mapping[str, Any]]


def right_beyond(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], env: ProofShapeEnv) -> Arguments:
    """Return the arguments of a padding or a slice: torch's exporter calls `aten.slice` for `x[:, :n]`."""
    if func is SLICE.overloadpacket:
        return _from_the_start(args, env), kwargs
    if "pad" in kwargs:
        return args, {**kwargs, "pad": _remainders(kwargs["pad"], env)}
    return (*args[:1], *(_remainders(amounts, env) for amounts in args[1:2]), *args[2:]), kwargs


def _remainders(amounts: Any, env: ProofShapeEnv) -> Any:
    if not isinstance(amounts, list | tuple):
        return amounts
    return [_remainder(each, env) if isinstance(each, torch.SymInt) else each for each in amounts]


def _remainder(amount: torch.SymInt, env: ProofShapeEnv) -> Any:
    """Return the remainder of an amount by its constant, if a decision of the trace makes them one."""
    term = env.read(amount)
    divisor = next((coefficient for factors, coefficient in term.monomials if not factors), 0)
    one = divisor > 1 and _is_decided(f.eq(term, t.modulo(term, divisor)), env)
    return amount % divisor if one else amount


def _from_the_start(args: Sequence[Any], env: ProofShapeEnv) -> Sequence[Any]:
    """Return the arguments of a slice (tensor, dim, start, end, step), with its end counted from the start."""
    if len(args) < 4 or not isinstance(args[3], torch.SymInt):
        return args
    tensor, dim, start, end, *step = args
    size, last = tensor.shape[dim], env.read(end)
    within = env.trial.settled(f.ge(env.read(size) + last, 0)) is True
    return (tensor, dim, start, size + end, *step) if within and _is_decided(f.le(last, -1), env) else args


def _is_decided(formula: Formula, env: ProofShapeEnv) -> bool:
    """True if a formula holds on the region by a decision of the trace, and by no fact."""
    trial = env.trial
    decided = trial.settled(formula) is True and trial.settled(formula, trial.facts) is not True
    trial.padded |= decided
    return decided
