"""A report in a notebook: well-formed, escaped, and with the words of the text."""

from __future__ import annotations

import html
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.export import check
from shapeproof.export.report.bounds import Bound, Bounds


class Sides(torch.nn.Module):
    def forward(self, x):
        return x.nonzero() if x.shape[0] <= 4 else x - 1


def reported(branches, low=0):
    shapes = ({0: Dim("n", min=low, max=8)},)
    return check(Sides(), (torch.ones(3),), dynamic_shapes=shapes, branches=branches)


def parsed(text):
    return ET.fromstring(f"<body>{text}</body>")  # noqa: S314 - what we wrote


@pytest.mark.parametrize("branches", ["error", "split"])
def test_a_report_is_well_formed_and_says_what_the_text_says(branches):
    report = reported(branches)
    body = parsed(report._repr_html_())
    said = " ".join("".join(body.itertext()).split())
    assert report.status in said
    for each in [*report.domain, *report.notes, *report.regions, *(each.message for each in report.diagnostics)]:
        assert each in said


def test_whatever_is_written_is_escaped():
    evil = "<script>alert('&')</script>"
    report = replace(
        reported("error"),
        diagnostics=(Diagnostic(id="branch", message=evil),),
        domain=(evil,),
        notes=(evil,),
        inputs={evil: [evil]},
        bounds=Bounds([Bound(evil, evil, (evil,), (None,), evil)]),
    )
    shown = report._repr_html_()
    assert "<script" not in shown
    assert shown.count(html.escape(evil)) >= 8
    parsed(shown)


def test_bounds_are_a_table():
    class Found(torch.nn.Module):
        def forward(self, x):
            return x.nonzero()

    report = check(Found(), (torch.ones(5, 5),))
    assert str(report.bounds) == "nonzero: i64[<=25, 2]"
    rows = parsed(report.bounds._repr_html_()).findall("table/tr")
    assert [cell.text for cell in rows[1]] == ["nonzero", "i64", "<=25, 2", None]
    assert Bounds()._repr_html_() == ""
