"""A branch on a float from data: the report says where the number is taken, and the check that it offers settles it."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.export.random_programs import built

SHAPES = {"x": {0: Dim("n", min=1, max=8)}}
MODEL = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.6))

    def forward(self, x):
        {before}
        if {condition}:
            return x * 2
        return x - 1
"""
CASES = {
    "item": ("pass", "x.mean().item() > 0.5", "x_item = x.mean().item(); torch._check(torch.sym_not(0.5 < x_item))"),
    "named": ("m = x.mean().item()", "m > 0.5", "torch._check(torch.sym_not(0.5 < m))"),
    "with a size": ("s = self.scale.item()", "s * x.shape[0] > 1.5", "torch._check(1.5 < s * x.shape[0])"),
    "arithmetic": ("m = x.sum().item()", "2.0 - m / 4 <= -m", "torch._check(2.0 - m / 4.0 <= -m)"),
    "nan": ("m = x.sum().item()", "m != m", "torch._check(torch.sym_not(m != m))"),
}


def model(before, condition):
    return built(MODEL.format(before=before, condition=condition))


def verdict(mod):
    return check(mod, (torch.full((3, 2), -2.0),), dynamic_shapes=SHAPES)


@pytest.mark.parametrize("name", CASES)
def test_the_offered_check_is_pasted_and_settles_the_branch(name):
    before, condition, expected = CASES[name]
    report = verdict(model(before, condition))
    (found,) = report.diagnostics
    assert (report.status, found.id) == ("refuted", "data-dependent")
    assert [each.text for each in found.help] == [expected]
    names_it = "_item = " in expected
    pasted = model(expected if names_it else f"{before}; {expected}", "x_item > 0.5" if names_it else condition)
    assert verdict(pasted).status == "proved"


def test_the_line_where_a_float_without_a_name_is_taken_is_shown():
    (found,) = verdict(model("pass", "x.mean().item() > 0.5")).diagnostics
    (note,) = [note for note in found.notes if "is taken from data at" in note.text]
    assert note.text.endswith("if x.mean().item() > 0.5:")


def test_a_float_check_that_code_cannot_write_is_not_offered():
    (found,) = verdict(model("m = x.sum().item()", "abs(m) > 0.5")).diagnostics
    assert found.help == ()
