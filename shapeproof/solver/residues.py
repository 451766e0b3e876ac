"""Case-splitting by remainders: `a*(a+1)*(a+2) % 6 == 0` holds because it does for a = 6k, 6k + 1, ..., 6k + 5.

For symbols that occur in numerators over constant divisors, each symbol is written `m*k + r` for every remainder r. The
divisions then disappear or shrink, and each case is left to the cheap steps. All cases must be proved; one that is not
proves nothing.
"""

from __future__ import annotations

from itertools import product
from math import lcm, prod
from typing import TYPE_CHECKING

from shapeproof.constraints.formulas import TRUE, Formula
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import FloorDiv, symbol
from shapeproof.solver.knowledge import within
from shapeproof.solver.learning import absorb
from shapeproof.solver.reduction import Reducer
from shapeproof.solver.substitution import substitute

if TYPE_CHECKING:
    from shapeproof.solver.knowledge import Knowledge

_LARGEST_MODULUS = 64
_MOST_CASES = 256


def proved_by_residues(formula: Formula, known: Knowledge) -> str | None:
    """The moduli by which every case of a reduced formula comes out true, as text; None if that was not shown."""
    moduli = _moduli(formula)
    if not moduli or prod(moduli.values()) > _MOST_CASES:
        return None
    names = sorted(moduli)
    for remainders in product(*(range(moduli[name]) for name in names)):
        if not _case_holds(
            formula, known, {name: (moduli[name], r) for name, r in zip(names, remainders, strict=True)}
        ):
            return None
    return ", ".join(f"{name} modulo {moduli[name]}" for name in names)


def _moduli(formula: Formula) -> dict[str, int]:
    """Symbol -> the least common multiple of the constant divisors under which it stands."""
    moduli: dict[str, int] = {}
    for node in postorder(formula):
        if isinstance(node, FloorDiv) and node.divisor.is_constant:
            for name in node.numerator.symbols:
                modulus = lcm(moduli.get(name, 1), node.divisor.constant_value)
                if modulus <= _LARGEST_MODULUS:
                    moduli[name] = modulus
    return moduli


def _case_holds(formula: Formula, known: Knowledge, case: dict[str, tuple[int, int]]) -> bool:
    """Whether the formula is seen to hold where each symbol leaves its remainder."""
    replacements = {name: modulus * symbol(f"{name} // {modulus}") + rest for name, (modulus, rest) in case.items()}
    local = known.copy()
    facts: list[Formula] = []
    for name in case:
        facts.extend(substitute(fact, replacements) for fact in within(name, known.range_of(name)))
    local = absorb(local, facts)
    if local.contradiction:
        return True
    return Reducer(local).reduce(substitute(formula, replacements)) is TRUE
