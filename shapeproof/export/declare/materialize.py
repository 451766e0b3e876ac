"""Makes tensors of given sizes that are like an example: in layout, in the range of their values, and in their order.

If the example's integers are sorted (offsets, cumulative lengths), the new ones are sorted and have the same first
value.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from shapeproof.export.shim.storages import dense_strides, empty, holds_data, memory_order


def like_example(example: torch.Tensor, sizes: Sequence[int], *, filled: bool, seed: int | None) -> torch.Tensor:
    """Return a tensor of other sizes with values in the example's range; at the example's own sizes, return a copy.

    Like an example without data, it has none.
    """
    known = holds_data(example)
    if known and list(sizes) == list(example.shape):
        return _own_copy(example.detach()).requires_grad_(example.requires_grad)
    if example.layout == torch.sparse_coo:
        return _sparse(example, sizes, filled=filled and known, seed=seed).requires_grad_(example.requires_grad)
    tensor = _empty_like_layout(example, sizes)
    if filled and known:
        tensor = _in_order(fill(tensor, example, seed), example)
    return tensor.requires_grad_(example.requires_grad)


def is_ordered(example: Any) -> bool:
    """True if an example's integers are sorted along its last dimension, so that replacements should be, too."""
    if not isinstance(example, torch.Tensor) or not holds_data(example):  # nor has a TensorSpec integers
        return False
    whole = not (example.is_floating_point() or example.is_complex() or example.dtype == torch.bool)
    if not whole or example.layout != torch.strided or example.dim() == 0 or example.shape[-1] < 2:
        return False
    integers = comparable(example)
    return bool((integers[..., 1:] >= integers[..., :-1]).all())


def comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same numbers in a dtype that torch can compare and sort."""
    if tensor.dtype in {torch.uint16, torch.uint32, torch.uint64}:
        return tensor.to(torch.int64)
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor


def _in_order(tensor: torch.Tensor, example: torch.Tensor) -> torch.Tensor:
    if not is_ordered(example) or tensor.numel() == 0:
        return tensor
    tensor = tensor.copy_(comparable(tensor).sort(-1).values)
    first = example.detach()[..., 0]
    if example.numel() and bool((comparable(first) == comparable(first).flatten()[0]).all()):
        tensor[..., 0] = first.flatten()[0]
    return tensor


def _own_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor densely in memory, even if a size of 1 or a slice has left other strides."""
    strided = tensor.layout == torch.strided and not tensor.is_quantized
    if strided and tensor.stride() != dense_strides(memory_order(tensor), tensor.shape):
        return _empty_like_layout(tensor, tensor.shape).copy_(tensor)
    return tensor.clone()


def _empty_like_layout(example: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """Return an uninitialised tensor of the given sizes in the example's memory format."""
    return empty(list(sizes), dense_strides(memory_order(example), sizes), example)


def _sparse(example: torch.Tensor, sizes: Sequence[int], *, filled: bool, seed: int | None) -> torch.Tensor:
    """Return a sparse tensor with as many elements as the example, fewer where two fall together; none if not `filled`.

    No dense tensor is made: a graph of a million nodes has 10^12 places.
    """
    given = example.detach().coalesce()
    values, places = given.values(), sizes[: given.sparse_dim()]
    count = len(values) if filled and all(places) else 0
    generator = torch.Generator(device="cpu").manual_seed(seed or 0)
    drawn = [integers(max(1, size), (count,), generator) for size in places]
    indices = torch.stack(drawn) if drawn else torch.zeros((0, count), dtype=torch.int64, device=generator.device)
    stored = fill(values.new_empty((count, *sizes[len(places) :])), values, seed)
    made = torch.sparse_coo_tensor(indices.to(given.device), stored, tuple(sizes), device=given.device)
    return made.coalesce() if example.is_coalesced() else made


def fill(tensor: torch.Tensor, example: torch.Tensor | None, seed: int | None) -> torch.Tensor:
    """Fill the tensor with the example's values: drawn by the seed, or repeated if there is no seed.

    Without an example, draw normal floats or integers 0 and 1. Truth values are drawn either way. The generator is the
    CPU's, so that every device gets the same numbers.
    """
    if seed is None and example is not None and example.numel():
        values = example.detach()
        for dim, size in enumerate(tensor.shape):
            values = values.index_select(dim, torch.arange(size, device=values.device) % example.shape[dim])
        return tensor.copy_(values)
    generator = torch.Generator(device="cpu").manual_seed(seed or 0)
    if example is not None and example.numel() and tensor.dtype == torch.bool:
        return tensor.copy_(_mask(example.detach(), tensor.shape, generator))
    if example is not None and example.numel():
        picks = integers(example.numel(), (tensor.numel(),), generator).to(example.device)
        values = example.detach().reshape(-1)[picks].reshape(tensor.shape)
        if tensor.is_floating_point() and tensor.itemsize > 1:  # floats of eight bits know no arithmetic
            values = values + floats(tensor.shape, generator).to(values) * 0.1
        return tensor.copy_(values)
    draw = floats if tensor.is_floating_point() else functools.partial(integers, 2)
    return tensor.copy_(draw(tensor.shape, generator))


def floats(sizes: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Draw normal numbers on the generator's device, whatever the default device is."""
    return torch.randn(sizes, generator=generator, device=generator.device)


def integers(high: int, sizes: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Draw integers of at least 0 and less than `high` on the generator's device."""
    return torch.randint(high, sizes, generator=generator, device=generator.device)


def _mask(example: torch.Tensor, sizes: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Draw truth values; each row has a value that each of the example's rows has.

    An example's mask often masks nothing. The drawn one masks some places, and nowhere a whole row, which attention
    does not define.
    """
    drawn = integers(2, sizes, generator).bool().to(example.device)
    if drawn.dim() == 0 or drawn.numel() == 0:
        return drawn
    for value in (True, False):
        if bool((example == value).any(-1).all()):
            drawn[..., 0] = torch.where((drawn == value).any(-1), drawn[..., 0], value)
    return drawn
