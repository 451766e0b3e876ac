"""Every input that was given is served, or its loss is `error[seen]` (declare/anchors.py, report/explain.py)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import AdditionalInputs

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export import check
from shapeproof.solver.answers.repair import repaired
from shapeproof.solver.facts import Facts
from tests.agreement import agree
from tests.export.random_programs import built, programs
from tests.thoroughness import examples


def model(result, names="x"):
    return built(
        f"class Model(torch.nn.Module):\n    def forward(self, {', '.join(names)}):\n        return {result}\n"
    )


def vectors(*sizes):
    return tuple(torch.arange(float(size)) for size in sizes)


def more(*others):
    shapes = AdditionalInputs()
    for args in others:
        shapes.add(args)
    return shapes


LOST = {
    "another program": ("x * 2 if x.shape[0] > 20 else x", (3,), [(40,), (30,), (5,)], {"x.shape[0]": 30}, True),
    "a rank": ("x.squeeze(0)", (3,), [(1,)], {"x.shape[0]": 1}, True),
    "an error at none": ("x.max(0).values", (3,), [(30,), (0,)], {"x.shape[0]": 0}, False),
    "an error": ("x.view(3, -1)", (3,), [(31,), (7,), (9,)], {"x.shape[0]": 7}, False),
    "a constant": ("x.view(3)", (3,), [(30,), (7,)], {"x.shape[0]": 7}, False),
}
"""A model, its example, further inputs, the one that is lost, and whether several programs serve them all."""
KEPT = {
    "between them": ("x * 2 if x.shape[0] == 7 else x", (3,), [(5,), (30,)]),
    "equal sizes": ("x + y", (3, 3), [(4, 4), (7, 7)]),
    "sizes that broadcast": ("x + y", (3, 3), [(4, 4), (7, 1)]),
    "multiples": ("x.view(3, -1)", (3,), [(9,), (0,)]),
    "a relation": ("x[1:] * y", (3, 2), [(4, 3), (7, 6)]),
}


@pytest.mark.parametrize("name", LOST)
def test_an_input_that_is_not_served_is_an_error_of_its_own(name):
    """The fault: the input was given up, and torch's check of the program raised; or a smaller size was shown."""
    body, example, others, lost, splits = LOST[name]
    report = check(model(body), vectors(*example), dynamic_shapes=more(*(vectors(*sizes) for sizes in others)))
    assert report.status == "refuted"
    (found,) = report.diagnostics
    assert (found.id, found.witness) == ("seen", lost), str(report)
    assert [help_.text for help_ in found.help] == (['branches="split"'] if splits else [])
    assert report.repair() is None


@pytest.mark.parametrize("branches", ["error", "split"])
@pytest.mark.parametrize("name", KEPT)
def test_what_is_inferred_keeps_every_input_that_was_given(name, branches):
    body, example, others = KEPT[name]
    mod, given_ = model(body, "xy"[: len(example)]), [vectors(*sizes) for sizes in others]
    report = check(mod, vectors(*example), dynamic_shapes=more(*given_), branches=branches)
    assert report.status == "proved", str(report)
    run = report.program.module()
    assert all(agree(mod, run, args) for args in (vectors(*example), *given_))


@pytest.mark.thorough
@pytest.mark.parametrize("name", LOST)
def test_several_programs_serve_what_one_does_not(name):
    """The fault: each program was asked to serve every input, and torch's check raised."""
    body, example, others, lost, splits = LOST[name]
    mod, given_ = model(body), [vectors(*sizes) for sizes in others]
    report = check(mod, vectors(*example), dynamic_shapes=more(*given_), branches="split")
    if not splits:
        assert (report.status, report.diagnostics[0].id, report.diagnostics[0].witness) == ("refuted", "seen", lost)
        return
    assert report.status == "proved", str(report)
    assert all(agree(mod, report.program.module(), args) for args in (vectors(*example), *given_))


def test_ints_and_keywords_are_given_too():
    mod = model("x * k if k > 4 else x", "xk")
    shapes = AdditionalInputs()
    shapes.add(vectors(3), {"k": 9})
    report = check(mod, vectors(3), {"k": 2}, dynamic_shapes=shapes)
    assert (report.diagnostics[0].id, report.diagnostics[0].witness) == ("seen", {"k": 9})


def test_what_is_given_lies_in_the_declared_domain_and_is_like_the_example():
    mod = model("x * 2")
    with pytest.raises(UsageError, match=r"additional input 2 has x.shape\[0\] = 8, but x.shape\[0\] <= 7 is declared"):
        check(mod, vectors(3), dynamic_shapes=more(vectors(5), vectors(8)), constraints=("x.shape[0] <= 7",))
    with pytest.raises(
        UsageError, match=r"additional input 1 has `x` of dtype torch.float64, the example torch.float32"
    ):
        check(mod, vectors(3), dynamic_shapes=more((torch.ones(4, dtype=torch.float64),)))
    with pytest.raises(UsageError, match="too many positional arguments"):
        check(mod, vectors(3), dynamic_shapes=more(vectors(4, 4)))


def test_a_repair_keeps_every_anchor():
    facts, needed = Facts([parse_formula("0 <= n <= 40")]), [parse_formula("n != 7")]
    texts = [str(each.formula) for each in repaired(needed, facts, {"n": 3}, others=[{"n": 9}]) or ()]
    assert texts == ["n != 7"]
    assert repaired(needed, facts, {"n": 3}, others=[{"n": 7}]) is None


@pytest.mark.thorough
@settings(max_examples=examples(12), deadline=None)
@given(programs(), st.data())
def test_each_input_that_was_given_lies_in_the_domain_of_every_proved_report(program, data):
    """Law. What is lost is said, with an input that was given; what is proved serves them all, as eager does."""
    others = data.draw(st.lists(st.sampled_from(program.box), min_size=1, max_size=3))
    args = [program.inputs(sizes) for sizes in (program.example, *others)]
    report = check(program.model, args[0], dynamic_shapes=more(*args[1:]))
    names = program.interface.names
    points = [dict(zip(names, sizes, strict=True)) for sizes in (program.example, *others)]
    if report.status == "refuted":
        for each in report.diagnostics:
            assert each.id == "seen", str(report)
            assert any(each.witness.items() <= point.items() for point in points[1:])
        return
    for point, inputs in zip(points, args, strict=True):
        formulas = [parse_formula(text) for text in report.domain]
        assert all(holds_at(formula, point) for formula in formulas)
        assert agree(program.model, report.program.module(), inputs)
