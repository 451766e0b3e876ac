"""A branch whose other side asks further questions has an effect only with some answers: these make one cell."""

from __future__ import annotations

import contextlib
import itertools

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.constraints.terms import as_term, symbol
from shapeproof.export import check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.trace.python.rejoining import where_apart
from shapeproof.export.verify import verified
from tests.agreement import agree
from tests.export.random_programs import comparisons_of, conditions_of
from tests.thoroughness import examples


class Node:
    """torch's node of a symbolic bool, which takes one side and keeps what is said of each branch."""

    def __init__(self, outcome):
        self.outcome, self.found = outcome, []

    def bool_(self):
        self.found.append(where_apart(self, lambda each: TERMS.get(id(each)) or as_term(each), self.outcome))
        return self.outcome


def model(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


M, K = torch.SymInt(Node(None)), torch.SymInt(Node(None))
TERMS = {id(M): symbol("m"), id(K): symbol("k")}


@pytest.mark.parametrize(
    ("body", "outcome", "expected"),
    [
        ("if t and m == k: r = 5", False, "m == k"),
        ("if t and m == k and m < 3: r = 5", False, "m == k and m < 3"),
        ("if t and none is None and not m == k: r = 5", False, "m != k"),
        ("if t or m == k: r = 5", True, "m != k"),
        ("if t and (m == k or m < 3): r = 5", False, "m == k or (m != k and m < 3)"),
        ("if t or sizes[1] == k: r = 5", True, "m != k"),
        ("if t or sizes[4] == k: r = 5", True, None),
        ("if t and m == k: pass", False, "0 == 1"),
        ("if t and m + k < k + m: r = 5", False, "0 == 1"),
        ("if t and m == k: r = 5", True, None),
        ("r = t and m == k", False, None),
        ("if t and m == yes: r = 5", False, None),
        ("if t or m % 2 == 1 + 0: r = 5", True, "m % 2 != 1"),
        ("if t or 2 * (m - k) < 3: r = 5", True, "2 * (m - k) >= 3"),
        ("r = m + 1 if t or none else m + 1", True, None),
        ("if t or m % k == 1: r = 5", True, None),
        ("if t or m // 0 == 1: r = 5", True, None),
        ("if t or m % -2 == 1: r = 5", True, None),
        ("if t or m ** 2 == 1: r = 5", True, None),
        ("if t or m + yes == k: r = 5", True, None),
        ("if t and say('a') and m == k: r = 5", False, None),
        ("s = m == k if t else r", False, None),
    ],
)
def test_with_which_answers_to_other_questions_a_branch_has_an_effect(body, outcome, expected):
    """Sides that compare other symbolic numbers rejoin with some answers, and part with others."""
    node, scope = Node(outcome), {"say": str, "m": M, "k": K}
    exec(f"def f(t, m, k, none=None, yes=True):\n r = s = 0\n sizes = [0, m]\n {body}\n return r, s", scope)  # noqa: S102
    with contextlib.suppress(AttributeError):  # the numbers have no value: whoever asks for one fails
        scope["f"](torch.SymBool(node), M, K)
    assert node.found[0] is (None if expected is None else parse_formula(expected))


def numbers():
    """Numbers that are computed of two symbolic ones."""
    return st.recursive(
        st.sampled_from(["m", "k", "1", "2", "sizes[1]"]),
        lambda inner: st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
            st.builds("({} {} {})".format, inner, st.sampled_from(["//", "%"]), st.sampled_from("23")),
        ),
        max_leaves=3,
    )


def conditions():
    """Conditions of `t` and of comparisons of symbolic numbers."""
    comparisons = comparisons_of(numbers())
    more = conditions_of(comparisons | conditions_of(comparisons).map("({})".format)).map("({})".format)
    return st.builds("{} {} {}".format, st.sampled_from(["t", "not t"]), st.sampled_from(["and", "or"]), more)


