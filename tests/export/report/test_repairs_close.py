"""A repair that is applied gives "proved", or a report whose own repair does, in at most three steps."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo import mark_dynamic
from torch._dynamo.decorators import mark_unbacked
from torch.export import Dim, ShapesCollection

from shapeproof.export import TensorSpec, check
from tests.agreement import agree
from tests.export.random_programs import MATRIX, built, few, filled, programs, wide_programs

STEPS = 3


def closed(mod, args, shapes, constraints=()):
    """The report that is proved, after at most so many repairs."""
    for _ in range(1 + STEPS):
        report = check(mod, args, dynamic_shapes=shapes, constraints=constraints)
        if report.status == "proved":
            return report
        repair = report.repair()
        assert repair is not None, str(report)
        shapes, constraints = repair.dynamic_shapes, repair.constraints
    pytest.fail(f"not closed after {STEPS} repairs:\n{report}")


def model(body, names):
    lines = ["class Model(torch.nn.Module):", f"    def forward(self, {', '.join(names)}):"]
    return built("\n".join([*lines, *("        " + line for line in body.splitlines())]))


def vectors(*sizes):
    return tuple(torch.arange(float(size)) for size in sizes)


# ---------------------------------------------------------------------- random programs


@few(part=8)
@given(programs() | wide_programs())
def test_repairs_of_random_programs_close(program):
    """Law. What is proved in the end serves the example, as eager does."""
    report = closed(program.model, program.inputs(program.example), program.interface.shapes(*program.ranges))
    assert agree(program.model, report.program.module(), program.inputs(program.example))


FORMS = {
    "dims": lambda a, b: ((Dim("a", min=a[0], max=a[-1]), Dim("b", min=b[0], max=b[-1])), "a", "b"),
    "hints": lambda a, b: (
        (Dim.AUTO(min=a[0], max=a[-1]), Dim.DYNAMIC(min=b[0], max=b[-1])),
        "x.shape[0]",
        "x.shape[1]",
    ),
    "a dim and a hint": lambda a, _: ((Dim("a", min=a[0], max=a[-1]), Dim.AUTO), "a", "x.shape[1]"),
    "a dim without bounds": lambda _, b: ({0: Dim("a"), 1: Dim("b", min=b[0], max=b[-1])}, "a", "b"),
    "a derived dim": lambda a, _: ({0: Dim("a", min=a[0], max=a[-1]), 1: Dim("_a", max=9) + 1}, "a", "_a"),
}
"""The entry of a matrix, and what its two sizes are called in a constraint."""
RELATIONS = ("{a} <= 3", "{a} + {b} <= 6", "{a} != 2", "{b} % 2 == 0 or {a} >= 1", "{a} * {b} <= 12", "{b} <= 4")


@st.composite
def declarations(draw):
    """A program of one matrix, entries of some form, and constraints that its example meets."""
    program = draw(programs())
    entry, a, b = FORMS[draw(st.sampled_from(sorted(FORMS)))](*program.ranges)
    point = dict(zip(("a", "b"), program.example, strict=True))
    if b == "_a":
        point["b"] -= 1
    written = draw(st.lists(st.sampled_from(RELATIONS), max_size=2, unique=True))
    fitting = [text for text in written if eval(text.format(a=point["a"], b=point["b"]))]  # noqa: S307
    return program, (entry,), tuple(text.format(a=a, b=b) for text in fitting), point


@pytest.mark.thorough
@few(part=8)
@given(declarations())
def test_repairs_of_random_declarations_close(drawn):
    """Law. The fault: a dim that a repair makes a constant was still named by a constraint, which was refused."""
    program, shapes, constraints, point = drawn
    if point["b"] < 0:
        return
    report = closed(program.model, program.inputs(program.example), shapes, constraints)
    assert agree(program.model, report.program.module(), program.inputs(program.example))


# ---------------------------------------------------------------------- models x forms of declaration

BODIES = {
    "a constant": "return x.view(3, 4), y",
    "a multiple": "return x.view(-1, 4), y",
    "an equality": "return x + y",
    "a bound": "return x * 2 if x.shape[0] > 4 else x - 1, y",
    "values": "return x * 2 if x.shape[0] in (4, 8, 12) else x + 1, y",
    "two causes": "return x.view(-1, 4), F.interpolate(y[None, None], scale_factor=0.5)",
    "both raise": "return F.interpolate(x[None, None], scale_factor=0.25), y",
}


def collected(args, *entries):
    shapes = ShapesCollection()
    for x, entry in zip(args, entries, strict=True):
        shapes[x] = entry
    return shapes


def with_marks(args, *marks):
    for x, mark in zip(args, marks, strict=True):
        mark(x)


N, M = Dim("n", min=0, max=40), Dim("m", min=0, max=40)
DECLARED = {
    "a dict": (lambda _: {"x": {0: N}, "y": {0: M}}, ("n", "m")),
    "a tuple": (lambda _: ((N,), (M,)), ("n", "m")),
    "a list": (lambda _: [[N], {-1: M}], ("n", "m")),
    "a collection": (lambda args: collected(args, {0: N}, {0: M}), ("n", "m")),
    "derived": (lambda _: ({0: 2 * Dim("h", max=20)}, {0: M}), ("h", "m")),
    "names like those of a repair": (lambda _: ({0: N}, {0: Dim("_n", min=0, max=40)}), ("n", "_n")),
    "auto": (lambda _: ({0: Dim.AUTO(min=0, max=40)}, {0: Dim.AUTO(min=0)}), ("x.shape[0]", "y.shape[0]")),
    "dynamic": (lambda _: ({0: Dim.DYNAMIC(min=0)}, {0: Dim.DYNAMIC(min=0, max=40)}), ("x.shape[0]", "y.shape[0]")),
    "inferred": (lambda _: ({0: Dim.DYNAMIC}, {0: Dim.AUTO}), ("x.shape[0]", "y.shape[0]")),
    "marks": (
        lambda args: with_marks(args, lambda x: mark_unbacked(x, 0), lambda y: mark_dynamic(y, 0, min=0)),
        ("x.shape[0]", "y.shape[0]"),
    ),
}
RELATED = ((), ("{0} <= 36",), ("{0} + {1} <= 60", "{1} != 7"))


@pytest.mark.thorough
@pytest.mark.parametrize("form", DECLARED)
@pytest.mark.parametrize("body", BODIES)
def test_repairs_close_in_every_form_of_declaration(body, form):
    mod = model(BODIES[body].replace("F.", "torch.nn.functional."), "xy")
    declare, names = DECLARED[form]
    for relations in RELATED[:: 2 if form == "derived" else 1]:
        args = vectors(12, 12)
        shapes = declare(args)
        report = closed(mod, args, shapes, tuple(text.format(*names) for text in relations))
        assert agree(mod, report.program.module(), args)


@pytest.mark.thorough
def test_a_negative_bound_of_an_int_is_a_constraint_and_a_negative_constant_an_entry():
    """The fault: Dim hints take no negative end, and an int was refused for not being a size."""
    mod = model("torch._check(k >= -3)\nreturn x.view(-1, 4) * k", "xk")
    report = check(mod, (*vectors(12), -1), dynamic_shapes=({0: N}, Dim.AUTO(max=9)), constraints=("k != 5",))
    repair = report.repair()
    assert repair.constraints == ("k != 5", "k >= -3")
    assert closed(mod, (*vectors(12), -1), repair.dynamic_shapes, repair.constraints)
    fixed = check(model("return x * k", "xk"), (*vectors(12), -1), dynamic_shapes=(None, -1))
    assert fixed.status == "proved"


@pytest.mark.thorough
def test_a_tensor_without_an_example_closes():
    mod = model("return x.view(-1, 4)", "x")
    assert closed(mod, (TensorSpec(torch.float32, (N,)),), None, ("n <= 30",))


@pytest.mark.thorough
def test_a_nested_input_closes():
    mod = model("return a[0].view(-1, 4), a[1]['b'].view(3)", "a")
    args = ([torch.ones(12), {"b": torch.ones(3)}],)
    assert closed(mod, args, {"a": [{0: N}, {"b": {0: M}}]}, ("m <= n",))


# ---------------------------------------------------------------------- both raise


class Both(torch.nn.Module):
    """Torch's rule for the one operator asks for rows by fours, for the other for nothing, and eager takes some."""

    def forward(self, x, y):
        return x.view(-1, 4), F.interpolate(y[None, None], scale_factor=0.3)


