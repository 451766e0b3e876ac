"""A verdict held against what was seen: the smallest input lost is an error; containment is proved, not sampled."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.export import TensorSpec, export
from shapeproof.export.declare.inputs import declare
from shapeproof.export.forms.seen.against_seen import held_against
from shapeproof.export.verify import verified
from shapeproof.seen import Seen
from shapeproof.seen.plots import SeenSize
from tests.export.random_programs import built


def model(result="x * 2", names="x"):
    return built(
        f"class Model(torch.nn.Module):\n    def forward(self, {', '.join(names)}):\n        return {result}\n"
    )


def against(mod, seen, *specs, constraints=(), **shapes):
    inputs = declare(mod, specs, None, shapes or None, constraints)
    return held_against(mod, verified(mod, inputs), inputs, seen)


def seen_of(*calls):
    seen = Seen()
    for args in calls:
        seen.add(tuple(torch.empty(sizes) if isinstance(sizes, tuple) else sizes for sizes in args))
    return seen


def spec(*dims):
    return TensorSpec(torch.float32, dims)


LONG = [((8 * n, 4),) for n in range(1, 200)]


def test_all_that_was_seen_is_proved_to_be_declared():
    report = against(model(), seen_of(*LONG), spec(Dim("n", min=1, max=4096), 4), constraints=("n % 4 == 0",))
    assert report.status == "proved"
    assert len(next(iter(seen_of(*LONG).joints.values())).points) < len(LONG)
    assert report.notes[0].endswith("inputs seen are declared and served: proved of their bounds and relations")
    assert report.notes[1] == "declared and never seen: x.shape[0] < 8, x.shape[0] > 1592"


LOST = {
    "above": (((9,),), "x.shape[0] = 9", "x.shape[0] <= 8", spec(Dim("n", max=8))),
    "the smallest of several": (((30,), (11,), (9,), (3,)), "x.shape[0] = 9", "x.shape[0] <= 8", spec(Dim("n", max=8))),
    "a number": (((4, 3), (5, 3)), "x.shape[0] = 4", "x.shape[1] = 7", spec(Dim("n"), 7)),
    "no multiple": (((4,), (7,)), "x.shape[0] = 7", "x.shape[0] = 2*n", spec(2 * Dim("n"))),
    "unequal": (((4, 4), (4, 5)), "x.shape[1] = 5", "x.shape[1] = x.shape[0]", spec(n := Dim("n"), n)),
}


@pytest.mark.parametrize("name", LOST)
def test_the_smallest_input_that_is_not_declared_is_shown(name):
    sizes, shown, declared, given = LOST[name]
    report = against(model(), seen_of(*((each,) for each in sizes)), given)
    assert (report.status, report.program) == ("refuted", None)
    (found,) = report.diagnostics
    assert (found.id, found.message) == ("seen", f"an input that was seen is not served: `{shown}`")
    assert [note.text for note in found.notes] == [declared]


def test_what_is_inferred_and_not_met_is_required():
    report = against(model("x.view(3, -1)"), seen_of(((6,),), ((7,),)), torch.ones(6), x={0: Dim.AUTO})
    (found,) = report.diagnostics
    assert (found.witness, found.notes[0].label, found.notes[0].text) == (
        {"x.shape[0]": 7}, "required", "x.shape[0] % 3 == 0",
    )  # fmt: skip


def test_another_kind_of_call_is_lost():
    report = against(model(), seen_of(((3,),), ((3, 2),)), spec(Dim("n")))
    assert [each.message for each in report.diagnostics] == [
        "an input that was seen is not served: `x` 2-dimensional float32; the example has 1-dimensional float32"
    ]


def test_ints_and_dims_of_the_same_name():
    mod = model("y * x", "xy")
    report = against(mod, seen_of(*((n, (n + 2,)) for n in (1, 4, 9))), 3, torch.ones(5), x=Dim.AUTO, y={0: Dim("x")})
    assert report.status == "proved", str(report)
    assert report.notes[-1].startswith("declared and never seen")


def test_what_is_not_proved_of_all_is_said():
    mod = model("x.unflatten(0, (y.shape[0], -1)) * y[:, None]", "xy")
    seen = seen_of(*(((n * n,), (n,)) for n in range(1, 90)))
    report = against(mod, seen, torch.ones(4), torch.ones(2), x={0: Dim.AUTO}, y={0: Dim.AUTO})
    assert report.status == "proved"
    assert any("of the others it is not known that x.shape[0] % y.shape[0] == 0" in note for note in report.notes)


def test_a_kept_program_accepts_each_input():
    mod, seen = model(), seen_of(*LONG)
    program = export(mod, (torch.ones(8, 4),), dynamic_shapes=seen)
    inputs = declare(mod, (torch.ones(8, 4),), None, {"x": {0: Dim.AUTO}})
    assert held_against(mod, program.report, inputs, seen).program is program
    assert all(holds_at(each, {"x.shape[0]": sizes[0]}) for (sizes,) in LONG for each in program.contract.formulas)


def test_what_was_seen_stands_beside_what_is_served_for_a_plot():
    dims = spec(2 * Dim("n", min=1, max=8), 4), spec(Dim("m"), 4)
    report = against(
        model("x.sum() + y.sum()", "xy"), seen_of(*(((a, 4), (b, 4)) for a, b in ((4, 0), (20, 9)))), *dims
    )
    assert report.seen == (
        SeenSize("x.shape[0]", (4, 20), (20,), (2, 16)),
        SeenSize("y.shape[0]", (0, 9), (9,), (0, None)),
    )
    program = export(model(), (torch.ones(8, 4),), dynamic_shapes=seen_of(*LONG[:3]))
    assert program.report.seen == (SeenSize("x.shape[0]", (8, 16, 24), (), (0, None)),)
    shown = program.report._repr_html_()
    assert ("sizes seen beside sizes served" in shown and "data:image/svg+xml" in shown) or "shapeproof[plots]" in shown
