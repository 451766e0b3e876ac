"""Dims from what was seen: what varied is dynamic, all of it is served or its loss is said, and no sample proves."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export import ConstraintViolation, TensorSpec, check, export, watching
from shapeproof.seen import Seen
from tests.agreement import RAISES, agree, outcome
from tests.export.random_programs import built, programs, small_programs
from tests.thoroughness import examples

WITHOUT_SHRINKING = [phase for phase in Phase if phase is not Phase.shrink]


def model(result, names="x"):
    return built(
        f"class Model(torch.nn.Module):\n    def forward(self, {', '.join(names)}):\n        return {result}\n"
    )


def vectors(*sizes):
    return tuple(torch.arange(float(size)) for size in sizes)


def seen_of(*calls):
    seen = Seen()
    for args in calls:
        seen.add(args)
    return seen


def test_after_two_sizes_one_program_serves_every_size():
    """The guide's example of automatic dynamic shapes: 10, then 20; torch.compile makes two programs."""
    mod, seen = model("x * x.size()[0]"), Seen()
    with watching(mod, seen):
        mod(*vectors(10)), mod(*vectors(20))
    program = export(mod, vectors(10), dynamic_shapes=seen)
    assert program.report.domain == ("x.shape[0] >= 0",)
    assert program.report.statistics["traces"] == 1
    assert all(agree(mod, program.module(), vectors(n)) for n in (0, 1, 2, 10, 20, 99))


def test_a_second_run_with_the_profile_makes_one_trace_and_no_static_program(tmp_path):
    seen_of(vectors(10), vectors(20)).save(tmp_path / "a.json")
    seen_of(vectors(20), vectors(30)).save(tmp_path / "b.json")
    seen = Seen.load(tmp_path / "a.json") | Seen.load(tmp_path / "b.json")
    mod = model("x * x.size()[0]")
    program = export(mod, vectors(30), dynamic_shapes=seen)
    assert program.report.statistics["traces"] == 1
    assert agree(mod, program.module(), vectors(7))


def test_what_did_not_vary_is_constant_and_the_example_is_an_input_that_was_given():
    report = check(
        model("x * 2"), (torch.ones(3, 4),), dynamic_shapes=seen_of((torch.ones(5, 4),), (torch.ones(6, 4),))
    )
    assert report.inputs == {"x": ["x.shape[0]", "4"]}
    report = check(model("x * 2"), (torch.ones(3, 9),), dynamic_shapes=seen_of((torch.ones(3, 4),)))
    assert report.inputs == {"x": ["3", "x.shape[1]"]}


