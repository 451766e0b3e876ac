"""Every form in which torch.export takes dynamic_shapes, and what may be done with the program afterwards.

Each form is proved, does what eager does inside the domain, and refuses what lies outside.
"""

from __future__ import annotations

import copy
import io
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch.export import AdditionalInputs, Dim, ExportedProgram, ShapesCollection
from torch.export.dynamic_shapes import _IntWrapper

from shapeproof.constraints.errors import UsageError
from shapeproof.export import TensorSpec, check, export, load_report
from tests.agreement import RAISES, agree, outcome


class Sum(torch.nn.Module):
    def forward(self, x, y):
        return x.sum(0) + y.sum(0)


class Nested(torch.nn.Module):
    """Dicts in lists in a dict."""

    def forward(self, tree, *, scale):
        return {"out": [tree["a"][0] * scale, tree["a"][1]["b"] + 1]}


class Repeated(torch.nn.Module):
    def forward(self, x, n):
        return x.repeat(n) * n


class Interleaved(torch.nn.Module):
    """y is as long as 2*x + 1."""

    def forward(self, x, y):
        return y[1::2] * x, y[::2]


class Spread(torch.nn.Module):
    def forward(self, *xs, **named):
        return torch.cat([*xs, *named.values()])


def rows(*sizes):
    """One input of three columns for each size."""
    return tuple(torch.arange(3.0 * n).reshape(n, 3) for n in sizes)


def tree(a, b):
    return {"a": [torch.arange(float(a)), {"b": torch.arange(float(b))}]}


def line(n):
    return torch.arange(float(n))


def collection(args):
    """Sizes given by the tensors themselves."""
    shapes = ShapesCollection()
    shapes[args[0]] = {0: Dim("b", min=1, max=8)}
    shapes[args[1]] = {0: Dim("c", min=1, max=8)}
    return shapes


def more_inputs():
    """Sizes that vary between the example and these are dynamic."""
    shapes = AdditionalInputs()
    shapes.add(rows(5, 5))
    shapes.add(rows(7, 2))
    return shapes


@dataclass(frozen=True)
class Form:
    """A declaration; inputs of its domain; inputs that lie outside."""

    mod: torch.nn.Module
    args: tuple[Any, ...]
    shapes: Any
    inside: list[tuple[Any, ...]]
    outside: list[tuple[Any, ...]]
    kwargs: dict[str, Any] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()


B, C, K = Dim("b", min=1, max=8), Dim("c", min=1, max=8), Dim("k", min=0, max=5)
TWO = rows(3, 4)
BOTH_IN = [rows(1, 1), rows(8, 8), rows(1, 8), rows(2, 5)]
BOTH_OUT = [rows(0, 4), rows(3, 9), (*rows(3), torch.ones(3, 4))]
FIRST_IN, FIRST_OUT = [rows(1, 4), rows(8, 4)], [rows(9, 4), rows(3, 3), rows(3, 1)]
COUNTS_IN = [(line(2), 2), (line(2), 3), (line(2), 5)]

