"""Reads symbolic sizes and the metadata of a traced program without asking a question about them.

Also records a symbolic number that the tracer does not know, by computing it from numbers that the tracer knows.

An operator computes with sizes unseen by the tracer. Torch's own code to record such sizes knows few functions and none
of floats. Here each function is called as Python would call it, so the recorded nodes mean exactly the expression.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import sympy
import torch
import torch._dynamo.exc
import torch._functorch.config
import torch.utils._pytree as pytree
import torch.utils._sympy.functions as fn
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.utils._sympy.functions import CeilToInt, FloorDiv, FloorToInt, Max, Min, RoundToInt, TruncToInt
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import SymPyValueRangeAnalysis, ValueRanges, bound_sympy

from shapeproof.constraints import operators
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.export.shim.numbers.doubles import FUNCTIONS, Comparison, Double, value_of
from shapeproof.export.shim.trees import graph_modules

ASSERTION = torch.ops.aten._assert_scalar.default
"""The operator of an assertion in a graph."""
ASSERTIONS_OF_TENSORS = (torch.ops.aten._assert_async.default, torch.ops.aten._assert_async.msg)
"""The operators of an assertion about the elements of a tensor."""

DATA_ASSERTION = torch.ops.aten._assert_async.msg
"""The operator of an assertion on a tensor."""

UNSAID_ASSERTION = torch.ops.aten._assert_async.default
"""The same without a message, which torch's dead code elimination removes."""

EXTREMES: tuple[Any, Any] = (Min, Max)
"""Torch's functions for the least and the greatest of some sizes."""


def merges(dividend: sympy.Basic, divisor: sympy.Basic) -> bool:
    """True if torch's `dividend // divisor` is another number: it writes `(a // b) // c` as `a // (b*c)`, whatever `c`.

    Law: the two are equal where `c > 0`; `(20 // 3) // -1` is -6, and `20 // -3` is -7.

    >>> a, b = sympy.symbols("a b", integer=True)
    >>> merges(FloorDiv(a, 3), b), merges(FloorDiv(a, 3), sympy.Integer(2))
    (True, False)
    """
    return isinstance(dividend, FloorDiv) and not divisor.is_nonnegative


def quotient(dividend: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr:
    """Return `dividend // divisor` in a form that stays equal when sympy evaluates it again."""
    if merges(dividend, divisor):
        dividend, divisor = dividend * divisor, divisor * divisor
    return FloorDiv(dividend, divisor, evaluate=False)


OPAQUE = (Max, TruncToInt, FloorToInt, CeilToInt, RoundToInt)
"""Functions that sympy seldom evaluates although the domain determines their value."""

INT64 = Interval(-(2**63), 2**63 - 1)
"""The range of every size."""

PROMISED = "Runtime assertion failed for expression"
"""The beginning of torch's own message for an assertion; `word_checks` replaces the message of a user's check."""

KIND_ASSERTION = torch.ops.aten._assert_tensor_metadata.default
"""The operator that asserts a dtype, a device and a layout."""

TorchConstraintError = torch._dynamo.exc.UserError

UNREADABLE = torch._dynamo.exc.TorchDynamoException
"""Raised by dynamo, which reads the branches of torch.cond, where it cannot read one at the sizes of the trace."""

CONSTRAINT_VIOLATION = torch._dynamo.exc.UserErrorType.CONSTRAINT_VIOLATION


PLAIN: Mapping[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
"""The eager class of each symbolic number."""


def may_be_negative(number: Any) -> bool:
    """True if a number is symbolic, and not known to be at least 0; nothing is recorded."""
    return isinstance(number, torch.SymInt) and not statically_known_true(number >= 0)


def value_range(bounds: Interval) -> ValueRanges[Any]:
    """Return bounds as torch's value range."""
    return ValueRanges(
        -int_oo if bounds.lower is None else bounds.lower, int_oo if bounds.upper is None else bounds.upper
    )


@contextlib.contextmanager
def bounds_refused(func: Any) -> Iterator[None]:
    """Inside this block, an operator runs that may ask torch for bounds, which it lacks for operations on doubles."""
    try:
        yield
    except AttributeError as error:
        if error.obj is not SymPyValueRangeAnalysis:
            raise
        text = f"a size computed in floats has no bounds in torch, and `{func}` asks for them: compute it in integers"
        raise NotImplementedError(text) from None


def upper_bound(expr: sympy.Expr, ranges: dict[sympy.Symbol, Any]) -> int | None:
    """Return the greatest value of an expression as consumers compute it, or None if they find none.

    Torch has no bounds for operations on doubles and would warn, so the result is None for them.
    """
    if expr.has(Double):
        return None
    upper = bound_sympy(expr, ranges).upper
    return int(upper) if isinstance(upper, sympy.Integer) else None


def at_most(expr: sympy.Expr, bound: int) -> sympy.Expr:
    """Return an equal expression whose upper bound consumers can see."""
    return Min(expr, sympy.Integer(bound))


def is_of_input(free: sympy.Symbol) -> bool:
    """True if torch's symbol is the size of an input."""
    return symbol_is_type(free, SymT.SIZE)


def is_unbacked(free: sympy.Symbol) -> bool:
    """True if torch's symbol is a number that is taken from data."""
    return symbol_is_type(free, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))


def about_data(size: int | torch.SymInt) -> bool:
    """True if a size depends on data: it has an unbacked symbol."""
    return isinstance(size, torch.SymInt) and bool(data_symbols(size))


def data_symbols(number: torch.SymInt | torch.SymFloat | torch.SymBool) -> set[Any]:
    """Return the unbacked symbols of a symbolic number."""
    return set(free_unbacked_symbols(number))


def forget_hint(number: object, free: Iterable[sympy.Symbol]) -> None:
    """Take the hint from a symbolic number that one of the symbols is free in."""
    if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
        node = number.node
        node._hint = None if node.expr.free_symbols & set(free) else node._hint


def values(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """Yield the values in the metadata of a program's nodes, those of nested graph modules included."""
    every = (node for module in graph_modules(program.graph_module) for node in module.graph.nodes)
    return (leaf for node in every for leaf in pytree.tree_leaves(node.meta.get("val")))


def shape_envs(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """Yield the ShapeEnvs of the values in the metadata of a program's nodes."""
    for value in values(program):
        if isinstance(value, FakeTensor):
            yield value.fake_mode.shape_env
        if isinstance(value, torch.SymInt):
            yield value.node.shape_env


def sizes(value: Any) -> list[Any]:
    """Return every size of the tensors in a fake value, and every number in it, in order."""
    found: list[Any] = []
    for leaf in pytree.tree_leaves(value):
        found += list(leaf.shape) if isinstance(leaf, torch.Tensor) else [leaf]
    return found


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
