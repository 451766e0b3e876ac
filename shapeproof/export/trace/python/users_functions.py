"""Find the functions of the user's files: a hook, a table or a default may call a function that no name reaches.

The walk covers the contents of the user's modules and of a model: classes, containers, closures, defaults, objects of
the user's classes. It skips objects of torch, of Python and of installed libraries.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Iterable, Iterator
from types import CellType, FunctionType, MethodType
from typing import Any

import torch

from shapeproof.export.limits import HELD
from shapeproof.export.source.frames import is_users_file

_WRAPPED = (staticmethod, classmethod, MethodType, functools.partial, property, type(functools.cache(len)))


def users_functions(model: torch.nn.Module) -> tuple[FunctionType, ...]:
    """Return all functions of the user's files that the user's modules or the model hold, directly or indirectly."""
    found: list[FunctionType] = []
    pending: list[Any] = [*map(vars, _users_modules()), *model.modules()]
    met = {id(each) for each in pending}
    while pending:
        value = pending.pop()
        if isinstance(value, FunctionType):
            found.append(value)
        for held in _held(value):
            if id(held) not in met and _is_walked(held):
                met.add(id(held))
                pending.append(held)
    return tuple(found)


_last: tuple[list[Any], list[Any]] = [], []
"""All modules, and the user's among them, at the last search: there are thousands, and few come in between exports."""


def _users_modules() -> list[Any]:
    """Return the modules of the user's files; one that is loaded again is the same object."""
    every = list(sys.modules.values())
    if len(every) != len(_last[0]) or not all(map(operator.is_, every, _last[0])):
        main = sys.modules.get("__main__")
        _last[0][:], _last[1][:] = every, [each for each in every if each is main or _is_users(each)]
    return _last[1]


def _is_users(module: Any) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and is_users_file(file)


def _is_walked(value: Any) -> bool:
    if isinstance(value, FunctionType):
        return is_users_file(value.__code__.co_filename)
    if isinstance(value, dict | list | tuple | set | frozenset):
        return len(value) <= HELD
    if isinstance(value, torch.Tensor):
        return False
    return isinstance(value, (CellType, *_WRAPPED)) or _is_of_users_class(value)


def _is_of_users_class(value: Any) -> bool:
    kind = value if isinstance(value, type) else type(value)
    return _is_users(sys.modules.get(kind.__module__)) or kind.__module__ == "__main__"


def _held(value: Any) -> Iterator[Any]:
    """Yield the known contents of a value."""
    match value:
        case FunctionType():
            yield from (value.__closure__ or (), value.__defaults__ or (), value.__kwdefaults__ or {}, vars(value))
        case CellType():
            yield from _contents(value)
        case dict():
            yield from list(value.values())
        case list() | tuple() | set() | frozenset():
            yield from list(value)
        case property():
            yield from (value.fget, value.fset, value.fdel)
        case functools.partial():
            yield from (value.func, value.args, value.keywords)
        case _ if isinstance(value, _WRAPPED):
            yield getattr(value, "__func__", getattr(value, "__wrapped__", None))
        case _:
            yield from _attributes(value)


def _contents(cell: CellType) -> Iterable[Any]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # it is empty
        return ()


def _attributes(value: Any) -> Iterable[Any]:
    """The values in an object's or a class's dict, read without its `__getattr__`; none if it has slots."""
    try:
        return list(object.__getattribute__(value, "__dict__").values())
    except Exception:  # noqa: BLE001 - a `__dict__` that the user defines may raise anything
        return ()
