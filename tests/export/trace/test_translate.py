"""A sympy expression and the term that it is translated to have the same value wherever either has one.

The oracle walks the expression with Python's own operators. Where torch's reference interpreter knows the functions of
an expression, it is asked too.
"""

from __future__ import annotations

import functools
import math
import operator

import pytest
import sympy
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.utils._sympy import functions as fn
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.meaning.evaluate import evaluate, evaluate_number, holds
from shapeproof.export.shim.numbers.doubles import Comparison, Double, operation
from shapeproof.export.trace.translate import Translator, Untranslatable, Writer
from tests.strategies import terms

S, N = (sympy.Symbol(name, integer=True, nonnegative=True) for name in ("s", "n"))
U = sympy.Symbol("u", integer=True)
SYMBOLS = (S, N, U)

# ---------------------------------------------------------------------- the oracle

MEANINGS = {
    sympy.Add: lambda *args: sum(args),
    sympy.Mul: lambda *args: math.prod(args),
    sympy.Pow: operator.pow,
    sympy.Abs: abs,
    fn.FloorDiv: operator.floordiv,
    fn.CleanDiv: operator.floordiv,
    fn.Mod: operator.mod,
    fn.PythonMod: operator.mod,
    sympy.Mod: operator.mod,
    fn.ModularIndexing: lambda base, divisor, modulus: base // divisor % modulus,
    fn.PowByNatural: operator.pow,
    fn.FloatPow: operator.pow,
    fn.IntTrueDiv: operator.truediv,
    fn.FloatTrueDiv: operator.truediv,
    fn.LShift: operator.lshift,
    fn.RShift: operator.rshift,
    fn.Min: min,
    fn.Max: max,
    fn.ToFloat: float,
    fn.TruncToInt: math.trunc,
    fn.CeilToInt: math.ceil,
    fn.FloorToInt: math.floor,
    sympy.floor: math.floor,
    fn.RoundToInt: round,
    fn.Identity: lambda x: x,
    fn.OpaqueUnaryFn_sqrt: math.sqrt,
    fn.BitwiseFn_bitwise_and: operator.and_,
    fn.BitwiseFn_bitwise_or: operator.or_,
    fn.BitwiseFn_bitwise_xor: operator.xor,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    sympy.And: lambda *args: all(args),  # all are computed: sympy does not keep their order
    sympy.Or: lambda *args: any(args),
    sympy.Not: operator.not_,
    sympy.Xor: lambda *args: sum(args) % 2 == 1,
}


FLOATS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "neg": operator.neg,
    "abs": abs,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "round": round,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def python_value(expr, point):
    """What Python says that the expression is. Only the side that is taken of a Where is computed."""
    if expr.is_Symbol:
        return point[expr.name]
    if isinstance(expr, sympy.Integer):
        return int(expr)
    if isinstance(expr, sympy.Number):
        return float(expr)
    if expr in {sympy.true, sympy.false}:
        return bool(expr)
    if isinstance(expr, sympy.Piecewise):
        return next(python_value(value, point) for value, condition in expr.args if python_value(condition, point))
    if isinstance(expr, fn.Where | sympy.ITE):
        return python_value(expr.args[1 if python_value(expr.args[0], point) else 2], point)
    if isinstance(expr, Double | Comparison):
        return FLOATS[expr.op](*(python_value(arg, point) for arg in expr.args))
    return MEANINGS[expr.func](*(python_value(arg, point) for arg in expr.args))


def outcome(compute):
    """The value, or "raises": which of several errors comes first is nobody's promise."""
    try:
        return compute()
    except (ArithmeticError, ValueError):
        return "raises"


# ---------------------------------------------------------------------- expressions


def built(make, *operands):
    """The expression, or the first operand where torch refuses to build it (a zero divisor, a negative modulus)."""
    try:
        return make(*operands)
    except (ArithmeticError, AssertionError, RecursionError, TypeError, ValueError):
        return operands[0]


def chosen(condition, then, otherwise):
    """One of two integers, or the first where sympy does not get to the end of it."""
    return built(lambda a, b: fn.Where(condition, a, b), then, otherwise)


