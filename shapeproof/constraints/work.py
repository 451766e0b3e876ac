"""Work is counted, and never timed: what the loops of these rooms charge, and what may be spent on one thing.

A loop that can grow charges what it does: monomials made, nodes visited, points evaluated. Inside `at_most` the units
are taken from an allowance, and a charge beyond it raises `OutOfWork`, which whoever opened the allowance turns into an
answer: a formula that is too large, a question that is undecided. Outside, charges cost nothing, and what one step of
canonical form may make is limited by `operators`. A unit is some tenth of a microsecond to a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shapeproof.constraints.errors import ShapeproofError


class OutOfWork(ShapeproofError):  # noqa: N818  (names a state, not a mistake)
    """The allowance is used up. It never leaves the function that opened it."""


class Meter:
    """What is left of an allowance."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


_open: ContextVar[Meter | None] = ContextVar("meter", default=None)


def current_meter() -> Meter | None:
    """The innermost allowance that is open."""
    return _open.get()


def charge(units: int) -> None:
    """Take so many units from the innermost allowance; there need not be one.

    Raises:
        OutOfWork: there is not so much left.
    """
    meter = _open.get()
    if meter is not None:
        meter.left -= units
        if meter.left < 0:
            meter.left = -1  # what was to be charged for is not done
            raise OutOfWork


@contextmanager
def metered(meter: Meter) -> Iterator[Meter]:
    """Charges inside the block go to this meter, and once it is left to the one around it, too."""
    outer, before = _open.get(), meter.left
    token = _open.set(meter)
    try:
        yield meter
    finally:
        _open.reset(token)
        if outer is not None:
            outer.left -= before - meter.left


@contextmanager
def unmetered() -> Iterator[None]:
    """Charges inside the block cost nothing: what is written for a reader must not change an answer.

    >>> with at_most(10) as meter, unmetered():
    ...     charge(20)
    >>> meter.left
    10
    """
    token = _open.set(None)
    try:
        yield
    finally:
        _open.reset(token)


@contextmanager
def at_most(units: int) -> Iterator[Meter]:
    """Charges inside the block come to no more than this, nor to more than what is left around it.

    >>> with at_most(10):
    ...     charge(8)
    ...     charge(3)
    Traceback (most recent call last):
    shapeproof.constraints.work.OutOfWork
    """
    outer = _open.get()
    with metered(Meter(units if outer is None else max(0, min(units, outer.left)))) as meter:
        yield meter
