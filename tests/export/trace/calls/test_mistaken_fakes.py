"""Where torch's own fake kernels are wrong: what a sweep over its database has shown to reach a verdict.

Each canary says that torch is still wrong there; a release that mends it fails the canary, and the rule may go.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from shapeproof.constraints.errors import UsageError
from shapeproof.contract import OutsideDomain
from shapeproof.export import check
from shapeproof.export.ops.decompositions import pixel_unshuffle, repeat, tile
from shapeproof.export.ops.rewritten import bincount
from tests.agreement import outcome, same


class Unshuffled(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.pixel_unshuffle(x, 2)


class StrideOfAMantissa(torch.nn.Module):
    """Every other element, so that a tensor of one element has strides that no dense one has."""

    def forward(self, x):
        mantissa, _ = torch.frexp(x[..., 1::2])
        return mantissa, torch.full((), mantissa.stride(0))


def test_canary_what_the_fakes_say():
    with FakeTensorMode():
        with pytest.raises(RuntimeError, match="cannot be negative"):
            torch.ones(0, 4).repeat(-1, 1)
        assert torch.pixel_unshuffle(torch.ones(0, 1, 4, 4), 2).shape == (0, 4, 2, 2)
        assert torch.frexp(torch.ones(1, 1, 3)[..., 1::2])[0].stride() == (1, 1, 1)
    with FakeTensorMode(shape_env=ShapeEnv()):
        assert torch.bincount(torch.zeros(3).long(), torch.ones(4)).dim() == 1
    assert torch.pixel_unshuffle(torch.ones(0, 1, 4, 4), 2).shape == (0, 1, 4, 4)
    assert torch.frexp(torch.ones(1, 1, 3)[..., 1::2])[0].stride() == (3, 3, 2)


def test_pixel_unshuffle_is_what_eager_does():
    for sizes in itertools.product((0, 1, 2), (0, 1), (0, 3, 4), (0, 2, 4)):
        x = torch.randn(sizes)
        assert same(outcome(torch.pixel_unshuffle, (x, 2)), outcome(pixel_unshuffle, (x, 2))), sizes


def test_numbers_are_counted_with_a_weight_for_each():
    """No data decide it: integers may be refused for their values, so a run that raises says nothing of all data."""
    for n, weights in itertools.product(range(4), (None, torch.ones(0), torch.ones(2), torch.ones(3, 1))):
        args = torch.arange(n), weights
        assert same(outcome(torch.bincount, args), outcome(bincount, args)), args
    mod = torch.nn.Module()
    mod.forward = lambda x: torch.bincount(x, torch.ones(4))
    report = check(mod, (torch.arange(4),), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    assert report.status == "refuted"
    assert report.diagnostics[0].witness == {"x.shape[0]": 1}
    mod.forward = lambda x: torch.bincount(x, torch.ones(x.shape), minlength=3)
    report = check(mod, (torch.arange(4),), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    assert report.status == "proved", report


def test_an_empty_dim_is_repeated_any_number_of_times_as_in_eager():
    for written, torchs in ((repeat, torch.Tensor.repeat), (tile, torch.Tensor.tile)):
        for sizes, counts in itertools.product(((0, 2), (2, 0), (1, 2), ()), itertools.product((-1, 0, 2), repeat=2)):
            args = torch.ones(sizes), *counts
            assert same(outcome(torchs, args), outcome(written, args)), args


class Repeated(torch.nn.Module):
    """How often is a number from data; eager looks at its sign where there is something to repeat."""

    def __init__(self, repeated, taken=torch.Tensor.item):
        super().__init__()
        self.repeated, self.taken = repeated, taken

    def forward(self, x, count):
        return self.repeated(x, self.taken(count))


REPEATED = {
    "repeat": lambda x, k: x.repeat(k - 1, 1),
    "repeat by name": lambda x, k: x.repeat(repeats=(k - 1, 1)),
    "tile": lambda x, k: torch.tile(x, (k, 1)),
    "tile by name": lambda x, k: torch.tile(dims=(k, 1), input=x),
    "classes": lambda x, k: torch.nn.functional.one_hot(x[:, 0].long(), k),
}


BY_NUMBER = [(name, torch.Tensor.item) for name in REPEATED]
BY_TENSOR = [(name, torch.detach) for name in REPEATED if name != "classes"]


@pytest.mark.parametrize(("name", "taken"), [*BY_NUMBER, *BY_TENSOR])
def test_a_number_from_data_that_eager_takes_is_not_refused(name, taken):
    """The programs raised at negative numbers which eager takes: for no rows, or as a number of classes to be found.

    They did so, too, where the tensor itself stands for the number that torch takes from it.
    """
    mod, batch = Repeated(REPEATED[name], taken), {0: Dim("batch", min=0, max=3)}
    report = check(mod, (torch.ones(2, 4), torch.tensor(3)), dynamic_shapes=(batch, None))
    assert report.status == ("refuted" if name == "classes" else "proved"), str(report)
    if report.program is None:
        assert report.diagnostics[0].id == "data-dependent"
        return
    run = report.program.module()
    for rows, count in itertools.product(range(4), range(-2, 4)):
        args = torch.ones(rows, 4), torch.tensor(count)
        assert same(outcome(mod, args), outcome(run, args)), (rows, count)


def test_an_empty_batch_is_not_proved_where_the_fake_gives_other_sizes():
    batch = {0: Dim("batch", min=0, max=5)}
    assert check(Unshuffled(), (torch.randn(2, 1, 4, 4),), dynamic_shapes=(batch,)).status != "proved"
    split = check(Unshuffled(), (torch.randn(2, 1, 4, 4),), dynamic_shapes=(batch,), branches="split")
    assert split.status == "proved"
    for n in range(6):
        x = torch.randn(n, 1, 4, 4)
        assert split.program.module()(x).shape == torch.pixel_unshuffle(x, 2).shape, n


def test_the_operator_itself_is_refused_where_there_are_no_elements():
    mod = torch.nn.Module()
    mod.forward = lambda x: torch.ops.aten.pixel_unshuffle.default(x, 2)
    report = check(mod, (torch.randn(2, 1, 4, 4),), dynamic_shapes=({0: Dim("batch", min=0, max=5)},))
    assert report.status == "undecided"
    assert "gives other sizes than its kernel" in " ".join(str(report).split())
    with pytest.raises(OutsideDomain):
        report.program.module()(torch.randn(0, 1, 4, 4))


def test_a_batch_with_elements_is_proved():
    shapes = {0: Dim("batch", min=1, max=5), 2: 2 * Dim("half", min=1, max=9)}
    assert check(Unshuffled(), (torch.randn(2, 1, 4, 4),), dynamic_shapes=(shapes,)).status == "proved"


@pytest.mark.thorough
def test_a_stride_that_is_read_is_compared_where_sizes_are_1():
    """Seen by no corner of the domain: only a tensor of one element has other strides than the fake says."""
    sizes = {0: Dim("n", min=1, max=9), 1: Dim("k", min=1, max=5), 2: Dim("m", min=0, max=7)}
    report = check(StrideOfAMantissa(), (torch.randn(4, 3, 6),), dynamic_shapes=(sizes,))
    assert (report.status, report.program) == ("refuted", None)
    assert report.diagnostics[0].witness == {"x.shape[0]": 1, "x.shape[1]": 1, "x.shape[2]": 2}


class OffsetOfADiagonal(torch.nn.Module):
    def forward(self, x):
        found = torch.diagonal(x, 20)
        return found, torch.full((), found.storage_offset())


def test_an_offset_that_is_read_is_compared_where_there_are_no_elements():
    """Eager's diagonal of no elements begins where the matrix does."""
    sizes = {0: Dim("n", min=2, max=60), 1: Dim("m", min=2, max=60)}
    assert check(OffsetOfADiagonal(), (torch.randn(30, 30),), dynamic_shapes=(sizes,)).status == "refuted"


