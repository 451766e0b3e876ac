"""Float expressions as Python wrote them: operations on doubles that sympy neither reorders nor folds.

Sympy computes over the reals: there `n*0.3*2.5` is `n*0.75`, `x - x` is 0, `x != x` is false and `not x <= 0` is
`x > 0`. None of this holds for doubles. So each operation is a class of expressions that sympy cannot interpret; if all
arguments are numbers, it becomes the number that Python computes.

Law: equal expressions have equal values, -0.0 and nan included (torch merges nodes whose expressions are equal). Torch
writes them into a graph by their `_torch_handler_name`; printed, they are torch's own expressions.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import sympy
import torch.utils._sympy.functions as fn
from sympy.logic.boolalg import BooleanFunction
from sympy.printing.precedence import precedence

from shapeproof.constraints import operators

_FINITE = {sympy.oo: sympy.Float(sys.float_info.max), -sympy.oo: sympy.Float(-sys.float_info.max)}
"""Finite replacements of infinities in printed expressions: torch cannot load a comparison with an infinity."""


class _Operation:
    """The common part of float operations and comparisons."""

    op: ClassVar[str]
    compute: ClassVar[Callable[..., Any]]
    printed: ClassVar[Callable[..., Any]]
    args: tuple[Any, ...]

    @property
    def plain(self) -> sympy.Basic:
        """Torch's own expression for the operation, only for printing: sympy may rearrange it."""
        return type(self).printed(*(_FINITE.get(arg, arg) for arg in self.args))

    @property
    def precedence(self) -> int:
        """The precedence of the printed expression."""
        return int(precedence(self.plain))

    def _sympystr(self, printer: Any) -> str:
        return str(printer.doprint(self.plain))

    _sympyrepr = _torch_sympystr = _sympystr

    def __reduce_ex__(self, _: Any) -> Any:
        return operation, (self.op, *self.args)


class Double(_Operation, sympy.Expr):  # type: ignore[misc]
    """A float operation."""

    is_commutative = True
    is_number = False

    def __new__(cls, *args: Any) -> Any:
        """Return the operation, or its value if all arguments are numbers and Python can compute it."""
        numbers = [value_of(arg) for arg in args]
        if None not in numbers:
            try:
                return literal(cls.compute(*numbers))
            except (ArithmeticError, ValueError, TypeError):
                pass  # Python raises; the program raises too, where it computes the operation
        return super().__new__(cls, *map(sympy.sympify, args))


class Comparison(_Operation, BooleanFunction):  # type: ignore[misc]
    """A comparison with a float."""

    @classmethod
    def eval(cls, *args: Any) -> Any:
        """Return the value of the comparison if all arguments are numbers."""
        numbers = [value_of(arg) for arg in args]
        return None if None in numbers else sympy.sympify(bool(cls.compute(*numbers)))


def value_of(expr: Any) -> float | None:
    """Return the number that an expression denotes, as Python has it; None if it is no number.

    >>> value_of(literal(-0.0)), value_of(literal(float("nan"))), value_of(sympy.Symbol("x"))
    (-0.0, nan, None)
    """
    if isinstance(expr, sympy.Integer):
        return int(expr)
    if isinstance(expr, sympy.Number):
        return float(expr)
    return -0.0 if _is_negative_zero(expr) else None


def literal(value: float) -> sympy.Expr:
    """Return the expression of a double. Sympy has no -0.0; it is written as the operation `neg(0.0)`."""
    if value == 0 and str(value).startswith("-"):
        return sympy.Expr.__new__(_OPERATIONS["neg"], sympy.Float(0.0))
    return sympy.Float(value)


def operation(op: str, *args: Any) -> Any:
    """Return the expression of a float operation or comparison, by its name in terms.

    >>> x = sympy.Symbol("x")
    >>> operation("sub", x, x), operation("!=", x, x), operation("add", literal(0.1), literal(0.2))
    (-x + x, Ne(x, x), 0.300000000000000)
    """
    return _OPERATIONS[op](*args)


def _is_negative_zero(expr: Any) -> bool:
    return isinstance(expr, _OPERATIONS["neg"]) and expr.args[0] == sympy.Float(0.0)


def _unevaluated(build: Callable[..., Any]) -> Callable[..., Any]:
    return functools.partial(build, evaluate=False)


_ADD, _MUL = _unevaluated(sympy.Add), _unevaluated(sympy.Mul)


def _negative(value: Any) -> Any:
    return _MUL(sympy.Integer(-1), value)


def _floored(a: Any, b: Any) -> Any:
    """Return torch's expression of a floor division; torch has no remainder of floats."""
    return fn.ToFloat(fn.FloorToInt(fn.FloatTrueDiv(a, b, evaluate=False), evaluate=False), evaluate=False)


_PRINTED: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "add": ("add", _ADD),
    "sub": ("sub", lambda a, b: _ADD(a, _negative(b))),
    "mul": ("mul", _MUL),
    "truediv": ("truediv", _unevaluated(fn.FloatTrueDiv)),
    "floordiv": ("floordiv", _floored),
    "mod": ("python_mod", lambda a, b: _ADD(a, _negative(_MUL(b, _floored(a, b))))),
    "pow": ("pow", _unevaluated(fn.FloatPow)),
    "neg": ("neg", _negative),
    "abs": ("abs", _unevaluated(sympy.Abs)),
    "min": ("minimum", _unevaluated(fn.Min)),
    "max": ("maximum", _unevaluated(fn.Max)),
    "round": ("round_decimal", _unevaluated(fn.RoundDecimal)),
}
"""Torch's name of each operation in a graph, and torch's own expression for it."""
FUNCTIONS = ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
"""Functions of `math` that torch supports for symbolic numbers."""
COMPARISONS: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "==": ("eq", sympy.Eq),
    "!=": ("ne", sympy.Ne),
    "<": ("lt", sympy.Lt),
    "<=": ("le", sympy.Le),
    ">": ("gt", sympy.Gt),
    ">=": ("ge", sympy.Ge),
}
"""Torch's name of each comparison in a graph, and sympy's class."""


def _class(base: type, op: str, handler: str, compute: Callable[..., Any], printed: Callable[..., Any]) -> type[Any]:
    members = {"op": op, "_torch_handler_name": handler, "compute": staticmethod(compute)}
    return type(f"Float{handler.title()}", (base,), members | {"printed": staticmethod(printed)})


_OPERATIONS: Mapping[str, type[Any]] = (
    {op: _class(Double, op, handler, operators.REAL[op], printed) for op, (handler, printed) in _PRINTED.items()}
    | {op: _class(Double, op, op, operators.REAL[op], _unevaluated(fn.make_opaque_unary_fn(op))) for op in FUNCTIONS}
    | {
        op: _class(Comparison, op, handler, getattr(operator, handler), _unevaluated(printed))
        for op, (handler, printed) in COMPARISONS.items()
    }
)
