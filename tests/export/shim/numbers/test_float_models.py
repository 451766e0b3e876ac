"""Models that compute with floats, exported, and held against eager at every point of a small box."""

from __future__ import annotations

import io
import itertools
import linecache
import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shapeproof.export import ConstraintViolation, Dim, check, export
from tests.export.float_programs import (
    FLOATS,
    conditions_of_data,
    conditions_of_sizes,
    integers_of_sizes,
    of_data,
    of_sizes,
)
from tests.thoroughness import examples

DIMS = {"x": {0: Dim("h", min=1, max=5), 1: Dim("w", min=1, max=3)}}
POINTS = [torch.ones(h, w) for h, w in itertools.product(range(1, 6), range(1, 4))]
NUMBERS = itertools.count()
EXAMPLE = torch.ones(4, 3)


def model_of(body, data=False):
    """A model of `x`, whose sizes are `h` and `w`, and of the float `v` if there is data."""
    lines = [f"def forward(self, x{', y' if data else ''}):", "h, w = x.shape", *body.splitlines()]
    text = "\n    ".join(lines) + "\n"
    file = f"model_{next(NUMBERS)}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # checks are seen in the source
    scope = {"torch": torch, "math": math}
    exec(compile(text, file, "exec"), scope)  # noqa: S102
    return type("Model", (torch.nn.Module,), {"forward": scope["forward"]})()


def run(model, *args):
    """What it gives, bit by bit, or "raises"."""
    try:
        found = model(*args)
    except (ArithmeticError, ValueError, RuntimeError, AssertionError):
        return "raises"
    return ["nan" if math.isnan(value) else float(value).hex() for value in found.double().flatten().tolist()]


def agrees(model, report, inputs):
    """Proved: the program does what eager does. Undecided: it does, or refuses. Refuted: eager raises somewhere."""
    expected = [run(model, *args) for args in inputs]
    if report.status == "refuted":
        assert "raises" in expected, str(report)
        return
    program = report.program.module()
    found = [run(program, *args) for args in inputs]
    for args, mine, eagers in zip(inputs, found, expected, strict=True):
        assert mine == eagers or (report.status == "undecided" and mine == "raises"), (args, mine, eagers, str(report))


@settings(max_examples=examples(10))
@given(text=integers_of_sizes)
def test_a_size_that_a_float_gives_is_eagers(text):
    model = model_of(f"return torch.full((1,), {text}, dtype=torch.int64)")
    assume(run(model, EXAMPLE) != "raises")
    agrees(model, check(model, (EXAMPLE,), dynamic_shapes=DIMS), [(x,) for x in POINTS])


@settings(max_examples=examples(10))
@given(text=of_sizes)
def test_a_float_of_sizes_is_eagers(text):
    model = model_of(f"return torch.full((1,), {text}, dtype=torch.float64)")
    assume(run(model, EXAMPLE) != "raises")
    agrees(model, check(model, (EXAMPLE,), dynamic_shapes=DIMS), [(x,) for x in POINTS])


@settings(max_examples=examples(12))
@given(text=conditions_of_sizes)
def test_a_branch_on_a_float_is_eagers(text):
    model = model_of(f"return x + 1 if {text} else x - 1")
    assume(run(model, EXAMPLE) != "raises")
    try:
        regions = export(model, (EXAMPLE,), dynamic_shapes=DIMS, branches="split").module()
    except ConstraintViolation:
        assert "raises" in [run(model, x) for x in POINTS]
        return
    assert [run(regions, x) for x in POINTS] == [run(model, x) for x in POINTS]


CHECKS = ("torch._check({})", "assert {}", "if not ({}):\n    raise ValueError")


@settings(max_examples=examples(12))
@given(text=conditions_of_data, check=st.sampled_from(CHECKS))
def test_a_check_of_a_float_from_data_is_eagers(text, check):
    on_data(model_of(f"v = y.item()\n{check.format(text)}\nreturn x + 1", data=True))


@settings(max_examples=examples(10))
@given(text=of_data)
def test_a_float_from_data_is_eagers(text):
    on_data(model_of(f"v = y.item()\nreturn torch.full((1,), {text}, dtype=torch.float64)", data=True))


def on_data(model):
    """The model agrees with eager whatever the float is that it takes from data."""
    example = (EXAMPLE, torch.tensor(0.5, dtype=torch.float64))
    assume(run(model, *example) != "raises")
    report = check(model, example, dynamic_shapes=DIMS | {"y": None})
    points = POINTS if report.status == "refuted" else POINTS[::4]
    agrees(model, report, [(x, torch.tensor(v, dtype=torch.float64)) for x in points for v in FLOATS])


