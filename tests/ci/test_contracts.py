"""What an input lost is: against brute force over small sizes, and on contracts that differ in one thing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.ci.jobs import Accepted
from shapeproof.ci.locked.contracts import Lost, lost
from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from tests.thoroughness import examples

LIMIT = 7
"""Sizes and symbols are at most this."""

SHAPES = [
    {"x": ["n", "m"]},
    {"x": ["n", "n"]},
    {"x": ["n", "2*n"]},
    {"x": ["2*n", "m"]},
    {"x": ["2*n + 1", "2*n - 1"]},
    {"x": ["n", "4"]},
    {"x": ["3", "4"]},
    {"x": ["x.shape[0]", "x.shape[1]"]},
]
SIZES = ("x.shape[0]", "x.shape[1]")
DEMANDS = ["{} >= 1", "{} <= 5", "{} % 2 == 0", "{} != 3", "{} == 2 or {} == 4"]


@st.composite
def contracts(draw):
    """A contract as a report has it: symbols that are sizes go by the size's name, others by their own."""
    inputs = draw(st.sampled_from(SHAPES))
    symbols = sorted({name for text in inputs["x"] for name in parse_term(text).symbols})
    shown = {name: SIZES[inputs["x"].index(name)] if name in inputs["x"] else name for name in symbols}
    bounds = [text for name in symbols for text in (f"{shown[name]} >= 0", f"{shown[name]} <= {LIMIT}")]
    demand = st.builds(
        lambda text, name: text.format(shown[name], shown[name]), st.sampled_from(DEMANDS), st.sampled_from(symbols)
    )
    return Accepted(inputs, (*bounds, *draw(st.lists(demand, max_size=2) if symbols else st.just([]))))


def accepted(contract):
    """Every pair of sizes that the contract accepts, by trying all values of its symbols."""
    terms = [parse_term(text) for text in contract.inputs["x"]]
    formulas = [parse_formula(text) for text in contract.domain]
    symbols = sorted({name for term in terms for name in term.symbols})
    for values in itertools.product(range(LIMIT + 1), repeat=len(symbols)):
        point = dict(zip(symbols, values, strict=True))
        sizes = tuple(evaluate(term, point) for term in terms)
        if all(holds(formula, point | dict(zip(SIZES, sizes, strict=True))) for formula in formulas):
            yield sizes


@settings(max_examples=examples(150))
@given(contracts(), contracts())
def test_what_is_lost_is_what_brute_force_finds(old, new):
    missing = set(accepted(old)) - set(accepted(new))
    found = lost(old, new)
    if not missing:
        assert found is None
        return
    assert isinstance(found, Lost)
    assert tuple(found.point[name] for name in SIZES) == min(missing, key=lambda sizes: measure(old, sizes))


def measure(contract, sizes):
    """Sizes that do not vary do not count."""
    varying = [size for size, text in zip(sizes, contract.inputs["x"], strict=True) if not parse_term(text).is_constant]
    return max(varying, default=0), sum(varying), varying


OLD = Accepted({"x": ["n", "4"], "k": ["k"]}, ("x.shape[0] >= 1", "k >= 0"))


@pytest.mark.parametrize(
    ("new", "sizes", "demand"),
    [
        (Accepted(OLD.inputs, ("x.shape[0] >= 1", "x.shape[0] <= 64", "k >= 0")), [65, 0], "x.shape[0] <= 64"),
        (Accepted(OLD.inputs, ("k >= 0", "k < x.shape[0]")), [1, 1], "k < x.shape[0]"),
        (Accepted({"x": ["n", "5"], "k": ["k"]}, OLD.domain), [1, 0], "x.shape[1] == 5"),
        (Accepted({"x": ["2*n", "4"], "k": ["k"]}, ("n >= 0", "k >= 0")), [1, 0], "x.shape[0] == 2*n"),
    ],
)
def test_the_smallest_input_and_what_it_fails(new, sizes, demand):
    found = lost(OLD, new)
    assert (found.sizes, found.demand) == (dict(zip(("x.shape[0]", "k"), sizes, strict=True)), demand)


def test_a_tensor_called_as_its_dim_is_no_int():
    old, new = Accepted({"n": ["n"]}, ("n.shape[0] >= 0",)), Accepted({"n": ["n"]}, ("n.shape[0] >= 2",))
    assert lost(old, new).sizes == {"n.shape[0]": 0}
    assert lost(new, old) is None
    assert lost(Accepted({"n": ["n"]}, ()), Accepted({"n": ["n"]}, ("n <= 5",))).sizes == {"n": 6}


def test_more_is_no_loss():
    assert lost(OLD, Accepted({"x": ["n", "m"], "k": ["k"]}, ())) is None
    assert lost(Accepted({"x": ["4*n"]}, ("n >= 0",)), Accepted({"x": ["2*m"]}, ("m >= 0",))) is None
