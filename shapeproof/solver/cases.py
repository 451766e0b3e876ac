"""Case splits by quotients and remainders, on disjunctions among the facts, and on the least value of an exponent.

Law: the formula is proved only if all cases are proved.

`a*(a+1)*(a+2) % 6 == 0` holds because it does for a = 6k, 6k + 1, ..., 6k + 5.

First, a symbol whose divisions all share a factor m is written `m*q + r`, once: `h//4`, `(h + 4)//8` and `h//16` become
`q`, `(q + 1)//2` and `q//4`, which are related. Then each symbol that is still divided takes each remainder in turn,
and the cheap steps decide each case.

`a % g == 0 or b % g == 0` implies that g divides a*b; the cheap steps see that only in each of the two cases. In the
same way, `x or y` holds if y holds where x fails, and `2**k == 1 or 2**k % 2 == 0` is seen for k = 0 and for k >= 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import islice, product
from math import gcd, lcm, prod

from shapeproof.constraints.formulas import FALSE, TRUE, Formula, Or, eq, gt
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import Apply, FloorDiv, Term, modulo, symbol
from shapeproof.solver.learned.knowledge import Knowledge
from shapeproof.solver.learned.learning import absorb, split
from shapeproof.solver.learned.reduction import Reducer

_LARGEST_MODULUS = 64
_MOST_CASES = 8
_MOST_SPLITS = 4
_FEW_REMAINDERS = 12


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


def proved_by_alternatives(formula: Formula, known: Knowledge) -> int | None:
    """Return the number of cases in which a reduced formula was proved, if it was proved in all; otherwise None.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> known = Facts([parse_formula("n % 6 == 0 or n % 4 == 0")]).known
    >>> proved_by_alternatives(parse_formula("n % 2 == 0"), known)
    2
    """
    asked, given = _last_of(formula)
    splits: list[tuple[Formula, ...]] = []
    for each in islice(_splits(formula, known), _MOST_SPLITS):
        if prod(map(len, splits)) * len(each) <= _MOST_CASES:
            splits.append(each)
    if not splits and not given:
        return None
    cases = list(product(*splits))
    return len(cases) if all(_holds_in(asked, [*given, *case], known) for case in cases) else None


def _last_of(formula: Formula) -> tuple[Formula, list[Formula]]:
    """Return z and the negations of x and y for `x or y or z`: it is enough to show z where x and y fail."""
    match formula:
        case Or(args):
            return args[-1], [arg.negation for arg in args[:-1]]
        case _:
            return formula, []


def _splits(formula: Formula, known: Knowledge) -> Iterator[tuple[Formula, ...]]:
    """Case splits, from disjunctive facts and from exponents.

    Wherever the facts hold, at least one formula of each split holds.
    """
    for fact in known.mentioning.among(sorted(formula.symbols)):
        if isinstance(fact, Or):
            yield fact.args
    powers = [node for node in postorder(formula) if isinstance(node, Apply) and node.op == "pow"]
    for name in sorted(frozenset[str]().union(*(power.args[1].symbols for power in powers))):
        least = known.range_of(name).lower
        if least is not None:
            yield eq(symbol(name), least), gt(symbol(name), least)


def _holds_in(formula: Formula, case: list[Formula], known: Knowledge) -> bool:
    """True if the cheap steps prove the formula in this case."""
    finer = absorb(known, case)
    if finer.contradiction:
        return True
    reduced = Reducer(finer).reduce(formula)
    return reduced is TRUE or (reduced is not FALSE and proved_by_cases(reduced, finer, _FEW_REMAINDERS) is not None)
