"""The language of terms and formulas: parse and print. `parse(str(x)) is x`, for terms, reals and formulas alike.

The syntax is Python's, with Python's precedence: `+ - * // % ** / << >> & | ^ ~`, comparisons (chained too),
`and or not`, `a if c else b`, `min max abs int float floor ceil trunc round` and the usual functions of `math`.
A condition is a formula; a number where a condition is wanted means that it is not 0. In addition `truth(p)` is an
opaque condition, `real(a)` a float that is given, `x.shape[0]` one symbol, and backquotes make a name of any text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from shapeproof.constraints.errors import FormulaSyntaxError, UsageError, nearest
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.syntax.parsing import as_truth, parse
from shapeproof.constraints.syntax.printing import format_node
from shapeproof.constraints.terms import Real, Term

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


def parse_any(text: str) -> Term | Real | Formula:
    """What the text is: a term, a real or a formula.

    >>> parse_any("x.shape[0] % 4"), parse_any("x / 2"), parse_any("x < 2")
    (x.shape[0] % 4, x / 2, x <= 1)
    """
    return parse(text)


def parse_formula(text: str) -> Formula:
    """The formula that the text is.

    >>> parse_formula("1 <= h//4 and not h % 4")
    h >= 4 and h % 4 == 0
    """
    return as_truth(parse(text))


def parse_relation(text: str, names: Collection[str] | None = None) -> Formula:
    """The formula that a user wrote: a condition, and no number, over these names (None: over any).

    Raises:
        UsageError: it is invalid; the sentence begins with the text.

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
        raise UsageError(f"{text!r} names `{name}`, which no dim is called{nearest(name, sorted(names or ()))}")
    return formula


def parse_term(text: str) -> Term:
    """The integer term that the text is.

    >>> parse_term("x + (4 - x%4) % 4")
    4*((x + 3)//4)
    """
    value = parse(text)
    if not isinstance(value, Term):
        raise FormulaSyntaxError(f"An integer is wanted, and {value} is none.", 1)
    return value


def format_term(term: Term, rename: Mapping[str, str] | None = None) -> str:
    """The text of a term; `rename` says how to show symbols.

    >>> format_term(parse_term("s0 // 2"), {"s0": "x.shape[0]"})
    'x.shape[0]//2'
    """
    return format_node(term, rename)


def format_formula(formula: Formula, rename: Mapping[str, str] | None = None) -> str:
    """The text of a formula; `rename` says how to show symbols.

    >>> format_formula(parse_formula("0 < s0 < 9"), {"s0": "x.shape[0]"})
    'x.shape[0] >= 1 and x.shape[0] <= 8'
    """
    return format_node(formula, rename)
