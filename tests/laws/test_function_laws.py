"""The laws of bits, powers and integers made of doubles, held against evaluation; of bits, Z3 proves what it can."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shapeproof.constraints.meaning.evaluate import evaluate, evaluate_number
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.syntax.text import parse_any, parse_formula, parse_term
from shapeproof.constraints.terms import Apply, apply, constant, symbol
from shapeproof.solver.facts import Facts
from shapeproof.solver.functions.axioms import axioms, rising
from shapeproof.solver.functions.enclosures import enclosure
from shapeproof.solver.learned.bounding import KnownBounds
from shapeproof.solver.prove import decide
from shapeproof.solver.sampled.points import true_at
from shapeproof.solver.smt.ask import Answer, Core, Session
from tests import strategies as s
from tests.thoroughness import examples

many = settings(max_examples=examples(100))
some = settings(max_examples=examples(100))

PYTHON = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}
wide = st.one_of(st.integers(-70, 70), st.integers(-(2**70), 2**70))
sizes = st.one_of(st.integers(0, 40), st.integers(0, 2**70))

factors = st.one_of(
    st.sampled_from([0.1, 0.5, 0.25, 0.3, 1.0, 1.5, 2.0, 0.9999999999999999, 1e-300, 5e-324, 1e300, 0.0]),
    st.floats(0, 4, allow_nan=False),
)


def _reals(operands):
    return st.one_of(
        st.builds("({} * {!r})".format, operands, factors),
        st.builds("({!r} * {})".format, factors, operands),
        st.builds("({} / {!r})".format, operands, factors.filter(bool)),
        st.builds("({} + {})".format, operands, operands),
        st.builds("({} + {!r})".format, operands, factors),
        st.builds("({} * {})".format, operands, operands),
    )


_LEAVES = st.sampled_from(["float(x)", "float(x + 2*y)", "(x / 3)", "(x / (y + 1))", "(x / 1024)", "sqrt(x)"])
reals = st.recursive(_LEAVES, _reals, max_leaves=4)
roundings = st.sampled_from(["int", "floor", "ceil", "round"])


@many
@given(st.sampled_from(sorted(PYTHON)), wide, wide)
def test_bits_by_a_constant_are_what_python_says(op, value, mask):
    for term in (apply(op, symbol("x"), mask), apply(op, constant(mask), symbol("x"))):
        assert evaluate(term, {"x": value}) == PYTHON[op](value, mask)


@many
@given(st.lists(st.sampled_from(s.NAMES), min_size=2, max_size=6), st.sampled_from(sorted(PYTHON)), s.points)
def test_bits_of_repeated_operands_are_what_python_says(names, op, point):
    term, value = symbol(names[0]), point[names[0]]
    for name in names[1:]:
        term, value = apply(op, symbol(name), term), PYTHON[op](value, point[name])
    assert evaluate(term, point) == value


@pytest.mark.parametrize(
    "law",
    [
        "(= (bvand x #x0007) (bvurem x #x0008))",
        "(= (bvand x #xfff8) (bvmul #x0008 (bvudiv x #x0008)))",
        "(= (bvand x #x000c) (bvsub (bvmul #x0004 (bvudiv x #x0004)) (bvmul #x0010 (bvudiv x #x0010))))",
        "(= (bvadd (bvor x y) (bvand x y)) (bvadd x y))",
        "(= (bvadd (bvxor x y) (bvmul #x0002 (bvand x y))) (bvadd x y))",
        "(bvule (bvand x y) x)",
        "(bvuge (bvor x y) x)",
    ],
)
def test_the_laws_of_bits_are_proved_of_all_integers_of_sixteen_bits(law):
    script = f"(declare-const x (_ BitVec 16)) (declare-const y (_ BitVec 16)) (assert (not {law}))"
    assert Session(script, Core.FULL).check(20_000_000) is Answer.UNSAT


def box_of(point, slack):
    return {name: Interval(value - slack, value + slack if slack % 2 else None) for name, value in point.items()}


def functions_in(term):
    return [atom for monomial in term.poly for atom, _ in monomial if isinstance(atom, Apply)]


@many
@given(
    st.one_of(
        st.builds("({}) {} ({})".format, s.integer_texts, st.sampled_from("&|^"), s.integer_texts),
        st.builds("{}**({})".format, st.integers(0, 5), st.sampled_from(["x", "x + 1", "x*y", "x - y"])),
    ),
    s.points,
    st.integers(0, 20),
)
def test_axioms_of_bits_and_powers_hold_wherever_the_function_is_defined(text, point, slack):
    bounds = KnownBounds(box_of(point, slack), {}).of
    for atom in functions_in(parse_term(text)):
        value = s.outcome(lambda: evaluate(parse_term(str(atom)), point))  # noqa: B023  (called at once)
        for term in axioms(atom, bounds) if isinstance(value, int) else ():
            assert evaluate(term, point) >= 0


@many
@given(roundings, reals, st.fixed_dictionaries({"x": sizes, "y": sizes}), st.integers(0, 20))
def test_axioms_of_rounded_doubles_hold_wherever_they_are_defined(rounding, text, point, slack):
    bounds = KnownBounds({name: Interval(max(0, value - slack), None) for name, value in point.items()}, {}).of
    for atom in functions_in(parse_term(f"{rounding}({text})")):
        value = s.outcome(lambda: evaluate(parse_term(str(atom)), point))  # noqa: B023  (called at once)
        for term in axioms(atom, bounds) if isinstance(value, int) else ():
            assert evaluate(term, point) >= 0


@many
@given(reals, st.fixed_dictionaries({"x": sizes, "y": sizes}))
def test_an_enclosure_holds_every_finite_value(text, point):
    _check_enclosure(text, point, Interval(0, None))


@many
@given(reals, st.fixed_dictionaries({"x": st.integers(0, 2**50), "y": st.integers(0, 99)}))
def test_an_enclosure_holds_every_finite_value_of_integers_that_are_doubles(text, point):
    _check_enclosure(text, point, Interval(0, 2**50))


def _check_enclosure(text, point, interval):
    found = enclosure(parse_any(text), KnownBounds(dict.fromkeys("xy", interval), {}).of)
    value = s.outcome(lambda: evaluate_number(parse_any(text), point))
    assume(found is not None and isinstance(value, float) and value < float("inf"))
    at = {term: evaluate(term, point) for term in found.parts}
    assert sum((at[term] * low for term, (low, _) in found.parts.items()), Fraction(0)) <= Fraction(value)
    assert Fraction(value) <= sum((at[term] * high for term, (_, high) in found.parts.items()), Fraction(0))


@many
@given(roundings, reals, wide, wide)
def test_what_is_called_rising_does_not_fall(rounding, text, one, other):
    (low, high), function = sorted((one, other)), f"{rounding}({text.replace('y', '2')})"
    for atom in functions_in(parse_term(function)):
        found = rising(atom)
        if found is not None:
            values = [s.outcome(lambda x=x: evaluate(parse_term(str(atom)), {"x": x})) for x in (low, high)]  # noqa: B023
            inside = [evaluate(found[1], {"x": x}) for x in (low, high)]
            assume(all(isinstance(value, int) for value in values))
            assert (values[0] <= values[1]) == (inside[0] <= inside[1]) or values[0] == values[1]


exponents = st.sampled_from(["x", "y", "x + 1", "x + y", "2*x", "x - y", "x*y", "3*x + y - 1", "x - 2", "y + z"])
_powers = st.one_of(
    st.builds("{}**({})".format, st.sampled_from(["2", "4", "3", "z", "8", "1", "(-2)"]), exponents),
    st.builds("(z << ({}))".format, exponents),
    st.builds("(z >> ({}))".format, exponents),
    st.builds("(z & (2**({}) - 1))".format, exponents),
    st.builds("(z & -2**({}))".format, exponents),
)
power_texts = st.recursive(
    _powers,
    lambda operands: st.one_of(
        st.builds("({} * {})".format, operands, operands),
        st.builds("({} // {})".format, operands, operands),
        st.builds("({} % {})".format, operands, operands),
        st.builds("({} + {})".format, operands, operands),
    ),
    max_leaves=3,
)


@many
@given(power_texts, st.lists(st.sampled_from(["x >= 0", "y >= 0", "x >= y", "y >= 2", "x >= 3"]), max_size=3), s.points)
def test_powers_keep_their_value_where_the_facts_hold(text, given_texts, point):
    facts = Facts(map(parse_formula, given_texts))
    term = parse_term(text)
    value = s.outcome(lambda: evaluate(term, point))
    if isinstance(value, int) and all(true_at(fact, point) for fact in facts.formulas):
        assert evaluate(facts.reduce(term), point) == value


DIVIDED = st.builds(
    "({}) % ({})".format, st.sampled_from(["x", "x*y", "x + y", "3*x*y", "x*x"]), st.sampled_from(["z", "z*y", "z*z"])
)
DIVIDING = ["x % z == 0", "y % z == 0", "x % y == 0", "z % y == 0", "x*y % z == 0", "z >= 1"]


@some
@given(DIVIDED, st.lists(st.sampled_from(DIVIDING), max_size=3))
def test_divisibility_by_what_is_not_constant_is_never_claimed_wrongly(text, given_texts):
    asked, facts = parse_formula(f"{text} == 0"), list(map(parse_formula, given_texts))
    verdict = decide(asked, Facts(facts))
    points = [{"x": x, "y": y, "z": z} for x in range(-6, 7) for y in (-2, -1, 1, 2, 3) for z in (-3, -2, 1, 2, 4)]
    holding = [point for point in points if all(true_at(fact, point) for fact in facts)]
    if verdict.status == "proved":
        assert all(true_at(asked, point) for point in holding)
