"""Programs that branch on their sizes as users write them: one is refuted or right, several are right."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from tests.agreement import agree

N = Dim("n", min=0, max=20)


def rows(n):
    return torch.arange(4.0 * n).reshape(n, 4) / 7


def image(height, width):
    return torch.arange(1.0 * height * width).reshape(1, 1, height, width) / 7


def padded_by_parity(x):
    if x.shape[0] % 2:
        x = functional.pad(x, (0, 0, 0, 1))
    return x.reshape(x.shape[0] // 2, 2, 4).mean(1)


def attention_in_chunks(x):
    if x.shape[0] > 8:
        return torch.cat([(part @ x.t()).softmax(-1) @ x for part in (x[:8], x[8:])])
    return (x @ x.t()).softmax(-1) @ x


def truncated(x):
    if x.shape[0] > 12:
        x = x[:12]
    return x.cumsum(0)


def squeezed(x):
    return (x.squeeze(0) if x.shape[0] == 1 else x) * 2


def smaller_side(x):
    side = min(x.shape[2], x.shape[3])
    return x[..., :side, :side].sum(-1) if side < 4 else functional.avg_pool2d(x, 2)


def pooled_by_parity(x):
    if x.shape[2] % 2:
        return functional.avg_pool2d(x, 3, stride=1, padding=1)
    return functional.avg_pool2d(x, 2, stride=2)


def nested(x):
    if x.shape[0] >= 10:
        return x.sin()
    if x.shape[0] > 5:
        return x + 1
    return x - 1 if x.shape[0] % 3 == 0 else x * 2


def another_rank(x):
    return x.sum() if x.shape[0] == 0 else x.mean(0)


def joined_by_length(x, y):
    if x.shape[0] == y.shape[0]:
        return x + y
    return torch.cat([x, y]) if x.shape[0] > y.shape[0] else y[: x.shape[0]] - x


def repeated(x, times):
    return x.repeat(times, 1) if times > 3 else x * times


def in_blocks(x):
    return x.view(-1, 8).sum(0) if x.shape[0] >= 8 else x.view(2, -1).sum(1)


def causal_if_square(x, y):
    scores = x @ y.t()
    if x.shape[0] == y.shape[0]:
        scores = scores.masked_fill(torch.ones(x.shape[0], y.shape[0]).triu(1).bool(), -1e9)
    return scores.softmax(-1) @ y


def cropped(x, y):
    rows = min(x.shape[0], y.shape[0])
    return x[:rows] * 2 if abs(x.shape[0] - y.shape[0]) > 3 else x[:rows] + y[:rows]


class Layer(torch.nn.Module):
    """Another matrix for short inputs."""

    def __init__(self):
        super().__init__()
        self.long, self.short = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.long(x) if x.shape[0] > 7 else self.short(x)


class Layers(torch.nn.Module):
    """Branches in submodules, on sizes that the module around them changes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = Layer(), Layer()

    def forward(self, x):
        y = self.first(x)
        return self.second(y[2:] if x.shape[0] > 2 else y)