SMALL = st.integers(-6, 9).map(sympy.Integer)
NATURAL = st.sampled_from((N, sympy.Integer(0), sympy.Integer(1), sympy.Integer(2), sympy.Integer(3)))
LEAVES = st.one_of(st.sampled_from(SYMBOLS), st.sampled_from(SYMBOLS), SMALL)
UNARY = (operator.neg, abs, fn.Identity)
BINARY = (
    operator.add,
    operator.sub,
    operator.mul,
    fn.FloorDiv,
    fn.PythonMod,
    fn.Min,
    fn.Max,
    fn.BitwiseFn_bitwise_and,
    fn.BitwiseFn_bitwise_or,
    fn.BitwiseFn_bitwise_xor,
    lambda a, b: fn.Max(a, b, S),
    lambda a, b: fn.Mod(abs(a), abs(b) + 1),
    lambda a, b: fn.ModularIndexing(abs(a), abs(b) + 1, N + 2),
    lambda a, b: fn.CeilDiv(a, abs(b) + 1),
    lambda a, b: fn.CleanDiv(a * b, b),
)
POWERS = (fn.PowByNatural, fn.LShift, fn.RShift)
COMPARISONS = (sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)
ROUNDINGS = (fn.TruncToInt, fn.CeilToInt, fn.FloorToInt, fn.RoundToInt)


def reals_over(integers):
    """Floats, as symbolic numbers form them."""
    leaves = st.one_of(
        st.builds(built, st.just(fn.IntTrueDiv), integers, integers),
        st.builds(fn.ToFloat, integers),
        st.sampled_from((sympy.Float(0.29), sympy.Float(2.5), sympy.Float(-1.5))),
    )
    binary = ("add", "sub", "mul", "truediv", "floordiv", "mod", "min", "max")
    operations = st.sampled_from(
        (
            *(functools.partial(operation, op) for op in binary),
            *(lambda a, _, op=op: operation(op, a) for op in ("neg", "abs", "sqrt")),
            lambda a, _: operation("pow", a, sympy.Float(2.0)),
            lambda a, _: operation("round", a, sympy.Integer(1)),
            fn.FloatTrueDiv,
        )
    )
    return st.recursive(leaves, lambda parts: st.builds(built, operations, parts, parts), max_leaves=3)


def grow(integers):
    """Larger integer expressions."""
    return st.one_of(
        st.builds(built, st.sampled_from(UNARY), integers),
        st.builds(built, st.sampled_from(BINARY), integers, integers),
        st.builds(built, st.sampled_from(BINARY), integers, integers),
        st.builds(built, st.sampled_from(POWERS), integers, NATURAL),
        st.builds(built, st.sampled_from(ROUNDINGS), reals_over(integers)),
        st.builds(chosen, conditions_over(integers), integers, integers),
    )


def conditions_over(integers):
    """Comparisons of integers, and of floats."""
    reals = reals_over(integers)
    of_integers = st.builds(joined, st.sampled_from(COMPARISONS), integers, integers)
    of_floats = st.builds(operation, st.sampled_from(("==", "!=", "<", "<=", ">", ">=")), reals, reals | integers)
    return st.one_of(of_integers, of_floats)


def joined(make, *operands):
    """The condition, or true where sympy does not get to the end of it."""
    try:
        return make(*operands)
    except (RecursionError, TypeError):
        return sympy.true


def connect(conditions):
    pairs = st.builds(joined, st.sampled_from((sympy.And, sympy.Or, sympy.Xor)), conditions, conditions)
    return st.one_of(pairs, st.builds(joined, st.just(sympy.Not), conditions))


integers = st.recursive(LEAVES, grow, max_leaves=6)
conditions = st.recursive(conditions_over(integers), connect, max_leaves=3)
points = st.fixed_dictionaries(
    {
        "s": st.integers(0, 40) | st.integers(2**52, 2**62),
        "n": st.integers(0, 9),
        "u": st.integers(-20, 20) | st.integers(-(2**62), 2**62),
    }
)


def translator():
    return Translator(lambda name: t.symbol(name.name))


# ---------------------------------------------------------------------- the laws


@given(expr=integers, point=points)
def test_a_term_has_the_value_of_its_expression(expr, point):
    assume(expr.is_integer is not False and not expr.has(sympy.zoo, sympy.nan))
    term = translator().term(expr)
    assert outcome(lambda: evaluate(term, point)) == outcome(lambda: python_value(expr, point))


