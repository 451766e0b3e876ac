"""Values that hold inside a block: of attributes, of torch's or ours, of context variables, and Python's tracer."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

_T = TypeVar("_T")
_V = TypeVar("_V")


@contextlib.contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Inside this block, attributes of an object have other values; a class loses those that it had not of its own."""
    own = vars(owner) if isinstance(owner, type) else {name: getattr(owner, name) for name in values}
    before = {name: own[name] for name in values if name in own}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in values:
            setattr(owner, name, before[name]) if name in before else delattr(owner, name)


@contextlib.contextmanager
def traced_by(function: Callable[..., Any]) -> Iterator[None]:
    """Inside this block, Python tells a function of each frame; another tracer, such as a debugger, is paused."""
    before = sys.gettrace()
    sys.settrace(function)
    try:
        yield
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def bound(variable: ContextVar[_T], value: _V) -> Iterator[_V]:
    """Inside this block, a context variable has this value, which is given."""
    token = variable.set(value)  # type: ignore[arg-type]  # _V is a part of _T
    try:
        yield value
    finally:
        variable.reset(token)
