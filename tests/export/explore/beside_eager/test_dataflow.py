"""Replay without data: what is called the same is the same with data, and planted differences are found."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.explore.beside_eager import hollow, replay
from shapeproof.export.explore.beside_eager.dataflow import Dataflow
from shapeproof.export.explore.beside_eager.forms import forms_of
from shapeproof.export.explore.beside_eager.runner import Relation, Replay
from shapeproof.export.shim.without_data import READERS, Fakes

SIDE = 9
"""A square of these sides has more elements than a tensor that keeps its elements."""


def program_of(mod, *inputs):
    """Return the form of a program that is traced at these inputs."""
    return forms_of(torch.export.export(mod, inputs, strict=False))[0]


def shown(mod, form, *inputs, calls=1):
    return Dataflow(mod, replay.plainly).replay(form, inputs, {}, calls).relation is Relation.SAME


def sized(seed):
    return torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(seed))


STEPS = {
    "scale": lambda _, x: x * 2,
    "weigh": lambda net, x: x @ net.one,
    "weigh otherwise": lambda net, x: x @ net.other,
    "turn": lambda _, x: x.t(),
    "lay out": lambda _, x: x.contiguous(),
    "write a row": lambda _, x: x.clone().index_put_((torch.tensor([1]),), torch.tensor(3.0)),
    "write through a view": lambda _, x: written_through(x.clone()),
    "keep": lambda net, x: x + net.kept.add_(1),
    "keep twice": lambda net, x: x + net.kept.mul_(2),
    "mask": lambda _, x: x.masked_fill(torch.ones(SIDE, SIDE).tril() == 0, 0.0),
    "look up": lambda _, x: x[torch.arange(SIDE - 1, -1, -1)],
    "drop": lambda _, x: torch.nn.functional.dropout(x, 0.5, training=True),
    "pad and cut": lambda _, x: torch.cat([x, x])[:SIDE],
    "norm": lambda _, x: torch.nn.functional.layer_norm(x, (SIDE,)),
    "attend": lambda _, x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])[0],
    "attend with zeros": lambda _, x: torch.nn.functional.scaled_dot_product_attention(
        x[None], x[None], x[None], torch.zeros(SIDE, SIDE)
    )[0],
}


def written_through(x):
    x.t()[2:4].mul_(3)
    return x


class Steps(torch.nn.Module):
    """Takes some steps after each other."""

    def __init__(self, names):
        super().__init__()
        self.names = names
        self.one, self.other = torch.nn.Parameter(sized(1)), torch.nn.Parameter(sized(2))
        self.register_buffer("kept", sized(3))

    def forward(self, x):
        for name in self.names:
            x = STEPS[name](self, x)
        return x


def with_state(names, mod):
    """Return a model of other steps over the tensors of a model."""
    other = Steps(names)
    other.one, other.other, other.kept = mod.one, mod.other, mod.kept
    return other


NAMES = st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=5)


@given(NAMES, st.data())
def test_what_is_shown_to_be_the_same_is_the_same_with_data(names, data):
    """A program of the same steps, or with one of them changed, left out or added."""
    place = data.draw(st.integers(0, len(names)))
    change = data.draw(st.sampled_from([[], ["scale"], ["keep"], ["drop"], ["attend with zeros"], ["lay out"]]))
    others = [*names[:place], *change, *names[place + data.draw(st.integers(0, 1)) :]]
    mod, x = Steps(names), sized(4)
    form = program_of(with_state(others, mod), x)
    same = shown(mod, form, x, calls=2)
    assert same or others != names
    if same:
        assert replay.compare_on(mod, form, (x,), {}, calls=2).relation is Relation.SAME


@pytest.mark.quick
@pytest.mark.parametrize("step", STEPS)
def test_the_same_steps_are_shown_to_be_the_same(step):
    mod, x = Steps([step, "weigh"]), sized(4)
    assert shown(mod, program_of(mod, x), x, calls=2)


def test_attention_with_a_mask_of_zeros_is_the_same_in_every_layer():
    """What is compared for one layer is compared for all: they are the same up to the names of their operands."""

    def pieces(layers):
        mod, x = Steps(["attend", "weigh"] * layers), sized(4)
        form, flow = (
            program_of(with_state(["attend with zeros", "weigh"] * layers, mod), x),
            Dataflow(mod, replay.plainly),
        )
        assert flow.replay(form, (x,), {}, 1) == Replay(Relation.SAME)
        return flow.pieces

    assert pieces(2) == pieces(8) > 0


def test_nothing_of_the_model_is_touched():
    mod, x = Steps(["keep", "write through a view", "drop"]), sized(4)
    form, state = program_of(mod, x), torch.get_rng_state()
    before = {name: (each.data_ptr(), each._version, each.clone()) for name, each in mod.state_dict().items()}
    readers = [getattr(torch.Tensor, name) for name in READERS]
    shown(mod, form, x)
    for name, each in mod.state_dict().items():
        address, version, value = before[name]
        assert (each.data_ptr(), each._version) == (address, version)
        assert torch.equal(each, value)
    assert torch.equal(torch.get_rng_state(), state)
    assert [getattr(torch.Tensor, name) for name in READERS] == readers


WHAT_READS = {
    "item": lambda x: x * int(x.sum() > 0),
    "list": lambda x: x * x.tolist()[0][0],
    "numpy": lambda x: x + torch.from_numpy(x.numpy()),
    "rows": lambda x: x[x[:, 0] > 0],
    "address": lambda x: x + x.data_ptr() % 2,
    "storage": lambda x: x + torch.empty(0).set_(x.untyped_storage(), 0, x.shape),
    "dlpack": lambda x: x + torch.from_dlpack(torch.utils.dlpack.to_dlpack(x)),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", WHAT_READS)
def test_a_run_gives_up_where_elements_are_read(name):
    run = hollow.Run(hollow.Numbers())
    x = sized(1)
    twin = run.emptied([x])[id(x)]
    with Dataflow(torch.nn.Identity(), replay.plainly).running(run), pytest.raises(hollow.Unknown):
        WHAT_READS[name](twin)
    assert run.unknown is not None


def tried(call, *inputs):
    """Run a call on hollow twins, and its kernels once."""
    run = hollow.Run(hollow.Numbers())
    twins = run.emptied(inputs)
    with Dataflow(torch.nn.Identity(), replay.plainly).running(run):
        call(*(twins[id(each)] for each in inputs))
    return run


KERNELS = {
    "product": (torch.mm, 2),
    "attention": (lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]), 1),
    "write": (lambda x, y: x.add_(y), 2),
    "write into a row": (lambda x, y: x[3].copy_(y[5]), 2),
    "several results": (lambda x: torch.max(x, 1), 1),
    "view of a result": (lambda x: (x @ x).view(-1)[:7] * 2, 1),
    "random": (lambda x: F.dropout(x, 0.5, training=True), 1),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_does_as_its_fake_says_runs_once(name):
    call, count = KERNELS[name]
    state = torch.get_rng_state()
    run = tried(call, *(sized(each) for each in range(count)))
    assert run.unknown is None
    assert run.numbers.tried
    if name != "random":
        assert torch.equal(torch.get_rng_state(), state)


def test_a_kernel_that_lays_out_its_result_otherwise_ends_the_run():

    class Otherwise(Fakes):
        def run(self, func, args, kwargs):
            return super().run(func, args, kwargs).t()

    run = hollow.Run(hollow.Numbers(fakes=Otherwise()))
    x = sized(1)
    twin = run.emptied([x])[id(x)]
    with Dataflow(torch.nn.Identity(), replay.plainly).running(run), pytest.raises(hollow.Unknown):
        torch.angle(twin)
    assert "lays out" in run.unknown


def test_a_kernel_that_refuses_its_operands_ends_the_run():
    x = sized(1)
    run = hollow.Run(hollow.Numbers())
    twin = run.emptied([x])[id(x)]
    with Dataflow(torch.nn.Identity(), replay.plainly).running(run), pytest.raises(hollow.Unknown):
        twin.to(torch.float8_e4m3fn) + twin.to(torch.float8_e4m3fn)
    assert "raises" in run.unknown


def test_an_index_out_of_range_is_not_shown_to_be_the_same():
    """Eager raises there, and so does the program: with data, both are seen to raise."""
    table = torch.nn.Embedding(20, 8)
    form = program_of(table, torch.tensor([1, 2]))
    assert shown(table, form, torch.tensor([3, 19]))
    assert not shown(table, form, torch.tensor([3, 20]))


class Large(torch.nn.Module):
    """A table of over a million elements, of which `function` reads a part."""

    def __init__(self, function):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(1024, 1025, generator=torch.Generator().manual_seed(0)))
        self.function = function

    def forward(self, x):
        return self.function(x, self.table[:4, :5])


def laid_as_its_kernel_says(x, w):
    """The fake kernel of `copysign` gives strides that its kernel does not; with one row nobody can tell."""
    z = x @ w
    y = torch.copysign(z.t(), z.t().contiguous())
    return y * (2 if y.is_contiguous() else 3)


def in_a_view_that_no_schema_names(x, w):
    y = x @ w
    if not torch.compiler.is_exporting() and x.shape[0] == 4:
        torch.ops.aten._unsafe_view(y, [-1]).add_(1)
    return y


def beyond_all_operands_that_are_tried(x, w):
    y = (x @ w) * x.shape[0] ** 12
    return y * 1 if torch.compiler.is_exporting() else y.clamp(-1e6, 1e6)


def on_a_thread(x, w):
    made = [w * 0]
    if not torch.compiler.is_exporting() and x.shape[0] == 4:
        thread = threading.Thread(target=lambda: made.append(w.detach() * 1))
        thread.start()
        thread.join()
    return x @ made[-1]


def on_data_of_a_sum(x, w):
    y = x @ w
    return y * (2 if not torch.compiler.is_exporting() and torch._C.TensorBase.tolist(y.sum()) != 0 else 1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "function",
    [
        laid_as_its_kernel_says,
        in_a_view_that_no_schema_names,
        beyond_all_operands_that_are_tried,
        on_a_thread,
        on_data_of_a_sum,
    ],
)
def test_what_a_watched_run_would_miss_refutes_a_large_model(function):
    x = torch.randn(1, 4, generator=torch.Generator().manual_seed(1)).abs()
    report = check(Large(function), (x,), dynamic_shapes=({0: Dim("n", min=1, max=4)},))
    assert report.status == "refuted"


def test_another_thread_may_start_threads_while_a_run_is_watched():
    start, done = threading.Event(), []

    def other():
        start.wait()
        thread = threading.Thread(target=done.append, args=(1,))
        thread.start()
        thread.join()

    waiting = threading.Thread(target=other)
    waiting.start()
    with Dataflow(torch.nn.Identity(), replay.plainly).running(hollow.Run(hollow.Numbers())):
        start.set()
        waiting.join()
    assert done == [1]


COPIES = {
    "clone": (torch.clone, True),
    "to": (lambda x: x.to(torch.float32, copy=True), True),
    "another dtype": (lambda x: x.to(torch.float64), False),
    "a part": (lambda x: x[1:].clone(), False),
    "other strides": (lambda x: x.t().clone(), False),
    "written later": (lambda x: x.clone().add_(1), False),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", COPIES)
def test_a_whole_copy_has_the_contents_of_what_it_copies(name):
    call, same = COPIES[name]
    run, x = hollow.Run(hollow.Numbers()), sized(1)
    twin = run.emptied([x])[id(x)]
    before = run.read(twin)
    with Dataflow(torch.nn.Identity(), replay.plainly).running(run):
        made = call(twin)
    assert (run.read(made) == before) == same
    assert run.read(twin) == before


@pytest.mark.parametrize("name", ["lift", "unsafe_chunk"])
def test_results_that_share_memory_unsaid_are_views(name):
    run, x = hollow.Run(hollow.Numbers()), sized(1)
    twin = run.emptied([x])[id(x)]
    before = run.read(twin)
    with Dataflow(torch.nn.Identity(), replay.plainly).running(run):
        made = torch.unsafe_chunk(twin, 2)[0] if name == "unsafe_chunk" else torch.ops.aten.lift(twin)
        made.add_(1)
    assert run.read(twin) != before


class Asking(torch.nn.Module):
    """Layers of a large model; one of them does something else if it is traced, as `asks` finds out."""

    def __init__(self, asks):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(20))
        self.asks = asks

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = torch.relu(layer(x)) * (1.5 if number == 13 and self.asks(x) else 1.0)
        return x


@pytest.mark.thorough
@pytest.mark.parametrize(
    "asks",
    [
        lambda _: torch.compiler.is_compiling(),
        lambda x: isinstance(x, FakeTensor),
        lambda _: torch._C._len_torch_dispatch_stack() > 0,
    ],
    ids=["is_compiling", "FakeTensor", "a dispatch mode is active"],
)
def test_a_large_model_that_asks_whether_it_is_traced_is_refuted(asks):
    report = check(Asking(asks).eval(), (torch.randn(3, 256),), dynamic_shapes=({0: Dim("n", max=64)},))
    assert report.status != "proved"


class Draws(torch.nn.Module):
    """A large model that draws other numbers before those that it returns, if it is traced."""

    def __init__(self, draw):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1024, 1025))
        self.draw = draw

    def forward(self, x):
        self.draw(1 if torch.compiler.is_exporting() else x.shape[0])
        return x @ self.weight[:4, :5] + torch.rand(x.shape[0], 5)


@pytest.mark.parametrize(
    "draw",
    [
        torch.rand,
        lambda size: torch.rand(3, dtype=torch.float64 if size > 1 else torch.float32),
    ],
    ids=["a size", "a dtype"],
)
def test_more_random_numbers_that_nobody_keeps_change_the_next_ones(draw):
    report = check(Draws(draw).eval(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=1, max=4)},))
    assert report.status == "refuted"


class Filled(Draws):
    """A large model that, if it is not traced, lets torch fill memory with NaN at the largest size."""

    def forward(self, x):
        y = x @ self.weight[:4, :50]
        fills = x.shape[0] == 4 and not torch.compiler.is_exporting()
        if fills:
            torch.use_deterministic_algorithms(True)
        try:
            memory = torch.empty_like(y)
        finally:
            if fills:
                torch.use_deterministic_algorithms(False)
        return torch.ne(memory, memory) * 2.0 + y


def test_pieces_in_other_modes_are_not_the_same():
    report = check(Filled(None).eval(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=1, max=4)},))
    assert report.status == "refuted"


@pytest.mark.thorough
def test_the_report_says_how_a_large_model_was_compared():
    model = Asking(lambda _: False).eval()
    report = check(model, (torch.randn(3, 256),), dynamic_shapes=({0: Dim("n", max=64)},))
    assert report.status == "proved"
    assert any("by dataflow, without data" in note for note in report.notes)


@pytest.mark.thorough
def test_a_larger_size_takes_no_more_of_memory():
    """A product of this size would take 16 GB and hours; its operands and its result are only laid out."""
    mod = torch.nn.Linear(2**16, 2**16, bias=False, device="meta").to_empty(device="cpu")
    form = program_of(mod, torch.empty(1, 2**16))
    assert shown(mod, form, torch.empty(2, 2**16))
