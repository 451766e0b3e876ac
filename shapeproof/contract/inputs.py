"""The requirements on one flat input, from any library: a tensor, an int, a constant, or an object.

A tensor is any object with `.shape` and `.dtype`. A tuple of sizes also stands for a tensor; then only the sizes are
checked. Device and layout are checked for torch's tensors only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from shapeproof.constraints.terms import Term
from shapeproof.contract.outside import OutsideDomain, refusal

LEFT_OUT = type("LeftOut", (), {"__repr__": lambda _: "nothing"})()
"""Stands for a missing input."""
HIDDEN = type("Hidden", (), {"__repr__": lambda _: "something"})()
"""Stands for an input inside an opaque container."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a tensor, given instead of the tensor."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class TensorInput:
    """A tensor of one dtype, device, layout and rank.

    Attributes:
        name: the user's name.
        graph_name: the name in the program and in files made from the program.
        dtype, device, layout: by torch's names, without `torch.`.
        sizes: the terms of its sizes.
    """

    name: str
    graph_name: str
    dtype: str
    device: str
    layout: str
    sizes: tuple[Term, ...]

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is not such a tensor; dynamic sizes are not checked."""
        if getattr(value, "is_nested", False):  # torch raises where its sizes are read
            raise self._unlike("layout", Word("nested"), Word(self.layout))
        if not hasattr(value, "shape") or not (isinstance(value, Sizes) or hasattr(value, "dtype")):
            raise absent(self.name) if value is LEFT_OUT else refusal({self.name: value}, "a tensor")
        if not isinstance(value, Sizes):
            self._check_properties(value)
        if len(value.shape) != len(self.sizes):
            raise self._unlike("ndim", len(value.shape), len(self.sizes))
        for index, (given, term) in enumerate(zip(value.shape, self.sizes, strict=True)):
            if not isinstance(given, int) or isinstance(given, bool) or given < 0:
                what = f"{self.name}.shape[{index}]"
                raise refusal({what: given}, f"{what} >= 0")
            if term.is_constant and given != term.constant_value:
                raise self._unlike(f"shape[{index}]", given, term.constant_value)

    def _check_properties(self, value: Any) -> None:
        given = dtype_name(value.dtype)
        if given != self.dtype:
            raise self._unlike("dtype", Word(given), Word(self.dtype))
        if is_torchs(type(value)):
            for what, expected in (("device", self.device), ("layout", self.layout)):
                given = str(getattr(value, what)).removeprefix("torch.")
                if given != expected:
                    raise self._unlike(what, Word(given), Word(expected))

    def _unlike(self, what: str, given: Any, expected: Any) -> OutsideDomain:
        return refusal({f"{self.name}.{what}": given}, f"{self.name}.{what} == {expected}")


class Word(str):
    """A name that is shown without quotes in a sentence."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class IntInput:
    """An int with a dynamic value."""

    name: str
    graph_name: str
    sizes: tuple[Term, ...]

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is not an int; a bool is not an int."""
        if value is LEFT_OUT:
            raise absent(self.name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise refusal({self.name: value}, "an int")


@dataclass(frozen=True)
class ConstantInput:
    """A value that the trace specialized: None, a bool, an int, a float, or a string."""

    name: str
    graph_name: str
    value: Any
    sizes: tuple[Term, ...] = ()

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value differs, or is equal but of another type."""
        if not same_constant(value, self.value):
            raise refusal({self.name: value}, "None" if self.value is None else f"{self.name} == {self.value!r}")


@dataclass(frozen=True)
class ObjectInput:
    """An object that the contract does not inspect."""

    name: str
    graph_name: str
    sizes: tuple[Term, ...] = ()

    def check(self, value: Any) -> None:
        """Accept any value."""


Input: TypeAlias = TensorInput | IntInput | ConstantInput | ObjectInput


def absent(name: str) -> OutsideDomain:
    """Return the refusal of a call in which this input is missing."""
    return OutsideDomain(f"{name} is not given", {}, f"{name} is given")


def same_constant(value: Any, expected: Any) -> bool:
    """True if a value is the constant: equal, of the same type, and of the same sign for a zero; NaN equals NaN.

    >>> same_constant(0.0, -0.0), same_constant(True, 1), same_constant(float("nan"), float("nan"))
    (False, False, True)
    """
    if type(value) is not type(expected):
        return False
    if isinstance(expected, float):
        equal = value == expected and math.copysign(1, value) == math.copysign(1, expected)
        return equal or (math.isnan(value) and math.isnan(expected))
    return bool(value == expected)


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype of any library: `float32`.

    >>> dtype_name("float32")
    'float32'
    """
    return str(dtype).removeprefix("torch.")


def is_torchs(kind: type) -> bool:
    """True if the class is `torch.Tensor` or derived from it."""
    return any(base.__name__ == "Tensor" and base.__module__ == "torch" for base in kind.__mro__)