@pytest.mark.thorough
def test_one_repair_covers_what_is_refuted_and_where_both_raise():
    """The fault: sizes at which both raise were looked for only where nothing else was refuted."""
    report = check(Both(), vectors(12, 9), dynamic_shapes=({0: N}, {0: M}))
    assert [each.id for each in report.diagnostics] == ["divides", "bound", "replay"]
    assert [help_.text for each in report.diagnostics for help_ in each.help] == [
        '_n = Dim("_n", min=0, max=10)\nn = 4*_n',
        'm = Dim("m", min=4, max=40)',
    ]
    repair = report.repair()
    again = check(Both(), vectors(12, 9), dynamic_shapes=repair.dynamic_shapes)
    assert again.status == "proved", str(again)
    for n, m in itertools.product((0, 4, 8), (3, 4, 5)):
        assert agree(Both(), again.program.module(), vectors(n, m), may_refuse=m < 4)


@pytest.mark.thorough
def test_sizes_at_which_both_raise_are_left_out_by_two_bounds():
    mod = model("return torch.nn.functional.interpolate(x[None, None], scale_factor=0.5)", "x")
    report = check(mod, (filled(4, 4),), dynamic_shapes=({0: N, 1: M},))
    assert [each.id for each in report.diagnostics] == ["bound", "bound", "replay", "replay"]
    assert closed(mod, (filled(4, 4),), ({0: N, 1: M},)).domain[:2] == ("x.shape[0] >= 2", "x.shape[0] <= 40")


def test_a_program_that_does_otherwise_has_no_repair():
    mod = model("return x if torch.compiler.is_compiling() else x * 2", "x")
    report = check(mod, vectors(6), dynamic_shapes=({0: N},))
    assert (report.diagnostics[0].id, report.repair()) == ("replay", None)


def test_the_matrix_has_the_names_that_constraints_use():
    assert MATRIX.names == ("x.shape[0]", "x.shape[1]")
