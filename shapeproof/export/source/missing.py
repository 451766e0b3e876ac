"""What a plain number has and a symbolic one has not: answered where one answer is right at every size, else refused.

Code that asks with `hasattr`, or catches what Python raises, would go on otherwise than in eager: a refusal is kept, so
that it is said even where the model has swallowed it. Nothing is decided about sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export.shim.numbers.symbols import PLAIN
from shapeproof.export.source.frames import is_users, location
from shapeproof.wording import short

Ask = Callable[..., Any]

_OF_WHOLE: dict[str, Callable[[Any], Any]] = {
    "real": lambda size: size,
    "numerator": lambda size: size,
    "imag": lambda _: 0,
    "denominator": lambda _: 1,
    "conjugate": lambda size: lambda: size,
}
"""What an integer is made of."""


class Refusals:
    """What was refused while a model was traced."""

    def __init__(self) -> None:
        self.first: str | None = None
        """A sentence, with the line."""

    def keeping(self, ask: Ask) -> Ask:
        """The same, with a note of what it refuses by raising TypeError or AttributeError: the model may catch that."""

        def asked(number: Any, frame: FrameType, *more: Any) -> Any:
            try:
                return ask(number, frame, *more)
            except (TypeError, AttributeError) as error:
                if self.first is None:
                    place = location(frame)
                    self.first = f"{short(place.file)}:{place.line}: {error}"
                raise

        return asked

    def say(self) -> None:
        """Say the first, whether the model has caught it or not.

        Raises:
            UsageError: something was refused.
        """
        if self.first is not None:
            raise UsageError(self.first)


def attribute(number: Any, frame: FrameType, name: str) -> Any:
    """An attribute that the class of a symbolic number lacks; None where the code is not the user's, or eager lacks it.

    Raises:
        AttributeError: a plain number has it, and a symbolic one cannot.
    """
    plain = PLAIN[type(number)]
    if not is_users(frame) or not hasattr(plain, name):
        return None
    if isinstance(number, torch.SymInt) and name in _OF_WHOLE:
        return _OF_WHOLE[name](number)
    message = f"the model reads `{name}` of {_named(plain)} that is not known while it is traced"
    raise AttributeError(message)


def unlike(number: Any, frame: FrameType, other: object) -> None:
    """A symbolic number meets one of a class that torch does not know: it would be unequal to all of them.

    Raises:
        TypeError: the code is the user's.
    """
    if is_users(frame):
        kind = type(other).__name__
        message = f"torch cannot compare {_named(PLAIN[type(number)])} with a {kind}: make that an int or a float"
        raise TypeError(message)


def _named(plain: type) -> str:
    return {int: "a size", float: "a number"}.get(plain, "a condition")
