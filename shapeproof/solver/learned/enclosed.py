"""Comparisons of doubles that hold at any size, by enclosures of both sides: `n * 1.5 >= n` for n >= 0.

An enclosure is used for a side that cannot be nan; for the lesser side, also only if that side is finite. An enclosure
says nothing about an infinity; on the greater side an infinity does no harm.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shapeproof.constraints.reals import Real
from shapeproof.constraints.terms import Term
from shapeproof.solver.functions.axioms import weighted
from shapeproof.solver.functions.doubles import range_of
from shapeproof.solver.functions.enclosures import Enclosure, enclosure

if TYPE_CHECKING:
    from shapeproof.constraints.formulas import RealCompare
    from shapeproof.solver.learned.knowledge import Knowledge


def enclosed(formula: RealCompare, known: Knowledge) -> bool | None:
    """True or False if enclosures show it for `<=` or `<` of doubles wherever it is defined; otherwise None."""
    left, right = formula.left, formula.right
    if formula.op not in {"<=", "<"}:
        return None
    strict = formula.op == "<"
    if _exceeds(right, left, known, strict=strict):
        return not formula.negated
    if _exceeds(left, right, known, strict=not strict):
        return formula.negated
    return None


def _exceeds(great: Real | Term, small: Real | Term, known: Knowledge, *, strict: bool) -> bool:
    """True if enclosures show `small <= great`, or `small < great` if strict; neither side may be nan."""
    above, below = _of(great, known, finite=False), _of(small, known, finite=True)
    if above is None or below is None:
        return False
    gaps: dict[Term, Fraction] = {term: low for term, (low, _) in above.parts.items()}
    for term, (_, high) in below.parts.items():
        gaps[term] = gaps.get(term, Fraction(0)) - high
    total, _ = weighted(gaps)
    return known.nonnegative(total - 1 if strict else total)


def _of(side: Real | Term, known: Knowledge, *, finite: bool) -> Enclosure | None:
    if isinstance(side, Term):
        return Enclosure({side: (Fraction(1), Fraction(1))}) if known.nonnegative(side) else None
    lies = range_of(side, known.bounds)
    return None if lies.nan or (finite and not lies.is_finite) else enclosure(side, known.bounds)
