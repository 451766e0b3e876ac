"""Sizes that a model computes with tensors of one element, and what a program asserts of the buffers they rest on."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.meaning.intervals import Bounds, Interval
from shapeproof.constraints.terms import constant, symbol
from shapeproof.export import check, export
from shapeproof.export.ops.value_ranges import ANYTHING
from shapeproof.export.trace.known.exact_numbers import ExactNumbers
from shapeproof.export.trace.known.value_numbering import Numbering


class Strided(nn.Module):
    """A convolution that computes its padding with tensors (EnCodec, Mimi)."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 1, kernel, stride)
        self.kernel, self.stride = nn.Buffer(torch.tensor(kernel)), nn.Buffer(torch.tensor(stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, overlap = x.shape[-1], self.kernel - self.stride
        frames = torch.ceil((n - self.kernel + overlap) / self.stride + 1).to(torch.int64) - 1
        extra = frames * self.stride + self.kernel - overlap - n
        pads = (int(overlap), int(extra))
        if n <= max(pads):
            x = F.pad(x, (0, max(pads) - n + 1))
        return self.conv(F.pad(x, pads, "reflect"))


def _bounded(least: int, most: int | None) -> dict[str, object]:
    return {"dynamic_shapes": ({0: Dim("b", min=0, max=4), 2: Dim("n", min=least, max=most)},)}


@pytest.mark.thorough
def test_paddings_computed_with_buffers_are_terms() -> None:
    model = nn.Sequential(Strided(7, 1), Strided(4, 2), Strided(8, 4)).eval()
    program = export(model, (torch.randn(2, 1, 100),), **_bounded(20, 160_000))
    assert program.report.status == "proved"
    for batch, n in itertools.product((0, 1, 3), (*range(20, 60), 4099)):
        x = torch.randn(batch, 1, n, requires_grad=True)
        ours, theirs = program.module()(x), model(x)
        assert torch.equal(ours, theirs)
        grads = [torch.autograd.grad(each.sum(), x)[0] for each in (ours, theirs)]
        assert torch.equal(*grads)


def test_a_number_beyond_what_float32_holds_is_no_term() -> None:
    report = check(Strided(3, 2), (torch.randn(2, 1, 100),), **_bounded(9, None))
    assert report.status != "proved"


def test_a_program_refuses_another_state_dict_than_the_one_its_sizes_rest_on() -> None:
    model = nn.Sequential(Strided(4, 2)).eval()
    program = export(model, (torch.randn(2, 1, 100),), **_bounded(20, 1000))
    assert program.report.status == "proved"
    x, other = torch.randn(2, 1, 50), {**copy.deepcopy(program.state_dict), "0.stride": torch.tensor(3)}
    for made in (program, program.run_decompositions()):
        module = made.module()
        assert torch.equal(module(x), model(x))
        held = copy.deepcopy(module.state_dict())
        module.load_state_dict(other)
        with pytest.raises(RuntimeError, match=r"the program was made for 2 in the buffer `0\.stride`"):
            module(x)
        module.load_state_dict(held)


class Counted(nn.Module):
    """A model that reads a counter and then writes it, as the caller asks."""

    def __init__(self, write: Callable[[Counted], None]) -> None:
        super().__init__()
        self.count, self.write = nn.Buffer(torch.tensor(3)), write

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        taken = int(self.count)
        torch._check(taken >= 1)
        made = x.sum(0) + torch.ones(taken).sum()
        self.write(self)
        return made


def _added(model: Counted) -> None:
    model.count.add_(1)


def _through_an_alias(model: Counted) -> None:
    model.count.view(1).fill_(5)


def _assigned(model: Counted) -> None:
    model.count = model.count + 1


@pytest.mark.parametrize("write", [_added, _through_an_alias, _assigned])
def test_a_buffer_that_the_model_writes_is_not_taken_for_the_number_it_holds(write: Callable[[Counted], None]) -> None:
    model, shapes = Counted(write), ({0: Dim("n", min=1, max=8)},)
    try:
        report = check(model, (torch.randn(3),), dynamic_shapes=shapes)
    except Exception:  # noqa: BLE001 - refused, which is right
        return
    if report.status != "proved":
        return
    module, eager = report.program.module(), copy.deepcopy(model)
    for n in (1, 2, 5):
        x = torch.randn(n)
        assert torch.equal(module(x), eager(x))


class Half(nn.Module):
    """A constant of the program, which is a part of it; nothing asserts it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = torch.tensor(x.shape[0]) / 2
        return x[: int(half.ceil().long())]


def test_a_size_made_of_a_constant_is_a_term() -> None:
    program = export(Half(), (torch.randn(5),), dynamic_shapes=({0: Dim("n", min=0, max=1000)},))
    assert program.report.status == "proved"
    for n in range(12):
        assert program.module()(torch.zeros(n)).shape == Half()(torch.zeros(n)).shape


class Cut(nn.Module):
    """A model that compares a size with a buffer, and cuts at the larger of two numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.k = nn.Buffer(torch.tensor(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        taken = x[: max(self.k - 2, n - self.k)]
        return taken * 2 if n <= 3 * self.k else taken * 3


def test_a_branch_on_a_size_and_a_buffer_is_a_branch_on_the_size() -> None:
    model = Cut()
    report = check(model, (torch.randn(5),), dynamic_shapes=({0: Dim("n", min=0, max=20)},))
    assert report.status == "refuted"
    assert "x.shape[0] <= 12" in str(report)
    program = export(model, (torch.randn(5),), dynamic_shapes=({0: Dim("n", min=0, max=12)},))
    for n in range(13):
        x = torch.randn(n)
        assert torch.equal(program.module()(x), model(x))


_N = 2**24


def _numbers(tensor: torch.Tensor, most: int) -> ExactNumbers:
    """Return numbers in which a tensor holds `n`, at most this."""
    numbering = Numbering(lambda size: size if not isinstance(size, int) else constant(size))
    bounds = Bounds({"n": Interval(-most, most)})
    made = ExactNumbers(numbering.of, constant, lambda _: ANYTHING, bounds.of)
    made.hold("n", tensor, 0)
    number, exact = made._found[tensor]
    made._found[tensor] = number, type(exact)(symbol("n"))
    return made


@pytest.mark.parametrize("most", [_N, _N // 2, _N // 3, _N // 4, 2**20])
@pytest.mark.parametrize("by", [1, 2, 3, 7, 320])
@pytest.mark.parametrize("more", [0, 1, -5])
@pytest.mark.parametrize("up", [True, False])
@pytest.mark.thorough
def test_a_rounded_quotient_is_told_only_where_float32_has_it(most: int, by: int, more: int, up: bool) -> None:
    aten = torch.ops.aten
    for n in {most, most - 1, most - by, most // by * by, most // by * by - 1, 1, 0, -1, -most, by - 1}:
        tensor = torch.tensor(n)
        numbers = _numbers(tensor, most)

        def call(func: Any, *args: Any, numbers: ExactNumbers = numbers) -> torch.Tensor:
            made = func(*args)
            numbers.note(func, args, {}, (made,))
            return made

        quotient = call(aten.div.Tensor, tensor, by) if by % 2 else call(aten.div.Scalar, tensor, by)
        shifted = call(aten.add.Tensor, quotient, more)
        stepped = call((aten.ceil if up else aten.floor).default, shifted)
        whole = stepped.to(torch.int64)
        numbers.note(aten.to.dtype, (stepped, torch.int64), {}, (whole,))
        told = numbers.number_in(whole)
        exact = Fraction(n, by) + more
        if told is not None:
            assert evaluate(told.top, {"n": n}) == int(whole) == (exact.__ceil__() if up else exact.__floor__())
        elif most <= 2**20:
            pytest.fail("a number that float32 holds is not told")
