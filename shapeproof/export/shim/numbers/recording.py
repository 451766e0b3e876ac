"""Records a symbolic number that the tracer does not know, by computing it from numbers that the tracer knows.

An operator computes with sizes unseen by the tracer. Torch's own code to record such sizes knows few functions and none
of floats. Here each function is called as Python would call it, so the recorded nodes mean exactly the expression.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sympy
import torch
import torch.utils._sympy.functions as fn
from torch.fx.experimental import proxy_tensor

from shapeproof.constraints import operators
from shapeproof.export.shim.numbers.doubles import FUNCTIONS, Comparison, Double, value_of

_DOUBLES: Mapping[str, Any] = {
    **operators.REAL,
    **operators.COMPARISONS,
    ">": operator.gt,
    ">=": operator.ge,
    "pow": operator.pow,
    "min": torch.sym_min,
    "max": torch.sym_max,
    "round": round,
    **{name: getattr(torch, f"_sym_{name}") for name in FUNCTIONS},
}
_CONVERSIONS: Mapping[Any, Callable[..., Any]] = {
    fn.ToFloat: torch.sym_float,
    fn.TruncToInt: math.trunc,
    fn.FloorToInt: math.floor,
    fn.CeilToInt: math.ceil,
    fn.RoundToInt: round,
    fn.IntTrueDiv: operator.truediv,
    fn.FloatTrueDiv: operator.truediv,
    fn.FloatPow: operator.pow,
    fn.PowByNatural: operator.pow,
    fn.PythonMod: operator.mod,
    sympy.Pow: operator.pow,
    sympy.Not: torch.sym_not,
}
_OF_MANY: Mapping[Any, Callable[..., Any]] = {
    sympy.Mul: operator.mul,
    sympy.And: operator.and_,
    sympy.Or: operator.or_,
}


def recorded(number: torch.SymBool) -> Any:
    """Return the number, or an equal number that the current tracer has recorded."""
    mode = proxy_tensor.get_proxy_mode()
    if mode is None or number in mode.tracer.symnode_tracker:
        return number
    nodes: Iterable[Any] = mode.tracer.symnode_tracker.sym_node_dict  # by a SymInt's node
    known = {node.expr: torch.SymInt(node) for node in nodes if node.is_int()}
    known |= {symbol: each.value for symbol, each in mode.tracer.sympy_expr_tracker.items()}
    return _computed(number.node.expr, known)


def _computed(expr: Any, known: dict[Any, Any]) -> Any:
    """Compute the expression by Python's operators from known values."""
    if expr not in known:
        number = value_of(expr)
        if number is None and expr.is_Symbol:
            number = _divided(expr, known)
        elif number is None and expr.args:
            number = _function(expr)(*(_computed(arg, known) for arg in expr.args))
        known[expr] = bool(expr) if expr in (sympy.true, sympy.false) else number
    return known[expr]


def _divided(symbol: Any, known: dict[Any, Any]) -> Any:
    """Return a symbol's number from a known multiple: a fake kernel may make sizes `2*n` of the number n it takes."""
    multiples = ((each.as_coeff_Mul(), number) for each, number in known.items() if each.free_symbols == {symbol})
    return next((number // int(factor) for (factor, rest), number in multiples if rest == symbol and factor != 0), None)


def _function(expr: Any) -> Callable[..., Any]:
    if isinstance(expr, Double | Comparison):
        function: Callable[..., Any] = _DOUBLES[expr.op]
        return function
    if expr.func in _OF_MANY:
        return lambda *args: functools.reduce(_OF_MANY[expr.func], args)
    return _CONVERSIONS.get(expr.func) or proxy_tensor._sympy_handlers()[expr.func]
