"""Lends the memory of storages to copies of them; a copy that is written into moves to memory of its own.

Torch can copy a storage when it is written. But that storage is then one of the copies: while another is left, the next
write into it, and even `data_ptr()`, moves it, and an array of NumPy stays behind in memory that is freed. So another
storage, the *owner*, takes the memory over, and the copies are the owner's. The first storage still points there, and
gets its memory back at the end.

Law: during and after the loan, the storage is where it was, and no copy shares its memory after the loan. All that a
storage cannot do meanwhile is to be resized: torch refuses.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from shapeproof.export.shim.storages import (
    bytes_of,
    copied_when_written,
    identity,
    is_copied_when_written,
    is_own,
    same_memory,
    storage_objects,
    strided_tensors,
)


@dataclass(frozen=True, slots=True)
class Lending:
    """The loans of one block.

    Attributes:
        emptied: modules that hold copies and are not used after the block. A graph and its module hold each other, and
            would be left until a collection.
    """

    emptied: weakref.WeakSet[torch.nn.Module] = field(default_factory=weakref.WeakSet)
    _owners: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = field(default_factory=dict)
    """By the identity of a storage: the storage, and the owner of its memory."""
    _copies: list[StorageWeakRef] = field(default_factory=list)

    def memo(self, tensors: Iterable[Any]) -> dict[Any, Any]:
        """Return the memo with which `copy.deepcopy` copies tensors of torch's own classes, and whatever shares theirs.

        >>> import copy
        >>> with lending() as lent:
        ...     own = torch.ones(3)
        ...     other = copy.deepcopy(own, lent.memo([own]))
        ...     same_memory(own, other), same_memory(own, other.add_(1)), own
        (True, False, tensor([1., 1., 1.]))
        """
        plain = filter(is_own, strided_tensors([*tensors]))
        storages = {identity(each): each for each in storage_objects([*plain]) if each.device.type == "cpu"}
        return {"torch": {key: self._copy(storage) for key, storage in storages.items()}}

    def _copy(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        is_copy = is_copied_when_written(bytes_of(storage))
        made = copied_when_written(bytes_of(storage if is_copy else self._owner(storage))).untyped_storage()
        self._copies.append(StorageWeakRef(made))
        return made

    def _owner(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        """Return an owner of a storage's memory, or of a copy of it that is equal bit by bit."""
        known = self._owners.get(identity(storage))
        if known is None or not _is_equal(*known):
            known = self._owners[identity(storage)] = storage, _taken_over(storage)
        return known[1]

    def end(self) -> None:
        """Move the copies that are left to memory of their own, and give all memory back."""
        for part in [part for module in self.emptied for part in module.modules()]:
            vars(part).clear()
            torch.nn.Module.__init__(part)
        try:
            if sum(each.nbytes() for each in self._left()) > _WORTH_A_COLLECTION:
                gc.collect()  # a model may hold itself
            for each in self._left():
                each.data_ptr()
        finally:
            for storage, owner in self._owners.values():
                if same_memory(bytes_of(storage), bytes_of(owner)):
                    _swap(storage, owner)

    def _left(self) -> Iterator[torch.UntypedStorage]:
        """Yield the copies that somebody still holds."""
        found = (torch.UntypedStorage._new_with_weak_ptr(each.cdata) for each in self._copies)
        return (each for each in found if each is not None)


_WORTH_A_COLLECTION = 2**24
"""The bytes of copies for which unreachable objects are sought before they are moved; fewer are moved in less time."""


@contextlib.contextmanager
def lending() -> Iterator[Lending]:
    """Yield a loan for the length of the block."""
    lent = Lending()
    try:
        yield lent
    finally:
        lent.end()


def _taken_over(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """Return the new owner of a storage's memory; of a copy, if torch cannot copy it when written, as a mapped file.

    A storage that cannot be resized, as torch.export.load makes, may have no allocator, which a write would ask.
    """
    if not storage.resizable():
        return storage.clone()
    address: int = torch._C._data_address(bytes_of(storage))  # type: ignore[attr-defined]
    rest: Any = torch._C._construct_storage_from_data_pointer(address, storage.device, storage.nbytes())
    owner = torch.UntypedStorage(0)
    _swap(storage, rest)
    _swap(owner, rest)
    try:
        copied_when_written(bytes_of(owner))
    except RuntimeError:
        _swap(storage, owner)
        return storage.clone()
    return owner


def _swap(one: torch.UntypedStorage, other: torch.UntypedStorage) -> None:
    one._swap_data_ptr_(other)  # type: ignore[attr-defined]


def _is_equal(one: torch.UntypedStorage, other: torch.UntypedStorage) -> bool:
    return same_memory(bytes_of(one), bytes_of(other)) or torch.equal(bytes_of(one), bytes_of(other))
