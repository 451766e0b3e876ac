"""A domain that may divide by zero where an `or` has decided: what is computed of it says what Python says of it."""

from __future__ import annotations

import io
import itertools

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, example, given, settings

from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.contract.outside import OutsideDomain
from shapeproof.export import Dim, check, export
from shapeproof.export.graph.emit import Computation
from shapeproof.solver.answers.simplify import computed_whole
from shapeproof.solver.facts import Facts
from tests.thoroughness import examples

POINTS = [{"n": n, "m": m} for n, m in itertools.product(range(6), range(4))]
BOX = [parse(text) for text in ("n >= 0", "n <= 5", "m >= 0", "m <= 3")]

terms = st.sampled_from(["n", "m", "n // m", "n % m", "n // (m - 1)", "m // (n // 2)", "n // (n // m)", "0 * (n // m)"])
comparisons = st.builds("{} {} {}".format, terms, st.sampled_from(["<=", "==", "!="]), st.integers(0, 3))
pairs = st.builds("({} {} {})".format, comparisons, st.sampled_from(["and", "or"]), comparisons)
formulas = st.builds("{} or {}".format, st.one_of(comparisons, pairs), st.one_of(comparisons, pairs)).map(parse)


def computed(formula, point):
    """What a graph computes: every part of it."""
    whole = computed_whole(formula, Facts(BOX))
    return bool(Computation(point).formula(whole))


@pytest.mark.thorough
@given(formulas)
@example(parse("m == 0 or n % m == 0"))
@example(parse("n % m == 0 or m == 0"))
@example(parse("(m == 0 or n // (n // m) >= 1) and n <= 3 or n == 4"))
def test_a_graph_computes_what_python_says_of_a_partial_formula(formula):
    for point in POINTS:
        assert computed(formula, point) == (true_at(formula, point) is True)


def test_other_parts_that_may_raise_have_no_form():
    assert computed_whole(parse("n == 0 or 2**(n - 3) >= 1"), Facts(BOX)) is None


class Sums(torch.nn.Module):
    def forward(self, x, y):
        return x.sum() + y.sum()


def declared(*constraints):
    inside = next((p for p in reversed(POINTS) if all(true_at(parse(text), p) for text in constraints)), None)
    assume(inside is not None)
    shapes = {"x": {0: Dim("n", min=0, max=5)}, "y": {0: Dim("m", min=0, max=3)}}
    return check(Sums(), inputs(inside), dynamic_shapes=shapes, constraints=constraints)


def inputs(point):
    return torch.ones(point["n"], 2), torch.ones(point["m"], 2)


def takes(module, point):
    """Whether a module takes these sizes; it refuses others by an assertion or a sentence, never by a division."""
    try:
        module(*inputs(point))
    except (OutsideDomain, RuntimeError, AssertionError):
        return False
    return True


@pytest.mark.thorough
@given(formulas)
@settings(max_examples=examples(6), deadline=None)
@example(parse("m == 0 or n % m == 0"))
@example(parse("m <= 1 or n // m >= 1"))
def test_a_program_takes_just_where_a_partial_formula_holds(formula):
    """The fault: where the divisor was 0, in the domain, the graph computed every part, and divided by it."""
    report = declared(str(formula))
    assume(report.program is not None)
    file = io.BytesIO()
    torch.export.save(report.program, file)
    file.seek(0)
    for module in (report.program.module(), torch.export.load(file).module()):
        assert [takes(module, point) for point in POINTS] == [true_at(formula, point) is True for point in POINTS]


@pytest.mark.thorough
def test_an_inferred_partial_domain_is_computed_where_it_holds():
    class Chunks(torch.nn.Module):
        def forward(self, x, y):
            return x.chunk(1 + abs(1 - y.shape[0]) % 3)[-1]

    shapes = {"x": {0: Dim("n", min=0, max=5)}, "y": {0: Dim("m", min=0, max=4)}}
    program = export(Chunks(), (torch.ones(3, 4), torch.ones(4, 4)), dynamic_shapes=shapes, narrow=True)
    module, domain = program.module(), [parse(str(each)) for each in program.contract.formulas]
    for n, m in itertools.product(range(6), range(5)):
        args = torch.ones(n, 4), torch.ones(m, 4)
        if all(true_at(each, {"n": n, "m": m}) for each in domain):
            assert module(*args).shape == Chunks()(*args).shape
        else:
            with pytest.raises(OutsideDomain):
                module(*args)


def test_a_root_behind_an_or_is_computed_at_every_point():
    known = Facts([parse("0 <= n"), parse("n <= 30")])
    formula = parse("n <= 4 or int(sqrt(float(n - 5))) >= 3")
    whole = computed_whole(formula, known)
    assert whole is not None
    assert "max" in str(whole)
    assert all(true_at(whole, {"n": n}) == true_at(formula, {"n": n}) for n in range(31))
