"""Value numbering, as in compilers: find the tensors with equal elements while a model is traced.

A mask that is computed twice selects the same number of rows each time, which is also the sum of the mask. A number
that is taken twice from one tensor is one number. Torch makes a new symbol each time; value numbering shows that the
symbols are equal.

Law: two tensors with the same number have equal elements in the same places, in every run. So only the result of a
function of the operands' elements is numbered by the operands. An operator gives a fresh number if it draws random
numbers, leaves memory uninitialized, or rounds depending on the order of its work. A write into a tensor changes its
number and the number of every tensor that shares its storage.

Also known bounds of the integers in each storage while a model is traced.

Bounds are noted by storage, not by tensor: a view sees its base's elements, and a write through any alias removes the
bounds for all aliases. ops/value_ranges.py derives the bounds.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.weak import WeakIdKeyDictionary, WeakTensorKeyDictionary

from shapeproof.constraints.terms import Term
from shapeproof.export.ops import schemas
from shapeproof.export.ops.call import ANYTHING, Running, Span, span
from shapeproof.export.ops.table import kind_of, known_of
from shapeproof.export.ops.value_ranges import INTEGRAL, of_dtype
from shapeproof.export.shim.process.transforms import is_transformed
from shapeproof.export.shim.storages import storage_objects, storages


class Numbering:
    """The value numbers of tensors, and the numbers taken from them; `read` returns the term of a size."""

    def __init__(self, read: Callable[[Any], Term]) -> None:
        self._read = read
        self._fresh = itertools.count()
        self._by_call: dict[Hashable, int] = {}
        self._noted: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self._written = WeakIdKeyDictionary()  # of storages, to the number of writes into each
        self._writings = 0
        self._unlike = 0
        self._taken: dict[Hashable, Term] = {}
        self._held: dict[int, Hashable] = {}  # by a tensor's number, the key in `_taken` of its only element
        self._ordered: set[int] = set()

    def of(self, tensor: torch.Tensor) -> int:
        """Return the present number of a tensor."""
        number, written = self._noted.get(tensor, (None, None))
        if number is None or written != self._writes(tensor):
            number = next(self._fresh)
            self._note(tensor, number)
        return int(number)

    def note(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any]) -> None:
        """Number the results of an operator that was run; operands that it mutated get new numbers."""
        for storage in storage_objects(schemas.written(func, args, kwargs)):
            self._written[storage] = self._written.get(storage, 0) + 1
            self._writings += 1
        if known_of(func).alias_or_copy and args and results[0] is args[0]:  # the operand itself has its number
            return
        if known_of(func).unchanged and isinstance(args[0], torch.Tensor):
            self._note(results[0], self.of(args[0]))
            return
        if not _is_function(func) and not (_reduces(func) and _whole(results)):
            self._unlike += 1
            return
        ordered = known_of(func).moves and self._are_ordered(func, args, kwargs)
        made = [(index, result) for index, result in enumerate(results) if isinstance(result, torch.Tensor)]
        if made:
            call = self._call(func, args, kwargs, made[0][1])
            for index, result in made:
                self._note(result, self._by_call.setdefault((index, call), next(self._fresh)))
                self._ordered |= {self.of(result)} if ordered else set()
        if _counts(func, args, results):
            self._held[self.of(results[0])] = "count", self.of(args[0])

    def mark(self) -> tuple[int, int]:
        """Return two counts so far: writes, and operators that returned fresh numbers."""
        return self._writings, self._unlike

    def accounts_for(
        self, mark: tuple[int, int], func: Any, args: Any, kwargs: Mapping[str, Any], result: torch.Tensor
    ) -> bool:
        """True if `note` for this operator says all that was noted since `mark` for its decomposition."""
        writings, unlike = self.mark()
        if writings > mark[0]:
            return False
        number = self._by_call.get((0, self._call(func, args, kwargs, result)))
        return unlike > mark[1] or known_of(func).unchanged or number == self._noted.get(result, (None, None))[0]

    def are_equal(self, one: Any, other: Any) -> bool:
        """True if each element of a tensor equals the one in its place in another tensor: none of them is nan."""
        both = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
        return both and self.of(one) == self.of(other) and self._is_ordered(one)

    def _are_ordered(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """True if no element that an operator is given is nan."""
        given = schemas.by_name(func, args, kwargs).values()
        listed = [part for value in given for part in (value if isinstance(value, tuple | list) else (value,))]
        return all(map(self._is_ordered, listed))

    def _is_ordered(self, value: Any) -> bool:
        if isinstance(value, torch.Tensor):
            return str(value.dtype) in INTEGRAL or self.of(value) in self._ordered
        return not isinstance(value, torch.SymFloat | complex) and not (isinstance(value, float) and math.isnan(value))

    def taken(self, running: Running, fresh: Callable[[], Term]) -> Term:
        """Return the number that an operator takes from data: the same one as before if the operands are the same."""
        running.taken += 1
        what = self._counted(running) or (running.taken, *self._call(running.func, running.args, running.kwargs))
        if what not in self._taken:
            self._taken[what] = fresh()
        if known_of(running.func).is_number:
            self._held[self.of(running.args[0])] = what
        return self._taken[what]

    def number_in(self, tensor: torch.Tensor) -> Term | None:
        """Return the only element of a tensor, if that number has been taken from data."""
        return self._taken.get(self._held.get(self.of(tensor)))

    def _counted(self, running: Running) -> Hashable:
        """Return a key for the tensor whose nonzero elements an operator counts; None if it does not count any."""
        known, operands = known_of(running.func), running.args
        if known.is_number and operands:
            return self._held.get(self.of(operands[0]))
        if known.counts is None:
            return None
        named = schemas.by_name(running.func, operands, running.kwargs)
        alike = [[self._read(size) for size in named[name].shape] for name in ("self", known.counts)]
        return ("count", self.of(named[known.counts])) if alike[0] == alike[1] else None

    def _call(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor | None = None
    ) -> tuple[Hashable, ...]:
        """Return the key of a call; a tensor that it makes of numbers has its dtype and device, asked for or not."""
        named = schemas.by_name(func, args, kwargs)
        factory = made is not None and not any(isinstance(value, torch.Tensor) for value in named.values())
        told = () if made is None or not factory else (made.dtype, made.device)
        kept = {name: value for name, value in named.items() if not (factory and name in _OPTIONS)}
        return (func, *told, *((name, self._key(value)) for name, value in kept.items()))

    def _key(self, value: Any) -> Hashable:
        """Return the key of an argument; a tensor's key has its strides: another loop order may round differently."""
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
        """Return the storages of a tensor, and the number of writes into each."""
        return [(StorageWeakRef(each), self._written.get(each, 0)) for each in storage_objects(tensor)]