FORMS = {
    "dict by name": Form(Sum(), TWO, {"x": {0: B}, "y": {0: C}}, BOTH_IN, BOTH_OUT),
    "tuple": Form(Sum(), TWO, ({0: B}, {0: C}), BOTH_IN, BOTH_OUT),
    "list": Form(Sum(), TWO, [{0: B}, {0: C}], BOTH_IN, BOTH_OUT),
    "dims as a tuple": Form(Sum(), TWO, {"x": (B, None), "y": (C, Dim.STATIC)}, BOTH_IN, BOTH_OUT),
    "dims as a list": Form(Sum(), TWO, {"x": [B, 3], "y": [C, None]}, BOTH_IN, BOTH_OUT),
    "a negative dimension": Form(Sum(), TWO, {"x": {-2: B}, "y": {-2: C}}, BOTH_IN, BOTH_OUT),
    "nothing": Form(Sum(), TWO, None, [TWO], [rows(3, 5), rows(1, 4)]),
    "None for a tensor": Form(Sum(), TWO, {"x": {0: B}, "y": None}, FIRST_IN, FIRST_OUT),
    "Dim.STATIC": Form(Sum(), TWO, {"x": {0: B}, "y": {0: Dim.STATIC}}, FIRST_IN, FIRST_OUT),
    "an int": Form(Sum(), TWO, {"x": {0: B}, "y": {0: 4}}, FIRST_IN, FIRST_OUT),
    "a shared dim": Form(Sum(), rows(3, 3), ({0: B}, {0: B}), [rows(1, 1), rows(8, 8)], [rows(1, 2), rows(9, 9)]),
    "a derived dim": Form(
        Interleaved(),
        (line(3), line(7)),
        ({0: K}, {0: 2 * K + 1}),
        [(line(n), line(2 * n + 1)) for n in (0, 1, 2, 5)],
        [(line(3), line(6)), (line(6), line(13)), (line(1), line(7))],
    ),
    "only a derived dim": Form(
        Spread(), (line(7),), (({0: 2 * K + 1},),), [(line(1),), (line(3),), (line(11),)], [(line(6),), (line(13),)]
    ),
    "Dim.AUTO": Form(Sum(), TWO, {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}, [TWO, rows(7, 9)], [(*rows(3), line(3))]),
    "Dim.DYNAMIC": Form(Sum(), TWO, ({0: Dim.DYNAMIC}, None), [TWO, rows(7, 4)], [rows(7, 5)]),
    "Dim.AUTO with bounds": Form(
        Sum(), TWO, ({0: Dim.AUTO(min=1, max=8)}, {0: Dim.AUTO(min=1, max=8)}), BOTH_IN, BOTH_OUT
    ),
    "Dim.DYNAMIC with bounds": Form(
        Sum(), TWO, ({0: Dim.DYNAMIC(min=1, max=8)}, {0: Dim.DYNAMIC(min=1, max=8)}), BOTH_IN, BOTH_OUT
    ),
    "an int input": Form(
        Repeated(), (line(2), 4), {"x": None, "n": Dim.DYNAMIC}, COUNTS_IN, [(line(3), 4), (line(2), -1)]
    ),
    "an int input with bounds": Form(
        Repeated(),
        (line(2), 4),
        (None, Dim.DYNAMIC(min=1, max=5)),
        [*COUNTS_IN, (line(2), 1)],
        [(line(2), 0), (line(2), 6)],
    ),
    "a fixed int input": Form(Repeated(), (line(2), 4), None, [(line(2), 4)], [(line(2), 5)]),
    "ShapesCollection": Form(Sum(), TWO, collection(TWO), BOTH_IN, BOTH_OUT),
    "AdditionalInputs": Form(Sum(), TWO, more_inputs(), [TWO, rows(5, 5), rows(7, 2)], [(*rows(3), line(3))]),
    "constraints": Form(
        Sum(),
        TWO,
        ({0: B}, {0: C}),
        [rows(3, 4), rows(8, 1), rows(2, 7)],
        [rows(4, 3), rows(3, 8), rows(1, 2)],
        constraints=("b*c <= 16", "(b + c) % 3 != 1 or c == 4", "b != 1"),
    ),
    "an equality by constraints": Form(
        Sum(), rows(2, 4), ({0: B}, {0: C}), [rows(1, 2), rows(4, 8)], [rows(2, 3)], constraints=("c == 2*b",)
    ),
    "no example": Form(
        Sum(), (TensorSpec(torch.float32, (B, 3)), TensorSpec(torch.float32, (C, 3))), None, BOTH_IN, BOTH_OUT
    ),
    "one example": Form(Sum(), (TWO[0], TensorSpec(torch.float32, (C, 3))), ({0: B}, None), BOTH_IN, BOTH_OUT),
    "variadic inputs": Form(
        Spread(), (line(3), line(4)), (({0: B}, {0: C}),), [(line(1), line(8))], [(line(0), line(8)), (line(3),)]
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_proved_serves_its_domain_and_refuses_the_rest(name):
    form = FORMS[name]
    report = check(form.mod, form.args, form.kwargs, dynamic_shapes=form.shapes, constraints=form.constraints)
    assert report.status == "proved", str(report)
    run = report.program.module()
    for inputs in form.inside:
        assert agree(form.mod, run, inputs)
    for inputs in form.outside:
        assert outcome(run, inputs) == RAISES


def test_nested_inputs_and_keywords():
    shapes = {"tree": {"a": [{0: B}, {"b": {0: C}}]}, "scale": None}
    scale = {"scale": torch.tensor(2.0)}
    program = export(Nested(), (tree(3, 4),), scale, dynamic_shapes=shapes)
    assert program.report.status == "proved"
    for a, b in [(1, 1), (8, 8), (1, 8)]:
        assert agree(Nested(), program.module(), (tree(a, b),), scale)
    assert outcome(program.module(), (tree(9, 4),), scale) == RAISES
    assert any("tree['a'][0].shape[0]" in text for text in program.report.domain)


def test_keywords_in_another_order_than_the_signature():
    args = {"y": rows(4)[0], "x": rows(3)[0]}
    program = export(Sum(), (), args, dynamic_shapes={"x": {0: B}, "y": {0: C}})
    assert program.report.status == "proved"
    for x, y in BOTH_IN:
        assert agree(Sum(), program.module(), (), {"y": y, "x": x})


def test_a_keyword_without_an_entry_is_static():
    """A call has many options; a spec names the dynamic ones."""
    args = {"y": rows(4)[0], "x": rows(3)[0]}
    report = check(Sum(), (), args, dynamic_shapes={"x": {0: B}})
    assert (report.status, [str(each) for each in report.contract.inputs[1].sizes]) == ("proved", ["b", "3"])
    assert report.contract.accepts(x=rows(8)[0], y=rows(4)[0])
    assert not report.contract.accepts(x=rows(8)[0], y=rows(3)[0])
    with pytest.raises(UsageError, match="names \\['x', 'z'\\], but the inputs are \\['x', 'y'\\]"):
        check(Sum(), (), args, dynamic_shapes={"x": {0: B}, "z": None})


def test_a_nested_keyword_without_an_entry_is_static():
    class Nested(torch.nn.Module):
        def forward(self, x, *, parts):
            return x * parts["pair"][0].sum() + parts["times"]

    parts = {"pair": [torch.ones(2), None], "times": 5}
    report = check(Nested(), (torch.ones(3),), {"parts": parts}, dynamic_shapes={"x": {0: B}})
    assert report.status == "proved"
    assert report.contract.accepts(torch.ones(8), parts=parts)
    assert not report.contract.accepts(torch.ones(8), parts={**parts, "pair": [torch.ones(3), None]})


class More(torch.nn.Module):
    def forward(self, x, **more):
        return x * 2 + sum(each.sum() for each in more.values())


def test_further_keywords_without_an_entry_are_static():
    program = export(More(), rows(4), {"y": rows(3)[0], "z": rows(2)[0]}, dynamic_shapes={"x": {0: B}})
    assert program.report.status == "proved"
    assert agree(More(), program.module(), rows(8), {"y": rows(3)[0], "z": rows(2)[0]})
    assert outcome(program.module(), rows(8), {"y": rows(4)[0], "z": rows(2)[0]}) == RAISES


@pytest.mark.parametrize("sizes", [(1, 1), (0, 1), (2, 2), (3, 4)])
def test_the_sizes_of_the_example_do_not_matter(sizes):
    """An example of batch 1, an empty one or one with accidental equalities specialises nothing."""
    shapes = ({0: Dim("b", min=0, max=8)}, {0: Dim("c", min=0, max=8)})
    report = check(Sum(), rows(*sizes), dynamic_shapes=shapes)
    assert report.status == "proved"
    assert all(agree(Sum(), report.program.module(), inputs) for inputs in [*BOTH_IN, rows(0, 0)])


def test_what_is_inferred_is_said_and_contains_the_example():
    report = check(Interleaved(), (line(3), line(7)), dynamic_shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}})
    assert report.status == "proved"
    assert any("inferred" in note for note in report.notes)
    run = report.program.module()
    for x, y in [(3, 7), (5, 11), (4, 9)]:
        assert agree(Interleaved(), run, (line(x), line(y)), may_refuse=(x, y) != (3, 7))


