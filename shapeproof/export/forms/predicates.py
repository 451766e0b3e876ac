"""Expresses the condition of a region as arithmetic: as one comparison, a choice of terms, or sizes that satisfy it.

A formula without such a form raises NoGraphForm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import FloorDiv, Term, constant, maximum, minimum, symbol
from shapeproof.export.graph.emit import NoGraphForm
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.reduction import substitute
from shapeproof.solver.prove import implied


def compared(formula: Formula) -> Formula:
    """Rewrite a formula as one comparison.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> str(compared(parse_formula("n >= 3 and n != 7")))
    'min(n + 5, max(14 - n, n)) >= 8'
    """
    return f.le(_excess(formula), 0) if isinstance(formula, f.And | f.Or) else formula


def kept_inside(formula: Formula, point: Mapping[str, int], domain: Facts) -> dict[str, Term]:
    """Return a term for each symbol: the symbol itself where the formula holds, and sizes that satisfy it elsewhere.

    The terms clamp a symbol to its bounds and round it to a remainder, if the formula says no more than that. Otherwise
    each term is the symbol where the formula holds, and its value at `point` elsewhere.

    >>> from shapeproof.constraints.syntax.text import parse_formula as parse
    >>> domain = Facts([parse("n >= 0")])
    >>> str(kept_inside(parse("n % 2 == 0 and n <= 9"), {"n": 4}, domain)["n"])
    '2*min(4, max(0, n//2))'
    """
    region = domain.assuming(formula)
    names = sorted(formula.symbols)
    near = {name: _nearest(name, formula, point[name], region) for name in names}
    known = [(substitute(formula, near), domain), *((f.eq(term, symbol(name)), region) for name, term in near.items())]
    if all(isinstance(claim, Formula) and implied(claim, facts) for claim, facts in known):
        return near
    return {name: point[name] + _inside(formula) * (symbol(name) - point[name]) for name in names}


def _nearest(name: str, formula: Formula, value: int, region: Facts) -> Term:
    """Return the symbol, clamped to its bounds in a region and rounded to its remainder there."""
    own, bounds = symbol(name), region.range_of(name)
    if bounds.lower is not None and bounds.lower == bounds.upper:
        return constant(bounds.lower)
    term = own
    constants = {node.divisor.constant_value for node in postorder(formula) if _by_constant(node)}
    for step in sorted(constants, reverse=True):
        if implied(f.eq(own % step, value % step), region):
            term = (own - value % step) // step * step + value % step
            break
    term = term if bounds.lower is None else maximum(term, bounds.lower)
    return term if bounds.upper is None else minimum(term, bounds.upper)


def _by_constant(node: object) -> TypeGuard[FloorDiv]:
    return isinstance(node, FloorDiv) and node.divisor.is_constant and node.divisor.constant_value > 1


def chosen(formulas: Sequence[Formula], terms: Sequence[Term]) -> Term:
    """Return a term that equals the term of the first formula that holds; the last term, if none holds.

    >>> from shapeproof.constraints.syntax.text import parse_formula, parse_term
    >>> str(chosen([parse_formula("n <= 9"), parse_formula("n >= 10")], [parse_term("n"), parse_term("2*n")]))
    'n*min(10, max(n, 9)) - 8*n'
    """
    result = terms[-1]
    for formula, term in zip(reversed(formulas[:-1]), reversed(terms[:-1]), strict=True):
        result += _inside(formula) * (term - result)
    return result


def _inside(formula: Formula) -> Term:
    """Return a term that is 1 where the formula holds, and 0 elsewhere."""
    return maximum(minimum(1 - _excess(formula), 1), 0)


def _excess(formula: Formula) -> Term:
    """Return a term that is at most 0 exactly where the formula holds."""
    match formula:
        case f.BooleanConstant(value):
            return constant(0 if value else 1)
        case f.Compare("<=", term):
            return term
        case f.Compare("==", term):
            return maximum(term, -term)
        case f.Compare(_, term):
            return 1 - maximum(term, -term)
        case f.And(parts):
            return maximum(*map(_excess, parts))
        case f.Or(parts):
            return minimum(*map(_excess, parts))
        case _:
            raise NoGraphForm(str(formula))
