"""Covariances, counts, combinations and powers of numbers whose count is symbolic."""

from __future__ import annotations

import itertools
from typing import Any

import torch


def cov(x: torch.Tensor, *, correction: int = 1) -> torch.Tensor:
    """Return torch.cov without weights; torch asks whether the divisor, a tensor, is positive.

    >>> cov(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    rows = x.view([1, -1]) if x.dim() < 2 else x
    count = rows.shape[1]
    centred = rows - (rows.sum(1) / _whole(count, x)).unsqueeze(1)
    found = torch.mm(centred, centred.t())
    return torch.true_divide(found, _whole(torch.sym_max(count - correction, 0), x)).squeeze()


def _whole(number: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.scalar_tensor(number, dtype=torch.int64, device=x.device)


def corrcoef(x: torch.Tensor) -> torch.Tensor:
    """Return torch.corrcoef.

    >>> corrcoef(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    found = cov(x)
    if found.dim() == 0:
        return found / found
    deviation = found.diagonal().sqrt()
    return (found / deviation.view([-1, 1]) / deviation.view([1, -1])).clip(-1, 1)


def bincount(input: torch.Tensor, weights: torch.Tensor | None = None, minlength: Any = 0) -> torch.Tensor:  # noqa: A002
    """As torch.bincount, which takes a weight for each number, and any where there is none; its fake takes any.

    >>> bincount(torch.tensor([1, 1]), torch.ones(2))
    tensor([0., 2.])
    """
    if weights is not None:
        numbers, given = input.numel(), weights.numel()
        torch._check((numbers - given) * numbers * given == 0, lambda: "there is not one weight for each number")  # noqa: SLF001
    return torch.bincount(input, weights, minlength)


def combinations(x: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:  # noqa: FBT001, FBT002
    """Return torch.combinations of at least one element each.

    >>> combinations(torch.tensor([5, 6, 7])).tolist()
    [[5, 6], [5, 7], [6, 7]]
    """
    count = x.shape[0]
    places = torch.meshgrid([torch.arange(count, device=x.device)] * r, indexing="ij")
    ordered = torch.ones([count] * r, dtype=torch.bool, device=x.device)
    for one, following in itertools.pairwise(places):
        ordered &= one <= following if with_replacement else one < following
    chosen = 1
    for taken in range(r):
        chosen = chosen * (count + (taken if with_replacement else -taken)) // (taken + 1)
    return x[torch.nonzero_static(ordered, size=chosen)]


def vander(x: torch.Tensor, N: Any = None, increasing: bool = False) -> torch.Tensor:  # noqa: FBT001, FBT002, N803
    """Return torch.vander: the powers of each number.

    >>> vander(torch.tensor([2, 3]), 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    columns = x.shape[0] if N is None else N
    torch._check(columns >= 0, lambda: "N must be greater than 1.")  # noqa: SLF001
    ones = torch.ones_like(x).unsqueeze(1).expand(x.shape[0], columns)
    factors = torch.where(torch.arange(columns, device=x.device) < 1, ones, x.unsqueeze(1))
    powers = factors.cumprod(1)
    return powers if increasing else powers.flip(1)
