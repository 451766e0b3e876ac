"""Models whose tensors have no data, on the device `meta` or fake, are exported as torch.export exports them."""

from __future__ import annotations

import contextlib
import io

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_map_only

from benchmarks.models import EXAMPLES, FIRST_HOUR, TRANSFORMERS
from shapeproof.constraints.errors import UsageError
from shapeproof.export import TensorSpec, check, export
from tests.thoroughness import examples

BATCH = Dim("b", min=0, max=8)
NOTE = "not compared by values: the model holds no data ({})"
META, FAKE = NOTE.format("device meta"), NOTE.format("fake tensors")


class Layer(torch.nn.Module):
    """A layer, a buffer, and a tensor that is neither parameter nor buffer."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.register_buffer("count", torch.tensor(1))
        self.register_buffer("unsaved", torch.ones(3), persistent=False)
        self.held = [torch.ones(3)]

    def forward(self, x):
        return torch.relu(self.layer(x)) * self.held[0] + self.unsaved + self.count


class Item(torch.nn.Module):
    def forward(self, x, n):
        return x[:, : n.item()]


class Tokens(torch.nn.Module):
    """Looks up tokens, gathers by them, and indexes by them."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 4)

    def forward(self, tokens, columns):
        return self.table(tokens).gather(1, columns)[tokens]


def on_meta(build):
    with torch.device("meta"):
        return build()


def under_fakes(build):
    with FakeTensorMode():
        return build()


WITHOUT_DATA = {META: on_meta, FAKE: under_fakes}


@pytest.mark.parametrize("note", WITHOUT_DATA, ids=("meta", "fake"))
def test_a_model_without_data_is_proved_and_the_report_says_what_was_not_compared(note):
    model, x = WITHOUT_DATA[note](lambda: (Layer(), torch.ones(3, 4)))
    program = export(model, (x,), dynamic_shapes=({0: BATCH},))
    assert (program.report.status, note in program.report.notes) == ("proved", True)
    assert program.module()(x).shape == (3, 3)
    assert program.state_dict["layer.weight"].device == model.layer.weight.device
    assert program.run_decompositions().report.notes == program.report.notes


class Planted(torch.nn.Module):
    """Layers, one of which scales otherwise while torch traces it."""

    def __init__(self, planted):
        super().__init__()
        self.planted = planted
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            other = index == self.planted and torch.compiler.is_compiling()
            x = x + layer(x) * (0.5 if other else 0.25)
        return x


@pytest.mark.parametrize("note", WITHOUT_DATA, ids=("meta", "fake"))
@pytest.mark.parametrize(("planted", "status"), [(None, "proved"), (4, "undecided")])
def test_another_constant_in_one_layer_of_the_trace_is_no_proof(planted, status, note):
    model, x = WITHOUT_DATA[note](lambda: (Planted(planted), torch.ones(3, 8)))
    report = check(model, (x,), dynamic_shapes=({0: BATCH},))
    assert report.status == status
    assert any("by dataflow" in each for each in report.notes) == (planted is None)
    assert [each.id for each in report.diagnostics] == ([] if planted is None else ["undecided"])
    assert (report.program is None) == (planted is not None)


def test_a_program_that_raises_where_eager_does_not_is_refuted_without_data():
    class Doubles(torch.nn.Module):
        def forward(self, x):
            return x.reshape(2 if torch.compiler.is_compiling() else 1, -1)

    x = torch.ones(4, 3, device="meta")
    report = check(Doubles(), (x,), dynamic_shapes=({0: BATCH},))
    assert (report.status, report.diagnostics[0].witness) == ("refuted", {"x.shape[0]": 4})


def test_masks_without_data_may_be_asked_for():
    class Masked(torch.nn.Module):
        def forward(self, x, mask):
            return x if not torch.compiler.is_compiling() and bool(mask.all()) else x * mask

    x, mask = torch.ones(3, device="meta"), torch.ones(3, dtype=torch.bool, device="meta")
    report = check(Masked(), (x, mask), dynamic_shapes=({0: BATCH}, {0: BATCH}))
    assert report.status == "undecided"  # `x` is another number than `x * mask`, and no data are there to be multiplied


def test_a_model_with_data_is_compared_and_nothing_is_noted():
    report = check(Layer(), (torch.ones(3, 4),), dynamic_shapes=({0: BATCH},))
    assert (report.status, report.notes) == ("proved", ())


def fake_model_real_input():
    return under_fakes(lambda: torch.nn.Linear(4, 3)), torch.ones(3, 4)  # torch refuses a fake in an attribute here


