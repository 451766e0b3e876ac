"""Holds the flat inputs of a run against what was declared of them: kind, dtype, device, layout, rank, sizes.

A guard knows one input and refuses whatever its program was not proved for. Torch's own guards know sizes alone, and
speak of `args`; these take their place in `module()`. What a saved program can hold of them is written as text
(`code`), which torch compiles when it makes a module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from shapeproof.constraints.terms import Term
from shapeproof.contract.inputs import same_constant
from shapeproof.contract.outside import OutsideDomain, refusal
from shapeproof.export.shim import guarding


class Guard(Protocol):
    """Holds one flat input against its declaration."""

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is of another kind."""

    def code(self, source: str) -> list[str]:
        """What a saved program can check of it, as Python over the input's name."""


@dataclass(frozen=True)
class TensorGuard:
    """A tensor of one dtype, device, layout and rank; `fixed` has its constant sizes."""

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    rank: int
    fixed: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, name: str, noted: torch.Tensor) -> TensorGuard:
        """The guard of an input as a program notes it."""
        fixed = tuple((index, size) for index, size in enumerate(noted.shape) if isinstance(size, int))
        return cls(name, noted.dtype, noted.device, noted.layout, noted.dim(), fixed)

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is no such tensor."""
        if not isinstance(value, torch.Tensor):
            raise refusal({self.name: value}, "a tensor")
        if value.dtype != self.dtype:
            raise self._refusal("dtype", value.dtype, self.dtype)
        if value.device != self.device:
            raise self._refusal("device", value.device, self.device)
        if value.layout != self.layout:
            raise self._refusal("layout", value.layout, self.layout)
        if value.dim() != self.rank:
            raise self._refusal("dim()", value.dim(), self.rank)
        for index, size in self.fixed:
            if value.shape[index] != size:
                raise self._refusal(f"shape[{index}]", value.shape[index], size)

    def _refusal(self, what: str, given: Any, expected: Any) -> OutsideDomain:
        return refusal({f"{self.name}.{what}": given}, f"{self.name}.{what} == {expected}")

    def code(self, source: str) -> list[str]:
        """That it has data. The graph holds the rest; a meta tensor answers none of its assertions."""
        return [] if self.device.type == "meta" else [f"{source}.device.type != 'meta'"]


@dataclass(frozen=True)
class IntGuard:
    """An int whose value is a symbol of the domain."""

    name: str

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is no int; a bool is none."""
        if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
            raise refusal({self.name: value}, "an int")

    def code(self, source: str) -> list[str]:
        """That it is no bool, and no float."""
        return [f"type({source}) is not bool", f"type({source}) is not float"]


@dataclass(frozen=True)
class ConstantGuard:
    """A value that the trace took as it was: None, a bool, an int, a float, a text."""

    name: str
    expected: Any

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is another one, or one of another type that is only equal."""
        if same_constant(value, self.expected):
            return
        if not guarding.is_traced() or value != self.expected:  # AOTAutograd hands a 1 to a program for a True
            formula = "None" if self.expected is None else f"{self.name} == {self.expected!r}"
            raise refusal({self.name: value}, formula)

    def code(self, source: str) -> list[str]:
        """What torch does not check by itself: that nothing is given for None, and the type of a number."""
        if self.expected is None:
            return [f"{source} is None"]
        return [f"type({source}) is {type(self.expected).__name__}"]


@dataclass(frozen=True)
class NoGuard:
    """An object of a class of its own, of which nothing is known."""

    def check(self, value: Any) -> None:
        """Take whatever is given."""

    def code(self, source: str) -> list[str]:  # noqa: ARG002 - what it says of a source
        """Nothing."""
        return []


def guard_of(name: str, noted: Any) -> Guard:
    """The guard of one flat input, as a program notes it."""
    match noted:
        case torch.Tensor():
            return TensorGuard.of(name, noted)
        case torch.SymInt():
            return IntGuard(name)
        case None | bool() | int() | float() | str():
            return ConstantGuard(name, noted)
        case _:
            return NoGuard()


def relaxed(guard: Guard, sizes: Sequence[Term]) -> Guard:
    """The guard of one program, for an input of several: it leaves out what is no constant of these sizes."""
    match guard:
        case TensorGuard(fixed=fixed):
            return replace(guard, fixed=tuple((dim, size) for dim, size in fixed if sizes[dim].is_constant))
        case ConstantGuard(name=name) if sizes and not sizes[0].is_constant:
            return IntGuard(name)
    return guard
