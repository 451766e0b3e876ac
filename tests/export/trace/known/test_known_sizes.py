"""What a program notes of its sizes is what they are, and torch bounds them as tightly as the solver does."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.utils._sympy.value_ranges import bound_sympy

from shapeproof.export import ConstraintViolation, export
from tests.thoroughness import examples

LARGEST = 10

STEPS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda x: x[:4],
    lambda x: x[1:],
    lambda x: x[-3:],
    lambda x: x[::2],
    lambda x: torch.cat([x, x]),
    lambda x: torch.cat([x, x]).view(-1, 2, x.shape[1]).sum(1),
    lambda x: nn.functional.pad(x, (0, 0, 0, -x.shape[0] % 4)),
    lambda x: nn.functional.max_pool1d(nn.functional.pad(x, (0, 0, 0, 2)).t(), 2).t(),
    lambda x: nn.functional.interpolate(x.t()[None], scale_factor=2.0)[0].t() if x.shape[0] else x,
    lambda x: x.t().reshape(-1, 2, 1)[:, 1],
)


class Steps(nn.Module):
    def __init__(self, *steps: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            x = step(x)
        return x + 1


class Pairs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 2, 4) * 2


class _Shapes(torch.fx.Interpreter):
    """Runs a program, and keeps the shape of each of its tensors."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__(program.module(check_guards=False))
        self.shapes: dict[str, torch.Size] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, torch.Tensor):
            self.shapes[n.name] = value.shape
        return value


def noted(program: ExportedProgram) -> Iterator[tuple[str, torch.Size]]:
    for node in program.graph.nodes:
        if isinstance(node.meta.get("val"), torch.Tensor) and node.op != "placeholder":
            yield node.name, node.meta["val"].shape


