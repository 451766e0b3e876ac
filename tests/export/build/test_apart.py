"""Programs that are taken apart do what they do whole, or are refused (export/build/decompose.py)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check, export
from shapeproof.export.shim import trees
from tests.agreement import agree
from tests.thoroughness import examples


def model(forward: Any) -> torch.nn.Module:
    """A module with this forward."""
    return type("Model", (torch.nn.Module,), {"forward": staticmethod(forward)})()


def rows(name: str, low: int, high: int) -> dict[int, Dim]:
    """The first dimension."""
    return {0: Dim(name, min=low, max=high)}


class Calling(torch.nn.Module):
    """A layer that is given its one input as often as it takes."""

    def __init__(self, layer: torch.nn.Module, times: int) -> None:
        super().__init__()
        self.layer, self.times = layer, times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(*[x] * self.times)[0]


@pytest.mark.thorough
@pytest.mark.parametrize("side", ["right", "left"])
def test_sequences_are_padded_to_the_longest_whichever_that_is(side: str) -> None:
    """The fault: run_decompositions() padded to the second of three, as at the point of the trace."""

    def pad(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> list[torch.Tensor]:
        pad_sequence = torch.nn.utils.rnn.pad_sequence
        return [pad_sequence([a, b, c], first, 7.0, side) for first in (True, False)]

    mod, shapes = model(pad), tuple(rows(name, 1, 4) for name in "abc")
    report = check(mod, tuple(torch.randn(n, 2) for n in (3, 2, 4)), dynamic_shapes=shapes)
    assert report.status == "proved", str(report)
    for run in (report.program.module(), report.program.run_decompositions().module()):
        for lengths in itertools.product(range(1, 5), repeat=3):
            assert agree(mod, run, tuple(torch.randn(n, 2) for n in lengths))


LAYERS = {
    "MultiheadAttention": (Calling(torch.nn.MultiheadAttention(4, 2, batch_first=True), 3), (3, 5, 4)),
    "LSTM": (Calling(torch.nn.LSTM(4, 3, batch_first=True), 1), (3, 5, 4)),
    "einsum": (model(lambda x: torch.einsum("bij,bkj->bik", x, x)), (3, 5, 4)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("layer", LAYERS)
def test_an_operator_that_asks_to_no_effect_is_taken_apart(layer: str) -> None:
    mod, sizes = LAYERS[layer]
    report = check(mod, (torch.randn(*sizes),), dynamic_shapes=(rows("b", 1, 6),))
    run = report.program.run_decompositions().module()
    assert all(agree(mod, run, (torch.randn(b, *sizes[1:]),)) for b in range(1, 7))


RECURRENT = {"LSTM": "lstm.input", "GRU": "gru.input", "RNN": "rnn_tanh.input"}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", RECURRENT)
def test_a_recurrent_operator_over_a_dynamic_length_stays_whole(kind: str) -> None:
    mod = Calling(getattr(torch.nn, kind)(4, 3, batch_first=True, bidirectional=True, num_layers=2), 1)
    shapes = ({0: Dim("b", min=1, max=4), 1: Dim("t", min=1, max=6)},)
    apart = check(mod, (torch.randn(3, 5, 4),), dynamic_shapes=shapes).program.run_decompositions()
    assert f"aten.{RECURRENT[kind]}" in {str(node.target) for node in apart.graph.nodes}
    for sizes in itertools.product(range(1, 5), range(1, 7)):
        assert agree(mod, apart.module(), (torch.randn(*sizes, 4),))


def halving(x: torch.Tensor) -> torch.Tensor:
    """A decomposition of `relu` that is right for three rows or fewer."""
    return torch.clamp(x, min=0) if x.shape[0] <= 3 else x / 2


@pytest.mark.thorough
@pytest.mark.parametrize("example", [2, 5])
@pytest.mark.parametrize("changing", [False, True])
def test_a_decomposition_that_takes_a_side_is_refused(example: int, changing: bool) -> None:
    mod = model(lambda x: x.add_(1).relu() if changing else x.relu())
    report = check(mod, (torch.randn(example, 2),), dynamic_shapes=(rows("n", 0, 9),))
    table = torch.export.default_decompositions() | {torch.ops.aten.relu.default: halving}
    with pytest.raises(
        UsageError, match=r"taken apart, `relu` serves sizes with x.shape\[0\] .* alone: at x.shape\[0\] = \d"
    ):
        report.program.run_decompositions(table)
    run = report.program.run_decompositions().module()
    assert all(agree(mod, run, (torch.randn(n, 2),)) for n in range(10))


@pytest.mark.thorough
def test_of_random_results_the_shapes_are_compared() -> None:
    mod = model(lambda x: F.dropout(x).relu())
    report = check(mod, (torch.randn(5, 2),), dynamic_shapes=(rows("n", 1, 9),))
    table = torch.export.default_decompositions()
    for decomposition, right in ((halving, True), (lambda x: x[:1] if x.shape[0] > 3 else x, False)):
        apart = table | {torch.ops.aten.relu.default: decomposition}
        if right:
            report.program.run_decompositions(apart)
        else:
            with pytest.raises(UsageError, match="taken apart, `relu`"):
                report.program.run_decompositions(apart)


@pytest.mark.thorough
def test_what_cannot_be_run_empty_is_refused_where_the_whole_can() -> None:
    """`roll` asks whether there is anything, and divides by the size if there is."""
    mod = model(lambda x, y: x.roll(y.shape[0], 0))
    shapes = (rows("n", 0, 9), rows("m", 0, 9))
    report = check(mod, (torch.randn(5, 2), torch.randn(3)), dynamic_shapes=shapes)
    assert report.status == "proved", str(report)
    with pytest.raises(UsageError, match=r"x.shape\[0\] = 0 it raises ZeroDivisionError"):
        report.program.run_decompositions()


@pytest.mark.thorough
def test_a_compiler_that_takes_a_program_apart_is_stopped_where_that_is_wrong() -> None:
    """AOTInductor asks in the middle of its own trace; what comes of it divides by the size."""
    shapes = (rows("n", 0, 9), rows("m", 0, 9))
    report = check(
        model(lambda x, y: x.roll(y.shape[0], 0)), (torch.randn(5, 2), torch.randn(3)), dynamic_shapes=shapes
    )
    with pytest.raises(UsageError, match=r"taken apart, `roll` serves sizes with x.shape\[0\] != 0 alone"):
        torch._inductor.aoti_compile_and_package(report.program)


@pytest.mark.thorough
def test_what_a_compiler_keeps_whole_is_not_taken_apart_without_end() -> None:
    """AOTInductor takes `clamp` apart into `clamp_min`, and torch's own table that into `clamp` again."""
    report = check(model(lambda x: x.clamp(min=1)), (torch.randn(5),), dynamic_shapes=(rows("n", 0, 9),))
    apart = trees.as_compiled(report.program)
    (operator,) = (node.target for node in apart.graph.nodes if "clamp" in str(node.target))
    assert operator is torch.ops.aten.clamp_min.default


