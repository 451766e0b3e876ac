"""A condition at which eager raises is said without the sizes that the failing path asked about for no need."""

from __future__ import annotations

import inspect
import itertools
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import RAISES, outcome
from tests.calling import Calls


class Adds(torch.nn.Module):
    def forward(self, x, y):
        return x + y


def test_a_size_that_broadcasts_with_itself_is_no_part_of_the_condition():
    """The fault: `x.shape[0] == 1 or ...`, with 2 rows in the witness."""
    rows, one, other = Dim("rows", min=1, max=3), Dim("one", min=1, max=4), Dim("other", min=1, max=4)
    shapes = {"x": {0: rows, 1: one}, "y": {0: rows, 1: other}}
    (found,) = check(Adds(), (torch.ones(2, 3, 2), torch.ones(2, 3, 2)), dynamic_shapes=shapes).diagnostics
    (required,) = (note.text.split("   by")[0] for note in found.notes if note.label == "required")
    assert sorted(found.witness.values()) == [1, 2, 3]
    for n, m in itertools.product(range(1, 5), repeat=2):
        holds = eval(required.replace("x.shape[1]", str(n)).replace("y.shape[1]", str(m)))  # noqa: S307 - of sizes
        raises = outcome(Adds(), (torch.ones(1, n, 2), torch.ones(1, m, 2))) == RAISES
        assert holds is not raises


class Bits(torch.nn.Module):
    def forward(self, x):
        return x * x.shape[0].bit_length()


def test_the_condition_of_another_program_is_the_region_that_the_program_serves():
    """The fault: `x.shape[0] == 5` was required beside a help that kept 5 to 7, and the witness was 2, not 1."""
    n = Dim("n", min=0, max=12)
    (found,) = check(Bits(), (torch.ones(5),), dynamic_shapes={"x": {0: n}}).diagnostics
    (required,) = (note.text for note in found.notes if note.label == "required")
    assert required == "x.shape[0] >= 5 and x.shape[0] <= 7"
    assert found.witness == {"x.shape[0]": 1}


class Listed(torch.nn.Module):
    """Multiplies by an entry of a list: the trace is one size's, whichever it was made at."""

    def __init__(self, factors):
        super().__init__()
        self.factors = factors

    def forward(self, x):
        return x * self.factors[x.shape[0] - 1]


@pytest.mark.thorough
@settings(max_examples=20)
@given(st.lists(st.booleans(), min_size=5, max_size=5), st.integers(1, 6))
def test_the_condition_is_the_region_that_is_served_wherever_the_model_was_traced(changes, example):
    """The fault: `x.shape[0] == 7` was required, or `x.shape[0] != 5` where 6 is another program's, too."""
    factors = [2 + sum(changes[:size]) for size in range(6)]
    shapes = {"x": {0: Dim("n", min=1, max=6)}}
    found = check(Listed(factors), (torch.ones(example),), dynamic_shapes=shapes).diagnostics
    served = [size for size in range(1, 7) if factors[size - 1] == factors[example - 1]]
    told = [required_by(each).replace("x.shape[0]", "size") for each in found]
    assert [size for size in range(1, 7) if all(eval(each, {"size": size}) for each in told)] == served  # noqa: S307


class Halves(torch.nn.Module):
    def forward(self, x):
        return torch.cat([part.cumsum(0) for part in x.chunk(2)])


def test_a_condition_with_divisions_is_said_as_a_bound_of_its_size():
    """The fault: `(x.shape[0]//2 - 1)//((x.shape[0] + 1)//2) == 0` was required."""
    (found,) = check(Halves(), (torch.ones(5),), dynamic_shapes={"x": {0: Dim("n", min=0, max=40)}}).diagnostics
    (required,) = (note.text.split("   by")[0] for note in found.notes if note.label == "required")
    assert required == "x.shape[0] >= 2"