def test_a_dim_without_bounds_reaches_from_zero_on():
    report = check(Sum(), TWO, dynamic_shapes=({0: Dim("b")}, {0: Dim("c")}))
    assert report.status == "proved"
    assert all(agree(Sum(), report.program.module(), inputs) for inputs in [*BOTH_IN, rows(0, 0), rows(900, 0)])


# ---------------------------------------------------------------------- what is done with a program


@pytest.fixture(scope="module")
def program():
    return export(Sum(), TWO, dynamic_shapes=({0: B}, {0: C}), constraints=("b*c <= 32",))


def test_it_is_an_exported_program(program):
    assert isinstance(program, ExportedProgram)


def loaded(program):
    """After a round trip through a file."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer).module()


@pytest.mark.parametrize(
    "use",
    [
        loaded,
        lambda program: torch.export.unflatten(
            copy.deepcopy(program)
        ),  # torch's leaves a program that cannot be copied
        lambda program: copy.deepcopy(program).module(),
        lambda program: copy.deepcopy(program.module()),
        lambda program: program.run_decompositions({}).module(),
    ],
    ids=["save and load", "unflatten", "deepcopy", "deepcopy of the module", "run_decompositions"],
)
def test_a_program_keeps_its_domain_whatever_is_done_with_it(program, use):
    run = use(program)
    for inputs in (rows(1, 1), rows(8, 4), rows(4, 8)):
        assert agree(Sum(), run, inputs)
    for inputs in (rows(8, 5), rows(9, 1), rows(0, 1)):
        assert outcome(run, inputs) == RAISES


def test_a_copy_keeps_its_report(program):
    assert copy.deepcopy(program).report == program.report


def test_a_report_is_read_back_as_it_was_saved(program, tmp_path):
    program.report.save(tmp_path / "report.json")
    loaded = load_report(tmp_path / "report.json")
    assert loaded == program.report
    assert str(loaded) == str(program.report)
    assert loaded.program is None


class Branching(torch.nn.Module):
    def forward(self, x):
        return x * 100 if x.shape[0] == 1 else x.view(-1, 4)


def test_a_report_of_what_was_refuted_is_read_back_too(tmp_path):
    report = check(Branching(), (line(8),), dynamic_shapes=({0: B},))
    assert report.status == "refuted"
    report.save(tmp_path / "report.json")
    assert load_report(tmp_path / "report.json") == report


class Pads(torch.nn.Module):
    def forward(self, x, more):
        return torch.nn.functional.pad(x, (0, more[0]))


def test_a_collection_names_an_int_by_the_wrapper_that_torch_documents():
    """The fault: `dynamic_shapes gives DimHint(DYNAMIC) for k, which has no sizes`. Torch takes the wrapped input."""
    wrapped = torch.utils._pytree.tree_map_only(int, _IntWrapper, (torch.ones(3, 4), [3]))
    shapes = ShapesCollection()
    shapes[wrapped[1][0]] = Dim.DYNAMIC
    torchs = torch.export.export(Pads(), wrapped, dynamic_shapes=shapes).module()
    program = export(Pads(), wrapped, dynamic_shapes=shapes)
    assert program.report.status == "proved"
    for more in (0, 2, 5):
        x = torch.ones(3, 4)
        assert program.module()(x, [more]).shape == torchs(x, [more]).shape == (3, 4 + more)
