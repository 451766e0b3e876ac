"""Reduced terms written over the user's symbols again: made-up names are given back what they stand for.

Where `h` was solved as `4*k + r`, `4*k` is written `h - r` and not `4*(h//4)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.constraints import polynomials
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import Symbol, Term, from_poly, symbol
from shapeproof.solver.equalities import FRESH
from shapeproof.solver.substitution import substitute

if TYPE_CHECKING:
    from shapeproof.constraints.formulas import Formula
    from shapeproof.constraints.polynomials import Monomial, Poly
    from shapeproof.solver.knowledge import Knowledge


def restored(term: Term, known: Knowledge) -> Term:
    """The term without made-up names, equal where the facts hold."""
    for name, value in known.solved.items():
        if not name.startswith(FRESH):
            term = _multiples_named(term, name, value)
    return substitute(term, known.definitions)


def size_of(expression: Term | Formula) -> int:
    """How large the expression is: the nodes and monomials that it is made of."""
    nodes = postorder(expression)
    return len(nodes) + sum(len(node.monomials) for node in nodes if isinstance(node, Term))


def _multiples_named(term: Term, name: str, value: Term) -> Term:
    """With `name == scale*k + rest`: every multiple of `scale*k` as that multiple of `name - rest`."""
    for monomial, scale in value.monomials:
        match monomial:
            case ((Symbol(made_up) as atom, 1),) if made_up.startswith(FRESH):
                rest = from_poly(polynomials.add(value.poly, {monomial: -scale}))
                return _replaced(term, ((atom, 1),), scale, symbol(name) - rest)
    return term


def _replaced(term: Term, part: Monomial, scale: int, meaning: Term) -> Term:
    total: Poly = {}
    for monomial, coefficient in term.monomials:
        factor = polynomials.over(monomial, part)
        if factor is None or coefficient % scale:
            total = polynomials.add(total, {monomial: coefficient})
        else:
            total = polynomials.add(total, polynomials.multiply({factor: coefficient // scale}, meaning.poly))
    return from_poly(total)
