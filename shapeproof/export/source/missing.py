"""Attributes of plain numbers that symbolic numbers lack: supplied if one answer fits every size, else refused.

Code that probes with `hasattr`, or catches Python's exception, would behave differently from eager. So the first
refusal is kept, and reported even if the model swallows the exception.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export.shim.numbers.symbols import PLAIN
from shapeproof.export.source.frames import is_users, location
from shapeproof.wording import line_text

Ask = Callable[..., Any]

_OF_WHOLE: dict[str, Callable[[Any], Any]] = {
    "real": lambda size: size,
    "numerator": lambda size: size,
    "imag": lambda _: 0,
    "denominator": lambda _: 1,
    "conjugate": lambda size: lambda: size,
}
"""Attributes of an integer that do not depend on its value."""


class Refusals:
    """Refusals while a model is traced."""

    def __init__(self) -> None:
        self.first: str | None = None
        """The first refusal: a sentence with its line."""

    def keeping(self, ask: Ask) -> Ask:
        """Wrap a question so that its first TypeError or AttributeError is kept: the model may catch the exception."""

        def asked(number: Any, frame: FrameType, *more: Any) -> Any:
            try:
                return ask(number, frame, *more)
            except (TypeError, AttributeError) as error:
                if self.first is None:
                    place = location(frame)
                    self.first = f"{line_text(place)}: {error}"
                raise

        return asked

    def say(self) -> None:
        """Report the first refusal, even if the model has caught it.

        Raises:
            UsageError: there was a refusal.
        """
        if self.first is not None:
            raise UsageError(self.first)


def attribute(number: Any, frame: FrameType, name: str) -> Any:
    """Return an attribute that a symbolic number's class lacks; None outside the user's code, or if eager lacks it.

    Raises:
        AttributeError: a plain number has the attribute, and a symbolic one cannot.
    """
    plain = PLAIN[type(number)]
    if not is_users(frame) or not hasattr(plain, name):
        return None
    if isinstance(number, torch.SymInt) and name in _OF_WHOLE:
        return _OF_WHOLE[name](number)
    raise AttributeError(f"the model reads `{name}` of {_named(plain)} that is not known while it is traced")


def unlike(number: Any, frame: FrameType, other: object) -> None:
    """Refuse to compare a symbolic number with a class that torch does not know: the two would always be unequal.

    Raises:
        TypeError: the user's code compares.
    """
    if is_users(frame):
        kind = type(other).__name__
        message = f"torch cannot compare {_named(PLAIN[type(number)])} with a {kind}: make that an int or a float"
        raise TypeError(message)


def _named(plain: type) -> str:
    return {int: "a size", float: "a number"}.get(plain, "a condition")
