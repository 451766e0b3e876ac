"""Float-valued expressions. They mean IEEE doubles, as in Python, and are not rewritten: not even `x * 1.0`.

The one exception is `max(x, -x) + 0.0`, which is `abs(x)` to the last bit.

An integer term may contain a float expression under `int(...)`, `math.floor(...)` and the like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from shapeproof.constraints import operators
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.nodes import Named, Node

if TYPE_CHECKING:
    from shapeproof.constraints.terms import Term


class Real(Node):
    """A float-valued expression."""

    __slots__ = ()


class RealConstant(Real):
    """A double, stored as its exact hexadecimal digits, so that -0.0 differs from 0.0 and nan equals itself."""

    __slots__ = ("digits",)
    __match_args__ = ("digits",)
    rank = 20
    digits: str

    def __new__(cls, value: float) -> Self:
        """Return the node of this double."""
        return super().__new__(cls, float(value).hex())

    @property
    def value(self) -> float:
        """The double."""
        return float.fromhex(self.digits)


class RealSymbol(Named, Real):
    """A float whose value comes from the environment."""

    __slots__ = ()
    rank = 21


class FromInt(Real):
    """`float(term)`: rounds, and raises OverflowError where Python does."""

    __slots__ = ("term",)
    __match_args__ = ("term",)
    rank = 22
    term: Term

    def _is_total(self) -> bool:
        return False


class RealCall(Real):
    """`op` of `operators.REAL` on doubles; "inttruediv" is Python's division of two integer terms."""

    __slots__ = ("args", "op")
    __match_args__ = ("op", "args")
    rank = 23
    op: str
    args: tuple[Real | Term, ...]

    def _is_total(self) -> bool:
        return self.op in operators.NEVER_RAISE and super()._is_total()


def real_call(op: str, *args: Real | Term) -> Real:
    """Apply a float function. Integer terms are converted to float first, except by "inttruediv".

    >>> from shapeproof.constraints.terms import symbol
    >>> real_call("mul", symbol("n"), RealConstant(0.5))
    float(n) * 0.5
    """
    if op not in operators.REAL:
        raise UsageError(f"There is no float function called {op!r}.")
    match op, args:
        case "inttruediv", _:
            return RealCall(op, args)
        case "neg", (RealConstant(value=value),):
            return RealConstant(-value)
        case "add", (RealCall("max", (value, RealCall("neg", (other,)))), RealConstant() as zero) if (
            value is other and zero is RealConstant(0.0)
        ):  # the form in which torch saves abs: adding 0.0 turns -0.0 into 0.0
            return RealCall("abs", (value,))
    return RealCall(op, tuple(arg if isinstance(arg, Real) else FromInt(arg) for arg in args))
