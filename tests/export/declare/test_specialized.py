"""`specialize_on=` of a mark: under branches="split", a program for each condition, and one for the rest."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch._dynamo.decorators import mark_dynamic, mark_unbacked

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.terms import symbol
from shapeproof.export import check, export
from shapeproof.export.declare.specialized import formula_of

N = symbol("n")


class Scaled(torch.nn.Module):
    def forward(self, x):
        return x * x.shape[0]


class Parted(torch.nn.Module):
    def forward(self, x):
        return x * x.shape[0] if x.shape[0] != 3 else x - 1


def marked(mark, *conditions, **bounds):
    x = torch.randn(6, 4)
    mark(x, 0, **bounds, specialize_on=list(conditions))
    return (x,)


def split(model, *conditions, mark=mark_unbacked):
    return export(model, marked(mark, *conditions, min=1, max=32), branches="split")


@pytest.mark.parametrize("mark", [mark_dynamic, mark_unbacked])
def test_each_condition_has_a_program_and_the_rest_has_one(mark):
    regions = split(Scaled(), lambda n: n == 8, lambda n: n % 16 == 0 or n == 8, mark=mark)
    assert [line.split(maxsplit=2)[2] for line in str(regions.report).splitlines()[-3:]] == [
        "x.shape[0] == 8",
        "x.shape[0] % 16 == 0",
        "x.shape[0] != 8 and x.shape[0] % 16 != 0",
    ]
    run = regions.module()
    assert all(torch.equal(run(torch.ones(n, 4)), Scaled()(torch.ones(n, 4))) for n in range(1, 33))


def test_a_part_that_needs_several_programs_has_them():
    regions = split(Parted(), lambda n: n <= 4)
    assert len(regions.programs) == 3
    assert regions.report.status == "proved"
    run = regions.module()
    assert all(torch.equal(run(torch.ones(n, 4)), Parted()(torch.ones(n, 4))) for n in range(1, 33))


def test_a_condition_that_no_declared_size_meets_has_no_program():
    assert len(split(Scaled(), lambda n: n > 40).programs) == 1


def test_without_a_split_a_note_says_what_to_do():
    (note,) = check(Scaled(), marked(mark_unbacked, lambda n: n == 8)).notes
    assert 'branches="split" makes one for each condition' in note
    assert check(Scaled(), marked(mark_unbacked, lambda n: n == 8), branches="split").notes == ()


comparisons = st.builds(
    "{} {} {}".format,
    st.sampled_from(["n", "n % 3", "2*n + 1", "n // 2", "9 - n"]),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.sampled_from(["3", "n % 5", "0"]),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("({} or {})".format, inner, inner),
        st.builds("({} and {})".format, inner, inner),
        st.builds("not {}".format, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
    ),
    max_leaves=3,
)


@given(conditions)
def test_a_condition_is_read_as_python_means_it(text):
    function = eval(f"lambda n: {text}")  # noqa: S307 - written by a test
    formula = formula_of(function, N, "n")
    assert [holds_at(formula, {"n": n}) for n in range(40)] == [bool(function(n)) for n in range(40)]


@pytest.mark.quick
@pytest.mark.parametrize(
    "function",
    [
        lambda n: n * 1.5 > 2,
        lambda n: str(n) == "8",
        lambda n: n in {8, 16},
        lambda n: isinstance(n, int),
        lambda n, m: n == m,
        lambda n: all(n != k for k in range(40)),
    ],
    ids=["float", "text", "hash", "class", "two", "ways"],
)
def test_what_is_no_formula_of_the_size_is_refused_in_a_sentence(function):
    with pytest.raises(UsageError, match=r"specialize_on of `x\.shape\[0\]` takes a function of the size"):
        split(Scaled(), function)
