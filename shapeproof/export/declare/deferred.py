"""What is worked out when it is first asked for: what to declare instead, where a report needs no such help.

A copy shares it, and pickling works it out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shapeproof.export.declare.redeclare import Declarations


class Deferred:
    """Declarations that `find` gives, once.

    >>> told = []
    >>> later = Deferred(lambda: told.append("asked"))
    >>> later.declarations(), later.declarations(), told
    (None, None, ['asked'])
    """

    def __init__(self, find: Callable[[], Declarations | None]) -> None:
        self._find: Callable[[], Declarations | None] | None = find
        self._found: Declarations | None = None

    def declarations(self) -> Declarations | None:
        """What was found; None if nothing was."""
        if self._find is not None:
            self._found, self._find = self._find(), None
        return self._found

    def __deepcopy__(self, memo: dict[int, Any]) -> Deferred:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {"_find": None, "_found": self.declarations()}