@given(condition=conditions, point=points)
def test_a_formula_holds_where_its_condition_does(condition, point):
    assume(not condition.has(sympy.zoo, sympy.nan))
    value = outcome(lambda: python_value(condition, point))
    assume(value != "raises" or not condition.has(sympy.And, sympy.Or))  # another order may not come to what raises
    assert outcome(lambda: holds(translator().formula(condition), point)) == value


@given(expr=integers.flatmap(lambda x: reals_over(st.just(x))), point=points)
def test_a_real_has_the_value_of_its_expression(expr, point):
    assume(not expr.has(sympy.zoo, sympy.nan))
    real = translator().number(expr)
    assert outcome(lambda: float(evaluated(real, point))) == outcome(lambda: float(python_value(expr, point)))


def evaluated(number, point):
    return evaluate_number(number, point)


class Reference(PythonReferenceAnalysis):
    """Torch's reference, with the integer roundings of Python that it leaves out."""

    trunc_to_int = staticmethod(lambda x, _: math.trunc(x))
    int_truediv = staticmethod(operator.truediv)


@given(expr=integers, point=points)
def test_torchs_reference_agrees_with_the_oracle(expr, point):
    """Where torch's interpreter has all functions of the expression."""
    env = {symbol: point[symbol.name] for symbol in SYMBOLS}
    try:
        reference = outcome(lambda: sympy_interp(Reference, env, expr))
    except (KeyError, AttributeError):  # a function that it does not know
        assume(condition=False)
    assume(not expr.has(fn.Where))  # it computes both sides
    assert reference == outcome(lambda: python_value(expr, point))


# ---------------------------------------------------------------------- one by one

