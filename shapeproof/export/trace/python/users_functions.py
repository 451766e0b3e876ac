"""Find the functions of the user's files: a hook, a table or a default may call a function that no name reaches.

The walk covers the contents of the user's modules and of a model: classes, containers, closures, defaults, objects of
the user's classes. It skips objects of torch, of Python and of installed libraries.
"""

from __future__ import annotations

import functools
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
    modules = [module for name, module in list(sys.modules.items()) if name == "__main__" or _is_users(name)]
    found: list[FunctionType] = []
    pending: list[Any] = [*map(vars, modules), *model.modules()]
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


_LIBRARIES: dict[str, Any] = {}
"""The modules that are not the user's, by name: there are thousands, and each is looked at once in a process."""


def _is_users(name: str) -> bool:
    """True if the module of this name is the user's."""
    module = sys.modules.get(name)
    if _LIBRARIES.get(name) is module:  # also where there is none
        return False
    file = getattr(module, "__file__", None)
    if isinstance(file, str) and is_users_file(file):
        return True
    _LIBRARIES[name] = module
    return False


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
    return kind.__module__ == "__main__" or _is_users(kind.__module__)


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
