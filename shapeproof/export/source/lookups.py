"""Finds the dict or set in which the code looks up a size, from the current instruction.

Python then compares the size with each number in the container; each comparison is an ordinary question.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import FrameType, FunctionType, MappingProxyType
from typing import Any

import torch

from shapeproof.export.source.bytecode import (
    UNKNOWN,
    Called,
    Member,
    index_at,
    instructions,
    is_a,
    names_of,
    stack_before,
)
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
    if type(container) is MappingProxyType:
        return list(_numbers(container))
    kind = next((each for each in (dict, set, frozenset) if is_a(container, each)), None)
    if kind is None or inspect.getattr_static(type(container), "__missing__", None) is not None:
        return None
    return list(_numbers(kind.__iter__(container)))


def _container(frame: FrameType) -> Any:
    index = index_at(frame.f_code, frame.f_lasti)
    if index is None:
        return UNKNOWN
    step = instructions(frame.f_code)[index]
    stack = stack_before(frame.f_code, index, names_of(frame))
    if step.opname in _CALLS:
        below = len(stack) - (step.arg or 0)
        called = next((value for value in stack[max(0, below - 2) : below] if type(value) is Member), None)
        named = called is not None and getattr(called.function, "__name__", "") in _METHODS
        return called.owner if called is not None and named else UNKNOWN
    depth = _DEPTHS.get(step.opname)
    found = UNKNOWN if depth is None or len(stack) < depth else stack[-depth]
    return _known(found)


def _known(value: Any) -> Any:
    """Resolve a container that a call returns: for `d.keys()` the dict, for `set([...])` the elements."""
    if type(value) is not Called or len(value.args) > 1:
        return value
    function = value.function
    if type(function) is Member:
        views = not value.args and getattr(function.function, "__name__", "") in _VIEWS
        return function.owner if views else value
    makes = vars(function).get("makes") if type(function) is FunctionType else function
    if not any(makes is each for each in _SETS) or type(next(iter(value.args), None)) not in {list, tuple}:
        return value
    (values,) = value.args
    return dict.fromkeys(values) if all(is_a(each, _KEYS) for each in values) else UNKNOWN


def _numbers(keys: Iterable[Any]) -> Iterator[Any]:
    """The numbers among keys, and among the parts of keys that are tuples."""
    for key in keys:
        if is_a(key, _NUMBERS):
            yield key
        elif type(key) in {tuple, frozenset}:
            yield from _numbers(key)
