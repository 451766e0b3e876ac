"""The one error with which a program refuses an input outside the declared domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.wording import values_text


class OutsideDomain(RuntimeError):
    """An input lies outside the domain for which a program was proved.

    Attributes:
        point: the relevant sizes or properties as given, by the user's names.
        formula: the violated requirement, in the same names.

    >>> raise OutsideDomain("x.shape[0] = 9, but x.shape[0] <= 8 is declared", {"x.shape[0]": 9}, "x.shape[0] <= 8")
    Traceback (most recent call last):
    shapeproof.contract.outside.OutsideDomain: x.shape[0] = 9, but x.shape[0] <= 8 is declared
    """

    def __init__(self, message: str, point: Mapping[str, Any], formula: str) -> None:
        super().__init__(message, point, formula)  # the arguments from which pickle makes a copy
        self.message = message
        self.point = dict(point)
        self.formula = formula

    def __str__(self) -> str:
        return self.message

    @property
    def diagnostic(self) -> Diagnostic:
        """The refusal as data, like the diagnostics of a report."""
        sizes = {name: value for name, value in self.point.items() if type(value) is int}
        return Diagnostic(id="outside", message=self.message, witness=sizes or None)


def refusal(point: Mapping[str, Any], formula: str, because: str = "declared") -> OutsideDomain:
    """Return the error for a point at which a formula fails; `because` is the source of the formula."""
    given = values_text({name: _shown(value) for name, value in point.items()})
    return OutsideDomain(f"{given}, but {formula} is {because}", point, formula)


def _shown(value: Any) -> str:
    """Return the value for a sentence: no content for a tensor, and torch's own name for an object of torch."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return "a tensor"
    return str(value) if type(value).__module__ == "torch" else repr(value)
