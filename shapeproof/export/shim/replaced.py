"""Values that hold inside a block: of attributes, of torch's modules or our objects, and of context variables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

_T = TypeVar("_T")
_V = TypeVar("_V")


@contextlib.contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Inside this block, attributes of an object have other values."""
    before = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextlib.contextmanager
def bound(variable: ContextVar[_T], value: _V) -> Iterator[_V]:
    """Inside this block, a context variable has this value, which is given."""
    token = variable.set(value)  # type: ignore[arg-type]  # _V is a part of _T
    try:
        yield value
    finally:
        variable.reset(token)
