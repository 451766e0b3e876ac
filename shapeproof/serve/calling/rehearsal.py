"""Finds the state that a model changes itself when it runs, and whether the model reads what it changed.

The model is run on a copy. If it changes state, such as a counter, it is run again with that state replaced by an
object that can be computed with and be written to, and fails at everything else. If the run succeeds, no result depends
on the state, and programs need not follow it. Globals, closures and classes, which a copy shares, are restored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from types import FunctionType, ModuleType
from typing import Any

import torch

from shapeproof.export.explore.beside_eager.forms import copied
from shapeproof.export.explore.beside_eager.runner import outcome
from shapeproof.export.shim.storages import writes
from shapeproof.export.shim.trees import leaves, map_tensors
from shapeproof.export.trace.python.remembering import Remembered
from shapeproof.serve.calling.reach import ABSENT, CHANGING, PLAIN, Entry, Reach

_NEVER = (None, True, False, ABSENT)
"""Code tells these from others without an operation of theirs: `is None`, `hasattr`."""


class _Unread:
    """Stands for state that a run may compute and write, and must not read.

    It says that it is a number, a text or a container, if the state is; torch would take it for a tensor.
    """

    def __init__(self, kind: type) -> None:
        self._kind = kind if kind in PLAIN or kind in CHANGING else _Unread

    def _same(self, *_: Any) -> _Unread:
        return self

    def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    @property  # type: ignore[misc]  # `isinstance` reads it of the object
    def __class__(self) -> Any:
        return self._kind

    def __bool__(self) -> bool:
        raise TypeError("the model asks for the truth of its state")

    __eq__ = __ne__ = __str__ = __repr__ = __format__ = __bool__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]
    __add__ = __radd__ = __iadd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _same
    __getitem__ = _same
    append = extend = add = update = __setitem__ = _nothing


def own_changes(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], reach: Reach, known: frozenset[str]
) -> tuple[frozenset[str], str]:
    """Return the paths of the state that a call changes and does not read, and the path of such that it may read.

    Args:
        model: the model.
        args: the inputs.
        kwargs: those by name.
        reach: what the model's code can read now.
        known: paths that a call was found to change before.
    """
    try:
        copy = copied(model)
    except Exception:  # noqa: BLE001 - what cannot be copied cannot be exported, which says so
        return known, ""
    before = Reach(copy)
    with _restored(reach, before.tensors):
        if _run(copy, args, kwargs)[1] is not None:
            return known, ""
        after = Reach(copy)
        changed = _changed(before, after)
        paths = _with_aliases(after, _with_aliases(reach, changed | known))  # a closure is not copied
        places = [after.entries[path] for path in sorted(paths & after.entries.keys())]
        told = any(_is_told(each.entries.get(path)) for path in changed for each in (before, after))
        if told or (places and not _succeeds(copy, args, kwargs, places)):
            return known, min(changed or known)
        return known | paths, ""


def _run(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Exception | None]:
    """Run a model on copies of the inputs."""
    own, named = map_tensors((args, kwargs), lambda each: each.detach().clone().requires_grad_(each.requires_grad))
    return outcome(model, own, named)


def _succeeds(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], places: list[Entry]) -> bool:
    """True if a run succeeds, and returns nothing of it, while these places hold what cannot be read."""
    try:
        for entry in places:
            if entry.put is None:
                return False
            entry.put(_Unread(type(entry.value)))
        result, error = _run(model, args, kwargs)
        return error is None and not any(type(each) is _Unread for each in leaves(result))
    except Exception:  # noqa: BLE001 - it cannot be put there
        return False
    finally:
        for entry in places:
            _put_back(entry)


def _changed(before: Reach, after: Reach) -> set[str]:
    """Return the paths of what differs: of each the outermost, and of an item of a tuple the place of the tuple."""
    both = before.looks.keys() | after.looks.keys()
    paths = {path for path in both if before.looks.get(path, ABSENT) != after.looks.get(path, ABSENT)}
    found = {**before.entries, **after.entries}
    outer = {path for path in paths if path not in found or found[path].holder not in paths}
    return {_placed(found, path) for path in outer}


def _placed(entries: dict[str, Entry], path: str) -> str:
    """Return the path of the innermost value around one in whose place another can be put."""
    while path in entries and entries[path].put is None and entries[path].holder:
        path = entries[path].holder
    return path


def _with_aliases(reach: Reach, paths: AbstractSet[str]) -> set[str]:
    """Return these paths, and all others of what they hold, except for plain values."""
    values = [reach.entries[path].value for path in paths & reach.entries.keys()]
    held = {id(each) for each in values if type(each) not in PLAIN}
    return {*paths, *(path for path, entry in reach.entries.items() if id(entry.value) in held)}


def _put_back(entry: Entry) -> None:
    if entry.put is not None:
        with contextlib.suppress(Exception):  # it cannot be changed
            entry.put(entry.value)


def _is_told(entry: Entry | None) -> bool:
    return any((ABSENT if entry is None else entry.value) is each for each in _NEVER)


@contextlib.contextmanager
def _restored(reach: Reach, of_copy: Iterable[torch.Tensor]) -> Iterator[None]:
    """Restore afterwards what a model shares with its copy, which can read these tensors."""
    shared = set(map(id, of_copy))
    tensors = [(each, writes(each), each.detach().clone()) for each in reach.tensors if id(each) in shared]
    remembered = Remembered()
    for entry in reach.entries.values():
        remembered.container(entry.value)
        if not isinstance(entry.value, ModuleType | FunctionType | torch.Tensor):
            remembered.attributes(entry.value)
    try:
        yield
    finally:
        remembered.bring_back()
        for entry in reach.entries.values():
            _put_back(entry)
        for scope, name in reach.absent:
            scope.pop(name, None)
        with torch.no_grad():
            for tensor, written, data in tensors:
                if writes(tensor) != written:
                    tensor.copy_(data)
