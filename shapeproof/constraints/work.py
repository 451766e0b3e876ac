"""Work is counted, never timed: loops charge units of work to an allowance, which bounds them.

A loop that can grow charges for its steps: monomials made, nodes visited, points evaluated. Inside `at_most`, charges
are deducted from an allowance. A charge beyond the allowance raises `OutOfWork`; the function that opened the allowance
turns `OutOfWork` into an answer, such as a formula that is too large or an undecided question. Without an open
allowance, charges are free, and the limits in `operators` bound one step of canonicalisation. A unit is some tenth of a
microsecond to a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shapeproof.constraints.errors import ShapeproofError


class OutOfWork(ShapeproofError):
    """The allowance is used up. Law: this error does not leave the function that opened the allowance."""


class Meter:
    """The rest of an allowance."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


_open: ContextVar[Meter | None] = ContextVar("meter", default=None)


def current_meter() -> Meter | None:
    """Return the innermost open allowance, or None."""
    return _open.get()


def charge(units: int) -> None:
    """Deduct units from the innermost allowance, if one is open.

    Raises:
        OutOfWork: fewer units are left.
    """
    meter = _open.get()
    if meter is not None:
        meter.left -= units
        if meter.left < 0:
            meter.left = -1  # the caller does not do the work that it wanted to charge for
            raise OutOfWork


@contextmanager
def metered(meter: Meter) -> Iterator[Meter]:
    """Charge the work inside the block to this meter, and at the end of the block to the meter around it as well."""
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
    """Make charges inside the block free: text that is written for a reader must not change an answer.

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
    """Limit the charges inside the block to `units`, and to what is left of the allowance around the block.

    >>> with at_most(10):
    ...     charge(8)
    ...     charge(3)
    Traceback (most recent call last):
    shapeproof.constraints.work.OutOfWork
    """
    outer = _open.get()
    with metered(Meter(units if outer is None else max(0, min(units, outer.left)))) as meter:
        yield meter