class Counts(torch.nn.Module):
    """A buffer that is changed for long inputs only."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        if x.shape[0] > 6:
            self.count.add_(1)
            return x + self.count
        return x - self.count


@dataclass(frozen=True)
class Program:
    """A model, the ranges of its sizes, its example and inputs at any sizes, and whether its regions can be merged."""

    forward: Callable[..., Any]
    ranges: Sequence[range]
    example: tuple[int, ...]
    shapes: Any
    merges: bool
    at: Callable[..., Any] = lambda *sizes: tuple(map(rows, sizes))

    def module(self):
        """A fresh module."""
        if isinstance(self.forward, type):
            return self.forward()
        return type("Model", (torch.nn.Module,), {"forward": staticmethod(self.forward)})()


ONE, TO_20 = ({0: N},), [range(21)]
PAIR, TO_8 = ({0: Dim("a", min=0, max=8)}, {0: Dim("b", min=0, max=8)}), [range(9), range(9)]
PROGRAMS = {
    "padding by parity": Program(padded_by_parity, TO_20, (5,), ONE, merges=True),
    "attention in chunks": Program(attention_in_chunks, TO_20, (5,), ONE, merges=True),
    "truncation": Program(truncated, TO_20, (5,), ONE, merges=True),
    "squeeze": Program(squeezed, TO_20, (5,), ONE, merges=False),
    "the smaller side": Program(
        smaller_side,
        [range(1, 13), range(1, 13)],
        (5, 7),
        ({2: Dim("h", min=1, max=12), 3: Dim("w", min=1, max=12)},),
        merges=False,
        at=lambda *sizes: (image(*sizes),),
    ),
    "pooling by parity": Program(
        pooled_by_parity,
        [range(2, 13)],
        (6,),
        ({2: Dim("h", min=2, max=12)},),
        merges=True,
        at=lambda height: (image(height, 5),),
    ),
    "nested": Program(nested, TO_20, (5,), ONE, merges=True),
    "submodules": Program(Layers, TO_20, (5,), ONE, merges=True),
    "another rank": Program(another_rank, TO_20, (5,), ONE, merges=False),
    "two dims": Program(joined_by_length, TO_8, (3, 5), PAIR, merges=True),
    "an int": Program(
        repeated, [range(9)], (2,), (None, Dim.AUTO(min=0, max=8)), merges=True, at=lambda times: (rows(3), times)
    ),
    "a derived dim": Program(
        in_blocks, [range(1, 9)], (3,), ({0: 2 * Dim("k", min=1, max=8)},), merges=True, at=lambda k: (rows(2 * k),)
    ),
    "a buffer": Program(Counts, TO_20, (5,), ONE, merges=False),
    "causal if square": Program(
        causal_if_square,
        [range(1, 7), range(1, 7)],
        (3, 5),
        ({0: Dim("q", min=1, max=6)}, {0: Dim("k", min=1, max=6)}),
        merges=True,
    ),
    "cropped to match": Program(cropped, TO_8, (3, 5), PAIR, merges=True),
}


@pytest.fixture(params=PROGRAMS.values(), ids=PROGRAMS)
def program(request):
    return request.param


def verdict(program, branches):
    return check(program.module(), program.at(*program.example), dynamic_shapes=program.shapes, branches=branches)


def everywhere(program, run, *, may_refuse=False):
    """The sizes at which a program that starts afresh does not do what the model does."""
    fresh = copy.deepcopy if isinstance(run, torch.nn.Module) else lambda package: package
    return [
        sizes
        for sizes in itertools.product(*program.ranges)
        if not agree(program.module(), fresh(run), program.at(*sizes), may_refuse=may_refuse)
    ]


@pytest.mark.slow
def test_one_program_is_refuted_or_right(program):
    """A refutation names sizes at which eager does something else than at the example."""
    report = verdict(program, "error")
    assert report.status in {"refuted", "undecided"}
    if report.program is not None:
        assert everywhere(program, report.program.module(), may_refuse=True) == []
    assert all(diagnostic.witness and diagnostic.file == __file__ for diagnostic in report.diagnostics), str(report)


@pytest.mark.slow
def test_several_programs_do_what_eager_does_everywhere_and_so_does_one_package(program, tmp_path):
    report = verdict(program, "split")
    assert report.status == "proved", str(report)
    assert everywhere(program, report.program.module()) == []
    if not program.merges:
        with pytest.raises(UsageError, match=r"^the regions cannot be merged into one program: "):
            report.program.merged()
        return
    merged = report.program.merged()
    assert everywhere(program, merged.module()) == []
    if not all(isinstance(given, torch.Tensor) for given in program.at(*program.example)):
        return  # torch 2.13 compiles no program that takes an int
    path = torch._inductor.aoti_compile_and_package(merged, package_path=str(tmp_path / "merged.pt2"))
    assert everywhere(program, torch._inductor.aoti_load_package(path)) == []


class ChoosesTwice(torch.nn.Module):
    """A choice by a comparison of a choice, which sympy writes as an ITE."""

    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        less = torch.sym_ite(n < m, n, m)
        return x + 1 if torch.sym_ite(less == n, m, n) == n else x


def test_a_choice_by_a_comparison_of_a_choice_has_a_meaning():
    """The fault: `Unevaluable: ITE has no meaning` ended the check."""
    dims = ({0: Dim("n", min=0, max=4)}, {0: Dim("m", min=0, max=4)})
    report = check(ChoosesTwice(), (torch.ones(2, 3), torch.ones(3, 3)), dynamic_shapes=dims, branches="split")
    assert report.status == "proved", str(report)
    for n, m in itertools.product(range(5), repeat=2):
        assert agree(ChoosesTwice(), report.program.module(), (torch.ones(n, 3), torch.ones(m, 3)))


def test_several_programs_can_be_copied():
    """The fault: the module held the programs' metadata, which torch cannot copy."""
    report = check(ChoosesBySize(), (rows(3),), dynamic_shapes=({0: N},), branches="split")
    assert report.status == "proved", str(report)
    run = copy.deepcopy(report.program.module())
    assert all(agree(ChoosesBySize(), run, (rows(n),)) for n in (0, 1, 7, 20))


class ChoosesBySize(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] > 4 else x - 1
