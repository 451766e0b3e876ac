"""Sums of sizes that an example shows: found by the sizes left out, and as every triple of sizes would tell."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from shapeproof.constraints import formulas as f
from shapeproof.constraints.terms import symbol
from shapeproof.export.explore.inferred.narrowing import sums_in_example

NAMES = "cabfed"


def inputs_of(sizes, inferred):
    example = dict(zip(NAMES, sizes, strict=False))
    domain = SimpleNamespace(symbols=[*example], of_role=lambda _: inferred)
    return SimpleNamespace(example=example, domain=domain, anchors=[example])


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=len(NAMES)),
    st.sets(st.sampled_from(NAMES)),
    st.lists(st.frozensets(st.sampled_from(NAMES), min_size=1, max_size=4), max_size=3),
)
def test_the_sums_about_some_sizes_are_those_of_all_triples_that_have_these(sizes, inferred, about):
    inputs = inputs_of(sizes, inferred)
    example = inputs.example
    every = [
        (whole, f.eq(symbol(whole), symbol(one) + symbol(other)), {whole, one, other})
        for whole in example
        if whole in inferred
        for one, other in itertools.combinations([each for each in example if each != whole], 2)
        if example[whole] == example[one] + example[other] and min(example[one], example[other]) > 0
    ]
    wanted = [(whole, equal) for whole, equal, three in every if any(each <= three for each in about)]
    assert sums_in_example(inputs, about) == wanted
