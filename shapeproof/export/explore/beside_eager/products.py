"""Products that the runs of one comparison share: a model and its program multiply the same tensors.

A large model multiplies for most of the time that a run of it takes. A comparison runs eager, the program and eager
again. So a kernel that multiplies much is called once for the same operands; its next call returns its result again.

Law: a call gets a result that the same kernel gave for equal operands: equal bit by bit, laid out alike, with the same
further arguments, in the same modes of torch. A program that multiplies anything else runs kernels of its own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from shapeproof.export.graph.work import is_product, multiplied
from shapeproof.export.limits import CHEAP_ELEMENTS, PRODUCT_ELEMENTS, PRODUCT_WORK
from shapeproof.export.ops import schemas
from shapeproof.export.shim.modules import elements_held
from shapeproof.export.shim.process.each_call import in_place_of_each_call
from shapeproof.export.shim.process.modes import modes, precision
from shapeproof.export.shim.storages import copied_when_written, holds_floats, is_copied_when_written, kind, same_memory
from shapeproof.export.shim.trees import leaves

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The dtypes in which elements of these sizes, in bytes, are compared."""


def products_shared(mod: torch.nn.Module, inputs: Any) -> AbstractContextManager[Any]:
    """Return a block for all runs of a comparison, in which they share products; it shares none if both are small."""
    given = sum(each.numel() for each in leaves(inputs) if isinstance(each, torch.Tensor))
    if max(given, elements_held(mod)) <= CHEAP_ELEMENTS:
        return nullcontext()
    return in_place_of_each_call(_Products().run)


@dataclass(frozen=True, slots=True)
class _Product:
    """Operands as they were, and the result."""

    operands: Sequence[torch.Tensor]
    result: torch.Tensor


@dataclass(slots=True)
class _Products:
    """The products so far, by everything about their calls but the elements of operands."""

    made: dict[Hashable, list[_Product]] = field(default_factory=dict)
    left: int = PRODUCT_ELEMENTS
    """The elements that may still be kept."""

    def run(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor:
        """Run an operator, or return its result again.

        >>> products, a = _Products(), torch.rand(256, 256)
        >>> first, second = (products.run(torch.ops.aten.mm.default, (a, a.clone()), {}) for _ in range(2))
        >>> first is second, torch.equal(first, second), products.left == PRODUCT_ELEMENTS - 3 * a.numel()
        (False, True, True)
        """
        operands = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
        if not (_multiplies(func) and all(map(holds_floats, operands))):
            return func(*args, **kwargs)
        call = func, modes(), precision(), *map(_told, args), *((name, _told(each)) for name, each in kwargs.items())
        for each in self.made.get(call, ()):
            if all(map(_equal, each.operands, operands)):
                return each.result.clone()
        result = func(*args, **kwargs)
        if sum(math.prod(sizes) for sizes in multiplied(func, args, result)) >= PRODUCT_WORK:
            self._keep(call, operands, result)
        return result

    def _keep(self, call: Hashable, operands: Sequence[torch.Tensor], result: torch.Tensor) -> None:
        elements = sum(each.numel() for each in (*operands, result) if not is_copied_when_written(each))
        if elements > self.left or not holds_floats(result):
            return
        again = result.clone()
        if _lies(again) == _lies(result):
            self.left -= elements
            self.made.setdefault(call, []).append(_Product([*map(_kept, operands)], again))


@functools.cache
def _multiplies(func: Any) -> bool:
    """True for a product whose result is a function of its arguments alone."""
    own = getattr(func, "namespace", None) == "aten" and is_product(func)
    return own and not schemas.is_mutable(func) and not schemas.is_random(func)


def _told(argument: Any) -> Hashable:
    """What a call says of an argument, apart from the elements of a tensor."""
    if isinstance(argument, torch.Tensor):
        return argument.shape, argument.stride(), kind(argument)
    if isinstance(argument, list | tuple):
        return tuple(map(_told, argument))
    return type(argument), argument


def _lies(result: torch.Tensor) -> tuple[Any, ...]:
    return result.stride(), result.storage_offset(), result.untyped_storage().nbytes()


def _kept(operand: torch.Tensor) -> torch.Tensor:
    return copied_when_written(operand) if is_copied_when_written(operand) else operand.clone()


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    bits = _BITS[one.itemsize]
    return same_memory(one, other) or torch.equal(one.view(bits), other.view(bits))
