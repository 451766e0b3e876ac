"""What check_operator has proved is carried into exports, for the calls that it speaks of and no others."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, export, load_report
from shapeproof.operators import TensorSpec, check_operator
from tests.calling import Calls

ROWS = Dim("rows", min=0, max=64)
NAME = "shapeproof_checked::half"


@torch.library.custom_op(NAME, mutates_args=())
def half(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    return x[: (x.shape[0] + 1) // 2].clone() * times


def fake(x, times=2):  # noqa: ARG001 - as the kernel
    return x.new_empty((x.shape[0] + 1) // 2, *x.shape[1:])


half.register_fake(fake)


def once(x):
    return half(x)


def report(forward, rows=32, columns=3, dtype=torch.float32, **options):
    shapes = ({0: Dim("n", min=0, max=rows)},)
    return check(Calls(forward), (torch.ones(6, columns, dtype=dtype),), dynamic_shapes=shapes, **options)


def prove(columns=3):
    assert check_operator(half, (TensorSpec(torch.float32, (ROWS, columns)),)).status == "proved"


@pytest.mark.thorough
def test_an_operator_that_was_proved_is_trusted_no_longer_where_the_proof_speaks_of_the_call():
    half.register_fake(lambda x, times=2: fake(x, times))  # whatever was proved before is of another fake
    assert set(report(once).trusted) == {NAME}
    prove()
    found = report(lambda x: half(x * 2).relu())
    assert (found.status, found.trusted) == ("proved", {})
    assert [each.partition(" (")[0] for each in found.notes] == [f"checked: {NAME}"]
    beyond = {
        "rows beyond those proved": report(once, rows=65),
        "another width": report(once, columns=4),
        "another dtype": report(once, dtype=torch.float64),
        "another number": report(lambda x: half(x, 3)),
        "a call of two that is beyond": report(lambda x: half(torch.cat([half(x), x, x]))),
        "another layout": report(lambda x: half(x.repeat(1, 2)[:, ::2])),
    }
    assert {name: set(each.trusted) for name, each in beyond.items()} == {key: {NAME} for key in beyond}
    assert not any(each.startswith("checked") for found in beyond.values() for each in found.notes)


def test_another_fake_is_trusted_again():
    prove()
    assert report(once).trusted == {}
    half.register_fake(lambda x, times=2: fake(x, times))
    assert set(report(once).trusted) == {NAME}


def test_trusted_operators_are_saved_and_loaded(tmp_path):
    program = export(Calls(lambda x: half(x, 5)), (torch.ones(6, 3),), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    assert set(program.report.trusted) == {NAME}
    program.report.save(tmp_path / "report.json")
    torch.export.save(program, tmp_path / "program.pt2")
    for saved in ("report.json", "program.pt2"):
        assert load_report(tmp_path / saved).trusted == program.report.trusted, saved


def test_the_regions_of_a_split_name_what_was_compared_nowhere():
    def forward(x):
        return half(x) if x.shape[0] > 3 else half(x, 7)

    assert set(report(forward, branches="split").trusted) == {NAME}