def fake_input_real_model():
    return Layer(), under_fakes(lambda: torch.ones(3, 4))


def of_two_modes():
    return under_fakes(Layer), under_fakes(lambda: torch.ones(3, 4))


def of_symbolic_sizes():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        model = Layer()
    return model, mode.from_tensor(torch.ones(3, 4))


@pytest.mark.parametrize("made", [fake_model_real_input, fake_input_real_model, of_two_modes, of_symbolic_sizes])
def test_fake_tensors_may_come_from_anywhere_as_in_torch(made):
    model, x = made()
    torch.export.export(model, (x,), dynamic_shapes=({0: Dim.AUTO},))
    report = check(model, (x,), dynamic_shapes=({0: BATCH},))
    assert (report.status, report.notes[0]) == ("proved", FAKE)


def test_an_export_inside_of_a_fake_mode_is_the_same():
    with FakeTensorMode():
        model, x = Layer(), torch.ones(3, 4)
        inside = check(model, (x,), dynamic_shapes=({0: BATCH},))
        assert isinstance(torch.ones(2), torch._subclasses.FakeTensor)
    outside = check(model, (x,), dynamic_shapes=({0: BATCH},))
    assert (inside.status, inside.domain, inside.notes) == (outside.status, outside.domain, outside.notes)


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (on_meta(lambda: torch.nn.Linear(4, 3)), torch.ones(3, 4)),
        (torch.nn.Linear(4, 3), torch.ones(3, 4, device="meta")),
    ],
    ids=("real input", "real model"),
)
def test_two_devices_are_refused_as_in_torch(model, x):
    with pytest.raises(Exception, match="same device"):
        torch.export.export(model, (x,))
    with pytest.raises(UsageError, match="same device"):
        export(model, (x,), dynamic_shapes=({0: BATCH},))


@pytest.mark.parametrize("note", WITHOUT_DATA, ids=("meta", "fake"))
def test_numbers_from_data_that_nobody_knows_stay_unknown(note):
    model, *inputs = WITHOUT_DATA[note](lambda: (Item(), torch.ones(3, 4), torch.tensor(2)))
    report = check(model, tuple(inputs), dynamic_shapes=({0: BATCH}, None))
    assert (report.status, report.notes[0]) == ("proved", note)


@pytest.mark.thorough
@settings(max_examples=examples(24), deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(-1, 6), st.sampled_from(sorted(WITHOUT_DATA)))
def test_sizes_that_eager_rejects_are_refuted_without_data_too(factor, width, raising, note):
    class Rejects(torch.nn.Module):
        def forward(self, x):
            if x.shape[0] == raising:
                raise ValueError("not this size")
            return x.view(-1, factor * width)

    shapes = ({0: Dim("n", min=1, max=6)},)
    example = factor * (2 if raising == factor else 1)
    real = check(Rejects(), (torch.ones(example, width),), dynamic_shapes=shapes)
    x = WITHOUT_DATA[note](lambda: torch.ones(example, width))
    report = check(Rejects(), (x,), dynamic_shapes=shapes)
    told = [(each.id, each.witness) for each in report.diagnostics]
    assert (report.status, told) == (real.status, [(each.id, each.witness) for each in real.diagnostics])


@pytest.mark.parametrize("note", WITHOUT_DATA, ids=("meta", "fake"))
def test_what_only_values_would_tell_apart_is_undecided_and_refused(note):
    class Other(torch.nn.Module):
        def forward(self, x):
            return x * 100 if x.shape[0] == 1 else x + 1

    x = WITHOUT_DATA[note](lambda: torch.ones(3, 4))
    report = check(Other(), (x,), dynamic_shapes=({0: BATCH},))
    assert report.status == "undecided"
    assert "x.shape[0] != 1" in report.domain


def test_an_index_that_is_a_constant_without_data_may_be_any():
    class Picks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(9, 4))
            self.picked = [torch.tensor([1, 2])]

        def forward(self, x):
            return torch.nn.functional.embedding(self.picked[0], self.weight).sum(0) + x

    model, x = on_meta(lambda: (Picks(), torch.ones(3, 4)))
    assert check(model, (x,), dynamic_shapes=({0: BATCH},)).status == "proved"


def test_the_model_is_as_it_was():
    model, x = under_fakes(lambda: (Layer(), torch.ones(3, 4)))
    before = {name: (each, each.grad_fn) for name, each in (*model.named_parameters(), *model.named_buffers())}
    export(model, (x,), dynamic_shapes=({0: BATCH},))
    assert {n: (each, each.grad_fn) for n, each in (*model.named_parameters(), *model.named_buffers())} == before


