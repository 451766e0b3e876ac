"""An extension of griffe: the doctests of a docstring are blocks of code on its page, not quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?m)^( *)>>> .*(?:\n(?! *$).*)*")


class Doctests(griffe.Extension):
    """Fences the doctests of each object."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the doctests of one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)
