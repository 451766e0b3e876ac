"""An exception that ends a check is said to be whose it is: the model's at its example, torch's, or ours."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import InternalError, UsageError
from shapeproof.export import ConstraintViolation, TensorSpec, check, export
from shapeproof.export.source.errors import raised_by_user
from tests.agreement import agree

X = torch.ones(3, 4)
B = Dim("b", min=1, max=8)


class OutOfPaperError(Exception):
    """An error that is the model's own."""


class Raising(torch.nn.Module):
    def forward(self, x):
        raise OutOfPaperError(f"for {x.shape[0]} rows")


def test_a_model_that_raises_for_the_example_is_refuted_with_what_it_raises():
    """The fault: check raised the model's exception, though it never raises for what it finds."""
    report = check(Raising(), (X,), dynamic_shapes={"x": {0: B}})
    assert report.status == "refuted"
    assert report.program is None
    (found,) = report.diagnostics
    assert (found.id, found.line) == ("example", Raising.forward.__code__.co_firstlineno + 1)
    assert found.witness == {"x.shape[0]": 3}
    assert "eager raises OutOfPaperError: for 3 rows" in str(report)


def test_a_violation_by_the_example_is_caused_by_what_the_model_raises():
    with pytest.raises(ConstraintViolation, match="OutOfPaperError: for 3 rows") as raised:
        export(Raising(), (X,), dynamic_shapes={"x": {0: B}})
    assert isinstance(raised.value.__cause__, OutOfPaperError)


@pytest.mark.parametrize("branches", ["error", "split"])
def test_what_eager_raises_for_an_example_without_dynamic_sizes_is_shown(branches):
    report = check(Raising(), (X,), branches=branches)
    assert [each.id for each in report.diagnostics] == ["example"]
    assert "fails at  the example   replayed; eager raises OutOfPaperError" in str(report)


def test_a_model_that_raises_without_an_example_is_refuted_with_what_it_raises():
    spec = (TensorSpec(torch.float32, (B, 4)),)
    assert "x.shape[0] = 1   replayed; eager raises OutOfPaperError: for 1 rows" in str(check(Raising(), spec))
    with pytest.raises(ConstraintViolation) as raised:
        export(Raising(), spec)
    assert isinstance(raised.value.__cause__, OutOfPaperError)


class Multiplies(torch.nn.Module):
    def forward(self, x):
        return x @ torch.ones(7, 2)


def test_what_an_operator_raises_for_the_example_is_what_eager_raises():
    """The fault: `got [s10, 4] X [7, 2]`."""
    report = check(Multiplies(), (torch.ones(3, 4),), dynamic_shapes={"x": {0: Dim("n")}})
    assert re.search(r"eager raises RuntimeError: .*\(3x4\s+and\s+7x2\)", str(report), re.DOTALL)


def raised(function):
    with pytest.raises((AssertionError, RuntimeError)) as caught:
        function()
    return caught.value


def test_a_check_that_the_model_calls_is_its_own_and_that_of_an_operator_is_not():
    """An operator's fake kernel calls torch._check, too, and may refuse what eager takes."""
    x = torch.ones(2, 3, device="meta")
    assert raised_by_user(raised(lambda: torch._check(x.shape[0] == 3)))
    assert raised_by_user(raised(lambda: torch._assert(x.shape[0] == 3, "")))
    assert not raised_by_user(raised(lambda: torch.mm(x, x)))
    assert not raised_by_user(raised(lambda: torch.ops.aten.cat([x, x.t()])))


