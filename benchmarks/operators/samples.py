"""Inputs for every operator of torch's own database, and the same inputs at sizes 0, 1 and 2, and in other layouts."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import settings

from shapeproof.export.declare.materialize import like_example
from shapeproof.export.shim.trees import leaves, map_all, map_tensors

_PROFILE = settings.get_current_profile_name()
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402 - it sets Hypothesis's profile

settings.load_profile(_PROFILE)

DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64, torch.bfloat16)
SIZES = (0, 1, 2)
_LARGEST = 2**14
"""Samples with more elements are left out."""


@dataclass(frozen=True)
class Sample:
    """Arguments of an operator, and how they were made."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    how: str


def names() -> list[str]:
    """The operators of the database, each once."""
    return list(_infos())


@functools.cache
def _infos() -> dict[str, Any]:
    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in op_db}


def function(name: str) -> Callable[..., Any]:
    """What the database calls for an operator; `name!` is its form in place."""
    info = _infos()[name.removesuffix("!")]
    return info.inplace_variant if name.endswith("!") else info.op


def forms(name: str) -> list[str]:
    """The operator, and its form in place where it has one."""
    return [name, *([f"{name}!"] if _infos()[name].inplace_variant is not None else [])]


def samples(name: str, most: int) -> Iterator[Sample]:
    """The inputs of an operator, at most so many of each dtype."""
    info = _infos()[name]
    for dtype in DTYPES:
        if not info.supports_dtype(dtype, "cpu"):
            continue
        base = dtype is torch.float32 or torch.float32 not in info.dtypes
        for sample in itertools.islice(_given(info, dtype), most if base else max(1, most // 4)):
            yield sample
            if base:
                yield from resized(sample)
            yield from restrided(sample)


def _given(info: Any, dtype: torch.dtype) -> Iterator[Sample]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = iter(info.sample_inputs("cpu", dtype, requires_grad=False))
        while True:
            torch.manual_seed(0)
            try:
                each = next(made)
            except StopIteration:
                return
            except Exception:  # noqa: BLE001 - the database itself has no sample then
                return
            found = Sample((each.input, *each.args), dict(each.kwargs), str(dtype).removeprefix("torch."))
            if sum(tensor.numel() for tensor in _tensors(found)) <= _LARGEST:
                yield found


def _tensors(sample: Sample) -> list[torch.Tensor]:
    found = [leaf for leaf in leaves((sample.args, sample.kwargs)) if isinstance(leaf, torch.Tensor)]
    return [tensor for tensor in found if tensor.layout == torch.strided]


def resized(sample: Sample) -> Iterator[Sample]:
    """The sample with one of its sizes another, wherever it occurs, and with all of them that."""
    sizes = sorted({size for tensor in _tensors(sample) for size in tensor.shape})
    for chosen, size in itertools.product([*([each] for each in sizes), sizes], SIZES):
        if chosen and chosen != [size]:
            made = _with_sizes(sample, chosen, size)
            if made is not None:
                yield made


def _with_sizes(sample: Sample, old: Sequence[int], new: int) -> Sample | None:
    def change(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        sizes = [new if size in old else size for size in leaf.shape]
        plain = leaf.layout == torch.strided and not leaf.is_quantized
        return like_example(leaf, sizes, filled=True, seed=0) if plain and sizes != list(leaf.shape) else leaf

    def lists(value: Any) -> Any:
        """Sizes are given in lists: `view(x, [2, 3])`."""
        if isinstance(value, tuple | list) and value and all(type(each) is int for each in value):
            return type(value)(new if each in old else each for each in value)
        return map_all(value, change) if not isinstance(value, tuple | list) else type(value)(map(lists, value))

    try:
        args, kwargs = tuple(map(lists, sample.args)), {name: lists(each) for name, each in sample.kwargs.items()}
    except Exception:  # noqa: BLE001 - a sample of another kind: not to be made in other sizes
        return None
    return Sample(args, kwargs, f"{sample.how}, sizes {', '.join(map(str, old))} -> {new}")


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else _spread(tensor)


def _reversed(tensor: torch.Tensor) -> torch.Tensor:
    order = list(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    found = formats.get(tensor.dim())
    return tensor if found is None else tensor.contiguous(memory_format=found)


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[:1].expand(tensor.shape) if tensor.dim() and tensor.shape[0] else tensor


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """Every other element of another, the first left out."""
    if not tensor.dim():
        return tensor
    wide = torch.zeros((*tensor.shape[:-1], 2 * tensor.shape[-1] + 1), dtype=tensor.dtype)
    wide[..., 1::2] = tensor
    return wide[..., 1::2]


_LAYOUTS = (_transposed, _reversed, _channels_last, _expanded, _spread)


def restrided(sample: Sample) -> Iterator[Sample]:
    """The sample with its tensors in other layouts: all of them, and the first alone."""
    tensors = _tensors(sample)
    for layout, alone in itertools.product(_LAYOUTS, (False, True)):
        if alone and len(tensors) < 2:
            continue
        first = tensors[0] if tensors else None

        def change(tensor: torch.Tensor, layout: Any = layout, first: Any = first if alone else None) -> torch.Tensor:
            plain = tensor.layout == torch.strided and not tensor.is_quantized and (first is None or tensor is first)
            return layout(tensor) if plain else tensor

        try:
            args, kwargs = map_tensors((sample.args, sample.kwargs), change)
        except Exception:  # noqa: BLE001, S112 - a sample of another kind
            continue
        now = _tensors(Sample(args, kwargs, ""))
        if [each.stride() for each in now] != [each.stride() for each in tensors]:
            yield Sample(args, kwargs, f"{sample.how}, {layout.__name__.strip('_')}{' first' if alone else ''}")