def test_ints_containers_and_keywords():
    mod, seen = model("x['a'][0][:k] + b", "xkb"), Seen()
    for n in (4, 9, 12):
        seen.add(({"a": [torch.ones(n)]}, n // 2), {"b": torch.ones(1)})
    args, kwargs = ({"a": [torch.ones(5)]}, 3), {"b": torch.ones(1)}
    report = check(mod, args, kwargs, dynamic_shapes=seen)
    assert report.status == "proved", str(report)
    assert report.inputs == {"x['a'][0]": ["x['a'][0].shape[0]"], "k": ["k"], "b": ["1"]}
    run = report.program.module()
    assert all(agree(mod, run, ({"a": [torch.ones(n)]}, n // 2), kwargs) for n in (4, 9, 12))


def test_a_tensor_without_dimensions_and_a_model_without_sizes():
    """The fault: a tensor of no sizes was taken for one without an example."""
    mod = model("x * n", "xn")
    seen = seen_of(*((torch.tensor(2.0), n) for n in (1, 2, -3)))
    report = check(mod, (torch.tensor(1.0), 0), dynamic_shapes=seen)
    assert (report.status, report.inputs) == ("proved", {"n": ["n"]})
    assert check(mod, (torch.tensor(1.0), 3), dynamic_shapes=seen_of((torch.tensor(2.0), 3))).status == "proved"


def test_an_input_that_was_seen_is_kept_or_its_loss_is_an_error():
    mod, seen = model("x * 2 if x.shape[0] > 25 else x"), seen_of(*map(vectors, (10, 20, 30, 40)))
    report = check(mod, vectors(10), dynamic_shapes=seen)
    (found,) = report.diagnostics
    assert (found.id, found.witness) == ("seen", {"x.shape[0]": 30})
    regions = export(mod, vectors(10), dynamic_shapes=seen, branches="split")
    assert all(agree(mod, regions.module(), vectors(n)) for n in (0, 10, 25, 26, 40))


OTHERS = {
    "a rank": (torch.ones(3, 2), "`x` 2-dimensional float32; the example has 1-dimensional float32"),
    "a dtype": (torch.ones(3).int(), "`x` 1-dimensional int32; the example has 1-dimensional float32"),
    "a list": ([torch.ones(3)], "`x` absent; the example has 1-dimensional float32"),
    "an int": (3, "`x` int; the example has 1-dimensional float32"),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", OTHERS)
def test_a_call_of_another_kind_is_not_dropped(name):
    other, message = OTHERS[name]
    seen = seen_of(vectors(3), vectors(4), (other,))
    with pytest.raises(ConstraintViolation) as caught:
        export(model("x"), vectors(3), dynamic_shapes=seen)
    (found,) = caught.value.report.diagnostics
    assert (found.id, found.message) == ("seen", f"an input that was seen is not served: {message}")


def test_a_constant_with_two_values_is_not_dropped():
    seen = seen_of((torch.ones(3), True), (torch.ones(4), False))
    (found,) = check(model("x if k else -x", "xk"), (torch.ones(3), True), dynamic_shapes=seen).diagnostics
    assert found.message == "an input that was seen is not served: `k` = False; the example has True"


UNSAYABLE = "x.sum() * 2 + y.sum() if round((x.shape[0] - y.shape[0]) / 3, 1) == 1.7 else x.sum() + y.sum()"
"""No operator of a graph computes the condition, so that it cannot be enforced."""


def test_a_relation_of_what_was_seen_is_used_where_nothing_is_proved_without():
    mod = model(UNSAYABLE, "xy")
    seen = seen_of(*(vectors(n, n) for n in (4, 3, 5, 8)))
    report = check(mod, vectors(4, 4), dynamic_shapes=seen)
    assert report.status == "proved", str(report)
    assert "needed, and true of all 4 inputs seen: x.shape[0] == y.shape[0]" in report.notes
    run = report.program.module()
    assert agree(mod, run, vectors(6, 6))
    with pytest.raises(RuntimeError):  # enforced
        run(*vectors(4, 15))


@pytest.mark.parametrize("sizes", [(4, 3), (4, 3, 5)])
def test_a_relation_needs_two_witnesses_more_than_determine_it(sizes):
    seen = seen_of(*(vectors(n, n) for n in sizes))
    assert check(model(UNSAYABLE, "xy"), vectors(4, 4), dynamic_shapes=seen).status == "undecided"


def test_a_relation_that_is_not_needed_is_not_used():
    seen = seen_of(*(vectors(n, n) for n in (4, 3, 5, 8, 9)))
    report = check(model("x.sum() + y.sum()", "xy"), vectors(4, 4), dynamic_shapes=seen)
    assert report.domain == ("x.shape[0] >= 0", "y.shape[0] >= 0")
    assert report.notes == ("all 5 inputs seen are served: proved of their bounds and relations",)


@pytest.mark.thorough
def test_what_is_known_of_all_that_was_seen_is_said():
    mod = model("x.unflatten(0, (y.shape[0], -1)) * y[:, None]", "xy")
    few = check(mod, vectors(4, 2), dynamic_shapes=seen_of(*(vectors(n * n, n) for n in (2, 3, 5))))
    assert few.notes[-1] == "all 3 inputs seen are served: each was tried"
    many = check(mod, vectors(4, 2), dynamic_shapes=seen_of(*(vectors(n * n, n) for n in range(1, 80))))
    assert many.status == few.status == "proved"
    assert "of the others it is not known that x.shape[0] % y.shape[0] == 0" in many.notes[-1]


@pytest.mark.parametrize(("body", "said"), [("x * x.stride()[0]", True), ("x.add_(1)", True), ("x * 2", False)])
def test_what_is_said_of_all_inputs_is_said_of_memory_where_that_matters(body, said):
    """The fault: `proved` of an input whose strides the program refuses."""
    rows, columns = torch.ones(3, 4), torch.ones(4, 5).t()
    note = check(model(body), (rows,), dynamic_shapes=seen_of((rows,), (columns,))).notes[-1]
    assert note.endswith("; not of how they lay in memory, on which the model relies") == said


def test_what_cannot_be_meant_is_one_sentence():
    with pytest.raises(UsageError, match="nothing was seen: call the model while it is watched, or add its inputs"):
        check(model("x"), vectors(3), dynamic_shapes=Seen())
    with pytest.raises(UsageError, match="what was seen needs an example of each input, not a TensorSpec"):
        check(model("x"), (TensorSpec(torch.float32, (3,)),), dynamic_shapes=seen_of(vectors(3)))


@pytest.mark.thorough
@settings(max_examples=examples(25), deadline=None, phases=WITHOUT_SHRINKING, suppress_health_check=list(HealthCheck))
@given(small_programs(), st.data())
def test_every_input_that_was_seen_is_accepted_by_every_proved_program(program, data):
    """Law. What is proved serves all that was seen as eager does; what is lost is said, with an input that was seen."""
    all_seen_are_accepted(program, data)


@pytest.mark.thorough
@settings(max_examples=examples(100), deadline=None, phases=WITHOUT_SHRINKING, suppress_health_check=list(HealthCheck))
@given(programs(), st.data())
def test_every_input_that_was_seen_is_accepted_by_every_proved_program_that_branches(program, data):
    all_seen_are_accepted(program, data)


def all_seen_are_accepted(program, data):
    """The law, at one program."""
    others = data.draw(st.lists(st.sampled_from(program.box), min_size=1, max_size=6))
    args = [program.inputs(sizes) for sizes in (program.example, *others)]
    report = check(program.model, args[0], dynamic_shapes=seen_of(*args[1:]))
    points = [dict(zip(program.interface.names, sizes, strict=True)) for sizes in (program.example, *others)]
    if report.status == "refuted":
        for each in report.diagnostics:
            if each.id == "seen":
                assert any(each.witness.items() <= point.items() for point in points)
            else:  # what is inferred of another size was not found to be narrowed: eager raises there, all the same
                sizes = {**points[0], **each.witness}
                assert outcome(program.model, program.inputs(tuple(sizes.values()))) == RAISES, str(report)
        return
    formulas = [parse_formula(text) for text in report.domain]
    for point, inputs in zip(points, args, strict=True):
        assert all(holds_at(formula, point) for formula in formulas)
        assert agree(program.model, report.program.module(), inputs)
