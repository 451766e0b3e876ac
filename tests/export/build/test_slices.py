"""How slices are clamped is written into a program that is saved (export/build/program.py): nobody asks the example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim

from shapeproof.export import export
from tests.thoroughness import examples

BOUNDS = st.none() | st.integers(-9, 9)
LARGEST = 12


class _Sliced(nn.Module):
    def __init__(self, *where: slice) -> None:
        super().__init__()
        self.where = where

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [x[each] for each in self.where]


class _Ordered(torch.fx.Interpreter):
    """Runs a program, and sees that the bounds of each slice lie within the size and in order."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is torch.ops.aten.slice.Tensor:
            x, dim, start, end = args[:4]
            assert 0 <= start <= min(end, x.shape[dim])
            assert end <= x.shape[dim] or end == torch.iinfo(torch.int64).max
        return super().call_function(target, args, kwargs)


@pytest.mark.thorough
@settings(deadline=None, max_examples=examples(25))
@given(st.lists(st.builds(slice, BOUNDS, BOUNDS, st.none() | st.integers(1, 3)), min_size=1, max_size=3))
def test_written_bounds_are_those_that_eager_takes_at_every_size(where: list[slice]) -> None:
    model = _Sliced(*where)
    program = export(model, (torch.ones(7, 2),), dynamic_shapes=({0: Dim("n", min=0, max=LARGEST)},))
    program.validate()  # as a save does
    interpreter = _Ordered(program.module(check_guards=False))
    for n in range(LARGEST + 1):
        x = torch.arange(2.0 * n).reshape(n, 2)
        for mine, eager in zip(interpreter.run(x), model(x), strict=True):
            assert torch.equal(mine, eager)


def test_a_slice_that_lies_within_every_size_stays_as_it_is() -> None:
    program = export(_Sliced(slice(1, 3)), (torch.ones(7, 2),), dynamic_shapes=({0: Dim("n", min=3, max=9)},))
    program.validate()
    (node,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.slice.Tensor)
    assert list(node.args[1:4]) == [0, 1, 3]


@pytest.mark.thorough
def test_a_slice_in_a_branch_is_written_too() -> None:
    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda y: y[:5].sum(), lambda y: y.sum(), (x,))

    program = export(Branching(), (torch.ones(7, 2),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))
    program.validate()
    modules = [each for each in program.graph_module.modules() if isinstance(each, torch.fx.GraphModule)]
    slices = [n for m in modules for n in m.graph.find_nodes(op="call_function", target=torch.ops.aten.slice.Tensor)]
    assert slices
    assert all(isinstance(node.args[3], torch.fx.Node) for node in slices)


def test_a_program_that_was_saved_comes_apart_without_minimum_and_maximum(tmp_path: Path) -> None:
    """The fault of a first draft: only core programs made before a save were in operators that every runtime has."""
    model = _Sliced(slice(12), slice(-5, None), slice(2, -3))
    program = export(model, (torch.ones(7, 2),), dynamic_shapes=({0: Dim("n", min=0, max=LARGEST)},))
    assert not {torch.sym_min, torch.sym_max} & {node.target for node in program.graph.nodes}
    torch.export.save(program, tmp_path / "program.pt2")
    assert {torch.sym_min, torch.sym_max} <= {node.target for node in program.graph.nodes}
    core = program.run_decompositions()
    assert not {torch.sym_min, torch.sym_max} & {node.target for node in core.graph.nodes}
    for form in (program.module(), core.module()):
        for n in range(LARGEST + 1):
            x = torch.randn(n, 2)
            assert all(map(torch.equal, form(x), model(x)))


@pytest.mark.slow
@pytest.mark.parametrize("where", [slice(12), slice(-5, None), slice(2, -3)], ids=str)
def test_a_loaded_program_is_compiled_for_both_sides_of_a_slice(where: slice, tmp_path: Path) -> None:
    """The fault: `x[:12]`, saved at 5 rows, loaded and compiled by AOTInductor, gave all of 20 rows.

    And `x[2:-3]` gave none, ever, since there are none of 5.
    """
    model = _Sliced(where)
    program = export(model, (torch.ones(5, 4),), dynamic_shapes=({0: Dim("n", min=0, max=20)},))
    torch.export.save(program, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2")
    package = torch._inductor.aoti_compile_and_package(loaded, package_path=str(tmp_path / "package.pt2"))
    compiled = torch._inductor.aoti_load_package(package)
    for n in range(21):
        x = torch.randn(n, 4)
        assert torch.equal(compiled(x)[0], model(x)[0])
