"""The sizes that a program carries as examples of its own are not special (export/build/hints.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints import formulas as f
from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.terms import Term, constant, floor_div, maximum, minimum, symbol
from shapeproof.export import export
from shapeproof.export.build.hints import unremarkable
from shapeproof.solver.facts import Facts
from tests.thoroughness import examples

N, M = symbol("n"), symbol("m")
SIZES = st.sampled_from(
    [N, M, N - 3, maximum(N - 5, constant(0)), minimum(N, M), 2 * N, floor_div(M, constant(2)), N * M, constant(4)]
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(SIZES, min_size=1, unique=True), st.integers(3, 9), st.integers(1, 9))
def test_the_point_is_one_of_the_facts_and_no_worse(sizes: list[Term], n: int, m: int) -> None:
    facts = Facts([f.ge(N, 3), f.le(N, 9), f.ge(M, 1), f.le(M, 9)])
    found = unremarkable(sizes, facts, {"n": n, "m": m})
    assert all(holds(fact, found) for fact in facts.formulas)
    small = [sum(evaluate(size, point) < 2 for size in sizes) for point in ({"n": n, "m": m}, found)]
    assert small[1] <= small[0]
    assert small[1] == 0  # there is such a point: n = m = 9, say


@pytest.mark.parametrize("where", [slice(2, -3), slice(5, None), slice(-1, None, 2)], ids=str)
def test_a_loaded_program_says_of_no_size_that_can_be_more_that_it_is_0_or_1(where: slice, tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x[where], x]) * 2

    program = export(Model(), (torch.ones(5, 4),), dynamic_shapes=({0: Dim("n", min=0, max=20)},))
    torch.export.save(program, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2")
    sizes = [size for node in loaded.graph.nodes for size in getattr(node.meta.get("val"), "shape", ())]
    symbolic = [size for size in sizes if isinstance(size, torch.SymInt)]
    assert len(symbolic) >= 3
    assert all(size.node.hint >= 2 or where.step == 2 for size in symbolic)
    assert {size.node.hint for size in symbolic if str(size) == str(symbolic[0])} == {symbolic[0].node.hint}
