"""Read what an instruction reads or compares, where that runs no code of the model's; EndError where it may run some.

Nothing is computed of tensors here, and no property is read. rejoining.py follows the instructions.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, ModuleType
from typing import Any

from shapeproof.constraints.operators import COMPARISONS
from shapeproof.export.trace.python.plain_objects import own_names

_NUMBERS = {bool, int, float}
PLAIN = {*_NUMBERS, str, type(None)}
"""The classes of plain values: Python compares and tests them without running code."""
_SEQUENCES = {list, tuple}
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {**COMPARISONS, ">": operator.gt, ">=": operator.ge}
"""What each sign computes of plain values."""
_IMPORT = builtins.__import__ if isinstance(builtins.__import__, BuiltinFunctionType) else None
"""Python's own; None if a hook has taken its place."""


class EndError(Exception):
    """The next instruction is not followed."""


def named(name: str, first: Mapping[str, Any], then: Callable[[], Mapping[str, Any]]) -> Any:
    """Return what a name stands for; only plain dicts are read, since another mapping may run code."""
    if type(first) is not dict:
        raise EndError
    names = first if name in first else then()
    if type(names) is not dict or name not in names:
        raise EndError
    return names[name]


def is_object(one: Any, other: Any) -> bool:
    """True if two values are one object; one of them must be None."""
    if one is not None and other is not None:
        raise EndError
    return one is other


def compared(sign: str, left: Any, right: Any) -> bool:
    """Return the bool that a comparison of plain values gives."""
    kinds = {type(left), type(right)}
    known = kinds <= PLAIN if sign in {"==", "!="} else kinds <= _NUMBERS or kinds == {str}
    if sign not in SIGNS or not known:
        raise EndError
    return bool(SIGNS[sign](left, right))


def item(values: Any, index: Any) -> Any:
    """Return an item of a list or tuple of Python's own, whose subscript runs no code."""
    if type(values) not in _SEQUENCES or type(index) is not int or not -len(values) <= index < len(values):
        raise EndError
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
    if (holder is None) is (name not in own):  # in neither of them, or in both
        raise EndError
    if holder is None:
        return own[name]
    if type(holder[name]) not in PLAIN:  # others may be descriptors
        raise EndError
    return holder[name]


def _plain_classes(value: Any) -> tuple[type, ...]:
    """Return the classes of an object whose attributes Python looks up without running code.

    Raises:
        EndError: a class or a metaclass may run code.
    """
    if type(type(value)) is not type:
        raise EndError
    classes = type(value).__mro__
    if any("__getattribute__" in vars(each) for each in classes[:-1]):
        raise EndError
    return classes


def imported(name: str, names: Any, level: Any, builtin: Mapping[str, Any]) -> ModuleType:
    """Return a module that `import name` finds loaded, where no hook takes the place of Python's own import."""
    module = sys.modules.get(name)
    plainly = names is None and level == 0 and "." not in name and builtin.get("__import__", builtin) is _IMPORT
    if not plainly or type(module) is not ModuleType:
        raise EndError
    return module
