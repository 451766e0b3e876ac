"""Declarations that make a requirement hold: candidates, each proved to suffice, the weakest first.

    relation    the requirement itself, where no simpler form is equivalent       a*b <= 64
    bounds      the longest interval of one symbol                                 n >= 8
    multiple    one residue of one symbol, and its longest interval                n % 4 == 0 and n >= 8
    line        one symbol as a multiple of another and a constant                 y + x == 32
    values      all values of one symbol that serve, or all but a few              n == 4 or n == 8, n != 1
    multiples   one residue of each divided symbol                                 h % 4 == 0 and w % 4 == 0
    sides       each min and max in the requirement is its operand at the anchor   a + b <= 128
    fixed       the one value at the anchor                                        n == 4

Law: with the facts, a repair implies what it repairs.
Law: a repair holds at each *anchor*, a point that is given or found, so that it is not empty.
Law: a repair is maximal of its kind: no longer interval, no divisor of the modulus and no further value would do.

A candidate that stays undecided is not proposed. The rooms above decide which declaration a repair becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import lcm
from typing import Literal, TypeAlias

from shapeproof.constraints.atoms import Extremum, Where
from shapeproof.constraints.formulas import (
    TRUE,
    Compare,
    Formula,
    conjunction,
    connected,
    disjunction,
    eq,
    ge,
    gt,
    le,
    lt,
)
from shapeproof.constraints.meaning.evaluate import defined, evaluate, has_meaning, holds_at, true_at
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.polynomials import Monomial
from shapeproof.constraints.records.domain import residue
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.terms import FloorDiv, Symbol, modulo, symbol
from shapeproof.solver.answers.optimum import greatest_lower_bound, least_upper_bound
from shapeproof.solver.answers.simplify import found_once, simplified
from shapeproof.solver.answers.witness import find, grant, smallest
from shapeproof.solver.answers.wording import reworded
from shapeproof.solver.budget import until_spent
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied
from shapeproof.solver.sampled.points import Point

Kind: TypeAlias = Literal["bounds", "multiple", "line", "multiples", "sides", "values", "fixed", "relation"]

_SIMPLEST: tuple[Kind, ...] = ("fixed", "bounds", "multiple", "line", "multiples", "sides", "values", "relation")
"""The preference among equivalent repairs."""
_MOST_VALUES = 8
_MOST_STEPS = 32
_INVOLVED = (FloorDiv, Extremum, Where)
_WIDEST = 128
"""A symbol with more values than this is not tried value by value."""


@dataclass(frozen=True, slots=True)
class Repair:
    """An additional declaration."""

    kind: Kind
    formula: Formula
    is_weakest: bool = field(default=True, compare=False)
    """False if it was chosen for its form, and another one asks for less."""


def repaired(  # noqa: PLR0913 - what is required, of what is known, and what must be kept
    required: Sequence[Formula],
    facts: Facts,
    anchor: Mapping[str, int] | None = None,
    *,
    others: Sequence[Mapping[str, int]] = (),
    sayable: Callable[[Formula], bool] = lambda _: True,
    simple: bool = False,
) -> list[Repair] | None:
    """Return the weakest repairs of several requirements together, one for each set of symbols in the requirements.

    Requirements on fewer symbols are repaired first; their repairs count as facts for the others. None if there is no
    repair with a `sayable` formula. `others` are further anchors. With `simple`, choose among the repairs in simple
    form, if there are any, the one that serves the most sizes near the anchor.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> needs = [parse_formula(text) for text in ("h % 32 == 0", "h//32 >= 2", "h + w == 640")]
    >>> [repair.formula for repair in repaired(needs, Facts([parse_formula("0 <= h < 600 and w >= 0")])) or ()]
    [h >= 64 and h % 32 == 0, h + w == 640]
    """

    def fits(each: Formula) -> bool:
        return all(holds_at(each, at) for at in others) and sayable(each)

    with until_spent(facts.budget.for_a_task):
        return _repaired(required, facts, anchor, fits, simple=simple)
    return None


def _repaired(
    required: Sequence[Formula],
    facts: Facts,
    anchor: Mapping[str, int] | None,
    sayable: Callable[[Formula], bool],
    *,
    simple: bool,
) -> list[Repair] | None:
    point = _anchor(conjunction(*required), facts, anchor)
    if point is None:
        return None
    here = facts.fork()
    chosen = []
    needed = [*(defined(formula) for formula in required), *required]
    for each in _parts(simplified(needed, facts)):
        part = conjunction(*simplified([each], here))
        if part is TRUE:
            continue
        own = _own_repair(part, here)
        found = [each for each in own or repairs(part, here, point) if sayable(each.formula)]
        if not found:
            return None
        best = _simplest(found, here, point) if simple else found[0]
        chosen.append(replace(best, is_weakest=best is found[0]))
        here.learn(best.formula)
    return chosen


def _own_repair(required: Formula, facts: Facts) -> list[Repair]:
    """Return a requirement as its own repair, if it is a bound, a value, or that two symbols without one are equal."""
    if not isinstance(required, Compare) or required.op == "!=" or not required.total:
        return []
    varying = [(monomial, count) for monomial, count in required.term.monomials if monomial]
    if not all(abs(count) == 1 and _is_symbol(monomial) for monomial, count in varying):
        return []
    if len(varying) == 1:
        return [Repair("fixed" if required.op == "==" else "bounds", required)]
    are_equal = required.op == "==" and len(required.term.monomials) == 2 and sum(n for _, n in varying) == 0
    are_open = all(facts.range_of(name).single is None for name in required.symbols)
    return [Repair("line", required)] if are_equal and are_open else []


def _is_symbol(monomial: Monomial) -> bool:
    return len(monomial) == 1 and monomial[0][1] == 1 and isinstance(monomial[0][0], Symbol)


def repairs(required: Formula, facts: Facts, anchor: Mapping[str, int] | None = None) -> list[Repair]:
    """Return the repairs of the requirement, the weakest first; of equivalent repairs, the simplest.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> facts = Facts([parse_formula("n >= 0")])
    >>> [repair.formula for repair in repairs(parse_formula("4*(n//4) == n and n//4 >= 2"), facts, {"n": 12})]
    [n >= 8 and n % 4 == 0, n == 12]
    """
    given = None if anchor is None else tuple(sorted(anchor.items()))
    return found_once(("repairs", required, given), facts, lambda: _repairs(required, facts, anchor))


def _repairs(required: Formula, facts: Facts, anchor: Mapping[str, int] | None) -> list[Repair]:
    with until_spent(facts.budget.for_a_task):
        point = _anchor(required, facts, anchor)
        if point is None:
            return []
        sufficient = [
            each
            for each in dict.fromkeys(_candidates(required, facts, point))
            if holds_at(each.formula, point) and implied(required, facts.assuming(each.formula))
        ]
        return _ranked(sufficient, facts)
    return []


def _anchor(required: Formula, facts: Facts, given: Mapping[str, int] | None) -> Point | None:
    """Return the point that a repair must allow; None if the requirement fails there."""
    if given is not None:
        return dict(given) if holds_at(required, given) else None
    found = smallest(conjunction(defined(required), required), facts, None)
    return found if isinstance(found, dict) else None


def _parts(required: Sequence[Formula]) -> list[Formula]:
    """Group the requirements by their symbols; groups of few symbols come first."""
    parts: dict[frozenset[str], list[Formula]] = {}
    for formula in required:
        for part in formula.conjuncts:
            parts.setdefault(part.symbols, []).append(part)
    ordered = sorted(parts, key=lambda names: (len(names), sorted(names)))
    return [conjunction(*parts[names]) for names in ordered]


def _candidates(required: Formula, facts: Facts, point: Point) -> Iterator[Repair]:
    names = sorted(required.symbols & point.keys())
    for name in names:
        yield from _intervals(name, required, facts, point)
        yield from _values(name, required, facts, point)
        yield Repair("fixed", eq(symbol(name), point[name]))
    yield from _multiples(required, point)
    yield from _sides(required, facts, point)
    if any(isinstance(node, Compare) and node.op == "==" and len(node.symbols) > 1 for node in postorder(required)):
        for name, other in permutations(names, 2):
            yield from _lines(name, other, required, point)
    yield Repair("relation", required)


# ---------------------------------------------------------------------- one symbol


def _intervals(name: str, required: Formula, facts: Facts, point: Point) -> Iterator[Repair]:
    """For each modulus, the residue of the anchor, and its longest interval around the anchor."""
    for modulus in (1, *_moduli(required)):
        residue = eq(modulo(symbol(name), modulus), point[name] % modulus)
        failing = facts.assuming(residue, required.negation)
        below, above = (
            _nearest(name, side, failing, sign=sign) if step is None else step
            for side, sign in ((lt(symbol(name), point[name]), 1), (gt(symbol(name), point[name]), -1))
            for step in [_stepped(name, failing, point, -sign * modulus)]
        )
        if isinstance(below, Undecided) or isinstance(above, Undecided):
            continue
        ends = []
        if below is not None:
            ends.append(ge(symbol(name), below + 1 + (point[name] - below - 1) % modulus))
        if above is not None:
            ends.append(le(symbol(name), above - 1 - (above - 1 - point[name]) % modulus))
        if ends != [ge(symbol(name), point[name]), le(symbol(name), point[name])]:
            yield Repair("bounds" if modulus == 1 else "multiple", conjunction(residue, *ends))


def _moduli(required: Formula) -> list[int]:
    """Return the divisors greater than 1 of the least common multiple of the requirement's constant divisors.

    If the multiple is too large, return the constant divisors themselves.
    """
    constants = [
        node.divisor.constant_value
        for node in postorder(required)
        if isinstance(node, FloorDiv) and node.divisor.is_constant and node.divisor.constant_value
    ]
    whole = lcm(*constants)
    return [n for n in range(2, whole + 1) if whole % n == 0] if whole <= LARGEST_MODULUS else sorted(set(constants))


def _stepped(name: str, failing: Facts, point: Point, step: int) -> int | None:
    """Return the failing value of the symbol nearest to the anchor, if it is few steps away; None means unknown.

    No value between two steps fails. If other symbols take part, a value that does not fail beside the anchor's other
    values may fail beside others, so only the first step is taken.
    """
    about = connected(frozenset({name}), failing.formulas)
    alone = all(each.symbols <= {name} and has_meaning(each) for each in about)
    values = (point[name] + count * step for count in range(1, _MOST_STEPS + 1 if alone else 2))
    return next((value for value in values if failing.contains({**point, name: value})), None)


def _nearest(name: str, side: Formula, failing: Facts, *, sign: int) -> int | Undecided | None:
    """Return the failing value of the symbol nearest to the anchor on one side of it; None if there is none."""
    here = failing.assuming(side)
    if here.contradictory:
        return None
    best = (least_upper_bound if sign > 0 else greatest_lower_bound)(symbol(name), here)
    return Undecided("the requirement fails without end") if best is None else best


def _values(name: str, required: Formula, facts: Facts, point: Point) -> Iterator[Repair]:
    """All values of the symbol that satisfy the requirement for any values of the other symbols."""
    serving = facts.assuming(required)
    if serving.contains(_moved(name, _WIDEST, facts, point)):
        return
    low, high = (best(symbol(name), serving) for best in (greatest_lower_bound, least_upper_bound))
    if not isinstance(low, int) or not isinstance(high, int) or high - low >= _WIDEST:
        return
    chosen = []
    for value in range(low, high + 1):
        here = facts.assuming(eq(symbol(name), value))
        if not here.contradictory and implied(required, here):
            chosen.append(value)
        if min(len(chosen), value + 1 - low - len(chosen)) > _MOST_VALUES:
            return
    if point[name] in chosen:
        listed = disjunction(*(eq(symbol(name), value) for value in chosen))
        yield Repair("values", reworded(listed, lambda _: facts.range_of(name)))


def _moved(name: str, step: int, facts: Facts, point: Point) -> Point:
    """Return the point with another value for a symbol, and for those that are known to equal it."""
    alike = facts.reduce(symbol(name))
    return {each: value + step * (facts.reduce(symbol(each)) == alike) for each, value in point.items()}


# ---------------------------------------------------------------------- two symbols


def _lines(name: str, other: str, required: Formula, point: Point) -> Iterator[Repair]:
    """`name == slope*other + offset` through the anchor, for the slopes that occur in the requirement."""
    for slope in sorted(_slopes(required)):
        offset = point[name] - slope * point[other]
        yield Repair("line", eq(symbol(name), slope * symbol(other) + offset))


def _multiples(required: Formula, point: Point) -> Iterator[Repair]:
    """The residues that the anchor has, for all symbols divided by constants."""
    moduli = {name: modulus for name, modulus in divisors(required).items() if name in point}
    if len(moduli) > 1 and max(moduli.values()) <= LARGEST_MODULUS:
        residues = (eq(modulo(symbol(name), moduli[name]), point[name] % moduli[name]) for name in sorted(moduli))
        yield Repair("multiples", conjunction(*residues))


def _sides(required: Formula, facts: Facts, point: Point) -> Iterator[Repair]:
    """The condition that each min and max in the requirement is the operand that it is at the anchor."""
    said = []
    for node in postorder(required):
        if isinstance(node, Extremum) and node.symbols <= point.keys():
            best = min(node.args, key=lambda term: node.sense * evaluate(term, point))
            said += [ge(node.sense * (each - best), 0) for each in node.args if each is not best]
    if said:
        yield Repair("sides", conjunction(*simplified(said, facts)))


def _slopes(required: Formula) -> set[int]:
    found = {1, -1}
    for node in postorder(required):
        match node:
            case FloorDiv(_, divisor) if divisor.is_constant:
                found |= {divisor.constant_value, -divisor.constant_value}
            case Compare(_, term):
                found |= {sign * n for factors, n in term.monomials if factors for sign in (1, -1)}
    return {slope for slope in found if slope}


# ---------------------------------------------------------------------- which is weaker


def _ranked(candidates: Sequence[Repair], facts: Facts) -> list[Repair]:
    """Sort the repairs, the weakest first; drop those equal to a simpler one or beaten by a weaker of their kind."""
    by_simplicity = sorted(candidates, key=lambda each: (_SIMPLEST.index(each.kind), len(str(each.formula))))
    weaker: dict[Repair, set[Repair]] = {each: set() for each in by_simplicity}
    for each in by_simplicity:
        here = facts.assuming(each.formula)
        weaker[each] = {other for other in by_simplicity if other is not each and implied(other.formula, here)}
    kept = []
    for index, each in enumerate(by_simplicity):
        same = {other for other in by_simplicity[:index] if other in weaker[each] and each in weaker[other]}
        beaten = any(_alike(each, other) and each not in weaker[other] for other in weaker[each])
        if not same and not beaten:
            kept.append(each)
    return sorted(kept, key=lambda each: -sum(each in weaker[other] for other in by_simplicity))


def _simplest(found: Sequence[Repair], facts: Facts, point: Point) -> Repair:
    """Return the repair in simple form that serves the most sizes near the anchor; without one, the weakest repair."""
    simple = [each for each in found if _is_simple(each.formula)]
    names = sorted(frozenset[str]().union(*(each.formula.symbols for each in simple)) & point.keys())
    return max(simple, key=lambda each: _breadth(each.formula, names, facts, point), default=found[0])


def _is_simple(formula: Formula) -> bool:
    """True if a formula divides only to state a residue of a symbol, and contains no min, max or conditional."""
    involved = [part for part in formula.conjuncts if any(isinstance(n, _INVOLVED) for n in postorder(part))]
    return all(len(part.symbols) == 1 and residue(min(part.symbols), part) for part in involved)


def _breadth(formula: Formula, names: Sequence[str], facts: Facts, point: Point) -> int:
    """Return the number of values near the anchor that these symbols may have, multiplied over the symbols."""
    count = 1
    for name in names:
        around = range(point[name] - _WIDEST, point[name] + _WIDEST + 1)
        within = [value for value in around if value in facts.range_of(name)]
        count *= sum(holds_at(formula, point | {name: value}) for value in within)
    return count


def _alike(each: Repair, other: Repair) -> bool:
    """True if two repairs are of one kind; an interval counts as a residue modulo 1."""
    one_residue = {"bounds", "multiple"}
    return each.kind == other.kind or {each.kind, other.kind} == one_residue


LARGEST_MODULUS = 4096
"""Users do not declare sizes as multiples of more than this."""


def divisors(required: Formula) -> dict[str, int]:
    """Return each symbol that is divided by constants, with the least common multiple of the constants.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> divisors(parse_formula("h % 4 == 0 and (h + w) % 6 == 2"))
    {'h': 12, 'w': 6}
    """
    found: dict[str, int] = {}
    for node in postorder(required):
        if isinstance(node, FloorDiv) and node.divisor.is_constant and node.divisor.constant_value > 0:
            for name in sorted(node.numerator.symbols):
                found[name] = lcm(found.get(name, 1), node.divisor.constant_value)
    return found


def round_anchor(required: Sequence[Formula], facts: Facts, near: Mapping[str, int]) -> Point:
    """Return a point with as many symbols as possible at multiples, and the other symbols as at the point `near`.

    A trace runs at a generic point. A repair around that point would say `h % 16 == 8` where `h % 16 == 0` serves as
    well. Return `near` itself if nothing is divided, or if no other point is found.
    Law: a returned point satisfies the facts and the requirement, unless it is the given point.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> facts = Facts([parse_formula("b >= 1 and h >= 1 and n >= 1")])
    >>> round_anchor([parse_formula("b*h % 16 == 0")], facts, {"b": 6, "h": 8, "n": 7})
    {'b': 16, 'h': 16, 'n': 7}
    """
    moduli = divisors(conjunction(*required))
    if not moduli or max(moduli.values()) > LARGEST_MODULUS:
        return dict(near)
    point: Point | Undecided | None = None
    with until_spent(facts.budget.for_a_task):
        here = facts.assuming(*required)
        granted = [wish for wish in _wishes(moduli, near) if grant(wish, here) is not None]
        point = find(conjunction(*required, *granted), facts)
    if not isinstance(point, dict) or not near.keys() <= point.keys() or not facts.contains(point):
        return dict(near)
    return {name: point[name] for name in near} if true_at(conjunction(*required), point) else dict(near)


def _wishes(moduli: Mapping[str, int], near: Mapping[str, int]) -> Iterator[Formula]:
    """The wishes for an anchor, the multiples first."""
    for name, modulus in moduli.items():
        multiple = eq(modulo(symbol(name), modulus), 0)
        yield conjunction(multiple, ge(symbol(name), modulus))
        yield multiple
    for name, value in near.items():
        yield eq(symbol(name), value)
