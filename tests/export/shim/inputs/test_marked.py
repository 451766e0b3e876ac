"""Marks of torch._dynamo count as torch.export has them; mark_unbacked is a claim over every size, none special."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo import mark_dynamic, mark_static, maybe_mark_dynamic
from torch._dynamo.decorators import mark_unbacked
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.diagnostics import Help
from shapeproof.export import TensorSpec, check
from shapeproof.export.shim.inputs.dims import Mark, mark_of
from tests.agreement import RAISES, agree, outcome
from tests.export.random_programs import built
from tests.export.shim.canaries.test_canaries_marks import ENTRIES, MARKS, NO_ENTRIES, Fixed, Twice
from tests.export.shim.canaries.test_canaries_marks import marked as marked_as


def marked(size, **bounds):
    x = torch.randn(size, 3)
    mark_unbacked(x, 0, **bounds)
    return x


def model(result, names="x"):
    return built(
        f"class Model(torch.nn.Module):\n    def forward(self, {', '.join(names)}):\n        return {result}\n"
    )


class Branching(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] > 4 else x


# ---------------------------------------------------------------------- beside torch.export


def is_dynamic(report):
    (node,) = [node for node in report.program.graph.nodes if node.op == "placeholder"]
    return isinstance(node.meta["val"].shape[0], torch.SymInt)


@pytest.mark.parametrize("name", MARKS)
def test_marks_count_where_there_are_no_dynamic_shapes(name):
    """As in torch.export, but for mark_unbacked, which its non-strict exporter passes over."""
    for shapes in NO_ENTRIES:
        report = check(Twice(), (marked_as(name),), dynamic_shapes=shapes)
        assert report.status == "proved", str(report)
        assert is_dynamic(report) == (MARKS[name][1] or name == "unbacked")


@pytest.mark.parametrize("entry", ENTRIES)
def test_any_entries_override_all_marks_and_that_is_said(entry):
    shapes, dynamic = ENTRIES[entry]
    for name in ("none", "dynamic", "unbacked"):
        report = check(Twice(), (marked_as(name),), dynamic_shapes=shapes)
        assert (report.status, is_dynamic(report)) == ("proved", dynamic), str(report)
        assert any(note.startswith("the marks of `x` have no effect") for note in report.notes) == (name != "none")


def test_no_export_changes_a_mark():
    """The fault: a branch on data was followed on the user's own tensors, whose marks torch takes off."""
    x = marked_as("dynamic")
    before = dict(vars(x))
    check(model("x * 2 if x.sum() > 0 else x"), (x,))
    assert vars(x) == before


# ---------------------------------------------------------------------- what a mark says


def test_a_marked_dim_must_work_for_every_size():
    assert check(Branching(), (marked(3),)).status == "refuted"
    assert check(torch.nn.Linear(3, 2), (marked(3),)).status == "proved"


def test_the_bounds_of_a_marked_dim_are_declared():
    report = check(Branching(), (marked(7, min=5, max=9),))
    assert report.status == "proved"
    assert report.domain == ("x.shape[0] >= 5", "x.shape[0] <= 9")


@pytest.mark.thorough
def test_a_dynamic_mark_refuses_a_constant_and_a_mark_that_may_be_takes_it():
    """The fault: a marked dim that the model fixes was proved, as a constant."""
    for name in ("dynamic", "dynamic within bounds", "unbacked"):
        report = check(Fixed(), (marked_as(name),))
        assert report.status == "refuted", name
        assert report.diagnostics[0].line is not None
    report = check(Fixed(), (marked_as("maybe"),))
    assert (report.status, report.domain) == ("proved", ("x.shape[0] == 4",))


def test_the_bounds_of_a_dynamic_mark_are_claims_and_without_them_they_are_inferred():
    x = torch.randn(6, 3)
    mark_dynamic(x, 0)
    assert check(Branching(), (x,)).domain == ("x.shape[0] >= 5",)
    mark_dynamic(x, 0, min=2, max=9)
    report = check(Branching(), (x,))
    assert (report.status, report.domain) == ("refuted", ())
    assert "mark_dynamic(x, 0, min=2, max=9)" in str(report)