_OPTIONS = frozenset({"dtype", "device", "pin_memory"})
"""Options that say nothing of the elements that the result's dtype and device do not."""


@functools.cache
def _is_function(func: Any) -> bool:
    """True if an operator's result is a function of its operands' elements, however often it is run.

    `as_strided` is none: it also reads elements outside its operand.
    """
    known = known_of(func)
    if schemas.is_mutable(func) or schemas.is_random(func) or known.reads_beyond:
        return False
    return known.moves or torch.Tag.pointwise in func.tags or schemas.is_view_operator(func, pure=False)


@functools.cache
def _reduces(func: Any) -> bool:
    """True for a reduction that would be such a function if there were no rounding."""
    drawn = schemas.is_mutable(func) or schemas.is_random(func)
    return torch.Tag.reduction in func.tags and not drawn


def _whole(results: Sequence[Any]) -> bool:
    return all(str(each.dtype) in INTEGRAL for each in results if isinstance(each, torch.Tensor))


def _counts(func: Any, args: Sequence[Any], results: Sequence[Any]) -> bool:
    """True if an operator counts all nonzero elements of its operand, in an int64."""
    of_bools = kind_of(func) == "sum" and isinstance(args[0], torch.Tensor) and args[0].dtype == torch.bool
    return (of_bools or kind_of(func) == "count") and results[0].dim() == 0 and results[0].dtype == torch.int64


class Contents:
    """Bounds of integers, by storage; they go with the storage."""

    def __init__(self) -> None:
        self._noted = WeakIdKeyDictionary()  # to a dtype and bounds

    def note(self, operands: Any, results: Sequence[Any], found: Sequence[Span]) -> None:
        """Note the bounds of the elements of an operator's results that share no storage with its operands."""
        aliased = set(storages(operands))
        for result, bounds in zip(results, found, strict=False):
            fresh = isinstance(result, torch.Tensor) and aliased.isdisjoint(storages(result))
            if fresh and bounds.known and str(result.dtype) in INTEGRAL:
                for storage in storage_objects(result):
                    self._noted[storage] = (str(result.dtype), bounds)

    def of(self, tensor: torch.Tensor) -> Span:
        """Return the bounds of a tensor's elements. A storage that is read as another dtype has no noted bounds."""
        dtype = str(tensor.dtype)
        if dtype not in INTEGRAL:
            return ANYTHING
        found = self.noted(tensor)
        return found if found.known else _of_constant(tensor) or of_dtype(dtype)

    def __bool__(self) -> bool:
        """True if anything was noted."""
        return bool(self._noted)

    def noted(self, tensor: torch.Tensor) -> Span:
        """Return the noted bounds of a tensor."""
        dtype = str(tensor.dtype)
        found = (self._noted.get(storage, ("", ANYTHING)) for storage in storage_objects(tensor))
        return next((span for noted, span in found if noted == dtype), ANYTHING)

    def forget(self, values: list[Any]) -> None:
        """Forget the bounds of tensors that were mutated."""
        for storage in storage_objects(values):
            self._noted.pop(storage, None)


def _of_constant(tensor: torch.Tensor) -> Span | None:
    """Return the bounds of a constant that the model writes down: `torch.tensor([1, 2])`."""
    known = tensor if type(tensor) is torch.Tensor else getattr(tensor, "constant", None)
    if known is None or known.is_meta or is_transformed(known) or known.numel() == 0:
        return None
    return span(int(known.min()), int(known.max()))
