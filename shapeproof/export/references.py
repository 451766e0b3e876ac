"""Functions of torch that take a plain number of steps, written in operators that take a symbolic one.

Law: each gives what eager gives, for every number of steps, up to rounding. Torch's own references take sides on 0 and
1 steps, which nobody can for a number that comes from data. Where rounding would show, in integers, there is none: what
eager rounds to is no one formula. Public torch only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch


def linspace(start: Any, end: Any, steps: Any, **options: Any) -> torch.Tensor:
    """As torch.linspace, for ends that are numbers: both are met exactly, and one step is `start`.

    Args:
        start: the first element, an int or a float, symbolic or not.
        end: the last one.
        steps: the number of elements.
        options: a floating `dtype`, and what else torch.arange takes.

    >>> linspace(0, 1, 3), linspace(2, 9, 1), linspace(2, 9, 0)
    (tensor([0.0000, 0.5000, 1.0000]), tensor([2.]), tensor([]))
    """
    torch._check(steps >= 0, lambda: "number of steps must be non-negative")  # noqa: SLF001 - the name that models use
    dtype = options.pop("dtype", None) or torch.get_default_dtype()
    index = torch.arange(steps, **options)
    place = index.to(dtype if dtype.itemsize >= torch.float32.itemsize else torch.float32)
    apart = (end - start) / torch.sym_max(steps - 1, 1)
    near_start = index < torch.sym_max(steps // 2, 1)
    return torch.where(near_start, start + apart * place, end - apart * ((steps - 1) - place)).to(dtype)


def logspace(start: Any, end: Any, steps: Any, base: float = 10.0, **options: Any) -> torch.Tensor:
    """As torch.logspace, for ends that are numbers: powers of `base`.

    >>> logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    dtype = options.pop("dtype", None) or torch.get_default_dtype()
    return torch.pow(base, linspace(start, end, steps, dtype=torch.float64, **options)).to(dtype)


_WRITTEN: Mapping[Any, Callable[..., torch.Tensor]] = {torch.linspace: linspace, torch.logspace: logspace}
REWRITTEN = frozenset(_WRITTEN)
"""The functions of torch that are written here."""


def reference(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """What to call for one of these functions where a size is symbolic: torch's own where ours differs."""
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    numbers = not any(isinstance(value, torch.Tensor | complex) for value in (*args, *kwargs.values()))
    suits = numbers and dtype.is_floating_point and not kwargs.get("requires_grad")
    return _WRITTEN[func] if suits else func
