"""Operators that torch has wrong: fake kernels and results where there are no elements, a rank that no kernel checks.

`make sweep-operators` finds them. Functions of torch that call one go by a rule of decompositions.py instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shapeproof.constraints.errors import UsageError
from shapeproof.export.ops.table import known_of


def refuse_mistaken(func: Any, args: Sequence[Any]) -> None:
    """Refuse an operator where torch has it wrong; elsewhere the trace has asked if it is there.

    Raises:
        UsageError: it is given no elements, or a tensor of too low a rank.

    >>> import torch
    >>> refuse_mistaken(torch.ops.aten.pixel_unshuffle.default, (torch.ones(1, 1, 2, 2), 2))
    """
    known = known_of(func)
    if known.wrong_when_empty is not None and args[0].numel() == 0:
        raise UsageError(known.wrong_when_empty.format(func))
    if known.least_rank is not None and args[0].dim() < known.least_rank:
        raise UsageError(f"`{func}` expects a tensor of at least {known.least_rank} dimensions, got {args[0].dim()}")
