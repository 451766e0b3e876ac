"""Bits of integers by division: `x & 7` is `x % 8`, and `x & -8` is `8*(x//8)`.

An integer has infinitely many bits, those of a negative one ending in ones, as in Python. So all rules hold for every
integer. With both sides unknown, only what is equal by form is seen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, cast

from shapeproof.constraints.atoms import Apply

if TYPE_CHECKING:
    from shapeproof.constraints.terms import Term

_MOST_RUNS = 4
_LONGEST_MASKED = 16
_DEEPEST_MASKED = 16
"""Bits of a term with more monomials, or nested deeper, are not written by divisions, which would add to both."""


def without_bits(op: str, left: Term, right: Term, combine: Callable[[str, Term, Term], Term]) -> Term | None:
    """`left op right` for "and", "or" and "xor", written by sums and divisions, or shorter; None where it cannot be.

    >>> from shapeproof.constraints.terms import apply, symbol
    >>> n, m = symbol("n"), symbol("m")
    >>> apply("and", n, 12), apply("or", n, 7), apply("xor", apply("xor", n, m), n)
    (4*(n//4) - 16*(n//16), 8*(n//8) + 7, m)
    """
    if left is right:
        return left if op != "xor" else left - left
    operands = _joined(op, left, right)
    if operands is not None:
        return reduce(lambda one, other: combine(op, one, other), operands) if operands else left - left
    value, mask = (right, left) if left.is_constant else (left, right)
    short = mask.is_constant and _is_small(value)
    both = _masked(value, mask.constant_value) if short else None
    if both is None:
        return None
    # each bit that is set in one is set in both or in just one
    return {"and": both, "or": value + mask - both, "xor": value + mask - 2 * both}[op]


def _is_small(value: Term) -> bool:
    return len(value.monomials) <= _LONGEST_MASKED and value.key[0] <= _DEEPEST_MASKED


def _joined(op: str, left: Term, right: Term) -> list[Term] | None:
    """What is combined by the same function on both sides, where something of it is there twice."""
    everything = sorted((*_operands(op, left), *_operands(op, right)), key=lambda operand: operand.key)
    distinct = list(dict.fromkeys(everything))
    if len(distinct) == len(everything) or not all(operand.total for operand in distinct):
        return None
    return [each for each in distinct if op != "xor" or everything.count(each) % 2]


def _operands(op: str, term: Term) -> tuple[Term, ...]:
    """What a term combines by the function, some way down; or the term itself."""
    found = [term]
    for _ in range(_MOST_RUNS):
        found = [part for each in found for part in (_parts(op, each) or (each,))]
    return tuple(found)


def _parts(op: str, term: Term) -> tuple[Term, ...]:
    match term.monomials:
        case ((((Apply(name, args), 1),), 1),) if name == op:
            return cast("tuple[Term, ...]", args)
        case _:
            return ()


def _masked(value: Term, mask: int) -> Term | None:
    """`value & mask`, the sum over the runs of ones in the mask."""
    runs = list(_runs(mask))
    if len(runs) > _MOST_RUNS:
        return None
    result = value - value
    for first, end in runs:
        result += value // 2**first * 2**first
        if end is not None:
            result -= value // 2**end * 2**end
    return result


def _runs(mask: int) -> Iterator[tuple[int, int | None]]:
    """Where runs of ones begin and end; of a negative mask the last has no end. At most one more than are used."""
    start = 0
    for _ in range(_MOST_RUNS + 1):
        if mask == 0:
            return
        zeros = (mask & -mask).bit_length() - 1
        ones = (~(mask >> zeros) & (mask >> zeros) + 1).bit_length() - 1
        if mask >> zeros == -1:
            yield start + zeros, None
            return
        yield start + zeros, start + zeros + ones
        mask >>= zeros + ones
        start += zeros + ones
