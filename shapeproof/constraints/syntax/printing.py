"""Print terms, reals and formulas as Python text. The text parses back to the same object.

A text repeats every shared node, so it may grow exponentially. It is cut off after half a million characters; a text
that was cut off does not parse.

Printing undoes canonical form: `a - b*(a//b)` becomes `a % b`, and `-(-n//4)` becomes the usual rounding up,
`(n + 3)//4`. A comparison puts each summand on the side where its coefficient is positive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from shapeproof.constraints import polynomials
from shapeproof.constraints.division import with_halves_rounded_up
from shapeproof.constraints.formulas import And, BooleanConstant, Compare, Formula, Or, RealCompare, Truth
from shapeproof.constraints.nodes import Node
from shapeproof.constraints.polynomials import UNIT, Monomial, Poly
from shapeproof.constraints.reals import FromInt, RealCall, RealConstant, RealSymbol
from shapeproof.constraints.terms import ZERO, Apply, Extremum, FloorDiv, Symbol, Term, Unknown, Where

NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*|\[[^\[\]`]*\])*"
KEYWORDS = frozenset({"and", "or", "not", "if", "else", "True", "False", "inf", "nan"})
REAL_FUNCTIONS = ("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan")

# The precedence of each form, as in Python.
TERNARY, OR, AND, NOT, COMPARISON, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, UNARY, POWER, PRIMARY = range(14)

INTEGER_INFIX = {
    "lshift": ("<<", SHIFT),
    "rshift": (">>", SHIFT),
    "and": ("&", BIT_AND),
    "or": ("|", BIT_OR),
    "xor": ("^", BIT_XOR),
    "mul": ("*", PRODUCT),
}
REAL_INFIX = {
    "add": (" + ", SUM),
    "sub": (" - ", SUM),
    "mul": (" * ", PRODUCT),
    "truediv": (" / ", PRODUCT),
    "inttruediv": (" / ", PRODUCT),
    "floordiv": (" // ", PRODUCT),
    "mod": (" % ", PRODUCT),
}

_LONGEST_DECIMAL = 4096  # bits; Python refuses to convert very long decimals
_LONGEST_TEXT = 2**19
_AND_SO_ON = " ..."


@dataclass(frozen=True, slots=True)
class _Binary:
    """A division or remainder as it is printed, which may differ from the stored form."""

    operator: str
    left: Term
    right: Term


_Shown: TypeAlias = Node | _Binary
_Factor: TypeAlias = tuple[_Shown, int]
_Summand: TypeAlias = tuple[int, tuple[_Factor, ...]]
_Piece: TypeAlias = "str | tuple[_Shown | tuple[_Summand, ...], int]"  # text, or a node and its least precedence


def format_node(node: Node, rename: Mapping[str, str] | None = None) -> str:
    """Return the text of a term, real, formula or atom; `rename` maps symbols to displayed names.

    >>> from shapeproof.constraints.formulas import divides
    >>> from shapeproof.constraints.terms import symbol
    >>> format_node(divides(4, symbol("h")), {"h": "x.shape[2]"})
    'x.shape[2] % 4 == 0'
    """
    names = rename or {}
    text: list[str] = []
    stack: list[_Piece] = [(node, TERNARY)]
    left = _LONGEST_TEXT
    while stack:
        piece = stack.pop()
        left -= len(piece)
        if left < 0:
            text.append(_AND_SO_ON)
            break
        if isinstance(piece, str):
            text.append(piece)
            continue
        shown, least = piece
        precedence, pieces = _layout(shown, names)
        stack.extend(reversed(pieces if precedence >= least else ["(", *pieces, ")"]))
    return "".join(text)


def _layout(shown: _Shown | tuple[_Summand, ...], names: Mapping[str, str]) -> tuple[int, list[_Piece]]:
    match shown:
        case ((1, ((alone, 1),)),):
            return _layout(alone, names)
        case tuple():
            return _sum(shown)
        case Term():
            return _layout(_summands(shown), names)
        case _Binary(operator, left, right):
            return PRODUCT, [(left, PRODUCT), operator, (right, UNARY)]
        case Symbol(name):
            return PRIMARY, [names.get(name) or _quoted(name)]
        case FloorDiv(numerator, divisor):
            turned = divisor.is_negative
            return _layout(_Binary("//", -numerator if turned else numerator, -divisor if turned else divisor), names)
        case Extremum(args):
            return _call("min" if shown.sense > 0 else "max", args)
        case Where(condition, then, otherwise):
            return TERNARY, [(then, OR), " if ", (condition, OR), " else ", (otherwise, TERNARY)]
        case Apply(op, args):
            return _applied(op, args)
        case Unknown(name, args):
            return _call(_backquoted(name), args)
        case RealConstant(value=value):
            return UNARY if value < 0 else PRIMARY, [repr(value)]
        case RealSymbol(name):
            return PRIMARY, [f"real({names.get(name) or _quoted(name)})"]
        case FromInt(term):
            return _call("float", (term,))
        case RealCall("neg", (arg,)):
            return UNARY, ["-", (arg, UNARY)]
        case RealCall("pow", (base, exponent)):
            return POWER, [(base, PRIMARY), "**", (exponent, UNARY)]
        case RealCall(op, (left, right)) if op in REAL_INFIX:
            return _infix(*REAL_INFIX[op], left, right)
        case RealCall("round", (value, FromInt(digits))):
            return _call("round", (value, digits))
        case RealCall(op, args):
            return _call(op, args)
        case Formula():
            return _condition(shown)
    raise TypeError(f"{type(shown).__name__} has no text")


def _condition(shown: Formula) -> tuple[int, list[_Piece]]:
    match shown:
        case BooleanConstant(value):
            return PRIMARY, [str(value)]
        case Truth(name, negated):
            return (NOT, ["not ", f"truth({_quoted(name)})"]) if negated else (PRIMARY, [f"truth({_quoted(name)})"])
        case And(args):
            return AND, _separated(args, " and ", NOT)
        case Or(args):
            return OR, _separated(args, " or ", AND)
        case RealCompare(op, left, right, negated):
            pieces: list[_Piece] = [(left, BIT_OR), f" {op} ", (right, BIT_OR)]
            return (NOT, ["not ", *pieces]) if negated else (COMPARISON, pieces)
        case Compare(op, term):
            return COMPARISON, _comparison(op, term)
    raise TypeError(f"{type(shown).__name__} has no text")


def _quoted(name: str) -> str:
    return name if re.fullmatch(NAME, name) and name not in KEYWORDS else _backquoted(name)


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def number_text(value: float) -> str:
    """Return a number as text: an integer of thousands of digits in hexadecimal, since Python refuses the decimal.

    >>> number_text(12), number_text(10**5000)[:6], number_text(float("nan"))
    ('12', '0x31e2', 'nan')
    """
    return str(value) if isinstance(value, float) or value.bit_length() <= _LONGEST_DECIMAL else hex(value)


def _call(name: str, args: Iterable[Node]) -> tuple[int, list[_Piece]]:
    return PRIMARY, [f"{name}(", *_separated(args, ", ", TERNARY), ")"]


def _separated(nodes: Iterable[Node], separator: str, least: int) -> list[_Piece]:
    pieces: list[_Piece] = []
    for node in nodes:
        pieces += [separator, (node, least)] if pieces else [(node, least)]
    return pieces


def _infix(operator: str, precedence: int, left: Node, right: Node) -> tuple[int, list[_Piece]]:
    return precedence, [(left, precedence), operator, (right, precedence + 1)]


def _applied(op: str, args: tuple[Node, ...]) -> tuple[int, list[_Piece]]:
    if op == "pow":
        return POWER, [(args[0], PRIMARY), "**", (args[1], UNARY)]
    if op in INTEGER_INFIX:
        operator, precedence = INTEGER_INFIX[op]
        return _infix(f" {operator} ", precedence, args[0], args[1])
    return _call("int" if op == "trunc" else op, args)


def _comparison(op: str, term: Term) -> list[_Piece]:
    """Lay out `term op 0` with positive summands on both sides, and the constant where it reads best."""
    left: list[_Summand] = []
    right: list[_Summand] = []
    offset = 0
    for coefficient, factors in _summands(term):
        if not factors:
            offset = coefficient
        elif coefficient < 0:
            right.append((-coefficient, factors))
        else:
            left.append((coefficient, factors))
    if not left and right:
        left, right, offset, op = right, left, -offset, {"<=": ">="}.get(op, op)
    if op in {"==", "!="} and len(right) == 1 and right[0][0] == 1 and not (len(left) == 1 and left[0][0] == 1):
        left, right, offset = right, left, -offset
    if op == "<=" and offset == 1 and left and right:
        op, offset = "<", 0
    if offset:
        side = left if offset > 0 and right else right
        side.append((offset if side is left else -offset, ()))
    return [(tuple(left), BIT_OR), f" {op} ", (tuple(right), BIT_OR)]


def _sum(summands: tuple[_Summand, ...]) -> tuple[int, list[_Piece]]:
    if not summands:
        return PRIMARY, ["0"]
    first = next((index for index, (coefficient, _) in enumerate(summands) if coefficient >= 0), 0)
    precedence, pieces = _product(*summands[first])
    for coefficient, factors in (*summands[:first], *summands[first + 1 :]):
        pieces += [" - " if coefficient < 0 else " + ", *_product(abs(coefficient), factors)[1]]
    return (SUM if len(summands) > 1 else precedence), pieces


def _product(coefficient: int, factors: tuple[_Factor, ...]) -> tuple[int, list[_Piece]]:
    """Lay out one summand. A lone division needs no parentheses; with a sign or other factors it does."""
    sign: list[_Piece] = ["-"] if coefficient < 0 else []
    parts: list[list[_Piece]] = [] if factors and abs(coefficient) == 1 else [[number_text(abs(coefficient))]]
    least = PRODUCT if len(factors) == 1 and not parts and not sign else UNARY
    for shown, exponent in factors:
        parts.append([(shown, least)] if exponent == 1 else [(shown, PRIMARY), f"**{number_text(exponent)}"])
    precedence = PRODUCT if len(parts) > 1 or least == PRODUCT else UNARY if sign else PRIMARY
    return precedence, sign + [piece for index, part in enumerate(parts) for piece in (["*"] if index else []) + part]


def _summands(term: Term) -> tuple[_Summand, ...]:
    """Return the summands to print for a term: its polynomial, then its checks as summands of value 0."""
    poly, remainders = with_halves_rounded_up(term.poly), []
    for atom in dict.fromkeys(atom for monomial in poly for atom, _ in monomial if isinstance(atom, FloorDiv)):
        step = _remainder(atom, poly)
        if step is not None:
            poly, remainder = step
            remainders.append(remainder)
    ordered = sorted((monomial for monomial in poly if monomial), key=polynomials.order)
    shown = [_turned(poly[monomial], monomial) for monomial in ordered]
    offset: list[_Summand] = [(poly[UNIT], ())] if UNIT in poly else []
    return (*shown, *remainders, *offset, *map(_check, term.checks))


def _remainder(atom: FloorDiv, poly: Poly) -> tuple[Poly, _Summand] | None:
    """Return the polynomial as `rest + k*(n % d)`, if `n // d` has the factor `-k*d` and the result is no longer."""
    beside, rest = polynomials.by_atom(poly, atom)
    below, numerator = atom.divisor.poly, atom.numerator.poly
    lead = polynomials.leading(below)
    count = -beside.get(lead, 0) // below[lead]
    if not count or polynomials.add(beside, below, count):
        return None
    rest = polynomials.add(rest, numerator, -count)
    ways = [(rest, (count, ((_Binary(" % ", atom.numerator, atom.divisor), 1),)))]
    if atom.divisor.is_constant:
        # the remainders of n and of d - 1 - n add up to d - 1
        opposite = atom.divisor - 1 - atom.numerator
        other = polynomials.add(rest, polynomials.constant(count * (atom.divisor.constant_value - 1)))
        ways.append((other, (-count, ((_Binary(" % ", opposite, atom.divisor), 1),))))
    best = min(ways, key=lambda way: way[1][0] < 0)
    return best if len(best[0].keys() - {UNIT}) < len(poly.keys() - {UNIT}) else None


def _turned(coefficient: int, monomial: Monomial) -> _Summand:
    """Return the summand with each `n // c` as `-((-n + c - 1) // c)`, where n starts with a minus sign."""
    factors: list[_Factor] = []
    for atom, exponent in monomial:
        match atom:
            case FloorDiv(numerator, divisor) if divisor.is_constant and numerator.monomials[0][1] < 0:
                factors.append((_Binary("//", divisor - 1 - numerator, divisor), exponent))
                coefficient = -coefficient if exponent % 2 else coefficient
            case _:
                factors.append((atom, exponent))
    return coefficient, tuple(factors)


def _check(check: Node) -> _Summand:
    is_divisor = isinstance(check, FloorDiv) and check.numerator is ZERO
    return (1 if is_divisor else 0), ((check, 1),)
