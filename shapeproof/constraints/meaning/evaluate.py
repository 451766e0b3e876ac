"""The definition of truth: the value of a term or formula at a point, exactly as Python computes it.

Integers are exact; integers of more than some ten thousand digits are not computed. Doubles are IEEE. Evaluation raises
what Python raises: a zero divisor raises ZeroDivisionError even if the result is unused, but not in a branch that is
not taken. Each node is visited once, without recursion. An error is stored as the node's value and raised when another
node needs it.

Also says where an expression has a value: the condition under which its evaluation does not raise.

For integers the condition is exact: on the branches that are taken, no divisor is zero and no exponent or shift count
is negative. For floats it requires nonzero divisors and arguments inside the function's domain; it ignores overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

from shapeproof.constraints import operators
from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.formulas import (
    TRUE,
    And,
    BooleanConstant,
    Compare,
    Formula,
    Or,
    RealCompare,
    Truth,
    conjunction,
    disjunction,
    ge,
    ne,
    real_compare,
)
from shapeproof.constraints.nodes import MEMORY, Node, postorder
from shapeproof.constraints.reals import FromInt, Real, RealCall, RealConstant, RealSymbol, real_call
from shapeproof.constraints.terms import Apply, FloorDiv, Max, Min, Symbol, Term, Unknown, Where, symbol
from shapeproof.constraints.work import charge

Environment = Mapping[str, int | float]
Point = dict[str, int]
"""A number for each symbol of a size."""
_COMPARED = operators.COMPARISONS


def evaluate(term: Term, env: Environment) -> int:
    """Return the integer value of `term` at `env`.

    >>> from shapeproof.constraints.terms import symbol
    >>> evaluate((symbol("n") + 7) // 8 * 8, {"n": 13})
    16
    """
    value: int = _value(term, env)
    return value


def value_at(term: Term, env: Environment) -> int | None:
    """Return the value of `term` at `env`; None if it has none: a symbol is missing, or Python raises.

    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> [value_at(parse_term("8 // n"), {"n": n}) for n in (4, 0)], value_at(parse_term("n"), {})
    ([2, None], None)
    """
    try:
        return evaluate(term, env)
    except (ArithmeticError, ValueError, Unevaluable):
        return None


def values_at(terms: Mapping[str, Term], env: Environment) -> dict[str, int] | None:
    """Return the values of named terms at `env`; None if one of them has none."""
    found: dict[str, int] = {}
    for name, term in terms.items():
        value = value_at(term, env)
        if value is None:
            return None
        found[name] = value
    return found


class Linear(NamedTuple):
    """A term of the form `step*name + offset`."""

    name: str
    step: int
    offset: int


def linear(term: Term) -> Linear | None:
    """Return a term in one symbol in linear form; None if it has no such form.

    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> linear(parse_term("2*b + 1")), linear(parse_term("b // 2"))
    (Linear(name='b', step=2, offset=1), None)
    """
    name = min(term.symbols, default="")
    offset, one = (value_at(term, {name: value}) for value in (0, 1))
    if offset is None or one is None or term is not (one - offset) * symbol(name) + offset or one == offset:
        return None
    return Linear(name, one - offset, offset)


def evaluate_number(number: Term | Real, env: Environment) -> float:
    """Return the integer or double value of a number at `env`."""
    return evaluate(number, env) if isinstance(number, Term) else float(_value(number, env))


def holds(formula: Formula, env: Environment) -> bool:
    """True if `formula` holds at `env`; raise what Python raises.

    >>> from shapeproof.constraints.formulas import divides
    >>> from shapeproof.constraints.terms import symbol
    >>> holds(divides(4, symbol("h")), {"h": 6})
    False
    """
    return bool(_value(formula, env))


def true_at(formula: Formula, env: Environment) -> bool | None:
    """True if `formula` holds at `env`; False if it fails or Python raises; None if it has no value there.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> formula = parse_formula("8 // n >= 2")
    >>> true_at(formula, {"n": 4}), true_at(formula, {"n": 0}), true_at(formula, {"m": 4})
    (True, False, None)
    """
    try:
        return holds(formula, env)
    except (ArithmeticError, ValueError):
        return False
    except Unevaluable:
        return None


def holds_at(formula: Formula, env: Environment) -> bool:
    """True if `formula` has a value at `env` and holds. Where the formula is undefined, it does not hold.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> [holds_at(parse_formula("8 // n >= 2"), {"n": n}) for n in (4, 0)]
    [True, False]
    """
    return true_at(formula, env) is True


@lru_cache(maxsize=MEMORY)
def has_meaning(formula: Formula) -> bool:
    """True if the formula can be evaluated, given a value for each of its symbols."""
    return not any(isinstance(node, Unknown) for node in postorder(formula))


_Read: TypeAlias = Callable[[Node], Any]
"""Returns the value of a node: int, float or bool, by the class of the node. Raises the error of its computation."""


def _value(root: Node, env: Environment) -> Any:
    nodes = postorder(root)
    charge(len(nodes))
    match root:
        case Term() if root.key[0] == 0:
            return _of_symbols(root, env)
        case Compare(op, term) if term.key[0] == 0:
            return _COMPARED[op](_of_symbols(term, env), 0)
    values: dict[Node, Any] = {}
    read: _Read = values.__getitem__
    for node in nodes:
        try:
            values[node] = _MEANINGS[type(node)](node, read, env)
        except (ArithmeticError, ValueError, Unevaluable) as error:
            values[node] = error
            read = partial(_value_or_error, values)
    return read(root)


def _of_symbols(term: Term, env: Environment) -> int:
    """Return the value of a polynomial of symbols, the most frequent kind of term, in one pass."""
    return _term(term, lambda symbol: _named(symbol, None, env), env)


def _value_or_error(values: Mapping[Node, Any], node: Node) -> Any:
    value = values[node]
    if isinstance(value, Exception):
        raise value
    return value


def _term(node: Term, read: _Read, _: Environment) -> int:
    for check in node.checks:
        read(check)
    total = 0
    for monomial, coefficient in node.monomials:
        product = coefficient
        for atom, exponent in monomial:
            value = read(atom)
            product *= value if exponent == 1 else operators.integer_power(value, exponent)
            if len(monomial) > 1:
                operators.sized(product)
        total += product
    return total


def _named(node: Any, _: _Read | None, env: Environment) -> float:
    if node.name not in env:
        raise Unevaluable(f"{node.name} has no value")
    return env[node.name]


def _unknown(node: Unknown, read: _Read, _: Environment) -> int:
    for arg in node.args:
        read(arg)
    raise Unevaluable(f"{node.name} has no meaning")


_MEANINGS: dict[type[Node], Callable[[Any, _Read, Environment], Any]] = {
    Term: _term,
    Symbol: _named,
    FloorDiv: lambda node, read, _: read(node.numerator) // read(node.divisor),
    Min: lambda node, read, _: min(read(arg) for arg in node.args),
    Max: lambda node, read, _: max(read(arg) for arg in node.args),
    Where: lambda node, read, _: read(node.then if read(node.condition) else node.otherwise),
    Apply: lambda node, read, _: operators.INTEGER[node.op](*(read(arg) for arg in node.args)),
    Unknown: _unknown,
    RealConstant: lambda node, _read, _env: node.value,
    RealSymbol: lambda node, read, env: float(_named(node, read, env)),
    FromInt: lambda node, read, _: float(read(node.term)),
    RealCall: lambda node, read, _: operators.REAL[node.op](*(read(arg) for arg in node.args)),
    BooleanConstant: lambda node, _read, _env: node.value,
    Truth: lambda node, read, env: bool(_named(node, read, env)) != node.negated,
    Compare: lambda node, read, _: _COMPARED[node.op](read(node.term), 0),
    RealCompare: lambda node, read, _: _COMPARED[node.op](read(node.left), read(node.right)) != node.negated,
    And: lambda node, read, _: all(read(arg) for arg in node.args),
    Or: lambda node, read, _: any(read(arg) for arg in node.args),
}


def defined(root: Node) -> Formula:
    """Return the condition under which evaluating `root` does not raise. Evaluating the condition does not raise.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> defined(parse_formula("a // b < 2")), defined(parse_formula("b == 0 or a // b < 2"))
    (b != 0, True)
    """
    known: dict[Node, Formula] = {}
    for node in postorder(root):
        known[node] = TRUE if node.total else _defined(node, known)
    return known[root]


def _defined(node: Node, known: dict[Node, Formula]) -> Formula:
    match node:
        case And(args):
            return _in_turn(args, known, stops=False)
        case Or(args):
            return _in_turn(args, known, stops=True)
        case Where(condition, then, otherwise):
            sides = (disjunction(condition.negation, known[then]), disjunction(condition, known[otherwise]))
            return conjunction(known[condition], *sides)
    return conjunction(*(known[child] for child in node.children), demanded(node))


def _in_turn(args: tuple[Formula, ...], known: dict[Node, Formula], *, stops: bool) -> Formula:
    """Each operand is defined, or an earlier operand has short-circuited; `stops` is the short-circuiting value."""
    result: Formula = TRUE
    for arg in reversed(args):
        decides = arg if stops else arg.negation
        result = conjunction(known[arg], TRUE if result is TRUE else disjunction(decides, result))
    return result


def demanded(node: Node) -> Formula:
    """Return what a node itself requires of its children: for `a // b`, `b != 0`."""
    match node:
        case FloorDiv(_, divisor):
            return ne(divisor, 0)
        case Apply("lshift" | "rshift" | "pow", (Term(), Term() as count)):
            return ge(count, 0)
        case RealCall("inttruediv" | "truediv" | "floordiv" | "mod", (_, divisor)):
            return _real("!=", divisor)
        case RealCall("sqrt", (arg,)):
            return _real(">=", arg)
        case RealCall("log" | "log2", (arg,)):
            return _real(">", arg)
        case RealCall("asin" | "acos", (arg,)):
            return real_compare("<=", real_call("abs", arg), RealConstant(1.0))
    return TRUE


def _real(op: str, value: Real | Term) -> Formula:
    """Return a comparison with zero. For a converted integer, compare the integer: conversion keeps the sign."""
    return real_compare(op, value.term if isinstance(value, FromInt) else value, RealConstant(0.0))
