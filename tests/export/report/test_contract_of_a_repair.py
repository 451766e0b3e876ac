"""The documented recipe for a contract works on what a report proposes, derived dims such as `16*_height` included."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof import contract
from shapeproof.export import check, export

HEIGHT, WIDTH = Dim("height", max=48), Dim("width", max=4)


class Rows(torch.nn.Module):
    def forward(self, x, y):
        return torch.cat([x.view(-1, 16).sum(0), y])


class Odd(torch.nn.Module):
    def forward(self, x, y):
        torch._check(x.shape[0] % 4 == 2)
        return x * 2, y


CASES = {
    "16*_height": (Rows(), 32, {0: HEIGHT}, 16, 0),
    "8*_height of 2*height": (Rows(), 32, {0: 2 * HEIGHT}, 16, 0),
    "4*_height + 2": (Odd(), 6, {0: HEIGHT}, 4, 2),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("saved", ["contract.json", "report.json", "program.pt2"])
def test_a_repaired_contract_is_saved_and_answers_for_each_size(tmp_path, name, saved):
    mod, size, entry, step, rest = CASES[name]
    args, shapes = (torch.randn(size), torch.randn(3)), (entry, {0: WIDTH})
    repair = check(mod, args, dynamic_shapes=shapes).repair()
    assert any("_height" in line for line in repair.code)
    program = export(mod, args, dynamic_shapes=repair.dynamic_shapes, constraints=repair.constraints)
    program.report.contract.save(tmp_path / "contract.json")
    program.report.save(tmp_path / "report.json")
    torch.export.save(program, tmp_path / "program.pt2")
    loaded = contract.load(tmp_path / saved)
    most = 96 if entry[0] is not HEIGHT else 48
    for rows in range(most + 20):
        accepted = rows % step == rest and rows <= most
        assert bool(loaded.accepts({"x": (rows,), "y": (3,)})) == accepted, rows
        assert bool(loaded.accepts(torch.ones(rows), torch.ones(3))) == accepted, rows
    assert loaded.wrap(lambda x, _: x.shape[0])(*args) == size
    assert "_height" in str(loaded.accepts({"x": (size + 1,), "y": (3,)}))
