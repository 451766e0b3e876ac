"""Checks how inputs lie in memory: strides, offsets, and that written inputs share memory with no other tensor.

A proof treats each input as a separate tensor in the example's memory format. The layout matters if the model reads it
(`x.stride()`) or writes in place; a program that does neither accepts any strides and views.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.contract.outside import OutsideDomain, refusal
from shapeproof.export.ops.properties import GRADIENT, LEAF, OFFSET, STRIDES
from shapeproof.export.shim.strides import dense_strides

_READ_BY_THE_MODEL = "what the model has read"


@dataclass(frozen=True)
class Layout:
    """How one strided input of the example lies in memory.

    Attributes:
        name: the user's name of the input.
        order: its dimensions, the outermost in memory first: (1, 0) for a transposed matrix.
        requires_grad: as in the example.
    """

    name: str
    order: tuple[int, ...]
    requires_grad: bool


@dataclass(frozen=True)
class Memory:
    """The layout in memory that a program relies on.

    Attributes:
        layouts: the layout of each strided tensor among the flat inputs, by its index.
        reads: the properties that the model read while tracing.
        writes: the inputs that the program mutates.
        state: the tensors of the model that the program mutates, by name.
    """

    layouts: Mapping[int, Layout]
    reads: frozenset[str] = frozenset()
    writes: frozenset[int] = frozenset()
    state: frozenset[str] = frozenset()

    def __or__(self, other: Memory) -> Memory:
        """Return the requirements of both programs."""
        return Memory(
            {**other.layouts, **self.layouts},
            self.reads | other.reads,
            self.writes | other.writes,
            self.state | other.state,
        )

    @property
    def matters(self) -> bool:
        """True if the program relies on the layout in memory."""
        return bool(self.reads or self.writes or self.state)

    def check(self, given: Sequence[Any], state: Mapping[str, torch.Tensor]) -> None:
        """Raise OutsideDomain if flat inputs do not lie in memory as the program requires.

        `state`: buffers and constants of the model that may share memory with an input.
        """
        for index, layout in self.layouts.items():
            self._check_layout(layout, given[index])
        if self.writes or self.state:
            self._check_apart(given, state)

    def _check_layout(self, layout: Layout, tensor: torch.Tensor) -> None:
        if STRIDES in self.reads:
            strides = dense_strides(layout.order, tensor.shape)
            if tensor.stride() != strides:
                raise _unlike(f"{layout.name}.stride()", tensor.stride(), strides)
        if OFFSET in self.reads and tensor.storage_offset() != 0:
            raise _unlike(f"{layout.name}.storage_offset()", tensor.storage_offset(), 0)
        if GRADIENT in self.reads and tensor.requires_grad != layout.requires_grad:
            raise _unlike(f"{layout.name}.requires_grad", tensor.requires_grad, layout.requires_grad)
        if LEAF in self.reads and not tensor.is_leaf:  # a trace is given leaves
            raise _unlike(f"{layout.name}.is_leaf", given=False, expected=True)

    def _check_apart(self, given: Sequence[Any], state: Mapping[str, torch.Tensor]) -> None:
        inputs = [(layout.name, given[index], index in self.writes) for index, layout in self.layouts.items()]
        held = [(f"`{name}` of the model", tensor, name in self.state) for name, tensor in state.items()]
        for number, (name, tensor, written) in enumerate(inputs):
            for other, beside, also in [*inputs[number + 1 :], *held]:
                if (written or also) and overlap(tensor, beside):
                    which = name if written else other
                    raise OutsideDomain(
                        f"{name} and {other} share memory, and the model writes into {which}",
                        {name: tensor, other: beside},
                        f"{name} and {other} lie apart",
                    )

    def code(self, index: int, source: str) -> list[str]:
        """Return the check of an input's strides for a saved program, as Python over the input's name."""
        if STRIDES not in self.reads or index not in self.layouts:
            return []
        sizes = [f"max(1, {source}.size()[{dim}])" for dim in range(len(self.layouts[index].order))]
        order = self.layouts[index].order
        inner = [order[order.index(dim) + 1 :] for dim in range(len(order))]
        strides = "".join(f"{'*'.join(sizes[each] for each in dims) or '1'}, " for dims in inner)
        return [f"{source}.stride() == ({strides})"]


def _unlike(what: str, given: Any, expected: Any) -> OutsideDomain:
    return refusal({what: given}, f"{what} == {expected}", _READ_BY_THE_MODEL)


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if the memory ranges of two tensors, from first to last element, overlap."""
    if a.device != b.device or a.device.type == "meta" or a.numel() == 0 or b.numel() == 0:
        return False
    try:
        return a.data_ptr() < _end(b) and b.data_ptr() < _end(a)
    except (NotImplementedError, RuntimeError):  # the tensor has no memory: torch.vmap, a fake tensor
        return False


def _end(tensor: torch.Tensor) -> int:
    last = sum(map(operator.mul, (size - 1 for size in tensor.shape), tensor.stride()))
    return tensor.data_ptr() + int(last + 1) * tensor.element_size()
