"""Checks the flat inputs of a run against their declaration: kind, dtype, device, layout, rank, constant sizes.

A guard knows one input and refuses a value that its program was not proved for. Torch's own guards check sizes only and
name inputs `args`; these guards replace them in `module()`. `code` writes the checks of a saved program as text, which
torch compiles when it makes a module.

Also checks how inputs lie in memory: strides, offsets, and that written inputs share memory with no other tensor.

A proof treats each input as a separate tensor in the example's memory format. The layout matters if the model reads it
(`x.stride()`) or writes in place; a program that does neither accepts any strides and views.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints.terms import Term
from shapeproof.contract.inputs import Word, same_constant
from shapeproof.contract.outside import OutsideDomain, refusal
from shapeproof.export.ops.properties import GRADIENT, LEAF, OFFSET, STRIDES
from shapeproof.export.shim import guarding
from shapeproof.export.shim.storages import dense_strides


class Guard:
    """Checks one flat input against its declaration; this class accepts any object: an input without a declaration."""

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is of another kind."""

    def code(self, source: str) -> list[str]:  # noqa: ARG002 - what it says of a source
        """Return the checks for a saved program, as Python expressions over the input's name."""
        return []


@dataclass(frozen=True)
class TensorGuard(Guard):
    """Expects a tensor of one dtype, device, layout and rank; `fixed` has its constant sizes, as (dim, size).

    `dense`: how many of the last dims of a sparse tensor are dense; None for any other tensor.
    """

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    rank: int
    fixed: tuple[tuple[int, int], ...]
    dense: int | None = None

    def check(self, value: Any) -> None:
        """Raise OutsideDomain unless the value is such a tensor."""
        if not isinstance(value, torch.Tensor):
            raise refusal({self.name: value}, "a tensor")
        if value.is_nested:  # torch raises where its sizes are read
            raise self._refusal("layout", Word("nested"), self.layout)
        for what in ("dtype", "device", "layout"):
            if getattr(value, what) != getattr(self, what):
                raise self._refusal(what, getattr(value, what), getattr(self, what))
        if value.dim() != self.rank:
            raise self._refusal("dim()", value.dim(), self.rank)
        if self.dense is not None and value.dense_dim() != self.dense:
            raise self._refusal("dense_dim()", value.dense_dim(), self.dense)
        for index, size in self.fixed:
            if value.shape[index] != size:
                raise self._refusal(f"shape[{index}]", value.shape[index], size)

    def _refusal(self, what: str, given: Any, expected: Any) -> OutsideDomain:
        return refusal({f"{self.name}.{what}": given}, f"{self.name}.{what} == {expected}")

    def code(self, source: str) -> list[str]:
        """Require data: a meta tensor triggers none of the assertions in the graph. The graph checks the rest."""
        sparse = [] if self.dense is None else [f"{source}.dense_dim() == {self.dense}"]
        return sparse if self.device.type == "meta" else [f"{source}.device.type != 'meta'", *sparse]


@dataclass(frozen=True)
class IntGuard(Guard):
    """Expects an int; a symbol of the domain stands for its value."""

    name: str

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is not an int, or is a bool."""
        if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
            raise refusal({self.name: value}, "an int")

    def code(self, source: str) -> list[str]:
        """Require neither a bool nor a float."""
        return [f"type({source}) is not bool", f"type({source}) is not float"]


@dataclass(frozen=True)
class ConstantGuard(Guard):
    """Expects the constant that the trace used: None, a bool, an int, a float or a string."""

    name: str
    expected: Any

    def check(self, value: Any) -> None:
        """Raise OutsideDomain for another value, and for an equal value of another type (`1` for `True`)."""
        if same_constant(value, self.expected):
            return
        if not guarding.is_traced() or value != self.expected:  # AOTAutograd passes 1 for True
            formula = "None" if self.expected is None else f"{self.name} == {self.expected!r}"
            raise refusal({self.name: value}, formula)

    def code(self, source: str) -> list[str]:
        """Return the checks that torch omits: that None is given for None, a number's type, and the sign of 0.0.

        Where torch decomposes a loaded program, it passes a symbol for 2 and 1 for True.
        """
        if self.expected is None:
            return [f"{source} is None"]
        is_zero = isinstance(self.expected, float) and self.expected == 0
        sign = [f"math.copysign(1, {source}) == {math.copysign(1, self.expected)}"] if is_zero else []
        kind = f"type({source}) is {type(self.expected).__name__}"
        return [f"{kind} or torch.compiler.is_exporting()", *sign]


def guard_of(name: str, noted: Any) -> Guard:
    """Return the guard of one flat input, by the program's metadata."""
    match noted:
        case torch.Tensor():
            fixed = tuple((index, size) for index, size in enumerate(noted.shape) if isinstance(size, int))
            dense = noted.dense_dim() if noted.layout == torch.sparse_coo else None
            return TensorGuard(name, noted.dtype, noted.device, noted.layout, noted.dim(), fixed, dense)
        case torch.SymInt():
            return IntGuard(name)
        case None | bool() | int() | float() | str():
            return ConstantGuard(name, noted)
        case _:
            return Guard()


def relaxed(guard: Guard, sizes: Sequence[Term]) -> Guard:
    """Relax one program's guard to serve all regions: drop each constant whose term in `sizes` is not constant."""
    match guard:
        case TensorGuard(fixed=fixed):
            return replace(guard, fixed=tuple((dim, size) for dim, size in fixed if sizes[dim].is_constant))
        case ConstantGuard(name=name) if sizes and not sizes[0].is_constant:
            return IntGuard(name)
    return guard


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
