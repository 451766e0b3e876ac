"""Clauses of a formula: together they say what it says, and torch's loader takes each."""

from __future__ import annotations

import io
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints import formulas as f
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.terms import symbol
from shapeproof.export import Dim, export
from shapeproof.export.build.assertions import MOST, clauses
from tests.thoroughness import examples

N, M = symbol("n"), symbol("m")
COMPARISONS = st.builds(
    lambda compare, term, value: compare(term, value),
    st.sampled_from([f.eq, f.ne, f.le, f.ge]),
    st.sampled_from([N, M, N + M, N * M]),
    st.integers(0, 3),
)
FORMULAS = st.recursive(
    COMPARISONS,
    lambda parts: st.builds(
        lambda join, args: join(*args), st.sampled_from([f.conjunction, f.disjunction]), st.lists(parts, max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=examples(100))
@given(FORMULAS)
def test_the_clauses_of_a_formula_hold_together_where_it_holds(formula):
    found = clauses(formula)
    for n, m in itertools.product(range(5), repeat=2):
        point = {"n": n, "m": m}
        assert all(holds_at(each, point) for each in found) == holds_at(formula, point)
    if found != (formula,):
        assert not any(isinstance(part, f.And) for each in found for part in getattr(each, "args", (each,)))


def test_a_formula_with_too_many_clauses_stays_whole():
    pairs = [f.conjunction(f.ge(symbol(f"a{i}"), 1), f.ge(symbol(f"b{i}"), 1)) for i in range(MOST.bit_length())]
    formula = f.disjunction(*pairs)
    assert clauses(formula) == (formula,)


@pytest.mark.parametrize(
    "relation",
    [
        "m == 1 or n != 0 and (m != 1 or n*m >= 2) and (m != 1 or n*m <= 1)",
        "n != 0 or n != 0 and (n == 0 or n*m <= 1)",
    ],
)
def test_a_program_whose_domain_has_a_part_that_always_holds_can_be_loaded(relation):
    shapes = ({0: Dim("n", min=0, max=9), 1: Dim("m", min=0, max=9)},)
    program = export(torch.nn.ReLU(), (torch.ones(4, 3),), dynamic_shapes=shapes, constraints=[relation])
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    loaded(torch.ones(3, 5))
    with pytest.raises((RuntimeError, AssertionError)):
        loaded(torch.ones(0, 5))
