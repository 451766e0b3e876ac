"""Finds the dict or set in which the code looks up a size, from the current instruction.

Python then compares the size with each number in the container; each comparison is an ordinary question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FrameType, MappingProxyType
from typing import Any

import torch

from shapeproof.export.source.bytecode import UNKNOWN, Called, Member, index_at, instructions, names_of, stack_before
from shapeproof.export.source.frames import is_users

_DEPTHS = {"CONTAINS_OP": 1, "BINARY_SUBSCR": 2}
"""The depth of the container on the stack, counted from the top."""
_CALLS = {"CALL", "PRECALL"}
"""PRECALL is the instruction before CALL; specialized bytecode calls some methods there."""
_METHODS = {"get", "__contains__", "__getitem__", "pop", "discard", "remove"}
"""Methods that look up a key and insert none."""
_VIEWS = {"keys"}
_SETS = (set, frozenset)
"""Constructors of sets. A replacement for one of them during tracing names the constructor in `makes`."""
_KEYS = (int, float, str, tuple)
_NUMBERS = (int, float, torch.SymInt)


def hash_looked_up(size: torch.SymInt, frame: FrameType) -> int | None:
    """Return a hash for a size that the user's code looks up: that of the equal number in the container, if any.

    Raises:
        TypeError: the code inserts the size.
    """
    if not is_users(frame):
        return None
    others = _numbers_looked_at(frame)
    if others is None:
        raise TypeError("a size cannot be put into a dict or a set, whose order and places are those of one number")
    found = next((other for other in others if size == other), None)
    return hash(found) if found is not None else 1 + max(map(hash, others), default=0)


def _numbers_looked_at(frame: FrameType) -> list[Any] | None:
    """Return the numbers in the keys of the container of a lookup; None if the container is unknown."""
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
    """Resolve a container that a call returns: for `d.keys()` the dict, for `set([...])` the elements."""
    match value:
        case Called(Member(owner, function), ()) if getattr(function, "__name__", "") in _VIEWS:
            return owner
        case Called(function, (list() | tuple() as values,)) if getattr(function, "makes", function) in _SETS:
            return dict.fromkeys(values) if all(isinstance(each, _KEYS) for each in values) else UNKNOWN
    return value


def _numbers(keys: Iterable[Any]) -> Iterator[Any]:
    """The numbers among keys, and among the parts of keys that are tuples."""
    for key in keys:
        if isinstance(key, _NUMBERS):
            yield key
        elif isinstance(key, tuple | frozenset):
            yield from _numbers(key)
