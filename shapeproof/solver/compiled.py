"""Formulas as one Python function, for trying very many points; it agrees with evaluate.py, which defines the meaning.

The text of the function is made here from interned nodes: operators, integers and local names, never a user's text. It
computes every node, also those that Python would not reach; where that raises, evaluate.py is asked instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shapeproof.constraints import operators
from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.formulas import And, BooleanConstant, Compare, Or, RealCompare, Truth
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.reals import FromInt, RealCall, RealConstant, RealSymbol
from shapeproof.constraints.terms import Apply, FloorDiv, Max, Min, Symbol, Term, Where
from shapeproof.solver.points import true_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shapeproof.constraints.formulas import Formula


def compiled(formulas: Sequence[Formula], names: Sequence[str]) -> Callable[..., bool]:
    """A function of the symbols, in this order, that says whether all the formulas hold.

    It raises Unevaluable where that depends on a formula that has no value there.

    >>> from shapeproof.constraints.text import parse_formula
    >>> compiled([parse_formula("h % 4 == 0"), parse_formula("h // w > 1")], ["h", "w"])(12, 4)
    True
    """
    fast = _function(formulas, names)

    def test(*values: int) -> bool:
        try:
            return bool(fast(*values))
        except (ArithmeticError, ValueError, Unevaluable):
            point = dict(zip(names, values, strict=True))
            answers = {true_at(formula, point) for formula in formulas}
            if None in answers and False not in answers:
                raise Unevaluable("a formula has no value at this point") from None
            return answers <= {True}

    return test


def _function(formulas: Sequence[Formula], names: Sequence[str]) -> Callable[..., bool]:
    arguments = {name: f"v{index}" for index, name in enumerate(names)}
    local: dict[Node, str] = {}
    constants: dict[str, Any] = {}
    lines = []
    for formula in formulas:
        for node in postorder(formula):
            if node not in local:
                local[node] = f"t{len(local)}"
                lines.append(f"    {local[node]} = {_expression(node, local, arguments, constants)}")
        lines.append(f"    if not {local[formula]}: return False")
    source = "\n".join([f"def test({', '.join(arguments.values())}):", *lines, "    return True"])
    exec(source, constants)  # noqa: S102  (the text is made above, of names made above)
    function: Callable[..., bool] = constants["test"]
    return function


def _expression(node: Node, local: dict[Node, str], arguments: dict[str, str], constants: dict[str, Any]) -> str:
    match node:
        case Symbol(name):
            return arguments[name]
        case Truth(name, negated):
            return f"bool({arguments[name]}) != {negated}"
        case RealSymbol(name):
            return f"float({arguments[name]})"
        case Term():
            return _sum(node, local)
        case FloorDiv(numerator, divisor):
            return f"{local[numerator]} // {local[divisor]}"
        case Min(args):
            return f"min({', '.join(local[arg] for arg in args)})"
        case Max(args):
            return f"max({', '.join(local[arg] for arg in args)})"
        case Where(condition, then, otherwise):
            return f"{local[then]} if {local[condition]} else {local[otherwise]}"
        case BooleanConstant(value):
            return str(value)
        case Compare(op, term):
            return f"{local[term]} {op} 0"
        case And(args):
            return " and ".join(local[arg] for arg in args)
        case Or(args):
            return " or ".join(local[arg] for arg in args)
        case _:
            return _called(node, local, constants)


def _sum(term: Term, local: dict[Node, str]) -> str:
    """Coefficients in hexadecimal: Python reads no decimal of some thousand digits."""
    products = [
        "*".join([hex(coefficient), *(local[atom] for atom, exponent in monomial for _ in range(exponent))])
        for monomial, coefficient in term.monomials
    ]
    return "+".join(products) or "0"


def _called(node: Node, local: dict[Node, str], constants: dict[str, Any]) -> str:
    """A node whose meaning is a function: bound to a name of its own."""
    name = f"f{len(local)}"
    match node:
        case Apply(op, args):
            constants[name] = operators.INTEGER[op]
            return f"{name}({', '.join(local[arg] for arg in args)})"
        case RealCall(op, args):
            constants[name] = operators.REAL[op]
            return f"{name}({', '.join(local[arg] for arg in args)})"
        case RealCompare(op, left, right, negated):
            return f"({local[left]} {op} {local[right]}) != {negated}"
        case RealConstant(value=value):
            constants[name] = value
            return name
        case FromInt(term):
            return f"float({local[term]})"
        case _:
            constants[name] = _no_meaning
            return f"{name}()"


def _no_meaning() -> int:
    raise Unevaluable("an opaque function has no meaning")
