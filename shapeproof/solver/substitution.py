"""Symbols replaced by terms, everywhere at once, in canonical form."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term
from shapeproof.solver.knowledge import Knowledge
from shapeproof.solver.reduction import Reducer

if TYPE_CHECKING:
    from collections.abc import Mapping

_Expression = TypeVar("_Expression", Term, Formula)


def substitute(expression: _Expression, replacements: Mapping[str, Term]) -> _Expression:
    """The value of the expression with each symbol replaced; where it is defined, as elsewhere in this room.

    >>> from shapeproof.constraints.terms import symbol
    >>> substitute(symbol("h") // 4, {"h": 8 * symbol("k")})
    2*k
    """
    if expression.symbols.isdisjoint(replacements):
        return expression
    renaming = Knowledge()
    renaming.solved = dict(replacements)
    if isinstance(expression, Term):
        return Reducer(renaming).term(expression)
    return Reducer(renaming).formula(expression)
