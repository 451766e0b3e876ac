"""Case-splitting by quotients and remainders.

`a*(a+1)*(a+2) % 6 == 0` holds because it does for a = 6k, 6k + 1, ..., 6k + 5.

First, a symbol all of whose divisions share a factor m is written `m*q + r`, once: `h//4`, `(h + 4)//8` and `h//16` are
then `q`, `(q + 1)//2` and `q//4`, which know of each other. Then each symbol that is still divided is given each
remainder in turn, and each case is left to the cheap steps. All cases must be proved; one that is not proves nothing.
"""

from __future__ import annotations

from itertools import product
from math import gcd, lcm, prod
from typing import TYPE_CHECKING

from shapeproof.constraints.formulas import TRUE, Formula, eq
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import FloorDiv, Term, modulo, symbol
from shapeproof.solver.learned.learning import absorb, split
from shapeproof.solver.learned.reduction import Reducer

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from shapeproof.solver.learned.knowledge import Knowledge

_LARGEST_MODULUS = 64


def refined(formula: Formula, known: Knowledge) -> tuple[Formula, Knowledge]:
    """The reduced formula and the knowledge with symbols split where the divisions in the formula share a factor."""
    moduli = tuple(sorted((name, step) for name, step in _common_steps(formula).items() if step > 1))
    if not moduli:
        return formula, known
    finer = _caught_up(moduli, known)
    if finer is None:
        finer = known
        for name, step in moduli:
            finer = finer if name in finer.solved else split(finer, name, step)
    known.cases[moduli] = finer, known.sources
    return Reducer(finer).reduce(formula), finer


def _caught_up(case: Hashable, known: Knowledge) -> Knowledge | None:
    """What was made of the case when less was known, with what was learned since; None if that cannot be used."""
    finer, sources = known.cases.get(case, (None, known.sources))
    if finer is None or not sources.within(known.sources):
        return None
    news = known.sources.since(len(sources))
    finer = absorb(finer, news) if news else finer
    # else a formula may name what the case has not heard of
    return finer if known.definitions.keys() <= finer.definitions.keys() else None


def proved_by_cases(formula: Formula, known: Knowledge, most: int) -> str | None:
    """The moduli by which every case of a reduced formula comes out true, as text; None if that was not shown.

    Not tried where there are more than `most` cases.
    """
    moduli = _moduli(formula)
    if not moduli or prod(moduli.values()) > most:
        return None
    for case in _cases(tuple(sorted(moduli.items())), known):
        if not case.contradiction and Reducer(case).reduce(formula) is not TRUE:
            return None
    return ", ".join(f"{name} modulo {modulus}" for name, modulus in sorted(moduli.items()))


def _cases(moduli: tuple[tuple[str, int], ...], known: Knowledge) -> Iterator[Knowledge]:
    """The knowledge in each combination of remainders, each worked out once."""
    for remainders in product(*(range(modulus) for _, modulus in moduli)):
        key = ("remainders", moduli, remainders)
        case = _caught_up(key, known)
        if case is None:
            parts = zip(moduli, remainders, strict=True)
            case = absorb(known, [eq(modulo(symbol(name), modulus), r) for (name, modulus), r in parts])
        known.cases[key] = case, known.sources
        yield case


def divided(formula: Formula) -> Iterator[tuple[str, int]]:
    """Each symbol with the modulus that matters to it, for every division by a constant that it is under."""
    for node in postorder(formula):
        if isinstance(node, FloorDiv) and node.divisor.is_constant:
            divisor = node.divisor.constant_value
            for name in node.numerator.symbols:
                yield name, divisor // gcd(divisor, _coefficient(node.numerator, name))


def _coefficient(term: Term, name: str) -> int:
    """The coefficient of a symbol that occurs in the term only linearly; else 1."""
    occurrences = [(monomial, n) for monomial, n in term.monomials if any(name in atom.symbols for atom, _ in monomial)]
    if len(occurrences) == 1 and len(occurrences[0][0]) == 1 and occurrences[0][0][0][0].key[0] == 0:
        return occurrences[0][1]
    return 1


def _common_steps(formula: Formula) -> dict[str, int]:
    """Symbol -> the greatest common divisor of its moduli."""
    steps: dict[str, int] = {}
    for name, modulus in divided(formula):
        steps[name] = gcd(steps.get(name, 0), modulus)
    return steps


def _moduli(formula: Formula) -> dict[str, int]:
    """Symbol -> the least common multiple of its moduli, as long as that is small."""
    moduli: dict[str, int] = {}
    for name, modulus in divided(formula):
        multiple = lcm(moduli.get(name, 1), modulus)
        if 1 < multiple <= _LARGEST_MODULUS:
            moduli[name] = multiple
    return moduli