@pytest.mark.slow
def test_a_compiler_that_asks_to_no_effect_compiles(tmp_path: Path) -> None:
    mod, sizes = LAYERS["MultiheadAttention"]
    report = check(mod, (torch.randn(*sizes),), dynamic_shapes=(rows("b", 1, 6),))
    package = torch._inductor.aoti_compile_and_package(report.program, package_path=str(tmp_path / "package.pt2"))
    run = torch._inductor.aoti_load_package(package)
    assert all(agree(mod, run, (torch.randn(b, *sizes[1:]),)) for b in range(1, 7))


OPERATORS = {
    "matmul": lambda x, y: x @ y.t(),
    "cdist": torch.cdist,
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y),
    "tensordot": lambda x, y: torch.tensordot(x, y, dims=([1], [1])),
    "pad": lambda x, y: F.pad(x.t()[None], (0, y.shape[0]))[0].t(),
    "attention": lambda x, y: F.scaled_dot_product_attention(x[None], y[None], y[None])[0],
    "cat": lambda x, y: torch.cat([x, y])[1:],
    "flip": lambda x, y: torch.cat([x.flip(0), y.cumsum(0)]).t().reshape(-1, 1).expand(-1, 3),
    "norm": lambda x, y: F.layer_norm(x, (3,)) + y.sum(0),
    "repeat": lambda x, y: x.repeat(2, 1) * y.mean(),
    "product": lambda x, y: torch.cartesian_prod(x[:, 0], y[:, 0]).sum(1, keepdim=True).expand(-1, 3),
    "stack": lambda x, y: torch.stack([x, x * 2], 1).flatten(0, 1) - y.amax(),
    "unfold": lambda x, y: x.unfold(0, 1, 1).squeeze(-1) * y.shape[0],
    "group": lambda x, y: F.group_norm(x.t()[None, None], 1)[0, 0].t() + y[0],
}


@pytest.mark.thorough
@settings(deadline=None, max_examples=examples(10))
@given(st.lists(st.sampled_from(sorted(OPERATORS)), min_size=1, max_size=2))
def test_random_programs_do_the_same_taken_apart_or_are_refused(names: list[str]) -> None:
    def forward(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [OPERATORS[name](x, y) for name in names]

    mod = model(forward)
    report = check(mod, (torch.randn(4, 3), torch.randn(3, 3)), dynamic_shapes=(rows("n", 1, 4), rows("m", 1, 4)))
    if report.program is None:
        return
    run = report.program.run_decompositions().module()
    for n, m in itertools.product(range(1, 5), repeat=2):
        assert agree(mod, run, (torch.randn(n, 3), torch.randn(m, 3))), (names, n, m)


@pytest.mark.thorough
def test_programs_of_regions_are_merged_though_one_cannot_be_taken_apart() -> None:
    mod = model(lambda x: x.roll(1, 0) * 2 if x.shape[0] > 3 else x.roll(2, 0))
    report = check(mod, (torch.randn(5, 3),), dynamic_shapes=(rows("n", 0, 8),), branches="split")
    merged = report.program.merged().module()
    assert all(agree(mod, merged, (torch.randn(n, 3),)) for n in range(9))
    refused = 0
    for program in report.program.programs:
        try:
            program.run_decompositions()
        except UsageError:
            refused += 1
    assert refused == 1


@pytest.mark.thorough
def test_a_rule_that_divides_by_a_stride_from_data_refuses_no_count_of_0():
    class Placed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 4)

        def forward(self, x):
            return self.linear(x.nonzero().float())

    program = export(Placed(), (torch.ones(3, 3),))
    for apart in (program, program.run_decompositions({}), program.run_decompositions()):
        assert [apart.module()(x).shape[0] for x in (torch.zeros(3, 3), torch.eye(3), torch.ones(3, 3))] == [0, 3, 9]


class Attends(torch.nn.Module):
    def forward(self, q):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)


def test_what_a_compiler_makes_of_attention_ends_no_process_at_length_0():
    """The fault: the kernel that torch.onnx takes for attention was run at length 0, by which it divides."""
    shapes = {"q": {2: Dim("s", min=0, max=4)}}
    program = export(Attends(), (torch.randn(1, 2, 3, 4),), dynamic_shapes=shapes)
    with pytest.raises(UsageError, match=r"serves sizes with q.shape\[2\] != 0 alone: .* divides by a size of 0"):
        program.taken_apart.where()
