"""Names of a package that are imported on first use, so that importing the package loads nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Args:
        package: its name.
        homes: the module of each name; a module that begins with a dot is in the package.

    >>> find = imported("shapeproof.solver", {"Budget": ".budget"})
    >>> find("Budget").__module__
    'shapeproof.solver.budget'
    >>> find("Bugdet")
    Traceback (most recent call last):
    AttributeError: module 'shapeproof.solver' has no attribute 'Bugdet'
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name], package), name)

    return find
