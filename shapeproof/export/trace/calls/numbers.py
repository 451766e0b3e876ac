"""Numbers that a dtype cannot hold: eager raises, and torch's fakes, and rules for sizes, do not look at them.

The kernel decides. It runs on tensors of the same dtypes with at most two elements a dimension: once with the number,
and once with 1 in place of every large number. If only the first run raises, the number is at fault, and the trace
raises the same error. A symbolic number gets the check that it lies within the dtype, if the kernel raises for each
number outside: a number that wraps around to 0 may be at fault as a divisor, and the next one is not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.export.ops import schemas
from shapeproof.export.shim.trees import leaves, map_all

_NUMBER = {"number", "Optional[number]", "float", "Optional[float]"}
_SMALL = 127
"""Every dtype but bool holds the numbers up to this one, and a bool takes any number."""

_PLAIN = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}
"""What stands for a symbolic number that is not looked at."""

Is = Callable[[int | torch.SymInt, int], bool]
"""True if a size has this value everywhere in the trace's region."""


def check_numbers(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], is_: Is) -> None:
    """Raise what the kernel raises of a number; check a symbolic number where the kernel would.

    >>> x = torch.ones(2, dtype=torch.int8)
    >>> check_numbers(torch.ops.aten.full_like.default, (x, 127), {}, int.__eq__)
    >>> check_numbers(torch.ops.aten.full_like.default, (x, 300), {}, int.__eq__)
    Traceback (most recent call last):
    RuntimeError: value cannot be converted to type int8_t without overflow
    """
    names = _numbers_of(func)
    if not names:
        return
    given = schemas.by_name(func, args, kwargs)
    large = [name for name in names if isinstance(given[name], torch.SymInt) or _is_large(given[name])]
    dtypes = _dtypes(given) if large else []
    for name in large:
        call = _Call(func, given, name, large, is_)
        if isinstance(given[name], torch.SymInt):
            _check_symbolic(call, given[name], dtypes)
        elif any(_exceeds(given[name], dtype) for dtype in dtypes):
            error = call.fault(given[name])
            if error is not None:
                raise error


def _check_symbolic(call: _Call, number: torch.SymInt, dtypes: Sequence[torch.dtype]) -> None:
    for dtype in dtypes:
        lowest, highest = _held(dtype)
        for outside, step, within in ((highest + 1, 1, number <= highest), (lowest - 1, -1, number >= lowest)):
            error = call.fault_beyond(outside, step) if -(2**63) <= outside < 2**63 else None
            if error is not None:
                torch._check(within, functools.partial(str, error))  # noqa: SLF001 - the name that models use


@functools.cache
def _numbers_of(func: Any) -> tuple[str, ...]:
    """Return the names of an operator's arguments that are numbers; none for operators of users, and random ones."""
    schema = schemas.schema_of(func)
    if schema is None or schemas.is_random(func) or func.namespace != "aten":
        return ()
    return tuple(each.name for each in schema.arguments if str(each.type) in _NUMBER)


def _is_large(value: Any) -> bool:
    return isinstance(value, int | float) and not -_SMALL <= value <= _SMALL


def _dtypes(given: Mapping[str, Any]) -> list[torch.dtype]:
    """Return the dtypes of a call that have bounds."""
    every = [each.dtype if isinstance(each, torch.Tensor) else each for each in leaves(list(given.values()))]
    found = dict.fromkeys(each for each in every if isinstance(each, torch.dtype))
    return [each for each in found if each != torch.bool and not each.is_complex]


def _exceeds(value: float, dtype: torch.dtype) -> bool:
    lowest, highest = _held(dtype)
    free = dtype.is_floating_point and not math.isfinite(value)
    return not free and not lowest <= value <= highest


def _held(dtype: torch.dtype) -> tuple[Any, Any]:
    """Return the least and the largest number that torch converts; a negative one becomes unsigned by wrapping."""
    if dtype.is_floating_point:
        limit = int(torch.finfo(dtype).max)
        return -limit, limit
    info = torch.iinfo(dtype)
    return (info.min if info.min < 0 else -info.max), info.max


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of an operator, with one of its large numbers left open."""

    func: Any
    given: Mapping[str, Any]
    name: str
    large: Sequence[str]
    is_: Is

    def fault(self, number: float) -> BaseException | None:
        """Return what the kernel raises because of a number; None if it does not raise, or raises for 1, too."""
        ones = dict.fromkeys(self.large, 1)
        error = self._raised({**ones, self.name: number})
        return None if error is None or self._raised(ones) is not None else error

    def fault_beyond(self, number: int, step: int) -> BaseException | None:
        """Return what the kernel raises of a number and of the next one, also if the other large numbers are as large.

        `arange(n, m)` refuses a start beyond its end, which is no fault of the dtype.
        """
        error = self.fault(number)
        if error is None or self.fault(number + step) is None:
            return None
        return error if self._raised(dict.fromkeys(self.large, number)) is not None else None

    def _raised(self, numbers: Mapping[str, float]) -> BaseException | None:
        """Run the kernel without the trace's modes, which belong to the trace's thread."""
        with ThreadPoolExecutor(1) as other:
            return other.submit(self._run, numbers).exception()

    def _run(self, numbers: Mapping[str, float]) -> None:
        named = {name: map_all(value, self._small) for name, value in self.given.items()}
        self.func(**{**named, **numbers})

    def _small(self, value: Any) -> Any:
        """Return a small tensor for a tensor, and a plain number for a symbolic one.

        Kernels treat a tensor of one element differently: `fill_` converts without a check.
        """
        if isinstance(value, torch.Tensor):
            return torch.zeros([self._few(size) for size in value.shape], dtype=value.dtype)
        return _PLAIN.get(type(value), value)

    def _few(self, size: int | torch.SymInt) -> int:
        return next((few for few in (0, 1) if self.is_(size, few)), 2)
