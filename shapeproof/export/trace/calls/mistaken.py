"""Operators that torch has wrong where they are given no elements: their fake kernels, or what their kernels return.

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
        UsageError: it is given no elements.

    >>> import torch
    >>> refuse_mistaken(torch.ops.aten.pixel_unshuffle.default, (torch.ones(1, 1, 2, 2), 2))
    """
    wrong = known_of(func).wrong_when_empty
    if wrong is not None and args[0].numel() == 0:
        raise UsageError(wrong.format(func))
