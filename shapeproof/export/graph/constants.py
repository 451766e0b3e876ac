"""Compare two values written into programs: the same means that no operation of a program can distinguish them."""

from __future__ import annotations

from typing import Any

import torch

from shapeproof.export.shim.storages import holds_data


def same_constant(mine: Any, other: Any) -> bool:
    """True if two constants are the same; 0.0 differs from -0.0, because a division shows the sign.

    >>> same_constant(0.0, -0.0), same_constant(1, 1.0), same_constant(float("nan"), float("nan"))
    (False, False, True)
    >>> same_constant(torch.tensor(0.0), torch.tensor(-0.0)), same_constant(torch.ones(2), torch.ones(2))
    (False, True)
    >>> square = torch.ones(2, 2)  # what is computed from it lies as it does
    >>> same_constant(square, square.t()), same_constant(torch.ones(1, 4), torch.ones(4, 1).t())
    (False, True)
    """
    if isinstance(mine, torch.Tensor) and isinstance(other, torch.Tensor):
        if mine is other or torch.strided in {mine.layout, other.layout}:
            return mine is other or (mine.layout == other.layout and _same_tensor(mine, other))
        alike = (mine.layout, mine.shape) == (other.layout, other.shape)
        return alike and all(map(_same_tensor, _parts(mine), _parts(other)))
    if type(mine) is not type(other):
        return False
    if isinstance(mine, float | complex):
        return repr(mine) == repr(other)
    return mine is other or bool(mine == other)


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the dense tensors that make up a sparse tensor."""
    if tensor.layout == torch.sparse_coo:
        parts = [getattr(tensor, name)() for name in ("_indices", "_values")]  # the public ones want it coalesced
        return [*parts, torch.tensor(tensor.is_coalesced(), device="cpu")]
    by_row = tensor.layout in {torch.sparse_csr, torch.sparse_bsr}
    indices = [tensor.crow_indices(), tensor.col_indices()] if by_row else [tensor.ccol_indices(), tensor.row_indices()]
    return [*indices, tensor.values()]


def _same_tensor(mine: torch.Tensor, other: torch.Tensor) -> bool:
    if mine.dtype != other.dtype or mine.shape != other.shape or not all(map(holds_data, (mine, other))):
        return False
    if not torch.equal(mine, other) or not _lie_alike(mine, other):
        return False
    if mine.is_complex():
        mine, other = torch.view_as_real(mine.resolve_conj()), torch.view_as_real(other.resolve_conj())
    return not mine.is_floating_point() or torch.equal(mine.signbit(), other.signbit())


def _lie_alike(mine: torch.Tensor, other: torch.Tensor) -> bool:
    """True if all strides that reach an element agree, and the conjugate and negative bits do."""
    steps = zip(mine.shape, mine.stride(), other.stride(), strict=True)
    reached = mine.numel() == 0 or all(a == b for size, a, b in steps if size > 1)
    return reached and (mine.is_conj(), mine.is_neg()) == (other.is_conj(), other.is_neg())
