"""Operators that torch has wrong where they are given no elements: their fake kernels, or what their kernels return.

`make sweep-operators` finds them. Functions of torch that call one go by a rule of decompositions.py instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shapeproof.constraints.errors import UsageError

_WHERE_EMPTY = {"aten.pixel_unshuffle.default": "torch.pixel_unshuffle"}
"""With the function to call in its place."""

_UNWRITTEN_WHERE_EMPTY = {
    "aten.multi_margin_loss.default",
    "aten.multilabel_margin_loss.default",
    "aten.multilabel_margin_loss_forward.default",
}
"""Losses that return memory which their kernels have not written: another number at each call."""


def refuse_mistaken(func: Any, args: Sequence[Any]) -> None:
    """Refuse an operator where torch has it wrong; elsewhere the trace has asked if it is there.

    Raises:
        UsageError: it is given no elements.

    >>> import torch
    >>> refuse_mistaken(torch.ops.aten.pixel_unshuffle.default, (torch.ones(1, 1, 2, 2), 2))
    """
    function = _WHERE_EMPTY.get(str(func))
    if function is not None and args[0].numel() == 0:
        raise UsageError(
            f"torch's fake kernel of `{func}` gives other sizes than its kernel where there are no elements: "
            f"call {function}, or declare sizes of at least 1"
        )
    if str(func) in _UNWRITTEN_WHERE_EMPTY and args[0].numel() == 0:
        raise UsageError(f"torch's kernel of `{func}` returns arbitrary numbers where there are no elements")
