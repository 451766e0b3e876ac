"""Checks in the model's own code: of counts that must equal a size of another input, and of sizes."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree

# ---------------------------------------------------------------------- counts that must be those of another input


class Counting(torch.nn.Module):
    """Raises unless as many elements of the mask are true as there are rows."""

    def __init__(self, differ):
        super().__init__()
        self.differ = differ

    def forward(self, mask, rows):
        if self.differ(mask, rows):
            raise ValueError("image tokens do not match")
        return rows + 1


DIFFER = {
    "nonzero": lambda mask, rows: mask.nonzero().shape[0] != rows.shape[0],
    "masked": lambda mask, rows: mask[mask].numel() != rows.shape[0],
    "summed": lambda mask, rows: mask.sum().item() != rows.shape[0],
}


@pytest.mark.thorough
@pytest.mark.parametrize("count", DIFFER)
def test_a_count_that_must_equal_a_size_is_a_check(count):
    """The faults: a side that raises was no check, as an operator had asked of the count; a mask cannot hold a sum."""
    tokens, mod, mask = {0: Dim("tokens", min=1, max=9)}, Counting(DIFFER[count]), torch.tensor([True, False, True])
    args, shapes = (mask, torch.ones(2, 4)), (tokens, {0: Dim("rows", min=1, max=4)})
    report = check(mod, args, dynamic_shapes=shapes)
    assert [each.help[0].text for each in report.diagnostics] == ['constraints=["rows <= tokens"]']
    report = check(mod, args, dynamic_shapes=shapes, constraints=["rows <= tokens"])
    assert report.status == "proved", str(report)
    for size, rows in ((1, 1), (3, 2), (9, 4)):
        for true in range(size + 1):
            assert agree(mod, report.program.module(), (torch.arange(size) < true, torch.ones(rows, 4)))


# ---------------------------------------------------------------------- the model's own `raise`


class Checked(torch.nn.Module):
    """Checks a size, and asks for the same again in an operator."""

    def forward(self, x):
        assert x.shape[0] % 4 == 0, "not a multiple of 4"
        return x.view(-1, 4).mean(-1)


def test_the_cause_of_an_error_is_the_models_assert_and_no_operators_question():
    """The fault: `x.shape[0]//4 != 0` of the view was said to be the cause, beside the text of the assert."""
    report = check(Checked(), (torch.ones(8),), dynamic_shapes=({0: Dim("n", min=1, max=16)},))
    (found,) = report.diagnostics
    assert found.message == "the model raises where `x.shape[0] % 4 != 0`"
    assert "assert" in str(report).splitlines()[1]
