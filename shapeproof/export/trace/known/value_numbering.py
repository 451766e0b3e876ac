"""Which tensors hold the same while a model is traced: value numbering, as compilers do it.

A mask that is computed twice selects as many rows each time, which is also the sum of it, and a number that is taken
twice from one tensor is one number. Torch makes a symbol for each; here it is found out that they are equal.

Law: two tensors with one number have the same elements in the same places, in every run. So only what is a function of
its operands' elements is numbered by them: an operator that draws, that leaves memory as it was, or whose rounding
depends on the order of its work gives a number that no other tensor has. What is written into has another number from
then on, and so has all that shares its storage.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.weak import WeakTensorKeyDictionary

from shapeproof.constraints.terms import Term
from shapeproof.export.ops import schemas
from shapeproof.export.ops.call import Running
from shapeproof.export.ops.value_ranges import INTEGRAL
from shapeproof.export.shim.storages import storages

_MOVING = frozenset(
    f"aten.{name}" for name in ("index.Tensor", "index_select.default", "gather.default", "cat.default")
) | {"aten._to_copy.default", "aten.nonzero.default"}
"""Operators that give elements of their operands, or where they are, and compute nothing."""
_SAME = frozenset(f"aten.{name}.default" for name in ("clone", "detach", "alias"))
"""Operators that give the very elements of their operand."""


class Numbering:
    """The numbers of tensors, and of what is taken from them.

    Args:
        read: the term of a size.
    """

    def __init__(self, read: Callable[[Any], Term]) -> None:
        self._read = read
        self._fresh = itertools.count()
        self._by_call: dict[Hashable, int] = {}
        self._noted: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self._written: dict[StorageWeakRef, int] = {}
        self._writings = 0
        self._unlike = 0
        self._taken: dict[Hashable, Term] = {}
        self._counts: dict[int, Hashable] = {}

    def of(self, tensor: torch.Tensor) -> int:
        """The number of a tensor as it is now."""
        number, written = self._noted.get(tensor, (None, None))
        if number is None or written != self._writes(tensor):
            number = next(self._fresh)
            self._note(tensor, number)
        return int(number)

    def note(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any]) -> None:
        """Number the results of an operator that has been run; what it has written into is something else now."""
        for storage in storages(schemas.written(func, args, kwargs)):
            self._written[storage] = self._written.get(storage, 0) + 1
            self._writings += 1
        if str(func) in _SAME and isinstance(args[0], torch.Tensor):
            self._note(results[0], self.of(args[0]))
            return
        if not _is_function(func) and not (_reduces(func) and _whole(results)):
            self._unlike += 1
            return
        call = self._call(func, args, kwargs)
        for index, result in enumerate(results):
            if isinstance(result, torch.Tensor):
                self._note(result, self._by_call.setdefault((index, call), next(self._fresh)))
        if _counts(func, args, results):
            self._counts[self.of(results[0])] = "count", self.of(args[0])

    def mark(self) -> tuple[int, int]:
        """How often something was written, and how often an operator gave what no other tensor holds."""
        return self._writings, self._unlike

    def accounts_for(
        self, mark: tuple[int, int], func: Any, args: Any, kwargs: Mapping[str, Any], result: torch.Tensor
    ) -> bool:
        """Whether `note` of this one operator says all that was said since `mark` of those that it is composed of."""
        writings, unlike = self.mark()
        if writings > mark[0]:
            return False
        number = self._by_call.get((0, self._call(func, args, kwargs)))
        return unlike > mark[1] or str(func) in _SAME or number == self._noted.get(result, (None, None))[0]

    def taken(self, running: Running, fresh: Callable[[], Term]) -> Term:
        """A number that an operator takes from data: the one that it took from the same operands before, if it did."""
        running.taken += 1
        what = self._counted(running) or (running.taken, *self._call(running.func, running.args, running.kwargs))
        if what not in self._taken:
            self._taken[what] = fresh()
        return self._taken[what]

    def _counted(self, running: Running) -> Hashable:
        """The elements that are not zero, where they are what an operator counts: by which tensor they are told."""
        match running.name, running.args:
            case "aten.nonzero.default", (torch.Tensor() as mask, *_):
                return "count", self.of(mask)
            case "aten.masked_select.default", (torch.Tensor() as source, torch.Tensor() as mask):
                alike = [self._read(size) for size in source.shape] == [self._read(size) for size in mask.shape]
                return ("count", self.of(mask)) if alike else None
            case "aten._local_scalar_dense.default" | "aten.item.default", (torch.Tensor() as number, *_):
                return self._counts.get(self.of(number))
        return None

    def _call(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Hashable, ...]:
        return (func, *((name, self._key(value)) for name, value in schemas.by_name(func, args, kwargs).items()))

    def _key(self, value: Any) -> Hashable:
        """What an argument is; of a tensor its layout, too: other loops run over another, and may round otherwise."""
        if isinstance(value, torch.Tensor):
            strides = tuple(map(self._read, value.stride())) if value.layout == torch.strided else ()
            return torch.Tensor, self.of(value), strides
        if isinstance(value, torch.SymInt):
            return self._read(value)
        if isinstance(value, tuple | list):
            return tuple(map(self._key, value))
        return type(value), str(value)

    def _note(self, tensor: torch.Tensor, number: int) -> None:
        if storages(tensor):
            self._noted[tensor] = (number, self._writes(tensor))

    def _writes(self, tensor: torch.Tensor) -> list[tuple[StorageWeakRef, int]]:
        """Where a tensor lies, and how often something was written there."""
        return [(storage, self._written.get(storage, 0)) for storage in storages(tensor)]


@functools.cache
def _is_function(func: Any) -> bool:
    """Whether what an operator gives is a function of its operands' elements, however often it is run.

    `as_strided` reads what lies beside them, too.
    """
    if schemas.is_mutable(func) or torch.Tag.nondeterministic_seeded in func.tags or "as_strided" in str(func):
        return False
    return str(func) in _MOVING or torch.Tag.pointwise in func.tags or schemas.is_view_operator(func, pure=False)


@functools.cache
def _reduces(func: Any) -> bool:
    """Whether it would be, if there were no rounding."""
    drawn = schemas.is_mutable(func) or torch.Tag.nondeterministic_seeded in func.tags
    return torch.Tag.reduction in func.tags and not drawn


def _whole(results: Sequence[Any]) -> bool:
    return all(str(each.dtype) in INTEGRAL for each in results if isinstance(each, torch.Tensor))


def _counts(func: Any, args: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether an operator counts the elements of its operand that are not zero, all of them, in an int64."""
    name = str(func).split(".")[1]
    of_bools = name == "sum" and isinstance(args[0], torch.Tensor) and args[0].dtype == torch.bool
    return (of_bools or name == "count_nonzero") and results[0].dim() == 0 and results[0].dtype == torch.int64
