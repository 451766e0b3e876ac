"""The language of terms and formulas: parse and print. Law: `parse(str(x)) is x`, for terms, reals and formulas.

The syntax is Python's, with Python's precedence: `+ - * // % ** / << >> & | ^ ~`, comparisons (also chained),
`and or not`, `a if c else b`, `min max abs int float floor ceil trunc round` and the usual functions of `math`.
Where a condition is expected, a number n means `n != 0`. In addition, `truth(p)` is an opaque condition, `real(a)` a
given float, `x.shape[0]` one symbol, and backquotes turn any text into a name.

Text is parsed in one pass over the tokens, with two stacks and no recursion. A name may contain dots and brackets, so
`x.shape[0]` is one symbol; backquotes quote any other name. A backquoted function has no meaning; any other function
must be one of the known functions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Literal, ParamSpec, TypeAlias

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.errors import FormulaSyntaxError, UsageError, nearest
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.nodes import Node
from shapeproof.constraints.reals import FromInt, Real, RealConstant, RealSymbol, real_call
from shapeproof.constraints.syntax import printing
from shapeproof.constraints.syntax.printing import format_node
from shapeproof.constraints.terms import Symbol, Term
from shapeproof.constraints.work import OutOfWork, at_most

P = ParamSpec("P")

Number: TypeAlias = Term | Real
Value: TypeAlias = Term | Real | Formula

_TOKEN = re.compile(
    rf"""\s*(
        (?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+  # a float
      | 0[xX][0-9a-fA-F]+|\d+
      | {printing.NAME}
      | `(?:[^`]|``)*`
      | \*\*|//|<<|>>|<=|>=|==|!=
      | \S
    )""",
    re.VERBOSE,
)

_CALLED = re.compile(r"\s*\(")
_PARENTHESIS = re.compile(r"[()]|`(?:[^`]|``)*`|\[[^\[\]`]*\]")


def _extremum(integer: Callable[..., Term], real: str) -> Callable[..., Number]:
    def choose(*args: Number) -> Number:
        return real_call(real, *args) if any(isinstance(arg, Real) for arg in args) else integer(*args)

    return choose


def _absolute(value: Number) -> Number:
    return real_call("abs", value) if isinstance(value, Real) else t.maximum(value, -value)


def _named(value: Number) -> str:
    match value:
        case Term(monomials=(((((Symbol(name), 1),), 1),))):
            return name
    raise UsageError(f"A name is wanted here, and {value} is none.")


_INFIX: dict[str, tuple[int, Callable[[Term, Term], Number], str | None]] = {
    "+": (printing.SUM, lambda a, b: a + b, "add"),
    "-": (printing.SUM, lambda a, b: a - b, "sub"),
    "*": (printing.PRODUCT, lambda a, b: a * b, "mul"),
    "/": (printing.PRODUCT, lambda a, b: real_call("inttruediv", a, b), "truediv"),
    "//": (printing.PRODUCT, t.floor_div, "floordiv"),
    "%": (printing.PRODUCT, t.modulo, "mod"),
    "**": (printing.POWER, lambda a, b: t.apply("pow", a, b), "pow"),
}
_BITS = {sign: (binding, partial(t.apply, op)) for op, (sign, binding) in printing.INTEGER_INFIX.items() if op != "mul"}
_INFIX |= {sign: (binding, function, None) for sign, (binding, function) in _BITS.items()}

_COMPARISONS: dict[str, Callable[[Term, Term], Formula]] = {
    "<": f.lt, "<=": f.le, "==": f.eq, "!=": f.ne, ">": f.gt, ">=": f.ge,
}  # fmt: skip

_MANY = -1
_FUNCTIONS: dict[str, tuple[int, Callable[..., Value]]] = {
    "min": (_MANY, _extremum(t.minimum, "min")),
    "max": (_MANY, _extremum(t.maximum, "max")),
    "abs": (1, _absolute),
    "float": (1, lambda value: value if isinstance(value, Real) else FromInt(value)),
    "real": (1, lambda value: RealSymbol(_named(value))),
    "truth": (1, lambda value: f.Truth(_named(value))),
}
_FUNCTIONS |= {name: (1, lambda value, name=name: real_call(name, value)) for name in printing.REAL_FUNCTIONS}
_FUNCTIONS |= {name: (1, lambda value, name=name: t.apply(name, value)) for name in ("trunc", "floor", "ceil", "round")}
_FUNCTIONS["int"] = _FUNCTIONS["trunc"]

_BINDING = (
    {operator: binding for operator, (binding, _, _) in _INFIX.items()}
    | dict.fromkeys(_COMPARISONS, printing.COMPARISON)
    | {"and": printing.AND, "or": printing.OR, "if": printing.TERNARY}
)
_CHAINED = frozenset({*_COMPARISONS, "and", "or", "+", "-"})  # reduced once the whole chain is read
_RIGHT = frozenset({"**", "if"})
_PREFIX = {"not": printing.NOT, "-": printing.UNARY, "+": printing.UNARY, "~": printing.UNARY}
_CONSTANTS: dict[str, Value] = {
    "True": f.TRUE,
    "False": f.FALSE,
    "inf": RealConstant(math.inf),
    "nan": RealConstant(math.nan),
}


@dataclass(slots=True)
class _Pending:
    """An operator or parenthesis that waits for operands; `at` is its position in the text.

    For a call, `base` counts the values before it, and `inside` is the position of its first argument.
    """

    text: str
    at: int
    binding: int
    form: Literal["infix", "prefix", "group", "call"] = "infix"
    base: int = 0
    inside: int = 0


_MOST_WORK = 2**22
_WORK_EACH = 16
"""The work allowed to canonicalise a text: a fixed part, plus this much for each character."""
_LONGEST_GROUP = 1_000
_MOST_GROUPS = 1 << 14
_GROUPS: dict[str, Value] = {}
"""The values of texts in parentheses. Questions about one model repeat them, and a value does not depend on context."""


@lru_cache(maxsize=4096)
def parse(text: str) -> Value:
    """Return the term, real or formula that the text denotes.

    >>> parse("x.shape[0] % 4"), parse("x / 2"), parse("x < 2")
    (x.shape[0] % 4, x / 2, x <= 1)
    """
    return _Parser(text).run()


def as_truth(value: Value) -> Formula:
    """Return the value as a formula; as in Python, a number is true if it is not 0."""
    match value:
        case Formula():
            return value
        case Term():
            return f.ne(value, 0)
        case _:
            return f.real_compare("!=", value, RealConstant(0.0))


class _Parser:
    """`values` are complete, `pending` waits for operands; the current word spans from `at` to `end`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._end = 0
        self._values: list[Value] = []
        self._pending: list[_Pending] = []
        self._closings: dict[int, int] | None = None

    def run(self) -> Value:
        try:
            with at_most(_MOST_WORK + _WORK_EACH * len(self._text)):
                return self._run()
        except OutOfWork:
            raise self._error("What is written up to here is too large once it is multiplied out.") from None

    def _run(self) -> Value:
        wants_operand = True
        while word := self._word():
            wants_operand = self._operand(word) if wants_operand else self._after_operand(word)
        if wants_operand:
            raise self._error("The formula ends where a value should follow.")
        self._reduce()
        if self._pending:
            raise self._error("This parenthesis is not closed.", self._pending[-1].at)
        return self._values[0]

    def _word(self) -> str:
        """Return the next word; the empty string at the end."""
        match = _TOKEN.match(self._text, self._end)
        if match is None:
            self._at = len(self._text)
            return ""
        self._at, self._end = match.span(1)
        return match[1]

    def _operand(self, word: str) -> bool:
        """Read the first word of a value; return True if a value must still follow."""
        if word in _PREFIX:
            self._pending.append(_Pending(word, self._at, _PREFIX[word], "prefix"))
            return True
        if word == "(":
            return self._group()
        if word == ")" and self._pending and self._pending[-1].form == "call" and self._is_empty(self._pending[-1]):
            self._close()
        elif word in _CONSTANTS:
            self._values.append(_CONSTANTS[word])
        elif word[0] in "0123456789." and word != ".":
            self._values.append(self._guarded(self._at, _literal, word))
        elif word not in printing.KEYWORDS and (word[0] in "_`" or word[0].isalpha()) and word != "`":
            return self._name(word)
        else:
            raise self._error(f"A value should stand where {word!r} is.")
        return False

    def _is_empty(self, call: _Pending) -> bool:
        return not self._text[call.inside : self._at].strip()

    def _group(self) -> bool:
        """Read a parenthesis; if its text was parsed before, jump to its end."""
        if self._closings is None:
            self._closings = _closings(self._text)
        end = self._closings.get(self._at, self._at)
        known = _GROUPS.get(self._text[self._at : end]) if end - self._at <= _LONGEST_GROUP else None
        if known is None:
            self._pending.append(_Pending("(", self._at, -1, "group"))
            return True
        self._values.append(known)
        self._end = end
        return False

    def _name(self, word: str) -> bool:
        if called := _CALLED.match(self._text, self._end):
            self._end = called.end()
            self._pending.append(_Pending(word, self._at, -1, "call", len(self._values), self._end))
            return True
        self._values.append(t.symbol(_unquoted(word)))
        return False

    def _after_operand(self, word: str) -> bool:
        """Read a word that may follow a value; return True if another value must follow."""
        if word == ")":
            self._close()
            return False
        if word == ",":
            self._reduce()
            if not self._pending or self._pending[-1].form != "call":
                raise self._error("A comma may stand only between the arguments of a function.")
        elif word == "else":
            self._reduce(lambda top: top.text != "if")
            if not self._pending or self._pending[-1].text != "if":
                raise self._error("This 'else' has no 'if'.")
            self._pending[-1].text = "else"
        elif word in _BINDING:
            binding = _BINDING[word]
            least = binding + 1 if word in _CHAINED or word in _RIGHT else binding
            self._reduce(lambda top: top.binding >= least)
            self._pending.append(_Pending(word, self._at, binding))
        else:
            raise self._error(f"An operator should stand where {word!r} is.")
        return True

    def _close(self) -> None:
        self._reduce()
        if not self._pending:
            raise self._error("This parenthesis was never opened.")
        opened = self._pending.pop()
        if opened.form == "call":
            args = self._values[opened.base :]
            del self._values[opened.base :]
            self._values.append(self._guarded(opened.at, _called, opened.text, args))
        elif self._end - opened.at <= _LONGEST_GROUP:
            if len(_GROUPS) >= _MOST_GROUPS:
                _GROUPS.clear()
            _GROUPS[self._text[opened.at : self._end]] = self._values[-1]

    def _reduce(self, wanted: Callable[[_Pending], bool] = lambda _: True) -> None:
        """Apply the operators on top of the stack, down to the innermost open parenthesis, while `wanted` is true."""
        while self._pending and self._pending[-1].binding >= 0 and wanted(self._pending[-1]):
            top = self._pending.pop()
            operators = [top.text]
            chained = top.form == "infix" and top.text in _CHAINED
            while chained and self._pending and self._pending[-1].binding == top.binding:
                operators.append(self._pending.pop().text)
            count = 1 if top.form == "prefix" else 3 if top.text == "else" else len(operators) + 1
            operands = self._values[-count:]
            del self._values[-count:]
            build = _prefixed if top.form == "prefix" else _combined
            self._values.append(self._guarded(top.at, build, operators[::-1], operands))

    def _guarded(self, at: int, build: Callable[P, Value], *args: P.args, **kwargs: P.kwargs) -> Value:
        try:
            return build(*args, **kwargs)
        except UsageError as error:
            raise self._error(str(error), at) from error

    def _error(self, message: str, at: int | None = None) -> FormulaSyntaxError:
        """Return the error at a position, by default the current word."""
        return FormulaSyntaxError(message, (self._at if at is None else at) + 1)


def _closings(text: str) -> dict[int, int]:
    """Map the position of each opening parenthesis to the position behind its closing one."""
    opened: list[int] = []
    closings = {}
    for match in _PARENTHESIS.finditer(text):
        if match[0] == "(":
            opened.append(match.start())
        elif match[0] == ")" and opened:
            closings[opened.pop()] = match.end()
    return closings


def _literal(text: str) -> Value:
    try:
        if text[:2] in {"0x", "0X"}:
            return t.constant(int(text, 16))
        return t.constant(int(text)) if text.isdecimal() else RealConstant(float(text))
    except ValueError as error:  # Python does not convert decimals of more than some thousand digits
        raise UsageError("This integer is too long in decimal; write it in hexadecimal.") from error


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _prefixed(operators: list[str], operands: list[Value]) -> Value:
    (operator,), (operand,) = operators, operands
    return as_truth(operand).negation if operator == "not" else _signed(operator, _number(operand))


def _combined(operators: list[str], operands: list[Value]) -> Value:
    """Apply an operator, or a chain of comparisons, `and` or `or`, to its operands."""
    match operators[0]:
        case "and":
            return f.conjunction(*map(as_truth, operands))
        case "or":
            return f.disjunction(*map(as_truth, operands))
        case "else":
            return _chosen(operands[0], as_truth(operands[1]), operands[2])
        case "if":
            raise UsageError("This 'if' has no 'else'.")
    numbers = [_number(operand) for operand in operands]
    if operators[0] in _COMPARISONS:
        pairs = zip(operators, pairwise(numbers), strict=True)
        return f.conjunction(*(_compared(operator, left, right) for operator, (left, right) in pairs))
    return _summed(operators, numbers) if operators[0] in {"+", "-"} else _arithmetic(operators[0], *numbers)


def _summed(operators: list[str], numbers: list[Number]) -> Number:
    """Return a sum, from the left; a sum of integers alone is added in one step."""
    signed = list(zip(["+", *operators], numbers, strict=True))
    integers = [(sign, number) for sign, number in signed if isinstance(number, Term)]
    if len(integers) == len(signed):
        return t.total(*([number for sign, number in integers if sign == each] for each in "+-"))
    result = numbers[0]
    for sign, number in signed[1:]:
        result = _arithmetic(sign, result, number)
    return result


def _number(value: Value) -> Number:
    if isinstance(value, Formula):
        raise UsageError(f"{value} is a condition where a number should stand.")
    return value


def _compared(op: str, left: Number, right: Number) -> Formula:
    if isinstance(left, Term) and isinstance(right, Term):
        return _COMPARISONS[op](left, right)
    return f.real_compare(op, left, right)


def _arithmetic(op: str, left: Number, right: Number) -> Number:
    _, integer, real = _INFIX[op]
    if isinstance(left, Term) and isinstance(right, Term):
        return integer(left, right)
    if real is None:
        raise UsageError(f"{op!r} is for integers only.")
    return real_call(real, left, right)


def _signed(sign: str, value: Number) -> Number:
    match sign, value:
        case "+", _:
            return value
        case "-", Term():
            return -value
        case "-", Real():
            return real_call("neg", value)
        case "~", Term():
            return -value - 1
    raise UsageError("'~' is for integers only.")


def _chosen(then: Value, condition: Formula, otherwise: Value) -> Value:
    match then, otherwise:
        case Term(), Term():
            return t.where(condition, then, otherwise)
        case Formula(), Formula():
            return f.disjunction(f.conjunction(condition, then), f.conjunction(condition.negation, otherwise))
    raise UsageError("'if' chooses between two integers or between two conditions.")


def _called(function_name: str, args: list[Value]) -> Value:
    numbers = [_number(arg) for arg in args]
    if function_name.startswith("`"):
        return t.unknown(_unquoted(function_name), *numbers)
    name = function_name.removeprefix("math.")
    if name == "round" and len(args) == 2 and isinstance(numbers[0], Real):
        return real_call("round", *numbers)
    if name not in _FUNCTIONS:
        raise UsageError(f"There is no function called {function_name}.")
    arity, function = _FUNCTIONS[name]
    if (arity == _MANY and len(args) < 2) or arity not in {_MANY, len(args)}:
        raise UsageError(f"{function_name} takes {'two or more arguments' if arity == _MANY else 'one argument'}.")
    return function(*numbers)


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
parse_any = parse
format_term = format_formula = format_node
"""Return the text of a term, or of a formula; `rename` maps symbols to displayed names."""
