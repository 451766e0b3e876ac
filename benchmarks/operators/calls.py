"""Calls of operators as data: written as JSON, read again, and made anew with other data.

A tensor is its dtype, sizes, strides and where it begins; integers and bools keep their values, floats are drawn anew.
A call that is read again is the same call as far as sizes, layouts and indices go.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

_MOST_VALUES = 64
"""Integer tensors with more elements keep only the range of their values."""

_CONSTANTS = (torch.dtype, torch.device, torch.layout, torch.memory_format)


class NotTextError(ValueError):
    """An argument that is not written: a generator, a sparse tensor, a function."""


@dataclass(frozen=True)
class Call:
    """A call of an operator.

    Attributes:
        op: `aten.add.Tensor`; or `op_db.add`, a function of torch as the database of operators calls it.
        args: the arguments as JSON.
        kwargs: those that are given by name.
    """

    op: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """A call that was made.

        Raises:
            NotTextError: an argument cannot be written.
        """
        return cls(op, [to_data(each) for each in args], {name: to_data(each) for name, each in kwargs.items()})

    def make(self, tensor: Callable[[Mapping[str, Any]], Any] | None = None) -> tuple[list[Any], dict[str, Any]]:
        """The arguments again; `tensor` makes each tensor, by default with data."""
        made = tensor or make_tensor
        return [from_data(each, made) for each in self.args], {
            name: from_data(each, made) for name, each in self.kwargs.items()
        }

    @property
    def elements(self) -> int:
        """How large the call is: elements of its tensors, and a bit for each tensor."""
        return sum(1 + _product(each["sizes"]) for each in self.tensors)

    @property
    def tensors(self) -> list[Mapping[str, Any]]:
        """The tensors among the arguments, in order."""
        found: list[Mapping[str, Any]] = []
        self.make(found.append)
        return found

    def __str__(self) -> str:
        given = [*map(shown, self.args), *(f"{name}={shown(each)}" for name, each in self.kwargs.items())]
        return f"{self.op}({', '.join(given)})"


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def to_data(value: Any) -> Any:
    """An argument as JSON.

    Raises:
        NotTextError: it cannot be written.
    """
    if isinstance(value, torch.Tensor):
        return {"tensor": _tensor(value)}
    if isinstance(value, tuple | list):
        return [to_data(each) for each in value]
    if isinstance(value, _CONSTANTS):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, complex) or (isinstance(value, float) and value - value != 0):
        return {"number": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NotTextError(type(value).__name__)


def _tensor(value: torch.Tensor) -> dict[str, Any]:
    if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
        raise NotTextError("no plain tensor")
    found: dict[str, Any] = {
        "dtype": str(value.dtype).removeprefix("torch."),
        "sizes": list(value.shape),
        "strides": list(value.stride()),
        "offset": value.storage_offset(),
    }
    if value.is_floating_point() or value.is_complex() or not value.numel():
        return found
    if value.numel() <= _MOST_VALUES:
        return found | {"values": value.reshape(-1).tolist()}
    return found | {"range": [int(value.min()), int(value.max())]}


def from_data(value: Any, tensor: Callable[[Mapping[str, Any]], Any]) -> Any:
    """An argument again."""
    if isinstance(value, list):
        return [from_data(each, tensor) for each in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensor(value["tensor"])
    if "number" in value:
        number = complex(value["number"])
        return number if number.imag or "j" in value["number"] else number.real
    return torch.device(value["torch"]) if value["torch"] == "cpu" else getattr(torch, value["torch"])


def make_tensor(text: Mapping[str, Any]) -> torch.Tensor:
    """A tensor of these sizes and strides, with data.

    >>> make_tensor({"dtype": "int64", "sizes": [2, 2], "strides": [1, 2], "offset": 0, "values": [1, 2, 3, 4]})
    tensor([[1, 2],
            [3, 4]])
    """
    sizes, strides, dtype = text["sizes"], text["strides"], getattr(torch, text["dtype"])
    length = text["offset"] + 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    flat = torch.zeros(length if _product(sizes) else text["offset"], dtype=dtype)
    tensor = flat.as_strided(sizes, strides, text["offset"])
    if not tensor.numel():
        return tensor
    generator = torch.Generator().manual_seed(0)
    if "values" in text:
        flat.scatter_(0, _places(tensor), torch.tensor(text["values"], dtype=dtype))
    elif "range" in text:
        low, high = text["range"]
        flat.copy_(torch.randint(low, high + 1, flat.shape, generator=generator).to(dtype))
    elif dtype.is_complex or dtype.is_floating_point:
        flat.copy_(torch.rand(flat.shape, generator=generator).to(dtype) + 0.1)
    return tensor


def _places(tensor: torch.Tensor) -> torch.Tensor:
    """Where each element lies, for a tensor that may have one element in many places."""
    places = torch.tensor([tensor.storage_offset()])
    for size, step in zip(tensor.shape, tensor.stride(), strict=True):
        places = (places[:, None] + torch.arange(size) * step).reshape(-1)
    return places


def shown(value: Any) -> str:
    """An argument in a table: `float32[2, 0]`, with strides where they are not contiguous ones."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if not isinstance(value, dict):
        return repr(value)
    if "tensor" not in value:
        return str(next(iter(value.values())))
    tensor = value["tensor"]
    strides = "" if tensor["strides"] == contiguous(tensor["sizes"]) else f":{tensor['strides']}"
    return f"{tensor['dtype']}{tensor['sizes']}{strides}"


def contiguous(sizes: Sequence[int]) -> list[int]:
    """The strides of a contiguous tensor.

    >>> contiguous([2, 0, 3])
    [3, 3, 1]
    """
    steps = itertools.accumulate([1, *reversed(sizes[1:])], lambda step, size: step * max(1, size))
    return list(steps)[: len(sizes)][::-1]


def resolve(op: str) -> Any:
    """The operator, or the function of torch, that a name stands for.

    >>> resolve("aten.relu.default") is torch.ops.aten.relu.default
    True
    """
    namespace, _, name = op.partition(".")
    if namespace == "op_db":
        from benchmarks.operators.samples import function

        return function(name)
    found: Any = getattr(torch.ops, namespace)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def quietly(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Exception | None]:
    """What a call gives, or raises."""
    try:
        return call(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001 - whatever it raises is the answer
        return None, error
