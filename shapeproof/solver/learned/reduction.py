"""Rewriting of terms and formulas by what is known: terms that are known to be equal become the same object.

Solved symbols are replaced. Products and divisions with a rule are rewritten. A division whose quotient has a single
possible value is replaced by that value. An argument of min or max that cannot win is dropped. A comparison that bounds
settle becomes TRUE or FALSE.

Law: the result agrees with the original at every point where all facts hold and the original is defined. Definedness is
proved elsewhere (constraints/meaning/evaluate.py), so the `checks` of terms are dropped.

The results are memoised in the knowledge, until it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import gcd
from typing import Any, TypeVar

from shapeproof.constraints import operators, polynomials
from shapeproof.constraints.formulas import (
    FALSE,
    TRUE,
    And,
    Compare,
    Formula,
    Or,
    RealCompare,
    compare,
    conjunction,
    disjunction,
)
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import Node
from shapeproof.constraints.polynomials import UNIT, Poly
from shapeproof.constraints.reals import FromInt, Real, RealCall
from shapeproof.constraints.terms import (
    Apply,
    Extremum,
    FloorDiv,
    Symbol,
    Term,
    Unknown,
    Where,
    apply,
    bare,
    floor_div,
    from_poly,
    maximum,
    minimum,
    of_atom,
    unknown,
    where,
)
from shapeproof.solver.functions.axioms import weighted
from shapeproof.solver.functions.doubles import range_of
from shapeproof.solver.functions.enclosures import Enclosure, enclosure
from shapeproof.solver.functions.exact import exact_comparison, exact_integer
from shapeproof.solver.functions.powers import divided_powers, joined_powers, with_powers
from shapeproof.solver.learned import audit
from shapeproof.solver.learned.bounding import by_remainders, term_of
from shapeproof.solver.learned.knowledge import Knowledge

Expression = TypeVar("Expression", Term, Formula, Real)

_RULE_STEPS = 64
_MOST_RIVALS = 12
_LONGEST_GUESSED = 12
_LONGEST_UNNESTED = 6
_HIGHEST_UNNESTED = 3


def settled(formula: Formula) -> Formula:
    """Return TRUE or FALSE for a comparison of constants, ignoring checks; any other formula unchanged."""
    match formula:
        case Compare(op, term) if polynomials.is_constant(term.poly):
            value = term.poly.get(UNIT, 0)
            return TRUE if operators.COMPARISONS[op](value, 0) else FALSE
        case _:
            return formula


class Reducer:
    """Rewrites by the knowledge as it is."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self._memo = known.reductions

    def reduce(self, expression: Expression) -> Expression:
        """Return the rewritten term or formula; a formula that bounds settle becomes TRUE or FALSE."""
        reduced: Expression = self._visit(expression)
        return reduced

    def _visit(self, root: Node) -> Any:
        memo = self._memo
        stack = [root]
        while stack:
            node = stack[-1]
            if node in memo:
                stack.pop()
                continue
            waiting = [child for child in _shown(node) if child not in memo]
            if waiting:
                stack.extend(waiting)
            else:
                memo[node] = self._rewrite(node)
                stack.pop()
        return memo[root]

    def _rewrite(self, node: Node) -> Node:
        memo = self._memo
        match node:
            case Symbol(name):
                return self._known.solved.get(name) or of_atom(node)
            case Term():
                return self._polynomial(node)
            case FloorDiv(numerator, divisor):
                return self._division(memo[numerator], memo[divisor])
            case Extremum(args):
                return self._extremum([memo[arg] for arg in args], node.sense)
            case Where(condition, then, otherwise):
                return bare(where(memo[condition], memo[then], memo[otherwise]))
            case Apply(op, args):
                return self._application(op, [memo[arg] for arg in args])
            case Unknown(name, args):
                return bare(unknown(name, *(memo[arg] for arg in args)))
            case FromInt(term):
                return FromInt(memo[term])
            case RealCall(op, args):
                return RealCall(op, tuple(memo[arg] for arg in args))
            case Compare(op, term):
                return self._comparison(compare(op, memo[term]))
            case And(args):
                return self._listed(_joined((memo[arg] for arg in args), conjunction, FALSE))
            case Or(args):
                return self._listed(_joined((memo[arg] for arg in args), disjunction, TRUE))
            case RealCompare(op, left, right, negated):
                exact = exact_comparison(op, memo[left], memo[right], self._known.bounds)
                if exact is None:
                    return self._bounded(RealCompare(op, memo[left], memo[right], negated))
                comparison = self._comparison(exact)
                return comparison.negation if negated else comparison
            case Formula():
                return self._listed(node)
            case _:
                return node

    def _polynomial(self, term: Term) -> Term:
        memo = self._memo
        if all(memo[atom].monomials == ((((atom, 1),), 1),) for atom in _shown(term)):
            return self._renamed(joined_powers(bare(term), self._known.bounds))
        summed: Poly = {}
        for monomial, coefficient in term.monomials:
            product = from_poly({UNIT: coefficient})
            for atom, exponent in monomial:
                product *= memo[atom] ** exponent
            polynomials.accumulate(summed, product.poly)
        return self._renamed(joined_powers(from_poly(summed), self._known.bounds))

    def _renamed(self, term: Term) -> Term:
        """Apply rules to monomials until none applies."""
        if not self._known.rules:
            return term
        for _ in range(_RULE_STEPS):
            pairs = ((monomial, left) for monomial in term.poly for left in self._known.renamed(monomial))
            match = next((pair for pair in pairs if polynomials.over(*pair) is not None), None)
            if match is None:
                break
            monomial, left = match
            coefficient, rest = term.poly[monomial], polynomials.over(monomial, left) or UNIT
            swap = polynomials.multiply({rest: coefficient}, self._known.rules[left].poly)
            term = from_poly(polynomials.add(polynomials.add(term.poly, {monomial: -coefficient}), swap))
        return term

    def _division(self, numerator: Term, divisor: Term) -> Term:
        quotient = bare(floor_div(numerator, divisor))
        for monomial, coefficient in quotient.monomials:
            match monomial:
                case ((FloorDiv() as atom, 1),):
                    simpler = self._quotient(atom)
                    if simpler is not None:
                        audit.note_equal("division", self._known, of_atom(atom), simpler)
                        swap = polynomials.add({monomial: -coefficient}, simpler.poly, coefficient)
                        return self._renamed(from_poly(polynomials.add(quotient.poly, swap)))
        return self._renamed(quotient)

    def _quotient(self, atom: FloorDiv) -> Term | None:
        """Return a simpler term that the division is known to equal, or None."""
        known, numerator, divisor = self._known, atom.numerator, atom.divisor
        pinned = known.bounds(of_atom(atom)).single
        if pinned is not None:
            return from_poly({UNIT: pinned})
        cancelled = divided_powers(atom, known.bounds)
        if cancelled is not None:
            return bare(cancelled)
        if divisor.is_constant:
            return by_remainders(atom, known) or self._coarser(numerator, divisor.constant_value)
        sign = known.sign(divisor)
        if sign == 0 or len(numerator.monomials) > _LONGEST_GUESSED:
            return None
        numerator, divisor = numerator * sign, divisor * sign
        for guess in (0, -1, 1):
            rest = numerator - guess * divisor
            if known.nonnegative(rest) and known.nonnegative(divisor - rest - 1):
                return from_poly({UNIT: guess})
        return self._coarser_by_a_factor(numerator, divisor) or self._unnested(numerator, divisor)

    def _coarser(self, numerator: Term, divisor: int) -> Term | None:
        """`(g*x + r)//(g*d)` is `(x + q)//d` where `q*g <= r <= q*g + g - 1`: `(4*x + 3)//8` is `x//2`."""
        steps = {gcd(coefficient, divisor) for monomial, coefficient in numerator.monomials if monomial}
        for step in sorted(steps - {1, divisor}, reverse=True):
            fine = {monomial: n % step if monomial == UNIT else n for monomial, n in numerator.poly.items() if n % step}
            rest = from_poly(fine)
            around = (self._known.bounds(rest) // Interval(step, step)).single
            if around is not None:
                coarse = polynomials.add(numerator.poly, fine, -1)
                whole = polynomials.add(polynomials.divide_exactly(coarse, UNIT, step), {UNIT: around})
                return self._division(from_poly(whole), from_poly({UNIT: divisor // step}))
        return None

    def _coarser_by_a_factor(self, numerator: Term, divisor: Term) -> Term | None:
        """`(g*p + r)//(g*d)` is `(p + q)//d` for an atom g > 0 where `q*g <= r <= q*g + g - 1`."""
        known = self._known
        for atom, _ in polynomials.common_monomial(divisor.poly):
            factor = term_of(atom)
            coarse = {each: n for each, n in numerator.poly.items() if any(part is atom for part, _ in each)}
            rest = numerator - from_poly(coarse)
            if not coarse or not rest.poly or known.sign(factor) <= 0:
                continue
            for whole in (0, -1):
                above = rest - whole * factor
                if known.nonnegative(above) and known.nonnegative(factor - above - 1):
                    numerator, divisor = (
                        from_poly(polynomials.divide_exactly(poly, ((atom, 1),), 1)) for poly in (coarse, divisor.poly)
                    )
                    return self._division(numerator + whole, divisor)
        return None

    def _unnested(self, numerator: Term, divisor: Term) -> Term | None:
        """`(p + x//e)//d` is `(p*e + x)//(e*d)` for positive d; applied only while the terms stay small."""
        if (
            len(numerator.monomials) > _LONGEST_UNNESTED
            or sum(power for _, power in divisor.monomials[0][0]) > _HIGHEST_UNNESTED
        ):
            return None
        for monomial, coefficient in numerator.monomials:
            match monomial:
                case ((FloorDiv(inner, below), 1),) if coefficient == 1 and self._known.sign(below):
                    rest = from_poly(polynomials.add(numerator.poly, {monomial: -1}))
                    return self._division(rest * below + inner, below * divisor)
        return None

    def _extremum(self, args: list[Term], sense: int) -> Term:
        """Return the min (sense 1) or max (-1) without arguments that another argument always beats or equals."""
        kept: list[Term] = []
        for index, arg in enumerate(args if len(args) <= _MOST_RIVALS else ()):
            rivals = kept + args[index + 1 :]
            if not any(self._known.nonnegative(sense * (arg - rival)) for rival in rivals):
                kept.append(arg)
        kept = kept or args
        pick = minimum if sense > 0 else maximum
        result = bare(pick(*kept))
        if len(kept) < len(args):
            audit.note_equal("extremum", self._known, bare(pick(*args)), result)
        return result

    def _application(self, op: str, args: list[Any]) -> Term:
        value = bare(apply(op, *args))
        simpler = exact_integer(op, args, self._known.bounds) or with_powers(op, args, self._known.bounds)
        if simpler is None or bare(simpler) is value:
            return value
        audit.note_equal("exact", self._known, value, bare(simpler))
        return bare(simpler)

    def _bounded(self, formula: RealCompare) -> Formula:
        """Settle a comparison of doubles by a fact, by bounds or by enclosures; otherwise return it."""
        verdict = self._known.truth(formula)
        if verdict is None:
            verdict = enclosed(formula, self._known)
        if verdict is None:
            return self._listed(formula)
        audit.note("bounds", self._known, formula if verdict else formula.negation)
        return TRUE if verdict else FALSE

    def _listed(self, formula: Formula) -> Formula:
        """Return TRUE or FALSE if the formula or its negation is itself a fact; otherwise the formula."""
        if formula in self._known.active:
            return TRUE
        return FALSE if formula.negation in self._known.active else formula

    def _comparison(self, formula: Formula) -> Formula:
        """Return a comparison of reduced terms, settled if bounds settle it."""
        formula = settled(formula)
        if not isinstance(formula, Compare):
            return formula
        shorter = settled(compare(formula.op, self._without_factors(formula.op, formula.term)))
        audit.note_same("factors", self._known, formula, shorter)
        verdict = self._known.verdict(shorter) if isinstance(shorter, Compare) else None
        if verdict is None:
            return shorter
        audit.note("bounds", self._known, shorter if verdict else shorter.negation)
        return TRUE if verdict else FALSE

    def _without_factors(self, op: str, term: Term) -> Term:
        """Divide the term by atoms common to all its monomials, if their sign is known or does not matter.

        The sign does not matter for `==` and `!=`: there the atom only has to be nonzero.
        """
        if not term.poly or UNIT in term.poly:
            return term
        shared = polynomials.common_monomial(term.poly)
        flips, dropped = 1, []
        for atom, exponent in shared:
            sign = self._known.sign(term_of(atom))
            if sign or (op != "<=" and self._known.nonzero(term_of(atom))):
                dropped.append((atom, exponent))
                flips *= sign**exponent if sign else 1
        if not dropped:
            return term
        return from_poly(polynomials.divide_exactly(term.poly, tuple(dropped), 1)) * (flips if op == "<=" else 1)


def _shown(node: Node) -> Iterable[Node]:
    """Return the nodes to rewrite before this node: its children, without the checks of a term."""
    if isinstance(node, Term) and node.checks:
        return dict.fromkeys(atom for monomial in node.poly for atom, _ in monomial)
    return node.children


def _joined(formulas: Iterable[Formula], join: Any, absorbing: Formula) -> Formula:
    """Join reduced formulas with `and` or `or`; only values count, so an absorbing operand absorbs at any position."""
    operands = list(formulas)
    if any(operand is absorbing for operand in operands):
        return absorbing
    joined: Formula = join(*operands)
    return joined


def substitute(expression: Expression, replacements: Mapping[str, Term]) -> Expression:
    """Return the expression with symbols replaced at once; the result is equal wherever the expression is defined.

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


def enclosed(formula: RealCompare, known: Knowledge) -> bool | None:
    """True or False if enclosures show it for `<=` or `<` of doubles wherever it is defined; otherwise None.

    So `n * 1.5 >= n` holds at any n >= 0. An enclosure is used for a side that cannot be nan; for the lesser side, also
    only if that side is finite. An enclosure says nothing about an infinity; on the greater side an infinity does no
    harm.
    """
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
