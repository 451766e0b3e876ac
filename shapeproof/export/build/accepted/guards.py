"""Checks the flat inputs of a run against their declaration: kind, dtype, device, layout, rank, constant sizes.

A guard knows one input and refuses a value that its program was not proved for. Torch's own guards check sizes only and
name inputs `args`; these guards replace them in `module()`. `code` writes the checks of a saved program as text, which
torch compiles when it makes a module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints.terms import Term
from shapeproof.contract.inputs import Word, same_constant
from shapeproof.contract.outside import OutsideDomain, refusal
from shapeproof.export.shim import guarding


class Guard:
    """Checks one flat input against its declaration; this class accepts any object: an input without a declaration."""

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is of another kind."""

    def code(self, source: str) -> list[str]:  # noqa: ARG002 - what it says of a source
        """Return the checks for a saved program, as Python expressions over the input's name."""
        return []


@dataclass(frozen=True)
class TensorGuard(Guard):
    """Expects a tensor of one dtype, device, layout and rank; `fixed` has its constant sizes, as (dim, size)."""

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    rank: int
    fixed: tuple[tuple[int, int], ...]

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
        for index, size in self.fixed:
            if value.shape[index] != size:
                raise self._refusal(f"shape[{index}]", value.shape[index], size)

    def _refusal(self, what: str, given: Any, expected: Any) -> OutsideDomain:
        return refusal({f"{self.name}.{what}": given}, f"{self.name}.{what} == {expected}")

    def code(self, source: str) -> list[str]:
        """Require data: a meta tensor triggers none of the assertions in the graph. The graph checks the rest."""
        return [] if self.device.type == "meta" else [f"{source}.device.type != 'meta'"]


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
        """Return the checks that torch omits: that None is given for None, a number's type, and the sign of 0.0."""
        if self.expected is None:
            return [f"{source} is None"]
        is_zero = isinstance(self.expected, float) and self.expected == 0
        sign = [f"math.copysign(1, {source}) == {math.copysign(1, self.expected)}"] if is_zero else []
        return [f"type({source}) is {type(self.expected).__name__}", *sign]


def guard_of(name: str, noted: Any) -> Guard:
    """Return the guard of one flat input, by the program's metadata."""
    match noted:
        case torch.Tensor():
            fixed = tuple((index, size) for index, size in enumerate(noted.shape) if isinstance(size, int))
            return TensorGuard(name, noted.dtype, noted.device, noted.layout, noted.dim(), fixed)
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
