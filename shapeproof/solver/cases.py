"""Case splits by quotients and remainders.

`a*(a+1)*(a+2) % 6 == 0` holds because it does for a = 6k, 6k + 1, ..., 6k + 5.

First, a symbol whose divisions all share a factor m is written `m*q + r`, once: `h//4`, `(h + 4)//8` and `h//16` become
`q`, `(q + 1)//2` and `q//4`, which are related. Then each symbol that is still divided takes each remainder in turn,
and the cheap steps decide each case. Law: the formula is proved only if all cases are proved.
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
    """Return the reduced formula and the knowledge with symbols split where their divisions share a factor."""
    steps = {name: gcd(*each) for name, each in divided(formula).items()}
    moduli = tuple(sorted((name, step) for name, step in steps.items() if step > 1))
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
    """Return the memoised knowledge of a case, extended by the facts learned since; None if it cannot be used."""
    finer, sources = known.cases.get(case, (None, known.sources))
    if finer is None or not sources.within(known.sources):
        return None
    news = known.sources.since(len(sources))
    finer = absorb(finer, news) if news else finer
    # otherwise a formula may use names that the case does not define
    return finer if known.definitions.keys() <= finer.definitions.keys() else None


def proved_by_cases(formula: Formula, known: Knowledge, most: int) -> str | None:
    """Return the moduli, as text, if every case of a reduced formula is proved; otherwise None.

    More than `most` cases are not tried.
    """
    moduli = _moduli(formula)
    if not moduli or prod(moduli.values()) > most:
        return None
    for case in _cases(tuple(sorted(moduli.items())), known):
        if not case.contradiction and Reducer(case).reduce(formula) is not TRUE:
            return None
    return ", ".join(f"{name} modulo {modulus}" for name, modulus in sorted(moduli.items()))


def _cases(moduli: tuple[tuple[str, int], ...], known: Knowledge) -> Iterator[Knowledge]:
    """The knowledge in each combination of remainders; each is derived once."""
    for remainders in product(*(range(modulus) for _, modulus in moduli)):
        key = ("remainders", moduli, remainders)
        case = _caught_up(key, known)
        if case is None:
            parts = zip(moduli, remainders, strict=True)
            case = absorb(known, [eq(modulo(symbol(name), modulus), r) for (name, modulus), r in parts])
        known.cases[key] = case, known.sources
        yield case


def divided(formula: Formula) -> dict[str, list[int]]:
    """Return symbol -> its moduli in divisions by constants: in `(2*h + w)//8`, 4 for h and 8 for w."""
    moduli: dict[str, list[int]] = {}
    for node in postorder(formula):
        if isinstance(node, FloorDiv) and node.divisor.is_constant:
            divisor = node.divisor.constant_value
            for name in node.numerator.symbols:
                modulus = divisor // gcd(divisor, _coefficient(node.numerator, name))
                moduli.setdefault(name, []).append(modulus)
    return moduli


def _coefficient(term: Term, name: str) -> int:
    """Return the coefficient of a symbol that occurs in one monomial only, without other factors; else 1."""
    occurrences = [(monomial, n) for monomial, n in term.monomials if any(name in atom.symbols for atom, _ in monomial)]
    if len(occurrences) == 1 and len(occurrences[0][0]) == 1 and occurrences[0][0][0][0].key[0] == 0:
        return occurrences[0][1]
    return 1


def _moduli(formula: Formula) -> dict[str, int]:
    """Return symbol -> the least common multiple of its moduli, while that is small."""
    moduli: dict[str, int] = {}
    for name, each in divided(formula).items():
        for modulus in each:
            multiple = lcm(moduli.get(name, 1), modulus)
            if 1 < multiple <= _LARGEST_MODULUS:
                moduli[name] = multiple
    return moduli
