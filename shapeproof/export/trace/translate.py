"""Translate between sympy and terms. Only this file knows both.

From sympy: each function that torch puts into a size expression is recognized by its class name and gets its Python
meaning. An unknown function of integers becomes an opaque term of its arguments (equal arguments, equal value), so that
no constraint is dropped. Each expression is translated once.

Law: a float expression is translated only if it is as Python wrote it (doubles.py, and torch's functions that sympy
leaves unchanged). An expression that sympy may have computed over the reals (a sum, a product, a comparison of floats)
has no translation.

To sympy: a term is written unevaluated, since it is already canonical, if sympy has functions for it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.export.shim.numbers.doubles import COMPARISONS, Comparison, Double
from shapeproof.export.shim.numbers.symbols import EXTREMES, OPAQUE, quotient
from shapeproof.solver.facts import Facts

Value = t.Term | t.Real | f.Formula

_COMPARISONS = {made.__name__: op for op, (_, made) in COMPARISONS.items()}
_ROUNDINGS = {
    "TruncToInt": "trunc",
    "CeilToInt": "ceil",
    "FloorToInt": "floor",
    "floor": "floor",
    "RoundToInt": "round",
}
_BITS = {
    "LShift": "lshift",
    "RShift": "rshift",
    "BitwiseFn_bitwise_and": "and",
    "BitwiseFn_bitwise_or": "or",
    "BitwiseFn_bitwise_xor": "xor",
}
_LARGE = 24
"""The number of nodes above which torch gets the canonical form of an expression."""
_REALS = {"FloatTrueDiv": "truediv", "FloatPow": "pow", "OpaqueUnaryFn_sqrt": "sqrt"}
"""Functions of floats that sympy leaves unchanged."""


class Untranslatable(ValueError):
    """The expression has no translation (for example, a float where a size is expected)."""


class Translator:
    """Translates sympy expressions over named symbols, whose terms `meaning` returns, and caches the translations."""

    def __init__(self, meaning: Callable[[sympy.Symbol], t.Term]) -> None:
        self._meaning = meaning
        self._memo: dict[sympy.Basic, Value] = {}

    def term(self, expr: sympy.Basic) -> t.Term:
        """Return the integer term of an expression."""
        value = self._value(expr)
        if not isinstance(value, t.Term):
            raise Untranslatable(f"{expr} is not an integer")
        return value

    def size(self, size: int | torch.SymInt) -> t.Term:
        """Return the term of a size, a stride or an offset."""
        return t.constant(size) if isinstance(size, int) else self.term(size.node.expr)

    def read(self, size: int | torch.SymInt) -> t.Term:
        """Return the term of a size; a size without a translation is unknown, and equals only itself."""
        try:
            return self.size(size)
        except Untranslatable:
            return t.unknown(str(size))

    def quantity(self, number: Any) -> Value | None:
        """Return the meaning of a symbolic number or condition; None for any other value."""
        match number:
            case torch.SymInt():
                return self.term(number.node.expr)
            case torch.SymFloat():
                return self.real(number.node.expr)
            case torch.SymBool():
                return self.formula(number.node.expr)
        return None

    def formula(self, expr: sympy.Basic) -> f.Formula:
        """Return the formula of an expression."""
        value = self._value(expr)
        if isinstance(value, f.Formula):
            return value
        if isinstance(value, t.Term):
            return f.ne(value, 0)
        raise Untranslatable(f"{expr} is not a condition")

    def real(self, expr: sympy.Basic) -> t.Real:
        """Return the float expression of an expression."""
        value = self.number(expr)
        return t.FromInt(value) if isinstance(value, t.Term) else value

    def number(self, expr: sympy.Basic) -> t.Term | t.Real:
        """Return the integer term or the float expression of an expression."""
        return _as_number(self._value(expr))

    def _value(self, expr: sympy.Basic) -> Value:
        """Translate arguments first, without recursion: size expressions nest deeply."""
        stack = [expr]
        while stack:
            top = stack[-1]
            if top in self._memo:
                stack.pop()
                continue
            missing = [arg for arg in _parts(top) if arg not in self._memo]
            if missing:
                stack.extend(missing)
                continue
            self._memo[top] = self._node(top, [self._memo[arg] for arg in _parts(top)])
            stack.pop()
        return self._memo[expr]

    def _node(self, expr: sympy.Basic, args: list[Value]) -> Value:
        if not args:
            return self._leaf(expr)
        kind = type(expr).__name__
        if isinstance(expr, Double):
            return t.real_call(expr.op, *map(_as_number, args))
        if isinstance(expr, Comparison):
            return f.real_compare(expr.op, *map(_as_number, args))
        if kind in _COMPARISONS:
            return _compare(kind, *args)
        if kind in {"And", "Or", "Not", "Xor", "ITE"}:
            return _connect(kind, args)
        if kind == "Piecewise":
            return _piecewise(args)
        if kind == "Where":
            return _where(kind, args)
        if all(isinstance(arg, t.Term) for arg in args):
            return _OF_INTEGERS.get(kind, functools.partial(t.unknown, kind))(*args)
        return _real(kind, args)

    def _leaf(self, expr: sympy.Basic) -> Value:
        if isinstance(expr, sympy.Symbol):
            return self._meaning(expr) if expr.is_integer else t.RealSymbol(expr.name)
        if isinstance(expr, sympy.Integer):
            return t.constant(int(expr))
        if isinstance(expr, sympy.Number):
            return t.RealConstant(float(expr))
        if expr in (sympy.true, sympy.false):
            return f.TRUE if expr == sympy.true else f.FALSE
        if type(expr).__name__ in {"IntInfinity", "NegativeIntInfinity"}:
            return t.RealConstant(float("inf") if type(expr).__name__ == "IntInfinity" else float("-inf"))
        return t.unknown(str(expr))


def _compare(kind: str, left: Value, right: Value) -> f.Formula:
    if isinstance(left, f.Formula) and isinstance(right, f.Formula):
        return _same(left, right) if kind == "Equality" else f.negate(_same(left, right))
    if isinstance(left, t.Term | t.RealConstant) and isinstance(right, t.Term | t.RealConstant):
        return f.real_compare(_COMPARISONS[kind], left, right)
    raise Untranslatable("a comparison of floats, which sympy may have rearranged")


def _same(left: f.Formula, right: f.Formula) -> f.Formula:
    return f.disjunction(f.conjunction(left, right), f.conjunction(f.negate(left), f.negate(right)))


def _connect(kind: str, args: list[Value]) -> f.Formula:
    parts = [arg if isinstance(arg, f.Formula) else f.ne(_as_term(arg), 0) for arg in args]
    if kind == "Not":
        return f.negate(parts[0])
    if kind == "Xor":
        return functools.reduce(lambda left, right: f.negate(_same(left, right)), parts)
    if kind == "ITE":  # sympy's form of a Piecewise of conditions
        condition, then, otherwise = parts
        return f.disjunction(f.conjunction(condition, then), f.conjunction(f.negate(condition), otherwise))
    return f.conjunction(*parts) if kind == "And" else f.disjunction(*parts)


def _parts(expr: sympy.Basic) -> tuple[sympy.Basic, ...]:
    """Return the arguments of an expression; for `Piecewise`, the flattened (value, condition) pairs."""
    pairs = type(expr).__name__ == "Piecewise"
    return tuple(part for arg in expr.args for part in (arg.args if pairs else (arg,)))


def _piecewise(args: list[Value]) -> Value:
    """Translate to the first value whose condition holds (torch.sym_ite); without a default, the term is opaque."""
    values, conditions = args[0::2], args[1::2]
    if conditions[-1] is not f.TRUE:
        return _opaque("Piecewise", args)
    chosen = values[-1]
    for value, condition in zip(reversed(values[:-1]), reversed(conditions[:-1]), strict=True):
        chosen = _where("Piecewise", [condition, value, chosen])
    return chosen


def _where(kind: str, args: list[Value]) -> Value:
    if isinstance(args[0], f.Formula) and all(isinstance(arg, t.Term) for arg in args[1:]):
        return t.where(args[0], _as_term(args[1]), _as_term(args[2]))
    return _opaque(kind, args)


def _opaque(kind: str, args: list[Value]) -> t.Term:
    """Return an opaque term for an unknown function of integers: equal arguments give an equal value."""
    if any(isinstance(arg, t.Real) for arg in args):
        raise Untranslatable(f"{kind} of floats is not known")
    return t.unknown(kind, *(t.where(arg, 1, 0) if isinstance(arg, f.Formula) else arg for arg in args))


def _power(base: t.Term, exponent: t.Term) -> t.Term:
    if exponent.is_constant and 0 <= exponent.constant_value <= 16:
        return base**exponent.constant_value
    return t.apply("pow", base, exponent)


_OF_INTEGERS: Mapping[str, Callable[..., Value]] = {
    "Add": lambda *terms: functools.reduce(operator.add, terms),
    "Mul": lambda *terms: functools.reduce(operator.mul, terms),
    **dict.fromkeys(("Pow", "PowByNatural"), _power),
    **dict.fromkeys(("FloorDiv", "CleanDiv"), t.floor_div),
    "CeilDiv": lambda numerator, divisor: -t.floor_div(-numerator, divisor),
    **dict.fromkeys(("Mod", "PythonMod"), t.modulo),
    "ModularIndexing": lambda term, divisor, modulus: t.modulo(t.floor_div(term, divisor), modulus),
    "Min": t.minimum,
    "Max": t.maximum,
    "Abs": lambda term: t.maximum(term, -term),
    "IntTrueDiv": functools.partial(t.real_call, "inttruediv"),
    "ToFloat": t.FromInt,
    **dict.fromkeys(("Identity", *_ROUNDINGS), lambda term: term),
    **{kind: functools.partial(t.apply, op) for kind, op in _BITS.items()},
    **{kind: functools.partial(t.real_call, op) for kind, op in _REALS.items()},
}
"""Functions of integers, by the names of their classes."""


def _real(kind: str, args: list[Value]) -> Value:
    """Translate a function of floats, or of a condition."""
    if kind == "ToFloat":
        return t.FromInt(t.where(_as_formula(args[0]), 1, 0))
    if any(isinstance(arg, f.Formula) for arg in args):
        return _opaque(kind, args)
    if kind in _ROUNDINGS:
        return _rounded(_ROUNDINGS[kind], _as_number(args[0]))
    if kind not in _REALS:
        raise Untranslatable(f"{kind} of floats, which sympy may have rearranged")
    return t.real_call(_REALS[kind], *map(_as_number, args))


def _rounded(rounding: str, value: t.Term | t.Real) -> t.Term:
    """Translate a rounding. Law: `int(x // 1.0)` is `floor(x)`, and `int(round(x, 0))` is `round(x)`."""
    match rounding, value:
        case "trunc", t.RealCall("floordiv", (x, t.RealConstant(value=1.0))):
            return t.apply("floor", x)
        case "trunc", t.RealCall("round", (x, t.FromInt(digits))) if digits is t.ZERO:
            return t.apply("round", x)
        case _:
            return t.apply(rounding, value)


def _as_formula(value: Value) -> f.Formula:
    if not isinstance(value, f.Formula):
        raise Untranslatable(f"{value} is not a condition")
    return value


def _as_number(value: Value) -> t.Term | t.Real:
    if isinstance(value, f.Formula):
        raise Untranslatable("a condition was compared with a number")
    return value


def _as_term(value: Value) -> t.Term:
    if not isinstance(value, t.Term):
        raise Untranslatable(f"{value} is not an integer")
    return value


class Writer:
    """Writes terms as sympy expressions.

    The checks of a term (a divisor must not be zero) are not written: the caller that made the division has asked about
    the divisor.

    Args:
        symbols: the sympy symbol of each name that has one.
    """

    _minimum, _maximum = EXTREMES

    def __init__(self, symbols: Mapping[str, sympy.Expr]) -> None:
        self._symbols = symbols
        self._written: dict[Node, sympy.Expr] = {}
        self._sizes: dict[sympy.Basic, int] = {}

    def size(self, expr: sympy.Basic) -> int:
        """Return the number of nodes of an expression; a shared node counts each time."""
        found = self._sizes.get(expr)
        if found is None:
            found = self._sizes[expr] = 1 + sum(map(self.size, expr.args))
        return found

    def write(self, term: t.Term) -> sympy.Expr:
        """Return a term as a sympy expression.

        Raises:
            Untranslatable: the term contains a function that this writer has no sympy function for.
        """
        if term not in self._written:
            for node in postorder(term):
                if node not in self._written:
                    self._written[node] = self._node(node)
        return self._written[term]

    def _node(self, node: Node) -> sympy.Expr:
        match node:
            case t.Term():
                return sympy.Add(*(self._monomial(factors, coefficient) for factors, coefficient in node.monomials))
            case t.Symbol(name) if name in self._symbols:
                return self._symbols[name]
            case t.FloorDiv(numerator, divisor):
                return quotient(self._written[numerator], self._written[divisor])
            case t.Min(args):
                return self._minimum(*(self._written[arg] for arg in args))
            case t.Max(args):
                return self._maximum(*(self._written[arg] for arg in args))
            case _:
                raise Untranslatable(f"{type(node).__name__} has no form in sympy")

    def _monomial(self, factors: Any, coefficient: int) -> sympy.Expr:
        return sympy.Mul(coefficient, *(sympy.Pow(self._written[atom], power) for atom, power in factors))


def simpler(translator: Translator, writer: Writer, bounds: Facts, expr: sympy.Expr) -> sympy.Expr:
    """Return a large or opaque expression in a form with fewer nodes, equal within the bounds, if one is found."""
    if writer.size(expr) <= _LARGE and not expr.has(*OPAQUE):
        return expr
    try:
        found = writer.write(bounds.reduce(translator.term(expr)))
    except Untranslatable:
        return expr
    return found if not found.is_number and writer.size(found) < writer.size(expr) else expr
