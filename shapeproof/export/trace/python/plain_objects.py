"""Read what an object holds without running its code.

Laws:
- No property, descriptor, method or `__getattr__` of the object, of its class or of its metaclass runs.
- The class of an object is `type(value)`: the `__class__` that an object shows may be a property.
- A container is read with the methods of Python's own class, whatever a subclass makes of them.

Also read what an instruction reads or compares, where that runs no code of the model's; EndError where it may run some.
And search the user's functions in what objects hold, directly or indirectly.

Nothing is computed of tensors here, and no property is read. rejoining.py follows the instructions.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import torch

from shapeproof.constraints.operators import COMPARISONS
from shapeproof.export.limits import HELD
from shapeproof.export.source.abstract import EndError, is_a, require
from shapeproof.export.source.frames import is_users_file

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


def reached(roots: Iterable[Any]) -> tuple[list[FunctionType], list[Any]]:
    """Return the functions of the user's files that are held, and whatever else is that holds nothing known."""
    found, others, walked = list[FunctionType](), list[Any](), _by_class(is_walked)
    pending = [*roots]
    met = {id(each) for each in pending}
    while pending:
        value = pending.pop()
        if type(value) is FunctionType:
            found.append(value)
        for held in held_by(value):
            if type(held) is str:  # most values are
                continue
            if not walked(held):
                others.append(held)
            elif id(held) not in met:
                met.add(id(held))
                pending.append(held)
    return found, others


_LIBRARIES: dict[str, Any] = {}
"""The modules that are not the user's, by name: there are thousands, and each is looked at once in a process."""


def is_users(name: str) -> bool:
    """True if the module of this name is the user's."""
    module = sys.modules.get(name)
    if _LIBRARIES.get(name) is module:  # also where there is none
        return False
    file = file_of(module)
    if file is not None and is_users_file(file):
        return True
    _LIBRARIES[name] = module
    return False


_HOLDERS = (*CONTAINERS, *WRAPPERS)


def _by_class(tell: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a function that tells the same, and asks once for all objects of a class but functions and classes."""
    told: dict[int, bool] = {}  # by its id: a metaclass may hash

    def by_class(value: Any) -> bool:
        kind = type(value)
        if kind is FunctionType or is_a(value, type):
            return tell(value)
        if id(kind) not in told:
            told[id(kind)] = tell(value)
        return told[id(kind)]

    return by_class


def is_walked(value: Any) -> bool:
    """True for what may hold the user's functions: containers, wrappers, and what is the user's itself."""
    if type(value) is FunctionType:
        return is_users_file(value.__code__.co_filename)
    return not is_a(value, torch.Tensor) and (is_a(value, _HOLDERS) or is_of_users_class(value))


def is_of_users_class(value: Any) -> bool:
    """True for a class of the user's, and for an object of such a class."""
    name = home(value if is_a(value, type) else type(value))
    return name == "__main__" or is_users(name)


def carried(function: FunctionType) -> tuple[Any, ...]:
    """Return what a function carries: its closure and its defaults."""
    return function.__closure__ or (), function.__defaults__ or (), function.__kwdefaults__ or {}


def held_by(value: Any) -> Iterator[Any]:
    """Yield the known contents of a value."""
    if type(value) is FunctionType:
        yield from carried(value)
    yield from elements(value)
    if type(value) not in CONTAINERS:
        yield from (*inner(value), *(own_names(value) or {}).values())
