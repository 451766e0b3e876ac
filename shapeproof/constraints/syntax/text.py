"""The language of terms and formulas: parse and print. Law: `parse(str(x)) is x`, for terms, reals and formulas.

The syntax is Python's, with Python's precedence: `+ - * // % ** / << >> & | ^ ~`, comparisons (also chained),
`and or not`, `a if c else b`, `min max abs int float floor ceil trunc round` and the usual functions of `math`.
Where a condition is expected, a number n means `n != 0`. In addition, `truth(p)` is an opaque condition, `real(a)` a
given float, `x.shape[0]` one symbol, and backquotes turn any text into a name.
"""

from __future__ import annotations

from collections.abc import Collection

from shapeproof.constraints.errors import FormulaSyntaxError, UsageError, nearest
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.nodes import Node
from shapeproof.constraints.syntax.parsing import as_truth, parse
from shapeproof.constraints.syntax.parsing import parse as parse_any
from shapeproof.constraints.syntax.printing import format_node
from shapeproof.constraints.terms import Term

__all__ = [
    "FormulaSyntaxError",
    "format_formula",
    "format_node",
    "format_term",
    "parse_any",
    "parse_formula",
    "parse_relation",
    "parse_term",
]


def parse_formula(text: str) -> Formula:
    """Return the formula that the text denotes; a number n means `n != 0`.

    >>> parse_formula("1 <= h//4 and not h % 4")
    h >= 4 and h % 4 == 0
    """
    return as_truth(parse(text))


def parse_relation(text: str, names: Collection[str] | None = None) -> Formula:
    """Return the formula that a user wrote: a condition, not a number, over these names (None: over any names).

    Raises:
        UsageError: the text is invalid; the message begins with the text.

    >>> parse_relation("2*n <= m", {"n", "m"})
    2*n <= m
    >>> parse_relation("2*n", {"n"})
    Traceback (most recent call last):
    shapeproof.constraints.errors.UsageError: '2*n' is a number; a relation such as '2*n == 0' was expected
    """
    if not isinstance(text, str):
        raise UsageError(f"{text!r} is no text of a relation, such as 'n % 2 == 0'")
    try:
        formula = parse(text)
    except FormulaSyntaxError as error:
        raise UsageError(f"{text!r} cannot be read: {error}") from None
    if not isinstance(formula, Formula):
        raise UsageError(f"{text!r} is a number; a relation such as {text + ' == 0'!r} was expected")
    for name in sorted(formula.symbols.difference(formula.symbols if names is None else names)):
        raise UsageError(f"{text!r} names `{name}`, but no dim has that name{nearest(name, sorted(names or ()))}")
    return formula


def parse_term(text: str) -> Term:
    """Return the integer term that the text denotes.

    >>> parse_term("x + (4 - x%4) % 4")
    4*((x + 3)//4)
    """
    value = parse(text)
    if not isinstance(value, Term):
        raise FormulaSyntaxError(f"An integer is wanted, and {value} is none.", 1)
    return value


Node.in_text, Node.of_text = format_node, parse
format_term = format_formula = format_node
"""Return the text of a term, or of a formula; `rename` maps symbols to displayed names."""