class AsksWhereItIs(torch.nn.Module):
    def forward(self, x):
        if x.device.type != "meta":
            raise ValueError("made for sizes alone")
        return x * 2


class ExportedBefore(torch.nn.Module):
    """A program, which refuses inputs on another device than its own."""

    def __init__(self):
        super().__init__()
        self.run = export(*on_meta(lambda: (torch.nn.Linear(4, 3), (torch.ones(5, 4),)))).module()

    def forward(self, x):
        return self.run(x)


@pytest.mark.parametrize("model", [AsksWhereItIs, ExportedBefore])
def test_a_model_that_asks_for_its_device_is_no_other_on_it(model):
    """The fault: refuted, since it raised on the CPU, where such models are run beside their programs."""
    report = check(model(), on_meta(lambda: (torch.ones(5, 4),)))
    assert (report.status, META in report.notes) == ("proved", True)


def test_a_program_on_meta_is_saved_and_loaded():
    model, x = on_meta(lambda: (Layer(), torch.ones(3, 4)))
    file = io.BytesIO()
    torch.export.save(export(model, (x,), dynamic_shapes=({0: BATCH},)), file)
    file.seek(0)
    assert torch.export.load(file).module()(torch.ones(5, 4, device="meta")).shape == (5, 3)


@pytest.mark.parametrize("under", [contextlib.nullcontext, lambda: torch.device("meta")], ids=("beside", "inside"))
def test_tensors_without_an_example_lie_where_the_parameters_do(under):
    tokens, columns = (
        TensorSpec(torch.int64, sizes) for sizes in ((Dim("t", min=1, max=8),), (Dim("t", min=1, max=8), 4))
    )
    with under():
        report = check(on_meta(Tokens), (tokens, columns))
    assert (report.status, report.notes[0]) == ("proved", META)
    assert check(Tokens(), (tokens, columns)).notes == ()


def test_a_default_device_is_not_that_of_our_own_tensors():
    with torch.device("meta"):
        model, x = Layer().to_empty(device="cpu"), torch.ones(3, 4, device="cpu")
        model.held = [torch.ones(3, device="cpu")]
        report = check(model, (x,), dynamic_shapes=({0: BATCH},))
    assert (report.status, report.notes) == ("proved", ())


def test_a_program_without_data_is_not_bounded():
    class Rows(torch.nn.Module):
        def forward(self, x):
            return x[x > 0]

    program = export(Rows(), (torch.ones(4, device="meta"),))
    with pytest.raises(UsageError, match="a program without data"):
        program.bounded()


MADE_ON_THE_CPU = {"decoder", "detector", "diffusion", "speech"}
"""These make a tensor without naming a device, so that torch, too, exports them on meta only inside `torch.device`."""
COMPARED_BY_VALUES = {"vit": "undecided", "swin": "refuted"}
"""A resized table equals itself if its numbers are finite (vit); swin takes another program, and minutes."""
SUITE = sorted({**EXAMPLES, **TRANSFORMERS, **FIRST_HOUR}.keys() - COMPARED_BY_VALUES.keys() - MADE_ON_THE_CPU)


def without(build, note):
    torch.manual_seed(0)
    if note == FAKE:
        return under_fakes(build)
    model, args, kwargs, shapes = build()
    return model.to("meta"), *tree_map_only(torch.Tensor, lambda each: each.to("meta"), (args, kwargs)), shapes


@pytest.mark.thorough
@pytest.mark.parametrize("note", WITHOUT_DATA, ids=("meta", "fake"))
@pytest.mark.parametrize("name", SUITE)
def test_the_models_of_the_suite_have_the_verdict_that_they_have_with_data(name, note):
    build = {**EXAMPLES, **TRANSFORMERS, **FIRST_HOUR}[name]
    model, args, kwargs, shapes = build()  # transformers and its like are imported outside of a fake mode
    real = check(model, args, kwargs, dynamic_shapes=shapes)
    model, args, kwargs, shapes = without(build, note)
    report = check(model, args, kwargs, dynamic_shapes=shapes)
    assert (report.status, report.domain) == (real.status, real.domain)
    assert note in report.notes


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(MADE_ON_THE_CPU))
def test_torch_refuses_on_meta_what_makes_a_tensor_on_the_cpu(name):
    model, args, kwargs, shapes = without(FIRST_HOUR[name], META)
    with pytest.raises(Exception, match="device"):
        torch.export.export(model, args, kwargs)
    with pytest.raises(UsageError, match="device"):
        export(model, args, kwargs, dynamic_shapes=shapes)
