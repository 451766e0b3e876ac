"""Float arithmetic and comparison, held against Python at every point of a box, nan, infinities and -0.0 included."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import assume, given, settings
from torch.export import Dim

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.errors import Unevaluable, UsageError
from shapeproof.constraints.meaning.evaluate import evaluate_number, holds, holds_at
from shapeproof.export import check
from shapeproof.export.trace.python import plain_numbers
from shapeproof.export.trace.tracer import recording_mode
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.facts import Facts
from tests.export.float_programs import FLOATS, conditions_of_data, integers_of_sizes, of_data, outcome
from tests.thoroughness import examples

BOX = ((1, 1), (2, 3), (3, 2), (5, 1), (4, 5))


class Symbolic:
    """Numbers as a traced model has them: `h` and `w` between 1 and 5, `v` any float."""

    def __init__(self):
        self.trial = Trial(Facts(), {}, data=lambda _: True)
        _, self.env = recording_mode(self.trial, {})
        self.h, self.w = (self.env.create_unbacked_symint() for _ in range(2))
        self.v = self.env.create_unbacked_symfloat()
        self.names = [str(self.env.translator.number(each.node.expr)) for each in (self.h, self.w)]
        for name in self.names:
            self.trial.learn(f.ge(t.symbol(name), 1))
            self.trial.learn(f.le(t.symbol(name), 5))

    def compute(self, text):
        """The meaning of an expression, and what is checked for it."""
        called = {name: plain_numbers.CALLED[name] for name in ("int", "float", "min", "max", "round")}
        members = {name: make(getattr(math, name)) for name, make in plain_numbers.MEMBERS["math"].items()}
        module = type("math", (), {**{name: getattr(math, name) for name in ("floor", "ceil", "trunc")}, **members})
        found = eval(text, {**called, "math": module}, {"h": self.h, "w": self.w, "v": self.v})  # noqa: S307
        return found, [check.formula for check in self.trial.learned.checks]

    def value(self, found, point):
        """What a symbolic number is at a point."""
        if not isinstance(found, torch.SymInt | torch.SymFloat | torch.SymBool):
            return found
        expr = found.node.expr
        if isinstance(found, torch.SymBool):
            return holds(self.env.translator.formula(expr), point)
        number = self.env.translator.number(expr)
        return evaluate_number(number, point)


def same(a, b):
    """Equal bit by bit, nan being nan."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and a == b


def agrees(text, floats):
    symbolic = Symbolic()
    try:
        found, checks = symbolic.compute(text)
    except (ArithmeticError, ValueError):  # of constants alone, as in Python
        assume(condition=False)
    for (h, w), v in itertools.product(BOX, floats):
        point = dict(zip((*symbolic.names, "zuf0"), (h, w, v), strict=True))
        expected = outcome(text, h=h, w=w, v=v)
        if expected == "raises":
            assert not all(holds_at(check, point) for check in checks) or refuses(symbolic, found, point), (h, w, v)
        else:
            assert all(holds_at(check, point) for check in checks), (h, w, v, checks)
            assert same(symbolic.value(found, point), expected), (h, w, v, symbolic.value(found, point), expected)


def refuses(symbolic, found, point):
    try:
        symbolic.value(found, point)
    except (ArithmeticError, ValueError, Unevaluable):
        return True
    return False


@settings(max_examples=examples(150))
@given(text=of_data)
def test_a_float_has_the_value_that_python_gives_it(text):
    agrees(text, FLOATS)


@settings(max_examples=examples(150))
@given(text=conditions_of_data)
def test_a_condition_on_floats_holds_where_it_does_in_python(text):
    agrees(text, FLOATS)


@settings(max_examples=examples(100))
@given(text=integers_of_sizes)
def test_an_integer_of_a_float_is_the_one_of_python(text):
    agrees(text, (0.0,))


class Cut(torch.nn.Module):
    """Rows that are counted by a function of sizes."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        return x[: self.count(x.shape[0])] + 1


@pytest.mark.parametrize(
    "count",
    [
        lambda n: int(n * 0.5 - 1.0) % 3,
        lambda n: int(-(n * 0.5)) % 2,
        lambda n: 7 % (int(abs(n / 3 - 0.5)) + 1),
    ],
)
def test_an_integer_that_is_computed_from_a_difference_of_floats_has_a_remainder(count):
    """The fault: torch asks for bounds of such an integer, and has none for differences of floats."""
    model = Cut(count)
    report = check(model, (torch.randn(5, 2),), dynamic_shapes=({0: Dim("n", min=0, max=9)},))
    assert report.status == "proved"
    module = report.program.module()
    for n in range(10):
        x = torch.randn(n, 2)
        assert torch.equal(module(x), model(x))


def test_an_operator_that_asks_for_bounds_of_floats_is_refused_in_a_sentence():
    class Positive(torch.nn.Module):
        def forward(self, x):
            return x[: int(x.shape[0] * 0.5 - 1.0)].nonzero()

    with pytest.raises(UsageError, match=r"a size computed in floats has no bounds in torch, and `aten\.nonzero"):
        check(Positive(), (torch.randn(5, 2),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))
