"""What Python asks a size for by itself: its hash, where it is looked up in a dict or a set, and a text of it.

torch gives no hash, and as text the symbol's name. While this lasts somebody else may answer for the sizes of one
ShapeEnv; those of another are what they were.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch

_Answer = Callable[[torch.SymInt, FrameType], int | None]
"""Given a size and the frame that asks; None where torch's own answer will do."""


@contextlib.contextmanager
def answered(shape_env: Any, give_hash: _Answer, number_in_text: _Answer) -> Iterator[None]:
    """The sizes of a ShapeEnv have this hash, and text of them is that of this number."""
    size: Any = torch.SymInt
    torchs_hash, torchs_text = size.__hash__, size.__repr__

    def ask(answer: _Answer, number: torch.SymInt) -> int | None:
        frame = inspect.currentframe()
        asked = frame.f_back if frame is not None else None
        caller = asked.f_back if asked is not None else None
        return answer(number, caller) if caller is not None and number.node.shape_env is shape_env else None

    def hash_of(self: torch.SymInt) -> int:
        found = ask(give_hash, self)
        return int(torchs_hash(self)) if found is None else found

    def text_of(self: torch.SymInt) -> str:
        found = ask(number_in_text, self)
        return str(torchs_text(self)) if found is None else repr(found)

    def formatted(self: torch.SymInt, spec: str) -> str:
        found = ask(number_in_text, self)
        return str(torchs_text(self)) if found is None else format(found, spec)

    size.__hash__, size.__repr__, size.__format__ = hash_of, text_of, formatted
    try:
        yield
    finally:
        size.__hash__, size.__repr__ = torchs_hash, torchs_text
        del size.__format__
