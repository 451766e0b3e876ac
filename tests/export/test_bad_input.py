"""Invalid input gets one sentence that names the entry at fault, before the model is touched."""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib.metadata
import re
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch._dynamo.exc import UserError, UserErrorType
from torch.export import Dim

import shapeproof.export
from shapeproof.constraints.errors import UsageError
from shapeproof.export import ConstraintViolation, OutsideDomain, TensorSpec, check, export, load_report
from shapeproof.seen import Seen
from tests.calling import Calls


class Untouched(torch.nn.Module):
    """Fails the test if it is run or traced."""

    def forward(self, x, y=None, n=1, s="mean"):
        pytest.fail(f"the model was run on {x}, {y}, {n}, {s}")


class Added(torch.nn.Module):
    def forward(self, x, y, z):
        return x + 1, y, z


class AddedToOne(torch.nn.Module):
    def forward(self, x, mode):  # noqa: ARG002
        return x + 1


class Color(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


X = torch.ones(3, 4)
B = Dim("b", min=1, max=8)


def crossed():
    """A Dim whose bounds cross; torch makes none, but lets them be set."""
    dim = Dim("b")
    dim.min, dim.max = 9, 8
    return dim


CONSTRAINTS = {
    "b <= batch": "constraint 'b <= batch' names `batch`, but no dim has that name",
    "bb < 9": "constraint 'bb < 9' names `bb`, but no dim has that name; did you mean `b`?",
    "b <= ": "constraint 'b <= ' cannot be read: ",
    "x.shape[1] == 4": "constraint 'x.shape[1] == 4' names `x.shape[1]`, but no dim has that name",
    "b + 1": "constraint 'b + 1'",
}


@pytest.mark.quick
@pytest.mark.parametrize("text", CONSTRAINTS)
def test_a_constraint_names_declared_dims_and_can_be_read(text):
    assert sentence((X,), {"x": {0: B}}, constraints=(text,)).startswith(CONSTRAINTS[text])


@pytest.mark.thorough
def test_without_an_example_the_solver_must_find_sizes():
    dims = [Dim(name, min=1) for name in "abc"]
    with pytest.raises(UsageError, match=r"found no sizes that satisfy all .* no proof that there are none"):
        check(Added(), tuple(TensorSpec(torch.float32, (d,)) for d in dims), constraints=("a**3 + b**3 == c**3",))


@pytest.mark.thorough
def test_with_an_example_the_solver_need_not_find_sizes():
    dims = [Dim(name, min=1) for name in "abc"]
    args, shapes = tuple(torch.ones(n) for n in (3, 4, 5)), tuple({0: dim} for dim in dims)
    report = check(Added(), args, dynamic_shapes=shapes, constraints=("a**3 + b**3 + 34 == c**3",))
    assert report.status in {"proved", "undecided"}


AT_THE_EXAMPLE = {
    "b < 10**10**10": "'b < 10**10**10' cannot be evaluated at the example: a power of so many digits is not computed",
    "8 // (b - 3) >= 0": "the example has x.shape[0] = 3, but 8//(x.shape[0] - 3) >= 0 is declared",
}


@pytest.mark.quick
@pytest.mark.parametrize("text", AT_THE_EXAMPLE)
def test_a_constraint_has_a_value_at_the_example(text):
    assert sentence((X,), {"x": {0: B}}, constraints=(text,)) == AT_THE_EXAMPLE[text]


@pytest.mark.quick
@pytest.mark.parametrize("constraints", ["b < 3", (True,), 3])
def test_constraints_are_texts(constraints):
    assert sentence((X,), {"x": {0: B}}, constraints=constraints).startswith("constraints must be a sequence of texts")


SHAPES = {
    "min > max": ({0: crossed()}, "`x.shape[0]` has min=9 greater than max=8"),
    "min < 0": ({0: Dim("b", min=-3, max=8)}, "min=-3"),
    "no such dimension": ({2: B}, "dynamic_shapes names dimension 2 of `x`, which has 2"),
    "not a dimension": ({"0": B}, "dynamic_shapes names dimension '0' of `x`, which has 2"),
    "twice the same": ({0: B, -2: Dim("c")}, "dynamic_shapes names a dimension of `x` twice"),
    "too few": ([B], "dynamic_shapes gives 1 entries for `x`, which has 2 dimensions"),
    "too many": ((B, None, None), "dynamic_shapes gives 3 entries for `x`, which has 2 dimensions"),
    "no dim": ({0: "b"}, "dynamic_shapes gives 'b' for `x.shape[0]`: expected None, an int, a Dim, or a Dim hint"),
    "a class": ({1: Dim}, "for `x.shape[1]`: expected None, an int, a Dim, or a Dim hint"),
    "nested": ({0: {0: B}}, "for `x.shape[0]`: expected None, an int, a Dim, or a Dim hint"),
    "another size": ({1: 5}, "`x.shape[1]` is declared to be 5, but the example has 4"),
    "another form": ({0: 2 * Dim("k")}, "the example has x.shape[0] = 3, which is not of the declared form 2*k"),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", SHAPES)
def test_an_entry_fits_its_tensor(case):
    entry, expected = SHAPES[case]
    assert expected in sentence((X,), {"x": entry})


TREES = {
    "other names": ((X,), {"z": {0: B}}, "dynamic_shapes names ['z'], but the inputs are ['x']"),
    "more names": ((X,), {"x": {0: B}, "z": None}, "dynamic_shapes names ['x', 'z'], but the inputs are ['x']"),
    "fewer names": (
        (X, X),
        {"y": {0: B}},
        """but the inputs are ['x', 'y']: add "x": None, which makes sizes constant""",
    ),
    "more entries": ((X,), ({0: B}, None), "dynamic_shapes has 2 entries for 1 inputs (x)"),
    "no tree": ((X,), B, "dynamic_shapes must be a dict, a tuple or a list, not Dim"),
    "fewer in a list": (([X, X],), {"x": [{0: B}]}, "`inputs['x']` has 2 elements, but `dynamic_shapes['x']` has 1"),
    "a dict for a list": (
        ([X, X],),
        {"x": {0: B}},
        "match the inputs: `inputs['x']` is a list, but `dynamic_shapes['x']` is a dict",
    ),
    "a tuple for a named one": ((Pair(X, X),), {"x": ({0: B}, {0: B})}, "`inputs['x']` is a namedtuple, but"),
    "missing in a dict": (({"k": X, "q": X},), {"x": {"k": {0: B}}}, "`dynamic_shapes['x']`"),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", TREES)
def test_shapes_have_the_structure_of_the_inputs(case):
    args, shapes, expected = TREES[case]
    assert expected in sentence(args, shapes)


UNFIT = {"`Color.RED`": Color.RED, "`numpy.ndarray`": np.ones(3), "`set`": {1}}


@pytest.mark.quick
@pytest.mark.parametrize("name", UNFIT)
def test_an_input_is_of_a_class_that_a_program_takes(name):
    """The fault: torch's own words, such as `Unfamiliar meta val: Color.RED`."""
    with pytest.raises(UsageError, match=f"runs in eager: an input is {re.escape(name)}: expected tensors"):
        check(AddedToOne(), (X, UNFIT[name]), dynamic_shapes={"x": {0: B}, "mode": None})


SIZELESS = {
    "a text": ((X, X, 1, "sum"), "s", Dim.AUTO, "DimHint(AUTO) for `s`, which has no sizes (str)"),
    "a float": ((X, X, 1.5), "n", Dim.DYNAMIC, "DimHint(DYNAMIC) for `n`, which has no sizes (float)"),
    "a bool": ((X, X, True), "n", Dim.AUTO, "DimHint(AUTO) for `n`, which has no sizes (bool)"),
    "None": ((X, None), "y", {0: B}, "for `y`, which has no sizes (NoneType)"),
    "an int with dimensions": ((X, X, 4), "n", {0: B}, "for `n`: expected None, an int, a Dim, or a Dim hint"),
    "an int of a Dim": ((X, X, 4), "n", Dim("k", max=3), "the example has n = 4, but n <= 3 is declared"),
    "another int": ((X, X, 4), "n", 5, "`n` is declared to be 5, but the example has 4"),
    "a scalar tensor": ((X, torch.tensor(1.0)), "y", {0: B}, "dimension 0 of `y`, which has 0"),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", SIZELESS)
def test_an_input_without_sizes_takes_no_dynamic_entry(case):
    args, name, entry, expected = SIZELESS[case]
    names = ("x", "y", "n", "s")[: len(args)]
    assert expected in sentence(args, dict.fromkeys(names) | {name: entry})


def test_one_name_has_one_meaning():
    shapes = {"x": {0: B}, "y": {0: Dim("b", min=1, max=9)}}
    expected = '`b` is declared twice, as Dim("b", min=1, max=8) and as Dim("b", min=1, max=9)'
    assert sentence((X, X), shapes) == expected


def test_a_shared_dim_has_one_size_in_the_example():
    shapes = {"x": {0: B}, "y": {0: B}}
    assert sentence((X, torch.ones(5)), shapes) == "the example has y.shape[0] = 5, but elsewhere `b` is 3"


@pytest.mark.quick
@pytest.mark.parametrize(("rows", "constraints"), [(9, ()), (0, ()), (3, ("b % 2 == 0",))])
def test_the_example_lies_in_the_domain(rows, constraints):
    assert f"x.shape[0] = {rows}" in sentence((torch.ones(rows, 4),), {"x": {0: B}}, constraints=constraints)


INPUTS = {
    "a list": ([X], None, "args must be a tuple of example inputs, not list"),
    "none": ((), None, "do not fit the model's forward: missing a required argument: 'x'"),
    "too many": ((X,) * 5, None, "do not fit the model's forward: too many positional arguments"),
    "an unknown keyword": ((X,), {"q": X}, "do not fit the model's forward: got an unexpected keyword argument 'q'"),
    "keywords in a list": ((X,), [X], "kwargs must be a dict"),
    "neither dim nor example": ((TensorSpec(torch.float32, (B, None)),), None, "`x.shape[1]` has neither"),
    "a negative size": ((TensorSpec(torch.float32, (B, -4)),), None, "`x.shape[1]`"),
}


@dataclasses.dataclass
class Hidden:
    """An input of a user's class, one of whose fields may be None."""

    a: torch.Tensor
    b: torch.Tensor | None = None


torch.export.register_dataclass(Hidden, serialized_type_name="Hidden")
ONE_ENTRY = "takes a list with one entry for each of a; a field that is None may have the entry None: got "
OBJECTS = {
    "an entry for a field that is None": ([{0: B}, {0: B}], f"`x` is a Hidden, which {ONE_ENTRY}[{{0: Dim("),
    "the same class": (Hidden({0: B}), f"{ONE_ENTRY}Hidden(a={{0: Dim("),
    "a dict": ({"a": {0: B}}, f"{ONE_ENTRY}{{'a': {{0: Dim("),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", OBJECTS)
def test_an_object_takes_a_list_of_its_contents(case):
    """The fault: `Node arity mismatch; expected 1, but got 2`."""
    entry, expected = OBJECTS[case]
    assert expected in sentence((Hidden(X),), {"x": entry})
    assert "`x['k'][0]` is a Hidden" in sentence(({"k": [Hidden(X)]},), {"x": {"k": [entry]}})


@pytest.mark.parametrize("place", [lambda each: each, lambda each: [each], lambda each: {"k": (each,)}])
def test_the_entry_of_a_field_that_is_none_may_be_none(place):
    """The fault: a spec with an entry for each field of a dataclass, as it is written down, was refused."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.utils._pytree.tree_leaves(x)[0] + 1

    for entry in ([{0: B}], [{0: B}, None]):
        report = check(Model(), (place(Hidden(X)),), dynamic_shapes={"x": place(entry)})
        assert report.status == "proved"
        assert report.program.module()(place(Hidden(torch.ones(7, 4)))).shape == (7, 4)


RAGGED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
FURTHER = {
    "another rank": ((torch.ones(3),), "additional input 1 has `x` of rank 1, the example 2"),
    "another dtype": ((X.double(),), "has `x` of dtype torch.float64, the example torch.float32"),
    "a nested tensor": ((RAGGED,), "has `x` of layout nested, the example torch.strided"),
    "a number": ((3,), "has `x` of type int, the example Tensor"),
    "an input more": ((X, X), "additional input 1 has `y`, unlike the example"),
    "a list": (([X],), "additional input 1 has no `x`, unlike the example"),
    "too many": ((X,) * 5, "additional input 1: the inputs do not fit the model's forward: too many positional"),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", FURTHER)
def test_an_additional_input_is_like_the_example(case):
    """The fault: `Node arity mismatch; expected 1, but got 2`, or what torch raises at a nested tensor's sizes."""
    further, expected = FURTHER[case]
    shapes = torch.export.AdditionalInputs()
    shapes.add(further)
    assert expected in sentence((X,), shapes)


def test_an_additional_input_has_the_examples_constants():
    shapes = torch.export.AdditionalInputs()
    shapes.add((X, None, 1, "mean"))
    assert sentence((X, None, 1, "sum"), shapes) == "additional input 1 has `s` of value 'mean', the example 'sum'"


def test_a_nested_tensor_is_outside_every_domain():
    """The fault: `NestedTensorImpl doesn't support sizes`."""
    program = export(torch.nn.Flatten(0), (X,), dynamic_shapes={"input": {0: B}})
    expected = "input.layout = nested, but input.layout == strided is declared"
    for given in (RAGGED, torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged)):
        assert program.report.accepts(given).why == expected
        with pytest.raises(OutsideDomain, match=r"input\.layout = "):
            program.module()(given)
        with pytest.raises(UsageError, match="expected sizes that are ints, got"):
            Seen().add((given,))


@pytest.mark.quick
@pytest.mark.parametrize("case", INPUTS)
def test_inputs_fit_the_model(case):
    args, kwargs, expected = INPUTS[case]
    assert expected in sentence(args, None, kwargs=kwargs)


def test_a_builtin_function_is_no_model():
    """Python does not tell its parameters."""
    refused = refusal(lambda: check(Calls(torch.nonzero), (X,)))
    assert refused.startswith("the inputs do not fit the model's forward: no signature found for builtin")


def test_a_tensor_without_an_example_has_a_dtype_and_dims():
    assert (
        refusal(lambda: TensorSpec("float32", (B,))) == "the dtype of a TensorSpec must be a torch.dtype, not 'float32'"
    )
    assert refusal(lambda: TensorSpec(torch.float32, 4)) == "the dims of a TensorSpec must be a tuple, not 4"


def test_a_strict_export_is_refused_with_the_reason():
    expected = "strict=True is refused: Dynamo decides on sizes before a solver can be asked; leave it out"
    assert sentence((X,), {"x": {0: B}}, strict=True) == expected


def test_a_budget_is_a_budget():
    expected = "budget must be a Budget, such as Budget(rlimit=30_000_000), not 1000"
    assert sentence((X,), {"x": {0: B}}, budget=1000) == expected


REPORTS = {
    b"": "is not a saved report",
    b"\xff\xfe": "is not a saved report",
    b"[]": "is not a saved report",
    b"{}": "is not a saved report",
    b'{"format": 3}': "is not a saved report",
    b'{"format": 2}': "is a report of format 2; this release reads format 3",
}


@pytest.mark.quick
@pytest.mark.parametrize("content", REPORTS)
def test_a_file_that_is_no_report_of_this_release(tmp_path, content):
    path = tmp_path / "report.json"
    path.write_bytes(content)
    assert refusal(lambda: load_report(path)) == f"{path} {REPORTS[content]}"


def test_a_report_that_cannot_be_read(tmp_path):
    assert refusal(lambda: load_report(tmp_path)) == f"{tmp_path} cannot be read: Is a directory"


def test_a_model_is_a_module():
    assert "Module" in refusal(lambda: check(torch.sin, (X,)))


@pytest.mark.quick
@pytest.mark.parametrize("branches", ["merge", None])
def test_branches_is_one_of_two_words(branches):
    assert "branches" in sentence((X,), None, branches=branches)


def test_strict_tracing_is_refused():
    """Dynamo makes a ShapeEnv of its own, so nothing could be proved of what it traces."""
    assert "strict=True" in sentence((X,), {"x": {0: B}}, strict=True)


@pytest.mark.quick
@pytest.mark.parametrize("version", ["2.12.1", "2.16.0", "2.130.0", "3.13.0"])
@pytest.mark.parametrize("name", ["check", "export", "TensorSpec"])
def test_another_torch_is_refused_with_the_supported_ones(monkeypatch, name, version):
    """When a name is asked for, that is: private names of torch may be missing before anything can be called."""
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    expected = f"torch {version} is not supported; supported: 2.13.x, 2.14.x, 2.15.x"
    assert refusal(lambda: getattr(shapeproof.export, name)) == expected


@pytest.mark.quick
@pytest.mark.parametrize("version", ["2.13.0", "2.13.1+cu130", "2.13.0a0+git1234567", "2.14.0", "2.15.0+cu132"])
def test_every_build_of_a_supported_torch_is_taken(monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    assert shapeproof.export.check is check


def sentence(args, shapes, **options):
    """What is said of these arguments; `export` says the same as `check`."""
    calls = [functools.partial(entry, Untouched(), args, dynamic_shapes=shapes, **options) for entry in (check, export)]
    texts = set(map(refusal, calls))
    assert len(texts) == 1
    return texts.pop()


def refusal(call):
    with pytest.raises(UsageError) as raised:
        call()
    text = str(raised.value)
    assert text
    assert "\n" not in text
    return text


# ---------------------------------------------------------------------- empty domains


VACUOUS = {
    "a bound and a constraint": ({"x": {0: B}}, ("b > 8", "b < 100"), ("b", "> 8", "<= 8")),
    "two constraints": ({"x": {0: B, 1: Dim("c")}}, ("b > c", "c > b"), ("b > c", "c > b")),
    "divisibility": ({"x": {0: Dim("b", min=5, max=7)}}, ("b % 4 == 0",), ("b % 4 == 0",)),
    "one constraint alone": ({"x": {0: B}}, ("2*b == 7",), ("2*b == 7",)),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", VACUOUS)
def test_an_empty_domain_is_vacuous_and_names_what_clashes(case):
    shapes, constraints, named = VACUOUS[case]
    report = check(Untouched(), (X,), dynamic_shapes=shapes, constraints=constraints)
    assert (report.status, report.program) == ("vacuous", None)
    (diagnostic,) = report.diagnostics
    assert diagnostic.id == "vacuous"
    said = str(report)
    assert all(text in said for text in named)
    assert "< 100" not in said  # what does not clash is not named
    assert "False" not in said


@pytest.mark.quick
@pytest.mark.parametrize("case", VACUOUS)
def test_exporting_over_an_empty_domain_is_a_violation(case):
    shapes, constraints, _ = VACUOUS[case]
    with pytest.raises(ConstraintViolation) as raised:
        export(Untouched(), (X,), dynamic_shapes=shapes, constraints=constraints)
    assert raised.value.report.status == "vacuous"


# ---------------------------------------------------------------------- violations


class Branching(torch.nn.Module):
    def forward(self, x):
        return x * 100 if x.shape[0] == 1 else x + 1


def test_a_violation_is_caught_by_code_written_for_torch_export():
    with pytest.raises(UserError) as raised:
        export(Branching(), (X,), dynamic_shapes={"x": {0: B}})
    violation = raised.value
    assert isinstance(violation, ConstraintViolation)
    assert violation.error_type == UserErrorType.CONSTRAINT_VIOLATION
    assert violation.report.status == "refuted"
    assert violation.report.program is None
    assert str(violation.report) in str(violation)


class Cache:
    def __init__(self, keys):
        self.keys = keys


class FillsACache(torch.nn.Module):
    def forward(self, x):
        return x + 1, Cache([x])


def test_a_container_that_torch_does_not_know_is_refused_with_what_registers_it():
    with pytest.raises(UsageError, match=r"returns a `[\w.]*Cache`, a container .*register_pytree_node") as raised:
        check(FillsACache(), (torch.ones(3),), dynamic_shapes={"x": {0: Dim.AUTO}})
    assert len(str(raised.value).splitlines()) == 1
    torch.utils._pytree.register_pytree_node(Cache, lambda cache: ([cache.keys], None), lambda keys, _: Cache(*keys))
    assert check(FillsACache(), (torch.ones(3),), dynamic_shapes={"x": {0: Dim.AUTO}}).status == "proved"


class Untraceable(torch.nn.Module):
    def forward(self, x):
        return torch.from_numpy(x.numpy() + 1)


@pytest.mark.quick
@pytest.mark.parametrize("entry", [check, export])
def test_what_torch_cannot_trace_is_said_in_one_sentence_with_the_line(entry):
    with pytest.raises(UsageError, match=r"^torch cannot trace the model, which runs in eager: \w+: ") as raised:
        entry(Untraceable(), (torch.ones(3),), dynamic_shapes={"x": {0: B}})
    (sentence,) = str(raised.value).splitlines()
    assert sentence.endswith("return torch.from_numpy(x.numpy() + 1)")
