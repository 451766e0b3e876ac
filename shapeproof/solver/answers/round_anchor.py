"""The anchor of a repair without a given point: a point at which every divided symbol is a multiple of its divisor.

A trace runs at a generic point. A repair around that point would say `h % 16 == 8` where `h % 16 == 0` serves as well.
Law: a returned point satisfies the facts and the requirement, unless it is the given point.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

from shapeproof.constraints.formulas import Formula, conjunction, eq, ge
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import FloorDiv, modulo, symbol
from shapeproof.solver.answers.witness import find, grant
from shapeproof.solver.budget import until_spent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shapeproof.constraints.records.verdicts import Undecided
    from shapeproof.solver.facts import Facts
    from shapeproof.solver.sampled.points import Point

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

    Return `near` itself if nothing is divided, or if no other point is found.

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
