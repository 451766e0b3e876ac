"""Simultaneous substitution of terms for symbols, with the result in canonical form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.constraints.terms import Term
from shapeproof.solver.learned.knowledge import Knowledge
from shapeproof.solver.learned.reduction import Expression, Reducer

if TYPE_CHECKING:
    from collections.abc import Mapping


def substitute(expression: Expression, replacements: Mapping[str, Term]) -> Expression:
    """Return the expression with each symbol replaced; the result is equal wherever the expression is defined.

    >>> from shapeproof.constraints.terms import symbol
    >>> substitute(symbol("h") // 4, {"h": 8 * symbol("k")})
    2*k
    """
    replaced = [name for name in expression.symbols if name in replacements]
    if not replaced:
        return expression
    renaming = Knowledge()
    for name in replaced:
        renaming.solve(name, replacements[name])
    return Reducer(renaming).reduce(expression)
