"""The errors that shapeproof raises itself. Each message is one sentence."""

from __future__ import annotations


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
