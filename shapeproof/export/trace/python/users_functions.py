"""Find the functions of the user's files: a hook, a table or a default may call a function that no name reaches.

The walk covers the contents of the user's modules and of a model: classes, containers, closures, defaults, objects of
the user's classes. It skips objects of torch, of Python and of installed libraries, and runs no code of any of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch

from shapeproof.export.source.bytecode import is_a
from shapeproof.export.source.frames import is_users_file
from shapeproof.export.trace.python.plain_objects import (
    CONTAINERS,
    WRAPPERS,
    elements,
    file_of,
    home,
    inner,
    own_names,
)


def users_functions(model: torch.nn.Module) -> tuple[FunctionType, ...]:
    """Return all functions of the user's files that the user's modules or the model hold, directly or indirectly."""
    modules = [module for name, module in list(sys.modules.items()) if name == "__main__" or _is_users(name)]
    found: list[FunctionType] = []
    pending: list[Any] = [*map(own_names, modules), *model.modules()]
    met = {id(each) for each in pending}
    while pending:
        value = pending.pop()
        if type(value) is FunctionType:
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
    file = file_of(module)
    if file is not None and is_users_file(file):
        return True
    _LIBRARIES[name] = module
    return False


def _is_walked(value: Any) -> bool:
    if type(value) is FunctionType:
        return is_users_file(value.__code__.co_filename)
    if is_a(value, torch.Tensor):
        return False
    return is_a(value, (*CONTAINERS, *WRAPPERS)) or _is_of_users_class(value)


def _is_of_users_class(value: Any) -> bool:
    name = home(value if is_a(value, type) else type(value))
    return name == "__main__" or _is_users(name)


def _held(value: Any) -> Iterator[Any]:
    """Yield the known contents of a value."""
    if type(value) is FunctionType:
        yield from (value.__closure__ or (), value.__defaults__ or (), value.__kwdefaults__ or {})
    yield from (*elements(value), *inner(value), *(own_names(value) or {}).values())
