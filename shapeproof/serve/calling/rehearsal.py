"""Finds the state that a model changes itself when it runs, and whether the model reads what it changed.

The model is run on a copy. If it changed state, such as a counter, it is run again with that state replaced by an object
that can be computed with and be written to, and fails at everything else. If the run succeeds, no result depends on
the state, and programs need not follow it. Globals, closures and classes, which a copy shares, are restored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch

from shapeproof.export.explore.beside_eager.copies import copied
from shapeproof.export.explore.beside_eager.replay import outcome
from shapeproof.export.shim.storages import writes
from shapeproof.export.shim.trees import leaves, map_tensors
from shapeproof.export.trace.python.remembering import Remembered
from shapeproof.serve.calling.reach import ABSENT, PLAIN, Entry, Reach

_NEVER = (None, True, False, ABSENT)
"""Code tells these from others without an operation of theirs: `is None`, `hasattr`."""


class _Unread:
    """Stands for state that a run may compute and write, and must not read; it says that it is of the state's class."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def _same(self, *_: Any) -> _Unread:
        return self

    def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    @property
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
    with _restored(reach, copy):
        before = Reach(copy)
        if _run(copy, args, kwargs)[1] is not None:
            return known, ""
        after = Reach(copy)
        changed = _changed(before, after)
        places = [*_places(after, changed | known)]
        values = {each: (before.entries.get(each), after.entries.get(each)) for each in changed}
        told = [path for path, pair in values.items() if any(_is_told(each) for each in pair)]
        fixed = [path for path, entry in places if entry.put is None]
        if told or fixed:
            return known, (told + fixed)[0]
        if places and not _succeeds(copy, args, kwargs, places):
            return known, places[0][0]
        return known | {path for path, _ in places}, ""


def _run(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Exception | None]:
    """Run a model on copies of the inputs."""
    own, named = map_tensors((args, kwargs), lambda each: each.detach().clone().requires_grad_(each.requires_grad))
    return outcome(model, own, named)


def _succeeds(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], places: list[tuple[str, Entry]]
) -> bool:
    """True if a run succeeds, and returns nothing of it, while these places hold what cannot be read."""
    try:
        for _, entry in places:
            entry.put(_Unread(type(entry.value)))  # type: ignore[misc]  # each has one
        result, error = _run(model, args, kwargs)
        return error is None and not any(type(each) is _Unread for each in leaves(result))
    except Exception:  # noqa: BLE001 - it cannot be put there
        return False
    finally:
        with contextlib.suppress(Exception):
            for _, entry in places:
                entry.put(entry.value)  # type: ignore[misc]


def _changed(before: Reach, after: Reach) -> set[str]:
    """Return the paths of what differs, each the outermost."""
    both = before.looks.keys() | after.looks.keys()
    paths = {path for path in both if before.looks.get(path, ABSENT) != after.looks.get(path, ABSENT)}
    found = {**before.entries, **after.entries}
    return {path for path in paths if path not in found or found[path].holder not in paths}


def _places(reach: Reach, paths: set[str] | frozenset[str]) -> Iterator[tuple[str, Entry]]:
    """Yield every place that holds the value at one of the paths; a plain value has one place."""
    held = {id(reach.entries[path].value) for path in paths & reach.entries.keys() if not _is_plain(reach, path)}
    for path, entry in reach.entries.items():
        if path in paths or id(entry.value) in held:
            yield path, entry


def _is_plain(reach: Reach, path: str) -> bool:
    return type(reach.entries[path].value) in PLAIN


def _is_told(entry: Entry | None) -> bool:
    return any((ABSENT if entry is None else entry.value) is each for each in _NEVER)


@contextlib.contextmanager
def _restored(reach: Reach, copy: torch.nn.Module) -> Iterator[None]:
    """Restore afterwards what a model shares with its copy."""
    shared = {id(each) for each in Reach(copy).tensors}
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
            if entry.put is not None:
                with contextlib.suppress(TypeError, AttributeError):  # it cannot be changed
                    entry.put(entry.value)
        for scope, name in reach.absent:
            scope.pop(name, None)
        with torch.no_grad():
            for tensor, written, data in tensors:
                if writes(tensor) != written:
                    tensor.copy_(data)