def test_of_two_dynamic_marks_each_counts_or_the_last_as_in_this_release_of_torch():
    x = torch.randn(6, 3)
    mark_dynamic(x, 0, min=2)
    mark_dynamic(x, 0, max=9)
    assert mark_of(x, 0) == Mark("mark_dynamic", 2 if torch.__version__ < "2.15" else None, 9)


@pytest.mark.skipif(torch.__version__ < "2.15", reason="maybe_mark_dynamic takes no bounds")
def test_the_bounds_of_a_mark_that_may_be_are_no_claims_and_that_is_said():
    """As torch has it: the size may be narrowed, or fixed."""
    x = torch.randn(4, 3)
    maybe_mark_dynamic(x, 0, min=2, max=9)
    report = check(Fixed(), (x,))
    assert (report.status, report.domain) == ("proved", ("x.shape[0] == 4",))
    assert any("`x.shape[0]` have no effect" in note for note in report.notes)


@pytest.mark.thorough
def test_sizes_of_one_shape_id_are_one_symbol_that_a_constraint_may_name():
    mod = model("x + y", "xy")
    args = (marked(4, shape_id="batch"), marked(4, shape_id="batch", max=9))
    report = check(mod, args, constraints=("batch % 2 == 0",))
    assert (report.status, report.domain[:2]) == ("proved", ("x.shape[0] >= 0", "x.shape[0] <= 9"))
    run = report.program.module()
    assert agree(mod, run, (torch.ones(6, 3), torch.ones(6, 3)))
    for sizes in ((3, 3), (10, 10), (4, 1), (1, 4)):
        assert outcome(run, tuple(torch.ones(size, 3) for size in sizes)) == RAISES
    assert check(mod, (marked(4, shape_id="batch"), marked(4, shape_id="other"))).status == "refuted"


@pytest.mark.thorough
def test_sizes_of_one_shape_id_are_equal_in_the_example():
    args = (marked(4, shape_id="a b"), marked(5, shape_id="a b"))
    with pytest.raises(UsageError, match=r"the example has y.shape\[0\] = 5, but elsewhere `a_b` is 4"):
        check(model("x.sum() + y", "xy"), args)
    args = (marked(4, shape_id="batch"), TensorSpec(torch.float32, (Dim("batch"), 3)))
    with pytest.raises(UsageError, match='`batch` is declared twice, as Dim\\("batch"\\) and as a shape_id'):
        check(model("x.sum() + y", "xy"), args)


def test_bounds_that_leave_nothing_are_refused():
    with pytest.raises(UsageError, match=r"`x.shape\[0\]` has min=5 greater than max=4"):
        check(Twice(), (marked(5, min=5, max=4),))
    with pytest.raises(UsageError, match=r"the example has x.shape\[0\] = 3, but x.shape\[0\] >= 5 is declared"):
        check(Twice(), (marked(3, min=5),))


def test_what_is_marked_in_vain_is_said():
    x = torch.randn(4, 3)
    mark_dynamic(x, -1)
    mark_dynamic(x, 0, specialize_on=[lambda size: size == 8])
    notes = check(Twice(), (x,)).notes
    assert notes[0] == "`x` is marked at dimension -1, which torch passes over: it has 2"
    assert notes[1] == (
        'specialize_on of `x.shape[0]` has no effect on one program: branches="split" makes one for each condition'
    )


def test_compilers_tune_for_the_hint_of_a_mark():
    for mark in (mark_dynamic, mark_unbacked):
        x = torch.randn(4, 3)
        mark(x, 0, hint_override=64)
        program = check(Twice(), (x,)).program
        (node,) = [node for node in program.graph.nodes if node.op == "placeholder"]
        size = node.meta["val"].shape[0].node
        assert size.shape_env.var_to_hint_override == {size.expr: 64}


