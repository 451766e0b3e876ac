"""Operators that torch has wrong: fake kernels and results where there are no elements, a rank that no kernel checks.

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

_OF_CHANNELS = {
    "aten.batch_norm.default",
    "aten._batch_norm_impl_index.default",
    "aten.native_batch_norm.default",
    "aten._batch_norm_with_update.default",
    "aten._native_batch_norm_legit.default",
}
"""Norms whose kernels read the size of dimension 1 unchecked: of a vector, memory beyond its sizes."""


def refuse_mistaken(func: Any, args: Sequence[Any]) -> None:
    """Refuse an operator where torch has it wrong; elsewhere the trace has asked if it is there.

    Raises:
        UsageError: it is given no elements, or a tensor of too low a rank.

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
    if str(func) in _OF_CHANNELS and args[0].dim() < 2:
        raise UsageError(f"`{func}` expects a tensor of at least 2 dimensions, got {args[0].dim()}")