def expression(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def held_against_runs(program: ExportedProgram, sizes: range, step: int = 1) -> None:
    """Each noted size is the one that is found at every input size, and torch's upper bound the greatest of these."""
    found: dict[tuple[str, int], list[int]] = {}
    for n in sizes:
        interpreter = _Shapes(program)
        try:
            interpreter.run(torch.arange(2.0 * n * step).reshape(n * step, 2))
        except RuntimeError as error:
            assert "outside the declared domain" in str(error)  # noqa: PT017 - it says which
            continue
        for name, shape in noted(program):
            if name not in interpreter.shapes:
                continue
            for index, size in enumerate(shape):
                expr = expression(size)
                value = expr.subs(dict.fromkeys(expr.free_symbols, n * step))
                assert value == interpreter.shapes[name][index], (name, n)
                found.setdefault((name, index), []).append(interpreter.shapes[name][index])
    ranges = program.range_constraints
    for name, shape in noted(program):
        for index, size in enumerate(shape):
            if (name, index) in found:
                values = found[name, index]
                assert bound_sympy(expression(size), ranges).upper == max(values), (name, size)
                assert isinstance(size, int) == (len(set(values)) == 1), (name, size)


@settings(deadline=None, max_examples=examples(12))
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=3), st.booleans())
def test_noted_sizes_are_those_of_runs_and_their_bounds_are_attained(steps: Any, even: bool) -> None:
    step = 2 if even else 1
    half = Dim("half", min=2, max=LARGEST // step)
    try:
        program = export(Steps(*steps), (torch.ones(6, 2),), dynamic_shapes=({0: step * half if even else half},))
    except ConstraintViolation:  # the steps do not serve the domain
        return
    held_against_runs(program, range(2, LARGEST // step + 1), step)


def test_a_size_that_is_proved_constant_is_a_number() -> None:
    """The fault: it was `s//(s//2)`, of which torch knows that it is at most 16, and ExecuTorch planned [16, 32, 4]."""
    program = export(Pairs(), (torch.ones(6, 4),), dynamic_shapes=({0: 2 * Dim("d", min=1, max=8)},))
    for taken in (program, program.run_decompositions()):
        shape = taken.graph.output_node().args[0][0].meta["val"].shape
        assert [type(size) for size in shape[1:]] == [int, int]
        assert bound_sympy(expression(shape[0]), taken.range_constraints).upper == 8


def test_a_multiple_is_written_without_a_division() -> None:
    class Joined(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x.view(-1, 3, 2)] * 6).flatten()

    program = export(Joined(), (torch.ones(6, 2),), dynamic_shapes=({0: 3 * Dim("d", min=1, max=4)},))
    (size,) = program.graph.output_node().args[0][0].meta["val"].shape
    assert not expression(size).atoms(sympy.Function)


@pytest.mark.thorough
def test_what_the_domain_asserts_is_not_folded_by_it() -> None:
    program = export(Pairs(), (torch.ones(6, 4),), dynamic_shapes=({0: 2 * Dim("d", min=1, max=8)},))
    for taken in (program, program.run_decompositions(), program.run_decompositions().run_decompositions()):
        for rows in (0, 3, 18):
            with pytest.raises(RuntimeError):
                taken.module(check_guards=False)(torch.ones(rows, 4))


@pytest.mark.thorough
def test_a_decomposed_program_is_saved_with_its_slices_clamped() -> None:
    class First(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:4] * 2

    program = export(First(), (torch.ones(6, 2),), dynamic_shapes=({0: Dim("n", min=1, max=8)},)).run_decompositions()
    assert not program.graph.find_nodes(op="call_function", target=torch.sym_min)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    assert loaded.graph.find_nodes(op="call_function", target=torch.sym_min)
    for rows in (1, 4, 8):
        x = torch.arange(2.0 * rows).reshape(rows, 2)
        assert torch.equal(loaded.module()(x), First()(x))
        assert torch.equal(program.run_decompositions().module()(x), First()(x))


@pytest.mark.parametrize("sizes", [(2, 2), (1, 3)], ids=str)
def test_a_split_is_written_as_slices_where_its_first_size_varies(sizes: tuple[int, int]) -> None:
    class Split(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            left, right = x.split(list(sizes), dim=1)
            return left.sum(1) * right.sum(1)

    program = export(Split(), (torch.ones(6, 4),), dynamic_shapes=({0: Dim("n", min=1, max=8)},)).run_decompositions()
    assert not program.graph.find_nodes(op="call_function", target=torch.ops.aten.split_with_sizes.default)
    x = torch.arange(12.0).reshape(3, 4)
    assert torch.equal(program.module()(x), Split()(x))


def test_a_consumer_that_divides_asks_and_teaches_nothing():
    """torch.onnx runs a finished program's numbers again; Z3 may take minutes on the divisor of a rewritten `max`."""
    program = export(Pairs(), (torch.ones(6, 4),), dynamic_shapes=({0: Dim("n", min=2, max=8) * 2},))
    size = program.graph.find_nodes(op="placeholder")[0].meta["val"].shape[0]
    trial = size.node.shape_env.trial
    known = list(trial.region.formulas)
    assert isinstance(100 // (size - 8), torch.SymInt)
    assert list(trial.region.formulas) == known


class Added(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 2).sum(1) + (y + z.view(-1, 2)[:, 0]).view(-1, 2).sum(1)


def test_the_range_of_an_inferred_size_follows_from_the_size_it_equals():
    """The fault: `Dim.AUTO` beside `Dim(max=8)` had a range without end, and memory is planned by ranges."""
    shapes = ({0: 2 * Dim("n", min=1, max=8)}, {0: Dim.AUTO}, {0: Dim.AUTO})
    program = export(Added(), (torch.ones(6), torch.ones(6), torch.ones(12)), dynamic_shapes=shapes)
    ranges = [(2, 16), (2, 16), (4, 32)]
    assert [(int(each.lower), int(each.upper)) for each in program.range_constraints.values()] == ranges
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    assert [(int(each.lower), int(each.upper)) for each in loaded.range_constraints.values()] == ranges
    assert torch.equal(loaded.module()(torch.ones(2), torch.ones(2), torch.ones(4)), torch.full((1,), 6.0))
