"""Functions of torch that want a plain number for a size, written in operators that take a symbolic one.

Law: each gives what eager gives, for every size, up to rounding, and raises where eager does. Torch's own reference of
`linspace` takes sides on 0 and 1 steps, which nobody can for a number that comes from data. Where rounding would show,
in integers, there is none: what eager rounds to is no one formula. Public torch only.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from shapeproof.export.shape_env import PAD_SEQUENCE


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


def tensor_split(x: torch.Tensor, sections: int, dim: int = 0) -> tuple[torch.Tensor, ...]:
    """As torch.tensor_split into a number of parts: the first ones are longer by 1 where it does not come out even.

    >>> [part.tolist() for part in tensor_split(torch.arange(5), 3)]
    [[0, 1], [2, 3], [4]]
    """
    sizes = [(x.shape[dim] + sections - 1 - part) // sections for part in range(sections)]
    ends = itertools.accumulate(sizes)
    cut = torch.ops.aten.slice.Tensor
    return tuple(cut(x, dim, end - size, end) for size, end in zip(sizes, ends, strict=True))


def max_pool1d(  # noqa: PLR0913, PLR0917 - torch's signature
    x: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,  # noqa: FBT001, FBT002
    return_indices: bool = False,  # noqa: ARG001, FBT001, FBT002 - torch has a function of its own for these
) -> torch.Tensor:
    """As torch.nn.functional.max_pool1d, without indices: what is pooled is one row in two dimensions.

    >>> max_pool1d(torch.tensor([[1.0, 5.0, 2.0, 4.0, 9.0]]), 2)
    tensor([[5., 4.]])
    """
    stride = kernel_size if stride in (None, (), []) else stride
    window, step, around, apart = map(_single, (kernel_size, stride, padding, dilation))
    rows = (1, window), (1, step), (0, around), (1, apart)
    return torch.max_pool2d(x.unsqueeze(-2), *rows, ceil_mode).squeeze(-2)


def pad_sequence(
    sequences: Sequence[torch.Tensor],
    batch_first: bool = False,  # noqa: FBT001, FBT002
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> torch.Tensor:
    """As torch.nn.utils.rnn.pad_sequence: each as long as the longest. Taken apart, torch's own asks which that is.

    >>> pad_sequence([torch.ones(1), torch.ones(3)], batch_first=True)
    tensor([[1., 0., 0.],
            [1., 1., 1.]])
    """
    longest, first = functools.reduce(torch.sym_max, (each.shape[0] for each in sequences)), sequences[0]
    padded = []
    for each in sequences:
        alike = each.expand(each.shape[0], *first.shape[1:])  # as it is broadcast where it is copied
        missing = (0, longest - each.shape[0]) if padding_side == "right" else (longest - each.shape[0], 0)
        padded.append(torch.nn.functional.pad(alike, (*(0, 0) * (first.dim() - 1), *missing), value=padding_value))
    return torch.stack(padded, 0 if batch_first else 1)


def _single(value: Any) -> Any:
    return value[0] if isinstance(value, tuple | list) else value


def _floating(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether numbers of steps are asked for in a floating dtype."""
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    numbers = not any(isinstance(value, torch.Tensor | complex) for value in (*args, *kwargs.values()))
    return numbers and bool(dtype.is_floating_point) and not kwargs.get("requires_grad")


def _in_parts(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a tensor is split into a number of parts; arguments by other names are left to torch."""
    return len(args) > 1 and type(args[1]) is int and args[1] > 0 and kwargs.keys() <= {"dim"} and args[0].dim() > 0


def _in_rows(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether rows of floats are pooled, and no places of them are asked for."""
    indices = kwargs.get("return_indices", args[6] if len(args) > 6 else False)
    return not indices and len(args) > 0 and args[0].is_floating_point() and args[0].dim() in {2, 3}


def _alike(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether there are sequences, more than one, and all of one rank and type."""
    sequences = args[0] if args else kwargs.get("sequences", ())
    return len(sequences) > 1 and len({(each.dim(), each.dtype, each.device) for each in sequences}) == 1


_Suits = Callable[[Sequence[Any], Mapping[str, Any]], bool]
_WRITTEN: Mapping[Any, tuple[Callable[..., Any], _Suits]] = {
    torch.linspace: (linspace, _floating),
    torch.logspace: (logspace, _floating),
    torch.tensor_split: (tensor_split, _in_parts),
    torch.Tensor.tensor_split: (tensor_split, _in_parts),
    torch.max_pool1d: (max_pool1d, _in_rows),
    torch.nn.functional.max_pool1d: (max_pool1d, _in_rows),
    PAD_SEQUENCE: (pad_sequence, _alike),
}
REWRITTEN = frozenset(_WRITTEN)
"""The functions of torch that are written here."""


def reference(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """What to call for one of these functions where a size is symbolic: torch's own where ours differs."""
    written, suits = _WRITTEN[func]
    return written if suits(args, kwargs) else func
