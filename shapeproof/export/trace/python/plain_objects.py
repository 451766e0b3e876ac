"""Read what an object holds without running its code.

Laws:
- No property, descriptor, method or `__getattr__` of the object, of its class or of its metaclass runs.
- The class of an object is `type(value)`: the `__class__` that an object shows may be a property.
- A container is read with the methods of Python's own class, whatever a subclass makes of them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from types import CellType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from shapeproof.export.limits import HELD
from shapeproof.export.source.bytecode import is_a

FOREIGN = frozenset({"torch", "shapeproof", *sys.stdlib_module_names})
"""Torch, this package and Python's own modules: neither the user's code nor a library that calls it."""
HEAP = 1 << 9
"""The flag of a class that Python code creates, and so may change."""
REMEMBERING = type(functools.cache(len))
"""The type of a function behind functools.cache or lru_cache."""
_INNER: Mapping[type, tuple[str, ...]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    MethodType: ("__func__",),
    functools.partial: ("func", "args", "keywords"),
    property: ("fget", "fset", "fdel"),
    CellType: ("cell_contents",),
}
"""What Python's own wrappers hold, by the names of their members."""
WRAPPERS = (*_INNER, REMEMBERING)
CONTAINERS = (dict, list, tuple, set, frozenset)
_members_of, _mro_of, _module_of = (vars(type)[name].__get__ for name in ("__dict__", "__mro__", "__module__"))


def classes(kind: type) -> tuple[type, ...]:
    """Return a class and its bases, in the order in which Python looks names up."""
    found: tuple[type, ...] = _mro_of(kind)
    return found


def members(kind: type) -> Mapping[str, Any]:
    """Return the names that a class defines itself."""
    found: Mapping[str, Any] = _members_of(kind)
    return found


def home(kind: type) -> str:
    """Return the name of the module that defines a class; "" if the class says otherwise."""
    found = _module_of(kind)
    return found if type(found) is str else ""


def own_names(value: Any) -> Mapping[str, Any] | None:
    """Return the dict of an object or of a class; None if it has none that Python itself keeps."""
    if is_a(value, type):
        return members(value)
    holder = next((each for each in classes(type(value)) if "__dict__" in members(each)), None)
    shown: Any = None if holder is None else members(holder)["__dict__"]
    if type(shown) not in {GetSetDescriptorType, MemberDescriptorType}:
        return None
    if (shown.__objclass__, shown.__name__) != (holder, "__dict__"):
        return None
    names = shown.__get__(value)
    return names if type(names) is dict else None


def elements(value: Any) -> list[Any]:
    """Return the values of a dict, or the elements of another container of Python's; none if there are too many."""
    kind = next((each for each in CONTAINERS if is_a(value, each)), None)
    if kind is None or kind.__len__(value) > HELD:
        return []
    return list(dict.values(value) if kind is dict else kind.__iter__(value))


def inner(value: Any) -> tuple[Any, ...]:
    """Return what one of Python's own wrappers holds: a partial's function and arguments, a method's function."""
    kind = next((each for each in WRAPPERS if is_a(value, each)), None)
    if kind is REMEMBERING:
        return ((own_names(value) or {}).get("__wrapped__"),)
    return tuple(_member(value, kind, name) for name in _INNER.get(kind, ())) if kind else ()


def _member(value: Any, kind: type, name: str) -> Any:
    try:
        return members(kind)[name].__get__(value)
    except ValueError:  # the cell is empty
        return None


def file_of(module: Any) -> str | None:
    """Return the file of a module, as the module names it."""
    file = (own_names(module) or {}).get("__file__") if is_a(module, ModuleType) else None
    return file if type(file) is str else None
