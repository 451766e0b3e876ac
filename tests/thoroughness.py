"""How many examples a law is tried with."""

from __future__ import annotations

from hypothesis import settings

_ORDINARY = 100


def examples(ordinary: int) -> int:
    """So many in `make test-slow`, half in `make test-thorough`, a fifth in `make test`.

    In `make fuzz` as many as it says, if that is more.
    """
    profile = settings.default.max_examples
    return max(1, ordinary * profile // _ORDINARY) if profile <= _ORDINARY else max(ordinary, profile)
