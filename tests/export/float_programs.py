"""Random Python expressions over two sizes and a float from data, and what Python makes of them.

`h` and `w` are ints, `v` is a float. Conditions are joined by `&` and `|`, which neither Python nor torch cuts short.
"""

from __future__ import annotations

import math

from hypothesis import strategies as st

FLOATS = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.0, -1.0, 0.5, -2.5, 5e-324, 1e308, 3.0000000000000004)
"""Data floats: what sympy, or a comparison that is turned round, gets wrong."""

_CONSTANTS = st.sampled_from(("0.1", "0.3", "2.5", "3.0", "-0.0", "1.0", "-1.5", "1e-9", "2.0", "1e308", "0.7"))
_INTEGERS = st.sampled_from(("h", "w", "h + 1", "h * w", "h - w", "3", "2"))
_BINARY = st.sampled_from(("{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} // {}", "{} % {}"))
_PAIRS = st.sampled_from(("min({}, {})", "max({}, {})"))
_UNARY = st.sampled_from(
    ("-({})", "abs({})", "round({}, 1)", "round({}, 2)", "({}) ** 2", "math.pow({}, 3)", "math.sqrt({})")
)
_TO_INTEGER = st.sampled_from(("int({})", "math.floor({})", "math.ceil({})", "round({})", "math.trunc({})"))
_COMPARING = st.sampled_from(("<", "<=", "==", "!=", ">", ">="))


def _wrapped(texts):
    return texts.map("({})".format)


def _reals(leaves):
    """Texts of floats."""
    base = st.one_of(leaves, st.builds("float({})".format, _INTEGERS), st.builds("({}) / 3".format, _INTEGERS))

    def grow(parts):
        return st.one_of(
            st.builds(str.format, _BINARY, _wrapped(parts), _wrapped(parts)),
            st.builds(str.format, _BINARY, _wrapped(parts), _wrapped(st.one_of(_CONSTANTS, _INTEGERS))),
            st.builds(str.format, _BINARY, _CONSTANTS, _wrapped(parts)),
            st.builds(str.format, _PAIRS, parts, st.one_of(parts, _CONSTANTS)),
            st.builds(str.format, _PAIRS, _CONSTANTS, parts),
            st.builds(str.format, _UNARY, parts),
        )

    return st.recursive(base, grow, max_leaves=4)


def _conditions(reals):
    compared = st.builds("{} {} {}".format, _wrapped(reals), _COMPARING, _wrapped(st.one_of(reals, _INTEGERS)))
    asked = st.one_of(
        compared,
        st.builds("{} {} {}".format, _wrapped(_INTEGERS), _COMPARING, _wrapped(reals)),
        st.builds("({}).is_integer()".format, reals),
        st.builds("math.isnan({})".format, reals),
        st.builds("math.isinf({})".format, reals),
        st.builds("math.isfinite({})".format, reals),
    )
    return st.one_of(asked, st.builds("({}) {} ({})".format, asked, st.sampled_from("&|"), asked))


of_sizes = _reals(st.sampled_from(("h * 0.3", "h / 3", "w / 7", "h * 0.5")))
of_data = _reals(st.sampled_from(("v", "v", "h * 0.3", "v * 2.5")))
integers_of_sizes = st.builds(str.format, _TO_INTEGER, of_sizes)
conditions_of_sizes = _conditions(of_sizes)
conditions_of_data = _conditions(of_data)


def outcome(text, **values):
    """What Python makes of the expression, or "raises"; complex numbers are none that a model has."""
    try:
        found = eval(text, {"math": math}, values)  # noqa: S307 - made above
    except (ArithmeticError, ValueError):
        return "raises"
    return "raises" if isinstance(found, complex) else found
