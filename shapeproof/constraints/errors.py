"""The errors that shapeproof raises itself, and how they name what was meant. Each message is one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ShapeproofError(Exception):
    """The base of every error of this package."""


class UsageError(ShapeproofError, ValueError):
    """What was asked for makes no sense, and why."""


class FormulaSyntaxError(UsageError):
    """A text that is no term or formula; `column` counts from 1."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(f"{message} (column {column})")
        self.column = column


class Unevaluable(ShapeproofError):  # noqa: N818  (names a state, not a mistake)
    """An expression that has no value here: an opaque function, a missing symbol, a power that is no integer."""


_SHOWN = 24
"""Names that a sentence lists at most."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """The end of a sentence about a name that is none: the one that was meant, or all that there are.

    >>> nearest("heigth", ["height", "width"]), nearest("b", ["height", "width"])
    ('; did you mean `height`?', '; there are height, width')
    """
    known = list(valid)
    if near := difflib.get_close_matches(name, known, n=1):
        return f"; did you mean `{near[0]}`?"
    more = [f"and {len(known) - _SHOWN} more"] if len(known) > _SHOWN else []
    return f"; there are {', '.join([*known[:_SHOWN], *more]) or 'none'}"
