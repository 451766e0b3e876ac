"""Names of a package that are imported on first use, so that importing the package loads nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported(package: str, names: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any]]:
    """Return the `__all__` and the `__getattr__` of a package.

    `names`: those of each module, separated by spaces; a module that begins with a dot is in the package.

    >>> found, find = imported("shapeproof.solver", {".budget": "Budget", ".prove": "decide prove"})
    >>> found, find("Budget").__module__
    (['Budget', 'decide', 'prove'], 'shapeproof.solver.budget')
    >>> find("Bugdet")
    Traceback (most recent call last):
    AttributeError: module 'shapeproof.solver' has no attribute 'Bugdet'
    """
    homes = {name: module for module, of_module in names.items() for name in of_module.split()}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name], package), name)

    return list(homes), find
