"""Laws of the points at which a file is run: those inside are accepted by the contract, those outside are not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.contract.inputs import ConstantInput, Entries, IntInput, Items, ObjectInput, Opaque, Structure
from shapeproof.ship.points import MOST_POINTS, inputs_of, inside, outside
from tests.contract.test_contract import contract, tensor
from tests.thoroughness import examples

SIZES = st.sampled_from(["n", "m", "2*n", "3*m + 1", "4", "n + m"])
RELATIONS = st.sampled_from(["n <= m", "n % 3 == 1", "n*m <= 40", "n + m >= 5", "m != 4", "n != 1"])


@st.composite
def contracts(draw):
    low, high = draw(st.integers(0, 3)), draw(st.integers(4, 90))
    bounds = [f"n >= {low}", f"m >= {draw(st.integers(0, 2))}", f"m <= {draw(st.integers(2, 30))}"]
    upper = [f"n <= {high}"] if draw(st.booleans()) else []
    given = [
        tensor("x", "n", draw(SIZES)),
        tensor("y", draw(SIZES), "m", dtype=draw(st.sampled_from(["int64", "bool"]))),
    ]
    return contract(given, [*bounds, *upper, *draw(st.lists(RELATIONS, max_size=2, unique=True))])


def accepts(own, point):
    return own.accepts(*(tuple(evaluate(term, point) for term in each.sizes) for each in own.inputs))


@pytest.mark.thorough
@given(contracts())
@settings(deadline=None, max_examples=examples(60))
def test_points_inside_are_accepted_and_points_outside_are_not(own):
    made = inputs_of(own)
    within, beyond = inside(made, own), outside(made, own)
    assert len(within) <= MOST_POINTS
    assert all(accepts(own, point) for point in within)
    assert len({tuple(sorted(point.items())) for point in within}) == len(within)
    assert not any(accepts(own, point) for point in beyond)
    assert [max(point.values()) for point in within] == sorted(max(point.values()) for point in within)
    for point in within[:3]:
        x, y = made.at(point, filled=True)[0]
        assert own.accepts(x, y)


def test_corners_smallest_and_answers_to_questions_are_among_the_points():
    own = contract([tensor("x", "n", "m")], ["n >= 0", "n <= 90", "m >= 2", "m <= 80"])
    found = inside(inputs_of(own), own, [parse_formula("n == 37"), parse_formula("k == 3")])
    assert {(n, m) for n in (0, 90) for m in (2, 80)} <= {(point["n"], point["m"]) for point in found}
    assert 37 in {point["n"] for point in found}
    assert len(found) == MOST_POINTS
    assert outside(inputs_of(own), own) == [{"n": 91, "m": 2}, {"n": 0, "m": 0}, {"n": 0, "m": 81}]


def test_inputs_are_made_as_the_contract_nests_them():
    pair = Entries(("a", "b"), (0, Items(list, (1,))))
    structure = Structure((pair,), {"k": 2, "flag": 3}, ("p",), {"p": pair, "k": 2, "flag": 3})
    leaves = [tensor("a", "n"), tensor("b", "n", "2", dtype="int64"), IntInput("k", "k", tensor("k", "m").sizes)]
    own = contract([*leaves, ConstantInput("flag", "flag", True)], ["n >= 1", "m >= 1"], structure)
    (made,), kwargs = inputs_of(own).at({"n": 3, "m": 5}, filled=True)
    assert (made["a"].shape, made["b"][0].dtype, kwargs) == ((3,), torch.int64, {"k": 5, "flag": True})
    assert own.accepts(made, **kwargs)


@pytest.mark.parametrize("kind", ["an object", "a container"])
def test_what_a_contract_cannot_make_is_said(kind):
    leaf = ObjectInput("o", "o") if kind == "an object" else tensor("o", "n")
    tree = 0 if kind == "an object" else Opaque((0,), "page.Batch None")
    own = contract([leaf], [], Structure((tree,), {}, ("o",), {"o": tree}))
    with pytest.raises(UsageError, match=r"does not say what `o` is|takes a page.Batch"):
        inputs_of(own)
