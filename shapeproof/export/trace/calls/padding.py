"""Amounts of a padding, so written that they are right where the model, which asks first, does not pad.

    if n % 4: x = pad(x, (0, 4 - n % 4))   ->   pad(x, (0, (4 - n % 4) % 4))

Law: an amount gives way to its remainder only where the region proves both equal. Beyond it, where `n % 4 == 0`, the
remainder is 0, and padding by 0 is a copy: there the program is compared with the model's own trace, as anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.export.trace.shape_env import ProofShapeEnv

PADDING = frozenset({torch.nn.functional.pad, torch.constant_pad_nd})


def by_remainders(args: Sequence[Any], kwargs: Mapping[str, Any], env: ProofShapeEnv) -> tuple[Any, Mapping[str, Any]]:
    """Return the arguments of a padding, with the remainders of its amounts."""
    if "pad" in kwargs:
        return args, {**kwargs, "pad": _remainders(kwargs["pad"], env)}
    return (args[0], _remainders(args[1], env), *args[2:]), kwargs


def _remainders(amounts: Any, env: ProofShapeEnv) -> Any:
    if not isinstance(amounts, list | tuple):
        return amounts
    return [_remainder(each, env) if isinstance(each, torch.SymInt) else each for each in amounts]


def _remainder(amount: torch.SymInt, env: ProofShapeEnv) -> Any:
    """Return the remainder of an amount by its constant, if a decision of the trace, and no fact, makes them one."""
    term = env.read(amount)
    divisor = next((coefficient for factors, coefficient in term.monomials if not factors), 0)
    if divisor < 2:
        return amount
    one = f.eq(term, t.modulo(term, divisor))
    trial = env.trial
    if trial.settled(one) is not True or trial.settled(one, trial.facts) is True:
        return amount
    trial.padded = True
    return amount % divisor