def test_a_size_that_is_rounded_up_may_be_a_divisor():
    """As MobileViT pads its images: the next multiple of a patch, which torch takes remainders by in a view."""
    model = model_of("up = math.ceil(h / 2) * 2\ntorch._check(h == up)\nreturn x.reshape(up // 2, -1).sum(1)")
    report = check(model, (EXAMPLE,), dynamic_shapes=DIMS)
    assert report.status == "refuted", str(report)


KEPT = {
    "an order": "return torch.full((1,), int(h * 0.3 * 2.5))",
    "three summands": "return torch.full((1,), int(h / 3 + w / 3 + 0.5))",
    "three factors": "return torch.full((1,), h * 0.1 * (w * 0.3) * 0.7)",
    "decimals": "return torch.full((1,), h / 7 - w / 3 + int(h * 0.37 // 0.1))",
    "a rounding up": "return torch.full((1,), math.ceil(h / 3) + math.floor(w * 0.7))",
    "an absolute value": "return torch.full((1,), abs(h * 0.3 - 1) + abs(h - w))",
    "nan is not 0 or less": "v = y.item()\nassert not v <= 0\nreturn x + 1",
    "no nan": "v = y.item()\ntorch._check(v == v)\nreturn x + 1",
    "not infinite": "v = y.item()\ntorch._check(math.isfinite(v) | math.isnan(v))\nreturn x + 1",
    "a difference": "v = y.item()\ntorch._check(v - v == 0)\nreturn x + 1",
    "a truth": "v = y.item()\nassert v\nreturn x + 1",
    "a floor division": "v = y.item()\nreturn torch.full((1,), v // 0.1)",
    "a divisor that nothing uses": "v = 1 / y.item()\nreturn x + 1",
    "an integer that nothing uses": "v = int(y.item())\nreturn x + 1",
    "a root that nothing uses": "v = math.sqrt(y.item())\nreturn x + 1",
    "the square of a negative": "return x * y.item() ** 2",
    "the least of a number and nan": "return torch.full((1,), min(0.5, y.item()))",
    "the least of nan and a number": "return torch.full((1,), min(y.item(), 0.5))",
}


@pytest.mark.parametrize("name", KEPT)
def test_every_form_of_a_program_computes_as_eager_does(name):
    """As it is, decomposed, and saved and loaded."""
    model = model_of(f"{KEPT[name]}", data=True)
    example = (EXAMPLE, torch.tensor(0.5, dtype=torch.float64))
    program = export(model, example, dynamic_shapes=DIMS | {"y": None})
    assert program.report.status == "proved"
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    inputs = [(x, torch.tensor(v, dtype=torch.float64)) for x in POINTS[::3] for v in FLOATS]
    for form in (program, program.run_decompositions(), torch.export.load(file)):
        module = form.module()
        for args in inputs:
            assert run(module, *args) == run(model, *args), args


@pytest.mark.parametrize("factor", ["math.copysign(1.0, y.item())", "1 if math.isfinite(y.item()) else 2"])
def test_a_branch_on_a_double_is_refused_with_numbers_for_each_answer(factor):
    """The first point had 0 for the number, a smaller point a double: the search for the smallest then raised."""
    example = (EXAMPLE, torch.tensor(0.5, dtype=torch.float64))
    report = check(
        model_of(f"return x * ({factor})", data=True), example, dynamic_shapes=({0: Dim("h", min=0, max=5)}, None)
    )
    (found,) = report.diagnostics
    assert found.id == "data-dependent"
    assert {note.label for note in found.notes} >= {"true at", "false at"}


def test_the_smallest_sizes_are_found_beside_a_double_from_data():
    """The fault: `TypeError: unsupported operand type(s) for -: 'Term' and 'float'`, said to be the model's."""
    mod = model_of("if h > w:\n    if x.sum().item() < 0: raise ValueError('bad')\nreturn x + 1")
    report = check(
        mod, (torch.ones(3, 4),), dynamic_shapes={"x": {0: Dim("h", min=1, max=6), 1: Dim("w", min=1, max=6)}}
    )
    assert report.status == "refuted"
    (found,) = report.diagnostics
    told = {note.label: note.text for note in found.notes}
    assert told["false at"].startswith("x.shape[0] = 1, x.shape[1] = 1")