FUNCTIONS = {
    "FloorDiv": fn.FloorDiv(S, N),
    "CleanDiv": fn.CleanDiv(S, N),
    "Mod": fn.Mod(S, N),
    "PythonMod": fn.PythonMod(U, N),
    "ModularIndexing": fn.ModularIndexing(S, 3, 4),
    "Min": fn.Min(S, N, U),
    "Max": fn.Max(S, 3),
    "Where": fn.Where(sympy.Lt(S, N), S, U),
    "Piecewise": sympy.Piecewise((S, sympy.Lt(S, N)), (U, sympy.Lt(S, 5)), (N, True)),
    "ITE": fn.Where(sympy.ITE(sympy.Lt(S, N), sympy.Lt(U, 5), sympy.Lt(N, U)), S, U),
    "PowByNatural": fn.PowByNatural(S, N),
    "Pow": S**2,
    "LShift": fn.LShift(S, N),  # torch writes this one and the next two in terms of others
    "RShift": fn.RShift(S, N),
    "CeilDiv": fn.CeilDiv(S, 4),
    "Identity": fn.Identity(S),
    "Abs": abs(U),
    "bitwise_and": fn.BitwiseFn_bitwise_and(S, N),
    "bitwise_or": fn.BitwiseFn_bitwise_or(S, N),
    "bitwise_xor": fn.BitwiseFn_bitwise_xor(S, N),
    "CeilToInt": fn.CeilToInt(fn.IntTrueDiv(S, 7)),
    "TruncToInt": fn.TruncToInt(fn.IntTrueDiv(U, 7)),
    "FloorToInt": fn.FloorToInt(fn.FloatTrueDiv(fn.ToFloat(U), sympy.Float(2.5))),
    "floor": sympy.floor(fn.FloatTrueDiv(fn.ToFloat(U), sympy.Float(2.5))),
    "RoundToInt": fn.RoundToInt(fn.IntTrueDiv(S, 2)),
    "FloatPow": fn.TruncToInt(fn.FloatPow(fn.ToFloat(S), sympy.Float(0.5))),
    "sqrt": fn.TruncToInt(fn.OpaqueUnaryFn_sqrt(fn.ToFloat(S))),
    "a scale factor": fn.TruncToInt(operation("mul", 0.29, fn.ToFloat(S))),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", FUNCTIONS)
@given(point=points)
def test_each_function_has_a_meaning(name, point):
    """None of them is opaque, or every test above could pass by knowing nothing."""
    assume(point["s"] < 2**52 or "Pow" not in name)
    expr = FUNCTIONS[name]
    assert outcome(lambda: evaluate(translator().term(expr), point)) == outcome(lambda: python_value(expr, point))


def test_a_double_is_a_double():
    """`int(100 * 0.29)` is 28."""
    term = translator().term(fn.TruncToInt(operation("mul", 0.29, fn.ToFloat(S))))
    assert evaluate(term, {"s": 100}) == 28


def test_a_quotient_of_integers_is_rounded_once():
    """Not first each operand, as a quotient of two doubles is."""
    term = translator().term(fn.TruncToInt(fn.IntTrueDiv(S, N)))
    large = 2**53 + 1
    assert int(large / 3) != int(float(large) / 3.0)
    assert evaluate(term, {"s": large, "n": 3}) == int(large / 3)


class mystery(sympy.Function):
    """A function that nobody knows."""

    is_integer = True


def test_an_unknown_function_is_opaque_and_never_dropped():
    """Equal arguments give the same term, other arguments another, and no value is made up."""
    one = translator()
    formula = one.formula(sympy.Le(mystery(S + 1) + S, N))
    assert formula.symbols == {"s", "n"}
    assert one.term(mystery(S + 1)) is translator().term(mystery(1 + S))
    assert one.term(mystery(S)) is not one.term(mystery(N))
    with pytest.raises(Unevaluable):
        evaluate(one.term(mystery(S)), {"s": 1})


ODD = {
    "three floats": (fn.TruncToInt(fn.ToFloat(S) + sympy.Float(0.1) + fn.ToFloat(N)), 9),
    "a rounded float": (fn.TruncToInt(fn.RoundDecimal(fn.IntTrueDiv(S, 3), 1)), 2),
    "a truncated float": (fn.TruncToInt(fn.TruncToFloat(fn.IntTrueDiv(S, 2))), 3),
    "a sine": (fn.TruncToInt(fn.OpaqueUnaryFn_sin(fn.ToFloat(S))), 0),
    "a piecewise with a gap": (sympy.Piecewise((S, sympy.Lt(S, N)), (N, sympy.Gt(S, N))), 2),
    "sympy's floor": (sympy.floor(S / 2), 3),
    "density": (fn.IsNonOverlappingAndDenseIndicator(S, N, N, 1), 1),
}
"""Expressions that need not have a meaning here, and their values at s = 7, n = 2."""


@pytest.mark.quick
@pytest.mark.parametrize("name", ODD)
def test_what_has_no_meaning_is_opaque_or_untranslatable(name):
    """It is no mistake of the user's, and whatever is made of it has no other value than its own."""
    expr, value = ODD[name]
    try:
        assert evaluate(translator().term(expr), {"s": 7, "n": 2}) == value
    except (Unevaluable, Untranslatable):
        return


def test_a_float_is_no_size_and_a_size_no_condition_of_two():
    with pytest.raises(Untranslatable):
        translator().term(fn.IntTrueDiv(S, 2))
    with pytest.raises(Untranslatable):
        translator().formula(fn.ToFloat(S))
    with pytest.raises(Untranslatable):
        translator().number(sympy.Lt(S, N))
    assert translator().formula(S) is f.ne(t.symbol("s"), 0)


def test_a_symbol_means_what_it_is_said_to_mean():
    """A size that is declared as 4*k is that term, and no symbol of its own."""
    meant = Translator(lambda name: 4 * t.symbol("k") if name == S else t.symbol(name.name))
    assert meant.term(fn.FloorDiv(S + N, 4)) is (4 * t.symbol("k") + t.symbol("n")) // 4
    assert meant.formula(sympy.Eq(fn.PythonMod(S, 4), 0)) is f.TRUE


@pytest.mark.thorough
def test_an_expression_may_nest_deeply():
    """Size expressions of deep models do; translating one does not recurse."""
    expr = S
    for _ in range(3000):
        expr = fn.FloorDiv(expr, 2, evaluate=False) + 1
    assert evaluate(translator().term(expr), {"s": 10}) == 2


# ---------------------------------------------------------------------- and back

NAMES = {name: sympy.Symbol(name, integer=True) for name in ("x", "y", "z")}
places = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(-12, 12)))


@given(term=terms, point=places)
def test_what_is_written_for_a_term_has_its_value(term, point):
    """Except that a division is not checked: whoever made it has asked about its divisor."""
    try:
        expr = Writer(NAMES).write(term)
    except Untranslatable:
        assume(condition=False)
    value = outcome(lambda: evaluate(term, point))
    assume(value != "raises")
    assert outcome(lambda: python_value(expr, point)) == value
    assert outcome(lambda: evaluate(translator().term(expr), point)) == value
