"""A report in a notebook: well-formed, escaped, and with the words of the text."""

from __future__ import annotations

import html
import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
import rich
import torch
from torch.export import Dim

from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.export import check
from shapeproof.export.report.sizes import Bound, Bounds


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


def test_a_refuted_report_says_nothing_of_accepted_inputs():
    """The fault: it ended in a table of them, and a note said that `x.shape[0] >= 1` is enforced at run time."""

    class Views(torch.nn.Module):
        def forward(self, x):
            return x.view(10)

    report = check(Views(), (torch.ones(10),), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    assert (report.status, report.domain, report.notes) == ("refuted", (), ())
    assert "for every input with" not in report._repr_html_()
    vacuous = check(
        Views(), (torch.ones(10),), dynamic_shapes={"x": {0: Dim("n", min=2, max=9)}}, constraints=("n > 9",)
    )
    assert vacuous.status == "vacuous"
    assert "for every input with" not in vacuous._repr_html_()


@pytest.mark.parametrize("status", ["proved", "refuted"])
def test_what_prints_the_fields_of_a_dataclass_prints_the_report(status):
    """The fault: `rich.print(report)` showed the fields."""
    report = reported("error" if status == "refuted" else "split")
    stream = io.StringIO()
    rich.print(report, file=stream)
    assert " ".join(stream.getvalue().split()) == " ".join(str(report).split())
