"""Sizes that a run, and no decision, wants equal: given up where they are inferred, refuted where they are claimed.

The models ask whether they are traced, as transformers does before it drops an attention mask that masks nothing.
"""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import OutsideDomain, check, export


class DropsTheMask(torch.nn.Module):
    """In eager a mask of ones is not looked at, however many rows it has."""

    def forward(self, x, mask, other):
        if not torch.compiler.is_compiling() and bool(mask.all()):
            return x * 2, other
        return torch.where(mask[torch.arange(x.shape[0])], x * 2, x), other


class Differs(torch.nn.Module):
    """Eager does something else at some sizes, equal or not."""

    def forward(self, x, mask, other):
        if not torch.compiler.is_compiling() and x.numel() == 0:
            return torch.cat([x, x.new_ones(1)]), mask, other
        return x * 2, mask, other


def inputs(rows=3, others=3, more=3):
    return torch.randn(rows), torch.ones(others, dtype=torch.bool), torch.randn(more)


def auto(*names):
    return tuple({0: Dim.AUTO if name is None else Dim(name)} for name in names)


def test_inferred_sizes_are_kept_as_equal_as_in_the_example_and_no_more_than_that():
    program = export(DropsTheMask(), inputs(), dynamic_shapes=auto(None, None, None))
    assert program.report.status == "proved"
    assert [note for note in program.report.notes if "==" in note] == [
        "inferred and enforced at run time: mask.shape[0] == x.shape[0]"
    ]
    run = program.module()
    for rows, more in ((0, 4), (1, 1), (7, 0)):
        given = inputs(rows, rows, more)
        torch.testing.assert_close(run(*given), DropsTheMask()(*given))
    with pytest.raises(OutsideDomain):
        run(*inputs(3, 2))


@pytest.mark.thorough
@pytest.mark.parametrize("shapes", [auto("n", "m", None), auto(None, "m", "k")])
def test_a_claim_is_never_given_up(shapes):
    report = check(DropsTheMask(), inputs(), dynamic_shapes=shapes)
    assert (report.status, report.diagnostics[0].id) == ("refuted", "replay")


def test_sizes_that_are_not_equal_in_the_example_are_not_kept_equal():
    report = check(DropsTheMask(), inputs(3, 5), dynamic_shapes=auto(None, None, None))
    assert (report.status, report.diagnostics[0].id) == ("refuted", "replay")


def test_a_difference_that_equal_sizes_have_too_is_refuted():
    report = check(Differs(), inputs(), dynamic_shapes=auto(None, None, None))
    assert (report.status, report.diagnostics[0].id) == ("refuted", "replay")
