"""Compare the memory layout of a call's results in eager and in a program: strides and shared storage.

Callers observe both: `view` rejects strides, AOTInductor promises them, and a write into a result may reach an input.
Strides that reach no element are ignored, as in torch: a stride of a size of 1, or of a tensor without elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from shapeproof.export.ops.shapes.layouts import sharing
from shapeproof.export.shim.storages import storage_of


def laid_otherwise(given: Sequence[Any], want: Sequence[Any], taken: Sequence[Any], got: Sequence[Any]) -> str | None:
    """Describe how results of the same sizes lie differently in the program, or return None.

    Args:
        given: the inputs of eager after the call.
        want: what eager returns.
        taken: the inputs of the program after the call.
        got: what the program returns.

    >>> x, y = torch.ones(2, 3), torch.ones(2, 3)
    >>> laid_otherwise([x], [x + 1], [y], [(y + 1).t().contiguous().t()])
    'eager returns strides [3, 1], the program [1, 2]; the values agree'
    >>> laid_otherwise([x], [x[None]], [y], [y.t().contiguous().t().as_strided((1, 2, 3), (1, 1, 2))])
    'eager returns strides [6, 3, 1], the program [6, 1, 2]; the values agree'
    >>> laid_otherwise([x], [x], [y], [y.clone()])
    'eager returns an input, or a part of one, as result 0, the program does not'
    """
    pairs = zip([*given, *want], [*taken, *got], strict=True)
    numbered = ((a, b, index - len(given)) for index, (a, b) in enumerate(pairs))
    held = [each for each in numbered if all(map(has_elements, each[:2]))]
    for a, b, index in held:
        if index >= 0 and reached_strides(a) != reached_strides(b):
            return f"eager returns strides {_written(a, b)}, the program {_written(b, a)}; the values agree"
    ours, theirs = sharing([a for a, _, _ in held]), sharing([b for _, b, _ in held])
    unlike = (index for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)) if mine != other)
    return next((_shared(held, index, ours[index], theirs[index]) for index in unlike), None)


def _shared(held: Sequence[tuple[Any, Any, int]], index: int, mine: int | None, other: int | None) -> str:
    """Describe the storage that a tensor shares in only one of eager and the program."""
    in_eager = mine is not None and mine != index
    first = mine if in_eager else other
    whose = "an input" if first is not None and held[first][2] < 0 else "another result"
    who, not_so = ("eager", "the program") if in_eager else ("the program", "eager")
    return f"{who} returns {whose}, or a part of one, as result {held[index][2]}, {not_so} does not"


def reached_strides(tensor: torch.Tensor) -> list[int]:
    """Return the strides that reach elements: those of sizes above 1."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _written(tensor: torch.Tensor, other: torch.Tensor) -> list[int]:
    """Return the strides of a tensor; one that reaches no element shows as the larger of both, for it is not the cause.

    >>> _written(torch.ones(1, 2, 3), torch.ones(1, 3, 2).mT.as_strided((1, 2, 3), (1, 1, 2)))
    [6, 3, 1]
    """
    sides = zip(tensor.shape, tensor.stride(), other.stride(), strict=True)
    return [mine if size > 1 else max(mine, theirs) for size, mine, theirs in sides]


def has_elements(value: Any) -> bool:
    """True if a value is a strided tensor with elements; a symbolic size counts as some."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or storage_of(value) is None:
        return False
    return any(isinstance(size, torch.SymInt) for size in value.shape) or value.numel() > 0
