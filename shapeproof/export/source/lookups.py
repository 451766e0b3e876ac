"""In which dict or set does the code look a size up? Read off the instruction that is being run.

What Python does then is to compare it with each number that is there: these are questions like any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FrameType, MappingProxyType
from typing import Any

import torch

from shapeproof.export.source.bytecode import UNKNOWN, Called, Member, index_at, instructions, names_of, stack_before
from shapeproof.export.source.frames import is_users

_DEPTHS = {"CONTAINS_OP": 1, "BINARY_SUBSCR": 2}
"""Where a container lies on the stack, counted from its top."""
_CALLS = {"CALL", "PRECALL"}
"""Python comes to call some methods at the instruction before, once it knows them."""
_METHODS = {"get", "__contains__", "__getitem__", "pop", "discard", "remove"}
"""Methods that look for a key and put none in."""
_VIEWS = {"keys"}
_SETS = (set, frozenset)
"""What makes a set. What stands for one of them while a model is traced says which it `makes`."""
_KEYS = (int, float, str, tuple)
_NUMBERS = (int, float, torch.SymInt)


def hash_looked_up(size: torch.SymInt, frame: FrameType) -> int | None:
    """The hash of a size, where code of the user's looks it up: that of the number there which it equals, if any.

    Raises:
        TypeError: the code puts it there.
    """
    if not is_users(frame):
        return None
    others = _numbers_looked_at(frame)
    if others is None:
        message = "a size cannot be put into a dict or a set, whose order and places are those of one number"
        raise TypeError(message)
    found = next((other for other in others if size == other), None)
    return hash(found) if found is not None else 1 + max(map(hash, others), default=0)


def _numbers_looked_at(frame: FrameType) -> list[Any] | None:
    """The numbers that a key of the container has, where the frame looks something up; None if it cannot be told."""
    container = _container(frame)
    if isinstance(container, MappingProxyType) or (
        isinstance(container, dict | set | frozenset) and not hasattr(type(container), "__missing__")
    ):
        return list(_numbers(container))
    return None


def _container(frame: FrameType) -> Any:
    index = index_at(frame.f_code, frame.f_lasti)
    if index is None:
        return UNKNOWN
    step = instructions(frame.f_code)[index]
    stack = stack_before(frame.f_code, index, names_of(frame))
    if step.opname in _CALLS:
        below = len(stack) - (step.arg or 0)
        called = next((value for value in stack[max(0, below - 2) : below] if isinstance(value, Member)), None)
        named = called is not None and getattr(called.function, "__name__", "") in _METHODS
        return called.owner if called is not None and named else UNKNOWN
    depth = _DEPTHS.get(step.opname)
    found = UNKNOWN if depth is None or len(stack) < depth else stack[-depth]
    return _known(found)


def _known(value: Any) -> Any:
    """What holds the keys of a container that a call gives: of a dict its keys, of a set what it is made of."""
    match value:
        case Called(Member(owner, function), ()) if getattr(function, "__name__", "") in _VIEWS:
            return owner
        case Called(function, (list() | tuple() as values,)) if getattr(function, "makes", function) in _SETS:
            return dict.fromkeys(values) if all(isinstance(each, _KEYS) for each in values) else UNKNOWN
    return value


def _numbers(keys: Iterable[Any]) -> Iterator[Any]:
    """The numbers among keys, and among the parts of those that are tuples."""
    for key in keys:
        if isinstance(key, _NUMBERS):
            yield key
        elif isinstance(key, tuple | frozenset):
            yield from _numbers(key)
