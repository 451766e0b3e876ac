"""Restore what code remembers between calls: globals, and what a global, a closure or a class holds.

A trace puts fake tensors and symbolic sizes into these places, and no later run may see them. Containers, and the
attributes of the user's objects and classes, are restored; deeper contents are not.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from shapeproof.export.trace.python.plain_objects import own_names

ABSENT = object()


class Remembered:
    """The values before a trace."""

    def __init__(self) -> None:
        self._back: dict[tuple[int, str], Callable[[], None]] = {}

    def global_name(self, scope: dict[str, Any], name: str) -> None:
        """Remember a global name that the model assigns."""
        value = scope.get(name, ABSENT)
        self._back.setdefault((id(scope), name), lambda: assign(scope, name, value))

    def container(self, value: Any) -> None:
        """Remember the contents of a value, if it is a container: the model may add to it."""
        kind = type(value)
        if kind in {dict, set, list, deque}:
            refill = value.update if kind in {dict, set} else value.extend
            self._back.setdefault((id(value), ""), _restoring(value, kind(value), refill))

    def attributes(self, value: Any) -> None:
        """Remember the attributes of an object or class, and its containers' contents: the model may change both."""
        held = own_names(value)
        if held is None:
            return
        self._back.setdefault((id(value), "attributes"), _resetting(value, held, dict(held)))
        for each in held.values():
            self.container(each)

    def bring_back(self) -> None:
        """Restore everything, after the trace."""
        for back in self._back.values():
            back()


def assign(scope: dict[str, Any], name: str, value: Any) -> None:
    """Give a global name its value again, or take it away."""
    if value is not ABSENT:
        scope[name] = value
    else:
        scope.pop(name, None)


def _resetting(value: Any, held: Mapping[str, Any], before: dict[str, Any]) -> Callable[[], None]:
    """Return a function that sets changed attributes again, without the value's code; it leaves the others alone."""

    def back() -> None:
        for name in {**held, **before}:
            there = before.get(name, ABSENT)
            if there is held.get(name, ABSENT):
                continue
            if isinstance(held, dict):
                assign(held, name, there)
                continue
            with contextlib.suppress(AttributeError, TypeError):  # a read-only attribute
                type.__delattr__(value, name) if there is ABSENT else type.__setattr__(value, name, there)

    return back


def _restoring(container: Any, before: Any, refill: Callable[[Any], None]) -> Callable[[], None]:
    def back() -> None:
        if not _holds_the_same(container, before):
            container.clear()
            refill(before)

    return back


def _holds_the_same(container: Any, before: Any) -> bool:
    """True if a container holds the same objects as before, by identity: no element is compared or hashed."""
    there, here = _flat(container), _flat(before)
    return len(there) == len(here) and all(a is b for a, b in zip(there, here, strict=True))


def _flat(container: Any) -> list[Any]:
    return [each for pair in container.items() for each in pair] if isinstance(container, dict) else list(container)
