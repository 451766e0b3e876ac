"""Each rule that rewrites bits, powers, divisions and doubles, held against evaluation at the points of a small box."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.syntax.text import parse_any, parse_formula, parse_term
from shapeproof.solver import prove
from shapeproof.solver.cases import proved_by_alternatives
from shapeproof.solver.facts import Facts
from shapeproof.solver.functions.axioms import axioms
from shapeproof.solver.functions.doubles import range_of
from shapeproof.solver.functions.enclosures import enclosure
from shapeproof.solver.functions.powers import without_masks
from shapeproof.solver.sampled.points import true_at
from tests.strategies import value_of
from tests.thoroughness import examples

many = settings(max_examples=examples(150))
SIDE = range(-9, 10)

_SHORT = st.one_of(st.sampled_from(["x", "y", "x//2", "x % 4", "(x & y)", "(x | y)", "(x - y)", "(-x)"]))
_SCALED = st.builds(
    "({}*{} + {})".format, st.sampled_from(["1", "2", "4", "-2", "6", "-1"]), _SHORT, st.integers(-5, 5)
)


@many
@given(st.sampled_from(["and", "or", "xor"]), _SCALED, _SCALED)
def test_bits_of_two_unknowns_keep_their_value(op, left, right):
    found = without_masks(op, parse_term(left), parse_term(right))
    sign = {"and": "&", "or": "|", "xor": "^"}[op]
    for x, y in product(SIDE, repeat=2) if found is not None else ():
        assert evaluate(found, {"x": x, "y": y}) == value_of(f"{left} {sign} {right}", {"x": x, "y": y})


_NUMERATORS = st.builds(
    "({}*a*x + {}*a + {})".format,
    st.integers(-3, 3),
    st.integers(-3, 3),
    st.sampled_from(["b", "-1", "0", "a - 1", "-b"]),
)


@many
@given(_NUMERATORS, st.sampled_from(["a*b", "a*(b + 1)", "2*a*b", "a*a"]))
def test_a_factor_of_divisor_and_numerator_is_dropped_only_where_the_rest_is_less(numerator, divisor):
    term = parse_term(f"{numerator} // ({divisor})")
    found = Facts(map(parse_formula, ["a >= 1", "b >= 1", "b < a"])).reduce(term)
    for a, b, x in product(range(2, 6), range(1, 5), range(-4, 5)):
        if b < a:
            assert evaluate(found, {"a": a, "b": b, "x": x}) == evaluate(term, {"a": a, "b": b, "x": x})


_BASES = st.sampled_from(["1", "2", "6", "n", "(2*n)", "(n*m)", "(n*n)", "(n + 1)", "4"])
_EXPONENTS = st.sampled_from(["k", "(k + 2)", "(2*k)", "(k + j)", "(j - k)", "(k + j + 1)"])


@many
@given(_BASES, _EXPONENTS, _BASES, _EXPONENTS)
def test_products_of_powers_keep_their_value(base, exponent, other, second):
    term = parse_term(f"{base}**{exponent} * {other}**{second}")
    reduced = Facts(map(parse_formula, ["k >= 0", "j >= k"])).reduce(term)
    for n, m, k, j in product((-2, -1, 0, 1, 3), (-1, 0, 2), range(3), range(4)):
        if j >= k:
            point = {"n": n, "m": m, "k": k, "j": j}
            assert evaluate(reduced, point) == evaluate(term, point)


_DOUBLES = st.sampled_from(
    [
        "n * 0.5",
        "n / 3",
        "sqrt(n)",
        "log2(n + 1)",
        "(n + 1) ** 0.5",
        "n * 1.5 + 0.5",
        "n * 0.1 * 3.0",
        "n / k",
        "float(n)",
    ]
)
_SIDES = st.one_of(_DOUBLES, st.sampled_from(["n", "2*n", "n + 1", "k", "n // 2"]))


@many
@given(_SIDES, st.sampled_from(["<=", "<", ">=", ">", "==", "!="]), _SIDES, st.sampled_from([None, 40]))
def test_what_is_said_of_doubles_of_any_size_python_says_too(left, op, right, high):
    text = f"{left} {op} {right}"
    verdict = prove(text, {"n": (0, high), "k": (1, high)})
    for n, k in product([*range(41), *(() if high else (2**53 + 3, 2**62 - 1, 10**300))], (1, 2, 3, 40)):
        if verdict.status == "proved":
            assert value_of(text, {"n": n, "k": k, "log2": math.log2}) is True
    if verdict.status == "refuted":
        assert true_at(parse_formula(text), verdict.witness) is False


def test_logarithms_and_roots_are_as_large_as_is_said():
    for n in [*range(1, 2_000), *(2**power + by for power in range(12, 1_000, 9) for by in (-1, 0, 1))]:
        for text in ("log2(n)", "log(n)", "n ** 0.5", "n ** 0.25", "sqrt(n)"):
            real, bounds = parse_any(text), lambda _: Interval(1, None)
            value, lies = evaluate(real, {"n": n}), range_of(real, bounds)
            assert lies.low <= value <= lies.high
            for term, (low, high) in enclosure(real, bounds).parts.items():
                whole = evaluate(term, {"n": n})
                assert low * whole <= Fraction(value) <= high * whole


def test_a_rounded_quotient_lies_where_its_axioms_say():
    ((((rounded, _),), _),) = parse_term("round(n / k)").monomials
    said = list(axioms(rounded, lambda term: Interval(1, 200) if term is parse_term("k") else Interval(-200, 200)))
    assert len(said) == len({"floor", "ceil"})
    for n, k in product(range(-200, 201), range(1, 60)):
        assert all(evaluate(term, {"n": n, "k": k}) >= 0 for term in said)


_RELATIONS = st.builds(
    "{} {} {}".format,
    st.sampled_from(["x", "y", "x % 3", "x*y", "2**y"]),
    st.sampled_from(["==", "<=", "!="]),
    st.integers(0, 4),
)


@many
@given(
    st.lists(st.lists(_RELATIONS, min_size=2, max_size=3), min_size=1, max_size=2),
    st.lists(_RELATIONS, min_size=1, max_size=3),
)
def test_what_each_alternative_implies_holds_wherever_the_facts_do(facts, asked):
    given_formulas = [parse_formula(" or ".join(parts)) for parts in facts]
    formula = parse_formula(" or ".join(asked))
    known = Facts([parse_formula("0 <= y <= 6"), *given_formulas])
    if known.known.contradiction or proved_by_alternatives(known.reduce(formula), known.known) is None:
        return
    for x, y in product(range(-7, 8), range(7)):
        point = {"x": x, "y": y}
        if all(true_at(fact, point) is True for fact in given_formulas):
            assert true_at(formula, point) is True
