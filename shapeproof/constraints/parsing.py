"""Text in Python's syntax to terms, reals and formulas: one pass over the tokens with two stacks, no recursion.

A name may have dots and brackets, so `x.shape[0]` is one symbol; any other name can be written between backquotes. A function
between backquotes is one without a meaning; every other function must be known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from shapeproof.constraints import formulas as f
from shapeproof.constraints import printing
from shapeproof.constraints import terms as t
from shapeproof.constraints.errors import FormulaSyntaxError, UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.reals import FromInt, Real, RealConstant, RealSymbol, real_call
from shapeproof.constraints.terms import Symbol, Term

Number: TypeAlias = Term | Real
Value: TypeAlias = Term | Real | Formula

_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<real>(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)
      | (?P<integer>0[xX][0-9a-fA-F]+|\d+)
      | (?P<name>{printing.NAME})
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<symbol>\*\*|//|<<|>>|<=|>=|==|!=|[-+*/%<>&|^~(),])
      | (?P<end>$)
    )""",
    re.VERBOSE,
)


def _truncate(value: Number) -> Number:
    return t.apply("trunc", value)


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
    "|": (printing.BIT_OR, lambda a, b: t.apply("or", a, b), None),
    "^": (printing.BIT_XOR, lambda a, b: t.apply("xor", a, b), None),
    "&": (printing.BIT_AND, lambda a, b: t.apply("and", a, b), None),
    "<<": (printing.SHIFT, lambda a, b: t.apply("lshift", a, b), None),
    ">>": (printing.SHIFT, lambda a, b: t.apply("rshift", a, b), None),
    "+": (printing.SUM, lambda a, b: a + b, "add"),
    "-": (printing.SUM, lambda a, b: a - b, "sub"),
    "*": (printing.PRODUCT, lambda a, b: a * b, "mul"),
    "/": (printing.PRODUCT, lambda a, b: real_call("inttruediv", a, b), "truediv"),
    "//": (printing.PRODUCT, t.floor_div, "floordiv"),
    "%": (printing.PRODUCT, t.modulo, "mod"),
    "**": (printing.POWER, lambda a, b: t.apply("pow", a, b), "pow"),
}

_COMPARISONS: dict[str, Callable[[Term, Term], Formula]] = {
    "<": f.lt, "<=": f.le, "==": f.eq, "!=": f.ne, ">": f.gt, ">=": f.ge,
}  # fmt: skip

_MANY = -1
_FUNCTIONS: dict[str, tuple[int, Callable[..., Value]]] = {
    "min": (_MANY, _extremum(t.minimum, "min")),
    "max": (_MANY, _extremum(t.maximum, "max")),
    "abs": (1, _absolute),
    "int": (1, _truncate),
    "trunc": (1, _truncate),
    "floor": (1, lambda value: t.apply("floor", value)),
    "ceil": (1, lambda value: t.apply("ceil", value)),
    "round": (1, lambda value: t.apply("round", value)),
    "float": (1, lambda value: value if isinstance(value, Real) else FromInt(value)),
    "real": (1, lambda value: RealSymbol(_named(value))),
    "truth": (1, lambda value: f.truth(_named(value))),
} | {name: (1, lambda value, name=name: real_call(name, value)) for name in printing.REAL_FUNCTIONS}

_BINDING = (
    {operator: binding for operator, (binding, _, _) in _INFIX.items()}
    | dict.fromkeys(_COMPARISONS, printing.COMPARISON)
    | {"and": printing.AND, "or": printing.OR, "if": printing.TERNARY}
)
_CHAINED = frozenset({*_COMPARISONS, "and", "or"})  # kept side by side until all operands are there
_RIGHT = frozenset({"**", "if"})


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


@dataclass(slots=True)
class _Pending:
    """An operator or parenthesis whose operands are not complete. Of a call, `base` counts the values before it."""

    text: str
    column: int
    binding: int
    form: Literal["infix", "prefix", "group", "call"] = "infix"
    base: int = 0


def parse(text: str) -> Value:
    """The term, real or formula that the text is."""
    return _Parser(text).run()