class StrideOfATransform(torch.nn.Module):
    """The last stride of a result whose last size may be 1, and reaches no element then."""

    def forward(self, x):
        return torch.full((), torch.ops.aten._fft_c2r(torch.complex(x, x), [0], 0, 8).stride(2))


@pytest.mark.thorough
def test_a_stride_that_reaches_no_element_is_compared_where_the_other_sizes_tell():
    given = torch.ones(5, 6, 4)
    assert StrideOfATransform()(given[..., :1]) == 48
    shapes = ({1: Dim("rows", min=0, max=9), 2: Dim("last", min=0, max=5)},)
    assert check(StrideOfATransform(), (given,), dynamic_shapes=shapes).status != "proved"


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: torch.nn.functional.multi_margin_loss(x, x[:, 0].long()),
        lambda x: torch.nn.functional.multilabel_margin_loss(x, x.long()),
    ],
)
def test_a_loss_of_no_rows_that_no_kernel_writes_is_not_proved(loss):
    class Loss(torch.nn.Module):
        def forward(self, x):
            return loss(x)

    for least, proved in ((0, False), (1, True)):
        shapes = ({0: Dim("batch", min=least, max=5)},)
        try:
            status = check(Loss(), (torch.zeros(3, 4),), dynamic_shapes=shapes).status
        except UsageError:
            status = "refused"
        assert (status == "proved") == proved


@pytest.mark.parametrize("training", [True, False])
def test_a_norm_of_a_vector_is_refused_before_torch_reads_beyond_its_sizes(training):
    """The fault: traced with symbolic sizes, torch's kernel took what lies there for a size, and crashed."""

    class Norm(torch.nn.Module):
        def forward(self, x):
            state = None if training else torch.ones(0)
            return torch.nn.functional.batch_norm(x, state, state, training=training)

    with pytest.raises(UsageError, match="expects a tensor of at least 2 dimensions, got 1"):
        check(Norm(), (torch.zeros(0),), dynamic_shapes=({0: Dim("n", min=0, max=5)},))


@pytest.mark.parametrize("name", ["native_batch_norm", "_batch_norm_impl_index"])
def test_statistics_that_a_norm_updates_unsaid_are_updated_by_the_program(name):
    """The fault: the schemas do not say that the statistics are written, and the program was refuted at every size."""

    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("var", torch.ones(3))

        def forward(self, x):
            rest = {"cudnn_enabled": False} if name == "_batch_norm_impl_index" else {}
            getattr(torch.ops.aten, name)(x, None, None, self.mean, self.var, True, momentum=0.1, eps=1e-5, **rest)
            return self.mean * 2

    report = check(Norm(), (torch.randn(4, 3),), dynamic_shapes=({0: Dim("n", min=2, max=8)},))
    assert report.status == "proved"
    eager = Norm()
    for program in (report.program, report.program.run_decompositions()):
        eager.load_state_dict({key: value.clone() for key, value in program.state_dict.items()})
        module = program.module()
        for rows in (2, 5):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(module(x), eager(x))
