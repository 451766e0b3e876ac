"""The errors that shapeproof raises, and the "did you mean" suffix. Each message is one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ShapeproofError(Exception):
    """The base of every error of this package."""


class UsageError(ShapeproofError, ValueError):
    """An invalid request by the caller; the message says why."""


class InternalError(ShapeproofError):
    """A mistake of this package: neither the caller nor the model nor torch is at fault."""


class FormulaSyntaxError(UsageError):
    """A text that is neither a term nor a formula; `column` counts from 1."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(f"{message} (column {column})")
        self.column = column


class Unevaluable(ShapeproofError):
    """An expression without a value here: an opaque function, a missing symbol, or a power that is not an integer."""


_SHOWN = 24
"""The most names that a message lists."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest valid name, or the list of valid names.

    >>> nearest("heigth", ["height", "width"]), nearest("b", ["height", "width"])
    ('; did you mean `height`?', '; there are height, width')
    """
    known = list(valid)
    if near := difflib.get_close_matches(name, known, n=1):
        return f"; did you mean `{near[0]}`?"
    more = [f"and {len(known) - _SHOWN} more"] if len(known) > _SHOWN else []
    return f"; there are {', '.join([*known[:_SHOWN], *more]) or 'none'}"