def as_truth(value: Value) -> Formula:
    """A formula; a number is true where it is not 0, as in Python."""
    match value:
        case Formula():
            return value
        case Term():
            return f.ne(value, 0)
        case _:
            return f.real_compare("!=", value, RealConstant(0.0))


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0
        self._values: list[Value] = []
        self._pending: list[_Pending] = []

    def run(self) -> Value:
        wants_operand = True
        while (token := self._take()).kind != "end":
            wants_operand = self._operand(token) if wants_operand else self._after_operand(token)
        if wants_operand:
            raise FormulaSyntaxError("The formula ends where a value should follow.", token.column)
        self._reduce_while(lambda _: True)
        if self._pending:
            raise FormulaSyntaxError("This parenthesis is not closed.", self._pending[-1].column)
        return self._values[0]

    def _take(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _operand(self, token: _Token) -> bool:
        """Read what begins a value; whether a value is still to come."""
        match token.kind, token.text:
            case "integer", text:
                self._values.append(t.constant(_integer(text, token.column)))
            case "real", text:
                self._values.append(RealConstant(float(text)))
            case "name", ("True" | "False") as text:
                self._values.append(f.TRUE if text == "True" else f.FALSE)
            case "name", ("inf" | "nan") as text:
                self._values.append(RealConstant(float(text)))
            case "name", "not":
                self._pending.append(_Pending("not", token.column, printing.NOT, "prefix"))
                return True
            case "symbol", ("-" | "+" | "~") as text:
                self._pending.append(_Pending(text, token.column, printing.UNARY, "prefix"))
                return True
            case "symbol", "(":
                self._pending.append(_Pending("(", token.column, -1, "group"))
                return True
            case "name" | "quoted", text if text not in printing.KEYWORDS:
                return self._name(token)
            case "symbol", ")" if self._tokens[self._next - 2].text == "(" and self._pending[-1].form == "call":
                self._close(token)
            case _:
                raise FormulaSyntaxError(f"A value should stand where {token.text!r} is.", token.column)
        return False

    def _name(self, token: _Token) -> bool:
        if self._tokens[self._next].text == "(":
            self._take()
            self._pending.append(_Pending(token.text, token.column, -1, "call", len(self._values)))
            return True
        self._values.append(t.symbol(_unquoted(token.text)))
        return False

    def _after_operand(self, token: _Token) -> bool:
        """Read what may follow a value; whether another value is to come."""
        if token.text == ")":
            self._close(token)
            return False
        if token.text == ",":
            self._reduce_while(lambda _: True)
            if not self._pending or self._pending[-1].form != "call":
                raise FormulaSyntaxError("A comma may stand only between the arguments of a function.", token.column)
        elif token.text == "else":
            self._reduce_while(lambda top: top.text != "if")
            if not self._pending or self._pending[-1].text != "if":
                raise FormulaSyntaxError("This 'else' has no 'if'.", token.column)
            self._pending[-1].text = "else"
        elif token.text in _BINDING and token.kind != "quoted":
            binding = _BINDING[token.text]
            waits = token.text in _CHAINED or token.text in _RIGHT
            self._reduce_while(lambda top: top.binding > binding or (top.binding == binding and not waits))
            self._pending.append(_Pending(token.text, token.column, binding))
        else:
            raise FormulaSyntaxError(f"An operator should stand where {token.text!r} is.", token.column)
        return True

    def _close(self, token: _Token) -> None:
        self._reduce_while(lambda _: True)
        if not self._pending:
            raise FormulaSyntaxError("This parenthesis was never opened.", token.column)
        opened = self._pending.pop()
        if opened.form == "call":
            args = self._values[opened.base :]
            del self._values[opened.base :]
            self._values.append(self._guarded(opened, lambda: _called(opened, args)))

    def _reduce_while(self, wanted: Callable[[_Pending], bool]) -> None:
        """Apply the operators on top of the stack, down to the innermost open parenthesis, as long as `wanted`."""
        while self._pending and self._pending[-1].form in {"infix", "prefix"} and wanted(self._pending[-1]):
            top = self._pending.pop()
            operators = [top]
            while top.text in _CHAINED and self._pending and _BINDING.get(self._pending[-1].text) == top.binding:
                operators.insert(0, self._pending.pop())
            count = 1 if top.form == "prefix" else 3 if top.text == "else" else len(operators) + 1
            operands = self._values[-count:]
            del self._values[-count:]
            self._values.append(self._guarded(top, lambda ops=operators, args=operands: _combined(ops, args)))

    @staticmethod
    def _guarded(operator: _Pending, build: Callable[[], Value]) -> Value:
        try:
            return build()
        except FormulaSyntaxError:
            raise
        except UsageError as error:
            raise FormulaSyntaxError(str(error), operator.column) from error


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while not tokens or tokens[-1].kind != "end":
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            start = len(text) - len(text[position:].lstrip())
            raise FormulaSyntaxError(f"{text[start]!r} has no meaning here.", start + 1)
        tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
        position = match.end()
    return tokens


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _integer(text: str, column: int) -> int:
    try:
        return int(text, 16 if text[:2] in {"0x", "0X"} else 10)
    except ValueError as error:  # Python converts no decimal of more than some thousand digits
        raise FormulaSyntaxError("This integer is too long in decimal; write it in hexadecimal.", column) from error


def _combined(operators: list[_Pending], operands: list[Value]) -> Value:
    """An operator, or a chain of comparisons, of `and` or of `or`, applied to its operands."""
    top = operators[-1]
    match top.text:
        case "and":
            return f.conjunction(*map(as_truth, operands))
        case "or":
            return f.disjunction(*map(as_truth, operands))
        case "not":
            return as_truth(operands[0]).negation
        case "else":
            return _chosen(operands[0], as_truth(operands[1]), operands[2])
        case "if":
            raise UsageError("This 'if' has no 'else'.")
    numbers = [_number(operand) for operand in operands]
    if top.form == "prefix":
        return _signed(top.text, numbers[0])
    if top.text in _COMPARISONS:
        pairs = zip(operators, pairwise(numbers), strict=True)
        return f.conjunction(*(_compared(operator.text, left, right) for operator, (left, right) in pairs))
    return _arithmetic(top.text, *numbers)


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


def _called(call: _Pending, args: list[Value]) -> Value:
    numbers = [_number(arg) for arg in args]
    if call.text.startswith("`"):
        return t.unknown(_unquoted(call.text), *numbers)
    name = call.text.removeprefix("math.")
    if name not in _FUNCTIONS:
        raise UsageError(f"There is no function called {call.text}.")
    arity, function = _FUNCTIONS[name]
    if (arity == _MANY and len(args) < 2) or arity not in {_MANY, len(args)}:
        raise UsageError(f"{call.text} takes {'two or more arguments' if arity == _MANY else 'one argument'}.")
    return function(*numbers)
