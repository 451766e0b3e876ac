"""A trace leaves the process as it was; what a model is written in, and where, makes no difference."""

from __future__ import annotations

import gc
import io
import math
import weakref

import pytest
import torch
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx

from shapeproof.export import check, export
from shapeproof.export.shim import callers
from shapeproof.export.source import frames
from tests.agreement import agree

N = Dim("n", min=0, max=9)
CACHE, LOG = {}, []
last = None


class Doubles(torch.nn.Module):
    def forward(self, x):
        return torch.vmap(lambda row: row * 2)(x)


class Adds(torch.nn.Module):
    def forward(self, x):
        return x + 1


@pytest.mark.thorough
def test_a_vmap_over_nothing_does_no_harm_to_the_next_export():
    report = check(Doubles(), (torch.ones(5),), dynamic_shapes=({0: N},))
    assert (report.status, report.diagnostics[0].witness) == ("refuted", {"x.shape[0]": 0})
    assert check(Adds(), (torch.ones(5),), dynamic_shapes=({0: N},)).status == "proved"
    low = check(Doubles(), (torch.ones(5),), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    assert low.status == "proved"
    assert agree(Doubles(), low.program.module(), (torch.ones(3),))


class Remembers(torch.nn.Module):
    seen = []  # noqa: RUF012 - that all share it is the point

    def forward(self, x):
        global last  # noqa: PLW0603 - the point
        width = x.shape[1]
        if width not in CACHE:
            CACHE[width] = torch.ones(width) * 2
        self.seen.append(x)
        LOG.append(x.shape[0])
        last = x.shape[0]
        return x * CACHE[width]


def test_what_a_model_remembers_is_forgotten_with_the_trace():
    report = check(Remembers(), (torch.ones(5, 3),), dynamic_shapes=({0: N},))
    assert report.status == "proved"
    kept = [*CACHE.values(), *LOG, last, *Remembers.seen]
    assert not any(type(each) not in {int, torch.Tensor, type(None)} for each in kept)
    assert all(agree(Remembers(), report.program.module(), (torch.ones(n, 3),)) for n in range(10))


class TracesInside(torch.nn.Module):
    def forward(self, x):
        return make_fx(lambda y: y * 2 + y.shape[0])(x)(x)


def test_a_model_may_trace_a_function_itself():
    report = check(TracesInside(), (torch.ones(5),), dynamic_shapes=({0: N},))
    assert report.status == "proved"
    assert all(agree(TracesInside(), report.program.module(), (torch.ones(n),)) for n in range(10))


class TakesAbsolutes(torch.nn.Module):
    def forward(self, x):
        half = abs(x.shape[0] * 0.5 - 2)
        return x * abs(x.shape[0] - 4) + half + torch.sym_sum([x.shape[0], 1, x.shape[0]])


@pytest.mark.thorough
def test_a_program_with_absolute_values_can_be_saved():
    program = export(TakesAbsolutes(), (torch.ones(5),), dynamic_shapes=({0: N},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    for form in (program, program.run_decompositions(), loaded):
        assert all(agree(TakesAbsolutes(), form.module(), (torch.arange(float(n)),)) for n in range(2, 10))


SOURCE = """
import torch

def rows(n):
    return int(n * 0.5)

class Model(torch.nn.Module):
    def forward(self, x, y):
        u = y.item()
        assert u <= 3
        torch._check(u >= -1)
        if u == 2:
            raise ValueError("two")
        if x.shape[0] == 20:
            raise ValueError("twenty")
        return x[: rows(x.shape[0])] * u
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("<string>", {}),
        ("<stdin>", {"__name__": "__main__"}),
        ("<ipython-input-3-abcdef>", {"__name__": "__main__"}),
        ("cell.py", {"__name__": "notebook"}),
    ],
)
def test_code_without_a_file_keeps_its_checks_and_lines(file, names):
    scope = dict(names)
    exec(compile(SOURCE, file, "exec"), scope)  # noqa: S102
    model, arguments = scope["Model"], (torch.ones(5), torch.tensor(1))
    report = check(model(), arguments, dynamic_shapes=({0: N}, None))
    assert report.status == "proved"
    for n, u in [(0, 1), (5, -1), (9, 3), (4, 2), (4, 4), (4, -2)]:
        assert agree(model(), report.program.module(), (torch.arange(float(n)), torch.tensor(u)))
    beyond = check(model(), arguments, dynamic_shapes=({0: Dim("n", min=0, max=30)}, None))
    (found,) = beyond.diagnostics
    assert (found.file.rpartition("/")[2], found.line) == (file, 14)


class Table:
    def __init__(self):
        self.cos, self.sizes = None, []

    def rows(self, n):
        if self.cos is None or self.cos.shape[0] < n:
            self.cos = torch.arange(n).float()[:, None].cos()
            self.sizes.append(n)
        return self.cos[:n]


TABLE = Table()


class ReadsATable(torch.nn.Module):
    def forward(self, x):
        return x + TABLE.rows(x.shape[0])


class KeepsInItsClass(torch.nn.Module):
    cos = None

    def forward(self, x):
        cls, n = type(self), x.shape[0]
        if cls.cos is None or cls.cos.shape[0] < n:
            cls.cos = torch.arange(n).float()[:, None].cos()
        return x + cls.cos[:n]


@pytest.mark.parametrize("model", [ReadsATable, KeepsInItsClass])
def test_what_a_trace_leaves_in_the_users_objects_and_classes_is_taken_back(model):
    """The fault: a cache of the user's held fake tensors, and eager gave such ones from then on."""
    check(model(), (torch.ones(5, 2),), dynamic_shapes=({0: N},))
    assert {type(each) for each in (TABLE.cos, *TABLE.sizes, KeepsInItsClass.cos)} <= {torch.Tensor, int, type(None)}
    assert type(model()(torch.ones(9, 2))) is torch.Tensor


def test_a_program_that_raises_within_a_transform_ends_it():
    """The fault: torch refused whatever asks for gradients from then on, in the whole process."""

    class Pushes(torch.nn.Module):
        def forward(self, x):
            return torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))[1]

    module = export(Pushes(), (torch.ones(5, 2),), dynamic_shapes=({0: N},)).module()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="single memory location"):
            module(torch.ones(1, 1).expand(1, 2))
        assert torch.ones(2).requires_grad_().requires_grad
        assert agree(Pushes(), module, (torch.ones(3, 2),))


