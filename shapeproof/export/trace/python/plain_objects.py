"""Read what an object holds without running its code.

Laws:
- No property, descriptor, method or `__getattr__` of the object, of its class or of its metaclass runs.
- The class of an object is `type(value)`: the `__class__` that an object shows may be a property.
- A container is read with the methods of Python's own class, whatever a subclass makes of them.

Also read what an instruction reads or compares, where that runs no code of the model's; EndError where it may run some.

Nothing is computed of tensors here, and no property is read. rejoining.py follows the instructions.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, CellType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from shapeproof.constraints.operators import COMPARISONS
from shapeproof.export.limits import HELD
from shapeproof.export.source.abstract import EndError, is_a, require

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
_WRAPPERS_BY_ID, _CONTAINERS_BY_ID = ({id(each): each for each in kinds} for kinds in (WRAPPERS, CONTAINERS))
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


def _base(value: Any, kinds: Mapping[int, Any]) -> Any:
    """Return which of some classes, by their ids, the class of a value is or is derived from; a metaclass may hash."""
    for each in classes(type(value)):
        if id(each) in kinds:
            return each
    return None


def elements(value: Any) -> list[Any]:
    """Return the values of a dict, or the elements of another container of Python's; none if there are too many."""
    kind = _base(value, _CONTAINERS_BY_ID)
    if kind is None or kind.__len__(value) > HELD:
        return []
    return list(dict.values(value) if kind is dict else kind.__iter__(value))


def inner(value: Any) -> tuple[Any, ...]:
    """Return what one of Python's own wrappers holds: a partial's function and arguments, a method's function."""
    kind = _base(value, _WRAPPERS_BY_ID)
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


_NUMBERS = {bool, int, float}
PLAIN = {*_NUMBERS, str, type(None)}
"""The classes of plain values: Python compares and tests them without running code."""
_SEQUENCES = {list, tuple}
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {**COMPARISONS, ">": operator.gt, ">=": operator.ge}
"""What each sign computes of plain values."""
_IMPORT = builtins.__import__ if isinstance(builtins.__import__, BuiltinFunctionType) else None
"""Python's own; None if a hook has taken its place."""


def named(name: str, first: Mapping[str, Any], then: Callable[[], Mapping[str, Any]]) -> Any:
    """Return what a name stands for; only plain dicts are read, since another mapping may run code."""
    require(type(first) is dict)
    names = first if name in first else then()
    require(type(names) is dict and name in names)
    return names[name]


def is_object(one: Any, other: Any) -> bool:
    """True if two values are one object; one of them must be None."""
    require(one is None or other is None)
    return one is other


def compared(sign: str, left: Any, right: Any) -> bool:
    """Return the bool that a comparison of plain values gives."""
    kinds = {type(left), type(right)}
    known = kinds <= PLAIN if sign in {"==", "!="} else kinds <= _NUMBERS or kinds == {str}
    require(sign in SIGNS and known)
    return bool(SIGNS[sign](left, right))


def item(values: Any, index: Any) -> Any:
    """Return an item of a list or tuple of Python's own, whose subscript runs no code."""
    require(type(values) in _SEQUENCES and type(index) is int and -len(values) <= index < len(values))
    return values[index]


def attribute(value: Any, name: str) -> Any:
    """Return an attribute that Python finds in an object, its class or a module without running code.

    Of a module, only what stands in its dict: its class may have properties (`torch.backends.cudnn`).
    """
    classes = type(value).__mro__ if type(value) is ModuleType else _plain_classes(value)
    own = own_names(value)
    if type(own) is not dict:  # a class keeps a proxy, and its attributes may be descriptors
        raise EndError
    holder = next((vars(each) for each in classes if name in vars(each)), None)
    require((holder is None) is (name in own))  # else in neither of them, or in both
    if holder is None:
        return own[name]
    require(type(holder[name]) in PLAIN)  # others may be descriptors
    return holder[name]


def _plain_classes(value: Any) -> tuple[type, ...]:
    """Return the classes of an object whose attributes Python looks up without running code.

    Raises:
        EndError: a class or a metaclass may run code.
    """
    require(type(type(value)) is type)
    classes = type(value).__mro__
    require(not any("__getattribute__" in vars(each) for each in classes[:-1]))
    return classes


def imported(name: str, names: Any, level: Any, builtin: Mapping[str, Any]) -> ModuleType:
    """Return a module that `import name` finds loaded, where no hook takes the place of Python's own import."""
    module = sys.modules.get(name)
    plainly = names is None and level == 0 and "." not in name and builtin.get("__import__", builtin) is _IMPORT
    if not plainly or type(module) is not ModuleType:
        raise EndError
    return module