@pytest.mark.parametrize(
    ("model", "shape", "words"),
    [
        (lambda x: x.unflatten(0, (-1, 2)), (6,), "x.shape[0] % 2 == 0"),
        (lambda x: torch.kthvalue(x, (x.shape[0] + 1) // 2).values, (5,), "x.shape[0] >= 1"),
        (lambda x: torch.nn.functional.batch_norm(x, None, None, training=True), (5, 3), "x.shape[0] != 1"),
        (lambda x: torch.nn.functional.interpolate(x[None, None], scale_factor=1.5), (5,), "x.shape[0] >= 1"),
    ],
)
def test_what_an_operator_requires_is_said_in_few_words(model, shape, words):
    """The fault: `x.shape[0] == 2 or x.shape[0] % 2 == 0`, `3*x.shape[0] / 3 - 1.0 != 0.0`."""
    (found,) = check(Calls(model), (torch.ones(shape),), dynamic_shapes=({0: Dim("n", min=0, max=7)},)).diagnostics
    (required,) = (note.text.split("   by")[0] for note in found.notes if note.label == "required")
    assert required == words
    for n in range(8):
        holds = eval(words.replace("x.shape[0]", str(n)))  # noqa: S307 - of sizes
        assert holds is (outcome(Calls(model), (torch.ones(n, *shape[1:]),)) != RAISES)


def test_what_follows_from_what_is_required_is_counted():
    """The fault: a requirement that has no shorter words counted as put together, and nothing was said of it."""
    model = Calls(lambda x: (x.view(-1, 2), x + torch.ones(8)))
    (found,) = check(model, (torch.ones(8),), dynamic_shapes=({0: Dim("n", min=0, max=64)},)).diagnostics
    (required,) = (note.text for note in found.notes if note.label == "required")
    assert required == "x.shape[0] == 8   by aten.add.Tensor, and 1 check that follows from it"


class Rows(torch.nn.Module):
    def forward(self, x, y):
        return x if y.shape[0] > x.shape[0] else x + y.reshape(x.shape[0], -1).sum()


def test_a_check_behind_a_branch_is_tried_wherever_it_fails():
    """The fault: `2*y.shape[0] % x.shape[0] == 0` had to hold, as tried at each fourth point; 3 and 4 were accepted."""
    shapes = {"x": {0: Dim("n", min=2, max=3)}, "y": {0: Dim("m", min=2, max=4)}}
    found = check(Rows(), (torch.ones(2, 2), torch.ones(2, 2)), dynamic_shapes=shapes).diagnostics
    (raising,) = (each for each in found if each.id != "other-program")
    (required,) = (note.text.split("   by")[0] for note in raising.notes if note.label == "required")
    for n, m in itertools.product((2, 3), (2, 3, 4)):
        holds = eval(required.replace("x.shape[0]", str(n)).replace("y.shape[0]", str(m)))  # noqa: S307 - of sizes
        raises = outcome(Rows(), (torch.ones(n, 2), torch.ones(m, 2))) == RAISES
        assert holds or raises, (required, n, m)


class TwoBranches(torch.nn.Module):
    def forward(self, x, y):
        if x.shape[0] > 4:
            x = x * 2
        if y.shape[0] > 4:
            y = y * 2
        return x.sum() + y.sum()


def required_by(found):
    (required,) = (note.text.split("   by")[0] for note in found.notes if note.label == "required")
    return required


def test_the_condition_of_one_branch_says_nothing_of_another():
    """The fault: the first error required `y.shape[0] >= 5 or x.shape[0] >= 5`, and its help changed `m`, too."""
    n, m = Dim("n", min=0, max=64), Dim("m", min=0, max=64)
    report = check(TwoBranches(), (torch.ones(33), torch.ones(33)), dynamic_shapes={"x": {0: n}, "y": {0: m}})
    told = [(required_by(found), [each.text for each in found.help]) for found in report.diagnostics]
    assert told == [
        ("x.shape[0] >= 5", ['n = Dim("n", min=5, max=64)']),
        ("y.shape[0] >= 5", ['m = Dim("m", min=5, max=64)']),
    ]
    assert not any(note.label == "also" for found in report.diagnostics for note in found.notes)


CHECKS = {
    "rows": lambda t: t.reshape(-1, 5),
    "adds": lambda t: t + torch.zeros(7),
    "views": lambda t: t.view(10),
    "index": lambda t: t.sum() + t[3],
    "products": lambda t: t @ torch.ones(6),
}
SERVED = {"rows": 10, "adds": 7, "views": 10, "index": 6, "products": 6}


@pytest.mark.thorough
@pytest.mark.parametrize(("one", "other"), [*itertools.permutations(CHECKS, 2)])
def test_a_finding_beside_another_shows_its_own_condition_and_error(one, other):
    """The fault: `e.shape[0] == 1 must hold`, where 7 works, with the error that the line above raises."""

    class Both(torch.nn.Module):
        def forward(self, a, e):
            return CHECKS[one](a).sum() + CHECKS[other](e).sum()

    shapes = {"a": {0: Dim("a", min=1, max=12)}, "e": {0: Dim("e", min=1, max=12)}}
    args = (torch.ones(SERVED[one]), torch.ones(SERVED[other]))
    found = check(Both(), args, dynamic_shapes=shapes).diagnostics
    calls = {"a.shape[0]": CHECKS[one], "e.shape[0]": CHECKS[other]}
    sizes = [[size for size in calls if size in required_by(each)] for each in found]
    assert sorted(sizes) == [["a.shape[0]"], ["e.shape[0]"]]
    for each, (size,) in zip(found, sizes, strict=True):
        required, make = required_by(each), calls[size]
        for n in range(1, 13):
            serves = outcome(make, (torch.ones(n),)) != RAISES
            assert serves is eval(required.replace(size, str(n))), (required, n)  # noqa: S307 - of sizes
        with pytest.raises((RuntimeError, IndexError)) as error:
            make(torch.ones(each.witness[size]))
        (seen,) = (note.text for note in each.notes if note.label == "fails at")
        assert str(error.value).splitlines()[0] in seen


class ChunksAfter(torch.nn.Module):
    def forward(self, x, y):
        halves = x.reshape(-1, 2)
        return halves.sum() + y.chunk(3)[2].sum()


class SplitsAfter(torch.nn.Module):
    def forward(self, x, y):
        r = x.sum() * (2 if x.shape[0] > 5 else 3)
        a, b = y.split(4)
        return r + a.sum() + b.sum()


class ManyAfter(torch.nn.Module):
    def forward(self, x, y, z):
        a = x.chunk(3)[2].sum()
        b = y.topk(6).values.sum()
        c = z.view(-1, 3).sum()
        return a + b + c


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [ChunksAfter, SplitsAfter, ManyAfter])
def test_a_line_requires_nothing_of_sizes_that_it_does_not_read(kind):
    """The fault: a finding at the line of `x` required what the line of `y` asks, beside a finding of its own."""
    names = ("x", "y", "z")[: 3 if kind is ManyAfter else 2]
    rows = 8 if kind is SplitsAfter else 12
    shapes = [{0: Dim(name, min=least, max=64)} for name, least in zip(names, (0, 2, 1), strict=False)]
    report = check(kind(), (torch.ones(rows),) * len(names), dynamic_shapes=shapes)
    lines = inspect.getsourcelines(kind)
    assert report.status == "refuted"
    for found in report.diagnostics:
        read = lines[0][found.line - lines[1]]
        required = next(each.text for each in found.notes if each.label == "required")
        assert all(f"{name}.shape" not in required or re.search(rf"\b{name}\b", read) for name in names), str(report)


class BranchesBetween(torch.nn.Module):
    def forward(self, x, y, z):
        a = x.topk(6).values.sum()
        b = y.sum() * (0.5 if y.shape[0] > 5 else 1.5)
        return a + b + z.view(-1, 3).sum()


@pytest.mark.thorough
def test_the_sizes_of_another_program_are_not_told_by_the_errors_of_other_lines():
    """The fault: the title was `x.shape[0] >= 6 and y.shape[0] <= 5 and z.shape[0] % 3 == 0`."""
    shapes = [{0: Dim(name, min=2, max=64)} for name in "xyz"]
    report = check(BranchesBetween(), (torch.ones(12),) * 3, dynamic_shapes=shapes)
    (found,) = (each for each in report.diagnostics if each.id == "other-program")
    assert found.message == "the model does something else where `y.shape[0] <= 5`"


class ReadsInABranch(torch.nn.Module):
    def forward(self, x, table, tokens):
        if table.shape[0] > 4:
            x = x + table[7]
        return x, tokens.view(-1, 2)


@pytest.mark.thorough
def test_the_witness_of_a_line_in_a_branch_takes_that_branch():
    """The fault: the sizes of the first points pass by the branch, and so the error of another line was shown."""
    shapes = [{0: Dim(name, min=1, max=64)} for name in ("x", "table", "tokens")]
    report = check(ReadsInABranch(), (torch.ones(12),) * 3, dynamic_shapes=shapes)
    (found,) = (each for each in report.diagnostics if each.id == "relation")
    notes = {each.label: each.text for each in found.notes}
    assert notes["required"] == "table.shape[0] >= 8 or table.shape[0] <= 4"
    assert "table.shape[0] = 5" in notes["fails at"]
    assert "index 7 is out of bounds" in notes["fails at"]