@given(condition=conditions(), outcome=st.booleans())
@settings(max_examples=examples(300))
def test_where_a_branch_is_said_to_have_no_effect_it_has_none(condition, outcome):
    """Law: outside of the formula that is returned, the function returns the same for either truth."""
    node, scope = Node(outcome), {}
    body = f" sizes = [0, m]\n r = 0\n if {condition}: r = 5\n return r"
    exec(f"def f(t, m, k):\n{body}", scope)  # noqa: S102
    with contextlib.suppress(AttributeError):
        scope["f"](torch.SymBool(node), M, K)
    (apart,) = node.found
    assume(apart is not None)
    for m, k in itertools.product(range(6), repeat=2):
        assert holds_at(apart, {"m": m, "k": k}) or scope["f"](outcome, m, k) == scope["f"](not outcome, m, k)


def both(x):
    n, m = x.shape
    return x.exp() if n == 3 and m == 4 else x.sin()


def either(x):
    n, m = x.shape
    return x.sin() if n != 3 or m != 4 else x.exp()


def neither(x):
    n, m = x.shape
    return x.exp() if n == 3 and (m == 4 or m > 5) else x.sin()


def cropped(x):
    n, m = x.shape
    more = (0, -m % 4, 0, -n % 4)
    padded = torch.nn.functional.pad(x, more).exp()
    if more[1] > 0 or more[3] > 0:
        padded = padded[:n, :m].contiguous()
    return padded.view(n * m)


def test_a_crop_by_either_of_two_items_of_padding_is_traced_once_more():
    """Where one padding is 0 and the other is not, the model crops as well: only where both are 0 it goes on alone."""
    dims = {"x": {0: Dim("n", min=0, max=9), 1: Dim("m", min=0, max=9)}}
    report = check(model(cropped), (torch.randn(5, 6),), dynamic_shapes=dims)
    slow = verified(model(cropped), declare(model(cropped), (torch.randn(5, 6),), None, dims), in_place=False)
    assert report.status == slow.status == "proved"
    assert report.statistics["traces"] < slow.statistics["traces"]
    boxes = itertools.product(range(10), repeat=2)
    assert all(agree(model(cropped), report.program.module(), (torch.randn(sizes),)) for sizes in boxes)


@pytest.mark.parametrize("forward", [both, either, neither])
def test_two_questions_that_have_an_effect_together_make_one_cell(forward):
    dims = {"x": {0: Dim("n", min=0, max=6), 1: Dim("m", min=0, max=6)}}
    report = check(model(forward), (torch.randn(2, 5),), dynamic_shapes=dims)
    slow = verified(model(forward), declare(model(forward), (torch.randn(2, 5),), None, dims), in_place=False)
    assert report.status == slow.status == "refuted"
    assert report.statistics["traces"] < slow.statistics["traces"]
    assert report.diagnostics[0].witness == {"x.shape[0]": 3, "x.shape[1]": 4}


class Table(torch.nn.Module):
    """Adds a table of its own, resized unless the input is as large."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(1, 1, 3, 4))

    def forward(self, x):
        n, m = x.shape
        if n == 3 and m == 4:
            return x + self.table[0, 0]
        resized = torch.nn.functional.interpolate(self.table, size=(n, m), mode="bilinear", align_corners=False)
        return x + resized[0, 0]


@pytest.mark.parametrize("example", [(2, 5), (3, 5), (2, 4), (3, 4)])
def test_two_questions_without_an_effect_together_are_proved_from_any_example(example):
    """A table that is resized to its own size is the table, as where position embeddings are interpolated."""
    mod = Table()
    dims = {"x": {0: Dim("n", min=1, max=6), 1: Dim("m", min=1, max=6)}}
    report = check(mod, (torch.randn(example),), dynamic_shapes=dims)
    slow = verified(mod, declare(mod, (torch.randn(example),), None, dims), in_place=False)
    assert report.status == slow.status == "proved"
    assert report.statistics["traces"] <= slow.statistics["traces"]
    program = report.program.module()
    boxes = itertools.product(range(1, 7), repeat=2)
    assert all(agree(mod, program, (torch.randn(sizes),)) for sizes in boxes)
