"""The functions that terms and reals may apply, by name, each with its Python meaning. No algebra.

`INTEGER` functions return an integer, `REAL` functions a double. `NEVER_RAISE` functions are defined on all arguments.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.work import charge

LARGEST_COUNT = 4096
"""The largest exponent or shift count that terms expand, and the largest degree of a monomial."""
MOST_BITS = 2**16
"""Longer integers are not computed. Python could compute them, but no tensor size is that large."""
FEW_BITS = 2**11
"""Arithmetic on integers of at most this many bits costs as much as on small integers."""


def sized(value: int) -> int:
    """Return the integer, and charge for its length.

    Raises:
        Unevaluable: the integer has more than `MOST_BITS` bits.
    """
    bits = value.bit_length()
    if bits > FEW_BITS:
        if bits > MOST_BITS:
            raise Unevaluable("an integer of so many digits is not computed")
        charge(bits * bits >> 16)
    return value


def integer_power(base: int, exponent: int) -> int:
    """Return `base**exponent`; raise Unevaluable if the power is not an integer or is too long."""
    if base.bit_length() * exponent > MOST_BITS and abs(base) > 1:
        raise Unevaluable("a power of so many digits is not computed")
    power = base**exponent
    if not isinstance(power, int):
        raise Unevaluable("a power with a negative exponent is not an integer")
    return sized(power)


def integer_product(left: int, right: int) -> int:
    """Return `left * right`; raise Unevaluable if the product is too long."""
    if left.bit_length() + right.bit_length() > MOST_BITS:
        raise Unevaluable("a product of so many digits is not computed")
    return sized(left * right)


def _left_shift(value: int, count: int) -> int:
    if value and count > MOST_BITS:
        raise Unevaluable("an integer of so many digits is not computed")
    return sized(value << count)


def _real_power(base: float, exponent: float) -> float:
    power = base**exponent
    if isinstance(power, complex):
        raise Unevaluable(f"{base}**{exponent} is not real")
    return float(power)


INTEGER: dict[str, Callable[..., int]] = {
    "mul": integer_product,
    "pow": integer_power,
    "lshift": _left_shift,
    "rshift": operator.rshift,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
}

REAL: dict[str, Callable[..., float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "inttruediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": _real_power,
    "neg": operator.neg,
    "abs": abs,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "round": lambda value, digits: round(value, int(digits)),
}

NEVER_RAISE = frozenset({"and", "or", "xor", "add", "sub", "mul", "neg", "abs", "min", "max"})
COMMUTATIVE = frozenset({"mul", "and", "or", "xor"})

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