@pytest.mark.parametrize(
    "function", [torch.func.grad(lambda x: (x**2).sum()), torch.vmap(lambda x: x * 2, in_dims=1, out_dims=1)]
)
def test_a_transform_that_torch_cannot_follow_is_recorded_below_autograd(function):
    """The fault: torch takes what it makes for a constant. No name in the model's code tells of it."""

    class Transforms(torch.nn.Module):
        def forward(self, x):
            return function(x)

    program = export(Transforms(), (torch.ones(5, 2),), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    assert program.report.status == "proved"
    assert all(agree(Transforms(), program.module(), (torch.randn(n, 2),)) for n in (1, 2, 9))


@pytest.mark.parametrize(
    "question", [callers.body, callers.noting, callers.sentence, callers.read_by_the_model, frames.model_frames]
)
def test_to_ask_who_calls_keeps_no_tensor_alive(question):
    """The fault: a frame that held itself kept tensors alive; torch copies such, and took one for a constant."""

    def asks():
        held = torch.ones(2)
        question()
        return weakref.ref(held)

    gc.disable()
    try:
        assert asks()() is None
    finally:
        gc.enable()


class Distances(torch.nn.Module):
    def forward(self, x, k):
        return x * k, abs(k), k + 1, torch.sym_sum([k, k, x.shape[0]]), abs(k / 2), abs(k)


def test_a_program_that_returns_what_saving_rewrites_can_be_saved():
    shapes = {"x": {0: N}, "k": Dim.DYNAMIC}
    program = export(Distances(), (torch.randn(5), 2), dynamic_shapes=shapes)
    saved = io.BytesIO()
    torch.export.save(program, saved)
    saved.seek(0)
    loaded = torch.export.load(saved)
    for size, number in ((0, 0), (1, -3), (9, 4)):
        args = (torch.ones(size), number)
        wanted = Distances()(*args)
        for module in (program.module(), loaded.module()):
            result = module(*args)
            assert torch.equal(result[0], wanted[0])
            assert result[1:] == wanted[1:]


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_loaded_program_refuses_the_other_zero(zero):
    program = export(Signed(), (torch.ones(3), zero))
    saved = io.BytesIO()
    torch.export.save(program, saved)
    saved.seek(0)
    module = torch.export.load(saved).module()
    assert torch.equal(module(torch.ones(3), zero), Signed()(torch.ones(3), zero))
    with pytest.raises(AssertionError, match="copysign"):
        module(torch.ones(3), -zero)


class Signed(torch.nn.Module):
    def forward(self, x, k):
        return x * math.copysign(1, k)
