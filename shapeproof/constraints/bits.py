"""Bitwise operations on integers as divisions: `x & 7` is `x % 8`, and `x & -8` is `8*(x//8)`.

As in Python, an integer has infinitely many bits, and a negative integer ends in ones. So every rule holds for every
integer. Where both operands are unknown, only repeated operands are simplified: `x & x` is `x`.
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
"""Terms with more monomials or deeper nesting keep their bitwise form: divisions would make them longer and deeper."""


def without_bits(op: str, left: Term, right: Term, combine: Callable[[str, Term, Term], Term]) -> Term | None:
    """Return `left op right` for "and", "or", "xor" by sums and divisions, or in a shorter form; None if there is none.

    >>> from shapeproof.constraints.terms import apply, symbol
    >>> n, m = symbol("n"), symbol("m")
    >>> apply("and", n, 12), apply("or", n, 7), apply("xor", apply("xor", n, m), n)
    (4*(n//4) - 16*(n//16), 8*(n//8) + 7, m)
    """
    if left is right:
        return left if op != "xor" else left - left
    joined = _joined(op, left, right)
    if joined is not None:
        return reduce(lambda one, other: combine(op, one, other), joined) if joined else left - left
    value, mask = (right, left) if left.is_constant else (left, right)
    short = mask.is_constant and _is_small(value)
    both = _masked(value, mask.constant_value) if short else None
    if both is None:
        return None
    # value + mask counts each common bit twice
    return {"and": both, "or": value + mask - both, "xor": value + mask - 2 * both}[op]


def _is_small(value: Term) -> bool:
    return len(value.monomials) <= _LONGEST_MASKED and value.key[0] <= _DEEPEST_MASKED


def _joined(op: str, left: Term, right: Term) -> list[Term] | None:
    """Return the distinct operands of `op`, if an operand occurs twice and all are total; otherwise None.

    For "xor", operands that occur an even number of times cancel.
    """
    everything = sorted((*_flattened(op, left), *_flattened(op, right)), key=lambda operand: operand.key)
    distinct = list(dict.fromkeys(everything))
    if len(distinct) == len(everything) or not all(operand.total for operand in distinct):
        return None
    return [each for each in distinct if op != "xor" or everything.count(each) % 2]


def _flattened(op: str, term: Term) -> tuple[Term, ...]:
    """Return the operands of `op` in the term, flattened a few levels deep; or the term alone."""
    found = [term]
    for _ in range(_MOST_RUNS):
        found = [part for each in found for part in (operands(op, each) or (each,))]
    return tuple(found)


def operands(op: str, term: Term) -> tuple[Term, ...]:
    """Return the operands of a term that is one application of `op`; empty for any other term."""
    match term.monomials:
        case ((((Apply(name, args), 1),), 1),) if name == op:
            return cast("tuple[Term, ...]", args)
        case _:
            return ()


def _masked(value: Term, mask: int) -> Term | None:
    """Return `value & mask` as a sum over the runs of ones in the mask; None if there are too many runs."""
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
    """The first bit and the end of each run of ones; the end is None for the infinite run of a negative mask.

    Yields at most one run more than `_masked` accepts.
    """
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
