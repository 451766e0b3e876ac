"""The least upper and the greatest lower bound of a term wherever the facts hold.

Law: a bound is proved, and attained at a point of the facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import lcm

from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.formulas import Formula, gt, le
from shapeproof.constraints.meaning.evaluate import evaluate, value_at
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.terms import Term
from shapeproof.solver.answers.witness import find
from shapeproof.solver.budget import until_spent
from shapeproof.solver.facts import Facts

_LARGEST_SIZE = 2**63 - 1
_FAR = 2**64 * lcm(*range(1, 33))


def least_upper_bound(term: Term, facts: Facts) -> int | Undecided | None:
    """Return the greatest value of the term; None if the term has values beyond every 64-bit integer.

    >>> from shapeproof.constraints.syntax.text import parse_formula, parse_term
    >>> from shapeproof.solver.facts import Facts
    >>> facts = Facts([parse_formula("1 <= n <= 100"), parse_formula("n % 8 == 0"), parse_formula("0 <= u <= n//2")])
    >>> least_upper_bound(parse_term("u + 1"), facts)
    49
    """
    with until_spent(facts.budget.for_a_task):
        start = _value(term, facts)
        if not isinstance(start, int):
            return start
        if grows(term, facts):
            return None
        bound = facts.known.bounds(facts.reduce(term)).upper
        beyond = find(gt(term, _LARGEST_SIZE), facts) if bound is None else None
        if beyond is not None:
            return beyond if isinstance(beyond, Undecided) else None
        return _climb(term, facts, start, _LARGEST_SIZE if bound is None else bound)
    return Undecided("the budget was used up")


def grows(term: Term, facts: Facts) -> bool:
    """True if the term exceeds every 64-bit integer at a point of the facts far from a sample; False means unknown.

    The far point has the sample's remainders by all small divisors, so that facts about remainders hold there too.

    >>> from shapeproof.constraints.syntax.text import parse_formula, parse_term
    >>> from shapeproof.solver.facts import Facts
    >>> facts = Facts([parse_formula("n >= 0"), parse_formula("n % 8 == 3"), parse_formula("0 <= m <= 9")])
    >>> grows(parse_term("n//2 - m"), facts), grows(parse_term("m"), facts)
    (True, False)
    """
    if facts.known.bounds(facts.reduce(term)).upper is not None:
        return False
    names = sorted(term.symbols)
    for sample in facts.samples()[:1]:
        for moved in dict.fromkeys((*((name,) for name in names), tuple(names))):
            far = sample | {name: sample.get(name, 0) + _FAR for name in moved}
            if facts.contains(far) and (value_at(term, far) or 0) > _LARGEST_SIZE:
                return True
    return False


def greatest_lower_bound(term: Term, facts: Facts) -> int | Undecided | None:
    """Return the least value of the term; None if the term has values beyond every 64-bit integer."""
    highest = least_upper_bound(-term, facts)
    return -highest if isinstance(highest, int) else highest


def tighter(terms: Iterable[Term], facts: Facts, domain: Facts) -> Iterator[Formula]:
    """Upper bounds that the facts imply and a domain does not, for each term with less room under the facts.

    Bounds that follow from the domain and the earlier bounds are left out; so are bounds that were not proved.

    >>> from shapeproof.constraints.syntax.text import parse_formula, parse_term
    >>> from shapeproof.solver.facts import Facts
    >>> domain = Facts([parse_formula("1 <= n <= 16")])
    >>> facts = Facts([*domain.formulas, parse_formula("n <= u"), parse_formula("u < 4")])
    >>> list(tighter([parse_term("n"), parse_term("-n")], facts, domain))
    [n <= 3]
    """
    left = domain.fork()
    for term in terms:
        most = least_upper_bound(term, facts)
        if isinstance(most, int) and find(gt(term, most), left) is not None:
            yield le(term, most)
            left.learn(le(term, most))


def _value(term: Term, facts: Facts) -> int | Undecided:
    try:
        values = [evaluate(term, point) for point in facts.points(term.symbols)]
    except (ArithmeticError, ValueError, Unevaluable) as reason:  # `8 // n` where n may be 0
        return Undecided(f"the term has no value that can be computed: {reason}")
    return max(values) if values else Undecided("no point was found at which the facts hold")


def _climb(term: Term, facts: Facts, low: int, high: int) -> int | Undecided:
    """Return the greatest value between `low` and `high`: try the upper end first, then bisect."""
    probe = high - 1
    while low < high:
        point = find(gt(term, probe), facts)
        if isinstance(point, Undecided):
            return point
        if point is None:
            high = probe
        else:
            low = max(low, evaluate(term, point))
        probe = (low + high) // 2
    return low
