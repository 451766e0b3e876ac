"""Findings with one reason speak with one voice (export/report/remedies.py)."""

from __future__ import annotations

import torch

from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export import Dim, check
from shapeproof.export.explore.findings import Finding, Outcome
from shapeproof.export.report.remedies import causes

LIMIT, BUDGET = "more than 32 traces would be needed", "the solver's budget ran out"


def found(outcome, text, reason):
    return Finding(outcome, Decision(parse_formula(text), Kind.ASSUMED, outcome=True), None, reason)


def told(*findings):
    return [[cause.finding, *cause.others] for cause in causes(findings, (), None, lambda finding: finding)]


def test_what_is_left_open_for_one_reason_is_told_once_for_the_same_sizes():
    """The fault: twice the lines, where the limit on traces left several questions about an image open."""
    first = found(Outcome.UNDECIDED, "h//4 == w//4", LIMIT)
    second = found(Outcome.UNDECIDED, "min(h, w) <= 4", LIMIT)
    batch = found(Outcome.UNDECIDED, "b != 1", LIMIT)
    other = found(Outcome.UNDECIDED, "h*w != 16", BUDGET)
    assert told(first, batch, second, other) == [[first, second], [batch], [other]]


def test_an_error_speaks_for_itself():
    errors = [found(Outcome.RAISES, "h >= 4", LIMIT), found(Outcome.RAISES, "h != 9", LIMIT)]
    open_ = found(Outcome.UNDECIDED, "h % 4 == 0", LIMIT)
    assert told(*errors, open_) == [[errors[0]], [errors[1]], [open_]]


class TwoStrides(torch.nn.Module):
    """Rounds an odd size up on one way, and down on the other."""

    def __init__(self):
        super().__init__()
        self.up, self.head = torch.nn.Conv2d(3, 3, 3, 2, 1), torch.nn.Linear(3, 2)

    def forward(self, x):
        y = self.up(x)
        y += torch.nn.functional.max_pool2d(x, 2)
        return self.head(y.mean((2, 3)))


def test_a_failure_is_told_by_the_question_of_its_cell():
    """The fault: DLA's errors at odd sizes were told as one of a batch of 1, where the model raises, too, without help.

    Torch had assumed that the batch is not 1, as well: of two assumptions the first was blamed.
    """
    height, width = (Dim(name, min=32, max=512) for name in ("height", "width"))
    shapes = {"x": {0: Dim("batch", min=1, max=8), 2: height, 3: width}}
    report = check(TwoStrides(), (torch.rand(2, 3, 64, 96),), dynamic_shapes=shapes)
    found = {each.message: [help_.text for help_ in each.help] for each in report.diagnostics}
    assert found == {
        "the model raises where `x.shape[3] % 2 != 0`": ['_width = Dim("_width", min=16, max=256)\nwidth = 2*_width'],
        "the model raises where `x.shape[2] % 2 != 0`": [
            '_height = Dim("_height", min=16, max=256)\nheight = 2*_height'
        ],
    }
