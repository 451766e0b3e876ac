"""Sizes and layouts of fake tensors, compared by terms: what is known to be equal, and which tensors are the same.

This is the one meaning of *the same tensor* for a call that is run again, for a program's metadata, and for two
programs. An equality that is not known counts as a difference.

Law: a stride may differ only where it reaches no element: its size is at most 1, or the tensor has no elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import ONE, Term, maximum
from shapeproof.export.shim.process.modes import casts
from shapeproof.export.shim.storages import kind, storages

Size = int | torch.SymInt
Dims = list[tuple[Term, Term]]
"""The size and the stride of each dimension."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Answers questions about sizes.

    Attributes:
        read: returns the term of a size.
        known: True for a formula that is known to hold.
    """

    read: Callable[[Size], Term]
    known: Callable[[Formula], bool]

    def equal(self, a: Size | Term, b: Size | Term) -> bool:
        """True if two sizes are known to be equal."""
        mine, other = self._term(a), self._term(b)
        return mine is other or self.known(f.eq(mine, other))

    def at_least(self, a: Size | Term, low: int) -> bool:
        """True if `a >= low` is known."""
        term = self._term(a)
        return term.constant_value >= low if term.is_constant else self.known(f.ge(term, low))

    def at_most(self, a: Size, high: int) -> bool:
        """True if `a <= high` is known."""
        return self.known(f.le(self.read(a), high))

    def alike(self, some: Sequence[Size], others: Sequence[Size]) -> bool:
        """True if two shapes are known to be equal."""
        return len(some) == len(others) and all(map(self.equal, some, others))

    def fits(self, parameter: torch.Tensor | None, shape: Sequence[Size]) -> bool:
        """True if an optional parameter is missing or has this shape."""
        return parameter is None or self.alike(parameter.shape, shape)

    def _term(self, size: Size | Term) -> Term:
        return size if isinstance(size, Term) else self.read(size)


def same_shape(mine: torch.Tensor, other: torch.Tensor, sizes: Sizes) -> bool:
    """True if two tensors have the same kind, rank and sizes."""
    return kind(mine) == kind(other) and sizes.alike(mine.shape, other.shape)


def same_layout(mine: torch.Tensor, other: torch.Tensor, sizes: Sizes) -> bool:
    """True if two strided tensors have the same shape and offset, and strides that differ reach no element."""
    begun = _begin_alike(mine, other, sizes)
    return begun and (same_strides(mine, other, sizes) or is_empty(mine, sizes))


def _begin_alike(mine: torch.Tensor, other: torch.Tensor, sizes: Sizes) -> bool:
    shaped = mine.layout == torch.strided and same_shape(mine, other, sizes)
    return shaped and sizes.equal(mine.storage_offset(), other.storage_offset())


def same_strides(mine: torch.Tensor, other: torch.Tensor, sizes: Sizes) -> bool:
    """True if the strides of the last dimensions, which both tensors have, agree where the size is not 0 or 1."""
    common = min(mine.dim(), other.dim())
    last = (each[len(each) - common :] for each in (mine.shape, mine.stride(), other.stride()))
    return all(sizes.equal(a, b) or sizes.at_most(size, 1) for size, a, b in zip(*last, strict=True))


def same_where_any(mine: torch.Tensor, other: torch.Tensor, sizes: Sizes) -> bool:
    """The same, where some of the sizes give elements and others none: one proof for each stride."""
    none = f.disjunction(*(f.eq(sizes.read(size), 0) for size in mine.shape))

    def agree(size: Size, a: Size, b: Size) -> bool:
        idle = f.disjunction(none, f.le(sizes.read(size), 1))
        return sizes.equal(a, b) or sizes.known(f.disjunction(idle, f.eq(sizes.read(a), sizes.read(b))))

    begun = _begin_alike(mine, other, sizes)
    return begun and all(map(agree, mine.shape, mine.stride(), other.stride()))


def is_empty(tensor: torch.Tensor, sizes: Sizes) -> bool:
    """True if a tensor is known to have no elements."""
    return sizes.known(f.eq(prod(map(sizes.read, tensor.shape), start=ONE), 0))


def sharing(values: Sequence[Any]) -> list[int | None]:
    """Return for each value the index of the first value in the same storage; None for a value without storage."""
    seen: dict[Any, int] = {}
    return [
        seen.setdefault(found[0], index) if (found := storages(value)) else None for index, value in enumerate(values)
    ]


def lies_row_by_row(x: torch.Tensor, read: Callable[[Size], Term]) -> bool:
    """True if each stride is the product of the later sizes, where a size of 0 counts as 1 or as 0."""
    return lie_row_by_row(dims(x.shape, x.stride(), read))


def dims(shape: Sequence[Size], strides: Sequence[Size], read: Callable[[Size], Term]) -> Dims:
    """Return the size and the stride of each dimension."""
    return [*zip(map(read, shape), map(read, strides), strict=True)]


def lie_row_by_row(laid: Dims) -> bool:
    """True if each stride is the product of the later sizes, where a size of 0 counts as 1 or as 0."""
    elements = counted = ONE
    for size, stride in reversed(laid):
        if stride is not elements and stride is not counted:
            return False
        elements, counted = elements * size, counted * maximum(ONE, size)
    return True


def lies_in_order(x: torch.Tensor, order: Sequence[int], read: Callable[[Size], Term]) -> bool:
    """True if the dimensions lie row by row in this order, the outermost first; those of size 1 are left out."""
    laid = dims(x.shape, x.stride(), read)
    return lie_row_by_row([laid[dim] for dim in order if laid[dim][0] is not ONE])


def keeps_layout(operands: Sequence[torch.Tensor], read: Callable[[Size], Term]) -> bool:
    """True if an elementwise operator returns a tensor like its one operand in everything but the elements.

    Law: where the operand lies row by row in some order of its dimensions, eager's result lies as the operand does, for
    every size. Other layouts, and operators that change the dtype, are left to torch.
    """
    if len(operands) != 1 or torch.is_inference_mode_enabled():
        return False
    (x,) = operands
    plain = x.is_floating_point() and x.layout is torch.strided and not x.is_neg()
    return plain and not casts(x.device.type) and lies_in_some_order(x, read)


def lies_in_some_order(x: torch.Tensor, read: Callable[[Size], Term]) -> bool:
    """True if the dimensions, in some order, lie row by row; those of size 1 are left out."""
    left = [dim for dim in dims(x.shape, x.stride(), read) if dim[0] is not ONE]
    elements = counted = ONE
    while left:
        found = next((dim for dim in reversed(left) if dim[1] is elements or dim[1] is counted), None)
        if found is None:
            return False
        left.remove(found)
        elements, counted = elements * found[0], counted * maximum(ONE, found[0])
    return True