# ---------------------------------------------------------------------- repaired


def spread(*marks):
    args = tuple(torch.randn(4, 3) for _ in marks)
    for x, mark in zip(args, marks, strict=True):
        mark(x)
    return args


SHARED = (lambda x: mark_unbacked(x, 0, shape_id="b"), lambda x: mark_unbacked(x, 0, shape_id="b", max=9))
REPAIRED = {
    "a bound": (
        "x * 2 if x.shape[0] > 2 else x",
        (lambda x: mark_unbacked(x, 0),),
        "mark_unbacked(x, 0, min=3)",
    ),
    "a bound beside one": (
        "x * 2 if x.shape[0] > 2 else x",
        (lambda x: mark_dynamic(x, 0, min=1, max=8),),
        "mark_dynamic(x, 0, min=3, max=8)",
    ),
    "a constant": ("x.view(4, 3)", (lambda x: mark_unbacked(x, 0),), "mark_unbacked(x, 0, min=4, max=4)"),
    "a multiple": (
        "x.view(-1, 2, 3)",
        (lambda x: mark_unbacked(x, 0, min=2),),
        'constraints=["x.shape[0] % 2 == 0"]',
    ),
    "an equality": ("x + y", (lambda x: mark_unbacked(x, 0),) * 2, 'constraints=["x.shape[0] == y.shape[0]"]'),
    "a bound of a shape_id": (
        "x + y if x.shape[0] > 2 else x",
        SHARED,
        'mark_unbacked(x, 0, shape_id="b", min=3, max=9)\nmark_unbacked(y, 0, shape_id="b", min=3, max=9)',
    ),
    "beside one size of a shape_id": (
        "(x * 2 if x.shape[0] > 2 else x), y",
        (lambda x: mark_unbacked(x, 0), lambda y: mark_unbacked(y, 0, shape_id="b", min=4, max=4)),
        "mark_unbacked(x, 0, min=3)",
    ),
    "beside marks of other inputs": (
        "(x * 2 if x.shape[0] > 2 else x), y",
        (lambda x: mark_unbacked(x, 0), lambda x: (maybe_mark_dynamic(x, 0), mark_static(x, 1))),
        "mark_unbacked(x, 0, min=3)",
    ),
}


@pytest.mark.parametrize("case", REPAIRED)
def test_a_mark_is_repaired_as_a_mark_and_as_an_entry(case):
    """The fault: an empty help, and a repair that was no other declaration."""
    body, marks, text = REPAIRED[case]
    mod, args = model(body, "xy"[: len(marks)]), spread(*marks)
    report = check(mod, args)
    assert report.status == "refuted"
    assert [help_.text for each in report.diagnostics for help_ in each.help] == [text]
    repair = report.repair()
    again = check(mod, args, dynamic_shapes=repair.dynamic_shapes, constraints=repair.constraints)
    assert again.status == "proved", str(again)
    names = {"mark_unbacked": mark_unbacked, "mark_dynamic": mark_dynamic, "constraints": ()}
    exec(text, names | dict(zip("xy", args, strict=False)), pasted := {})  # noqa: S102 - what a user would paste
    assert check(mod, args, constraints=pasted.get("constraints", ())).status == "proved"


def test_a_help_says_what_to_do():
    with pytest.raises(ValueError, match="this one is empty"):
        Help(" ", "proved")


@pytest.mark.parametrize("mark", [mark_dynamic, mark_unbacked])
@pytest.mark.parametrize("name", ["weight", "running"])
def test_a_mark_of_a_parameter_or_buffer_has_no_effect_and_that_is_said(mark, name):
    model = torch.nn.Linear(4, 5)
    model.register_buffer("running", torch.ones(5))
    mark(getattr(model, name), 0)
    report = check(model, (torch.randn(2, 4),))
    told = f"the marks of `{name}` have no effect: its sizes are the model's own, and only those of inputs vary"
    assert (report.status, report.notes) == ("proved", (told,))
