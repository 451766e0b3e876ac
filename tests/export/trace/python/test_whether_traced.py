"""Models that ask whether they are traced, and lay their results otherwise in memory: values alone do not tell."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch.compiler import is_exporting
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from shapeproof.export.explore.beside_eager.laid_out import laid_otherwise
from tests.tiny_models import Attends

ROWS = ({0: Dim("rows", min=0, max=9)},)


class Asking(torch.nn.Module):
    """Gives one thing in eager, and another where it is traced."""

    def __init__(self, eager, traced):
        super().__init__()
        self.eager, self.traced = eager, traced

    def forward(self, x):
        if torch.compiler.is_exporting():
            return self.traced(x)
        return self.eager(x)


class AsksByName(torch.nn.Module):
    def forward(self, x):
        return x + 1 if is_exporting() or torch.compiler.is_compiling() else 1 + x


def column_major(x):
    return (x + 1).t().contiguous().t()


DIFFERENT = {
    "strides": (lambda x: x + 1, column_major, "eager returns strides [4, 1], the program [1, 3]"),
    "an input": (lambda x: x, lambda x: x.clone(), "eager returns an input, or a part of one, as result 0"),
    "a copy": (lambda x: x.clone(), lambda x: x[:], "the program returns an input, or a part of one, as result 0"),
    "one result twice": (lambda x: [x + 1] * 2, lambda x: [x + 1, x + 1], "eager returns another result, or a part"),
}


def said(report):
    return " ".join(str(report).split())


def test_what_lies_otherwise_in_eager_is_refuted():
    for name, (eager, traced, sentence) in DIFFERENT.items():
        report = check(Asking(eager, traced), (torch.randn(3, 4),), dynamic_shapes=ROWS)
        assert (report.status, report.program) == ("refuted", None), name
        assert f"results differ: {sentence}" in said(report), name


def test_what_lies_alike_is_proved_and_the_line_is_named():
    report = check(Asking(lambda x: x + 1, lambda x: 1 + x), (torch.randn(3, 4),), dynamic_shapes=ROWS)
    line = inspect.getsourcelines(Asking.forward)[1] + 1
    assert report.status == "proved"
    assert len(report.notes) == 1
    assert f"test_whether_traced.py:{line} asks whether it is traced (`is_exporting`)" in report.notes[0]


def test_a_function_that_is_imported_by_name_is_seen():
    (note,) = check(AsksByName(), (torch.randn(3, 4),), dynamic_shapes=ROWS).notes
    assert "(`is_exporting`)" in note


def test_a_model_that_does_not_ask_has_no_note():
    assert check(torch.nn.ReLU(), (torch.randn(3, 4),), dynamic_shapes=ROWS).notes == ()


def test_torch_answers_as_before():
    assert not torch.compiler.is_exporting()
    check(AsksByName(), (torch.randn(3, 4),), dynamic_shapes=ROWS)
    assert not torch.compiler.is_exporting()
    assert torch.compiler.is_exporting is is_exporting


def test_strides_that_reach_no_element_are_alike():
    x, other = torch.ones(40), torch.ones(40)
    for sizes, idle in (((1, 4), (9, 1)), ((4, 1), (4, 7)), ((0, 4), (7, 7))):
        assert laid_otherwise([], [x.as_strided(sizes, (4, 1))], [], [other.as_strided(sizes, idle)]) is None


class ReadsTheFlag(torch.nn.Module):
    def forward(self, x):
        return x + 1 if torch.compiler._is_compiling_flag else 1 + x


class ReadsTheFlagOfAName(torch.nn.Module):
    def forward(self, x):
        compiler = torch.compiler
        return x + 1 if compiler._is_exporting_flag else 1 + x


class AsksDynamo(torch.nn.Module):
    def forward(self, x):
        return x + 1 if torch._dynamo.is_compiling() else 1 + x


class AsksUtils(torch.nn.Module):
    def forward(self, x):
        return x + 1 if torch._utils.is_compiling() else 1 + x


@pytest.mark.parametrize("model", [ReadsTheFlag, ReadsTheFlagOfAName, AsksDynamo, AsksUtils])
def test_a_model_that_asks_by_another_way_is_noted(model):
    report = check(model(), (torch.randn(3, 4),), dynamic_shapes=ROWS)
    assert report.status == "proved"
    assert [note for note in report.notes if "asks whether it is traced" in note] == list(report.notes) != []


def test_a_flag_that_changes_the_result_refutes():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x * 2 if torch.compiler._is_compiling_flag else x

    report = check(Model(), (torch.randn(3, 4),), dynamic_shapes=ROWS)
    assert report.status == "refuted"


# ---------------------------------------------------------------------- torch.nn.MultiheadAttention


@pytest.mark.parametrize("gradients", [False, True])
def test_attention_lays_its_result_out_as_eager_does(gradients):
    """The fault: without gradients eager's is contiguous, the program's was not, and the model was refuted."""
    mod = Attends().eval()
    with torch.set_grad_enabled(gradients):
        report = check(mod, (torch.randn(2, 5, 8),), dynamic_shapes=({0: Dim("b", min=1, max=4)},))
        assert report.status == "proved", str(report)
        for rows in (1, 2, 4):
            x = torch.randn(rows, 5, 8)
            assert laid_otherwise([x], [mod(x)], [x], [report.program.module()(x)]) is None


def test_attention_under_a_mode_of_the_users_runs_as_there():
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    mod, x = Attends().eval(), torch.randn(2, 5, 8)
    with torch.no_grad(), Mode():
        report = check(mod, (x,), dynamic_shapes=({0: Dim("b", min=1, max=4)},))
        assert report.status == "proved", str(report)
        assert report.program.module()(x).stride() == mod(x).stride() == (8, 16, 1)


class Encodes(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 1, **options)

    def forward(self, x, padding):
        return self.encoder(x, src_key_padding_mask=padding)


PADDING = torch.tensor([[False, False, False, True, True], [False, False, False, False, True]])


def checked_encoder(mod):
    shapes = ({0: Dim("b", min=1, max=4)}, {0: Dim("b", min=1, max=4)})
    return check(mod, (torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.bool)), dynamic_shapes=shapes)


@torch.no_grad()
@pytest.mark.parametrize("mask_check", [True, False])
def test_an_encoder_that_packs_its_batch_in_eager_is_refused(mask_check):
    """The fault: proved with a mask that masks nothing; where one pads, eager gives zeros and the program did not."""
    mod = Encodes(mask_check=mask_check).eval()
    assert not mod(torch.randn(2, 5, 8), PADDING)[0, -1].any()
    with pytest.raises(UsageError, match="enable_nested_tensor=False"):
        checked_encoder(mod)


@pytest.mark.parametrize(("gradients", "nested"), [(False, False), (True, True)])
def test_an_encoder_that_does_not_pack_is_proved(gradients, nested):
    mod, x = Encodes(enable_nested_tensor=nested).eval(), torch.randn(2, 5, 8)
    with torch.set_grad_enabled(gradients):
        report = checked_encoder(mod)
        assert report.status == "proved", str(report)
        torch.testing.assert_close(report.program.module()(x, PADDING), mod(x, PADDING))