MADE_OF_BOOLS = {
    "bool": lambda x: torch._assert(bool((x < 5).all()), "too large"),
    "not": lambda x: torch._assert(not (x >= 5).any(), "too large"),
    "and": lambda x: torch._assert(bool((x < 5).all()) and bool((x > -5).all()), "too large"),
    "torch._check": lambda x: torch._check(bool((x < 5).all()), lambda: "too large"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("guard", MADE_OF_BOOLS.values(), ids=MADE_OF_BOOLS)
def test_a_check_of_pythons_bool_is_the_models_own(guard):
    """The fault: `bool` asked for the answer, and the exception on the other side counted as torch's."""

    class Model(torch.nn.Module):
        def forward(self, x):
            guard(x)
            return x + 1

    report = check(Model(), (torch.zeros(3),), dynamic_shapes=({0: Dim("n", min=0, max=16)},))
    assert report.status == "proved", str(report)
    for rows in itertools.chain.from_iterable(itertools.product((0.0, 7.0, -7.0), repeat=n) for n in range(4)):
        assert agree(Model(), report.program.module(), (torch.tensor(rows),))


class Branches(torch.nn.Module):
    def forward(self, x):
        return torch.mul(x, 2) if x.shape[0] > 3 else x.view(2, -1)


PLANTED = [
    "shapeproof.export.verify.conclude",
    "shapeproof.export.explore.explorer.Explorer.run",
    "shapeproof.export.trace.shape_env.ProofShapeEnv.called",
    "shapeproof.export.trace.calls.operators.Operators.run",
    "shapeproof.export.trace.trial.Trial.choose",
]


@pytest.mark.parametrize("where", PLANTED)
@pytest.mark.parametrize("given", [torch.ones(4), TensorSpec(torch.float32, (Dim("n", min=2, max=6),))])
def test_a_mistake_of_ours_is_said_to_be_ours(monkeypatch, where, given):
    """The fault: of any exception, torch was said to be unable to trace the model."""
    monkeypatch.setattr(where, None)
    shapes = None if isinstance(given, TensorSpec) else ({0: Dim("n", min=2, max=6)},)
    with pytest.raises(InternalError, match=r"^a mistake of shapeproof, .* please report it") as raised:
        check(Branches(), (given,), dynamic_shapes=shapes)
    (sentence,) = str(raised.value).splitlines()
    assert "torch" not in sentence.partition(": return ")[0]
    assert isinstance(raised.value.__cause__, TypeError)
    assert re.search(r"in \S*shapeproof\S+\.py:\d+", sentence)


class Forked(torch.nn.Module):
    """Uses an operator whose fake kernel is the user's, and wrong."""

    def forward(self, x):
        return torch.ops.shapeproof_bad_input.faulty(x)


@torch.library.custom_op("shapeproof_bad_input::faulty", mutates_args=())
def faulty(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@faulty.register_fake
def _(x):
    return x.no_such_method()


def test_a_mistake_in_a_users_fake_kernel_is_not_ours():
    with pytest.raises(UsageError, match=r"AttributeError: .*no_such_method.*return x\.no_such_method"):
        check(Forked(), (X,), dynamic_shapes={"x": {0: B}})


MIXED = {
    "product": lambda x: x @ torch.ones(4, 4).double(),
    "norm": lambda x: torch.nn.functional.layer_norm(x, (4,), torch.ones(4).double()),
    "indexed": lambda x: x.new_zeros(6, 4).index_add(0, torch.arange(x.shape[0]), x.double()),
}


def test_what_torch_cannot_trace_is_no_mistake_of_ours_where_ours_stands_for_torchs(monkeypatch):
    """The fault: a model was called a mistake of this package inside the exporters of transformers."""

    @torch.library.custom_op("whose::without_fake", mutates_args=())
    def without_fake(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    class Calls(torch.nn.Module):
        def forward(self, x):
            return without_fake(x)

    monkeypatch.setattr(torch.export, "export", export)
    with pytest.raises(UsageError, match="no fake impl registered"):
        torch.export.export(Calls(), (X,))


@pytest.mark.parametrize("branches", ["error", "split"])
@pytest.mark.parametrize("name", MIXED)
def test_a_model_whose_kernel_refuses_what_its_fake_takes_is_refuted(name, branches):
    """The fault: eager and the program raised alike at every point, and the model was called proved."""
    mod = type("Mixed", (torch.nn.Module,), {"forward": lambda _, x: MIXED[name](x)})()
    report = check(mod, (torch.ones(3, 4),), dynamic_shapes={"x": {0: Dim("n", min=0, max=6)}}, branches=branches)
    assert report.status == "refuted"
    assert [each.id for each in report.diagnostics] == ["example"]


class NoSizeFits(torch.nn.Module):
    def forward(self, x):
        return x.flatten().view(x.shape[0], x.shape[1] + 1)


def test_a_model_that_no_size_fits_is_refuted_in_the_words_of_eager():
    """The fault: without an example, `shape '[s77, s27 + 1]' is invalid for input of size s27*s77` was raised."""
    sizes = Dim("a", min=1, max=9), Dim("b", min=1, max=9)
    report = check(NoSizeFits(), (TensorSpec(torch.float32, sizes),))
    assert report.status == "refuted"
    (found,) = report.diagnostics
    assert (found.id, found.message) == ("example", "the model raises for each of the smallest declared sizes")
    assert "shape '[1, 2]' is invalid for input of size 1" in found.notes[0].text
    assert found.witness == {"x.shape[0]": 1, "x.shape[1]": 1}
    fixed = check(torch.nn.Linear(4, 3), (TensorSpec(torch.float32, (2, 5)),))
    assert (fixed.status, fixed.diagnostics[0].id) == ("refuted", "example")
