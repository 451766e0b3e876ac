"""A report in a notebook and as a page: well-formed, escaped, with the words of the text and each thing at its line."""

from __future__ import annotations

import io
from dataclasses import replace
from html.parser import HTMLParser
from typing import ClassVar

import pytest
import torch
from rich.console import Console
from torch.export import Dim

from shapeproof.constraints.records.decisions import Question
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.export import check
from shapeproof.export.report.sizes import Bound, Bounds


class Sides(torch.nn.Module):
    def forward(self, x):
        return x.nonzero() if x.shape[0] <= 4 else x - 1


def reported(branches, low=0):
    shapes = ({0: Dim("n", min=low, max=8)},)
    return check(Sides(), (torch.ones(3),), dynamic_shapes=shapes, branches=branches)


class Parsed(HTMLParser):
    """A page: its text, its ids, the addresses in it, and the text of each element that has an id."""

    VOID: ClassVar = {"meta", "img", "br", "link", "input"}

    def __init__(self, text):
        super().__init__()
        self.said, self.ids, self.addresses, self.within, self.open, self.tags = "", [], [], {}, [], []
        self.feed(text)
        self.close()
        assert self.open == [], "an element is not closed"

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.addresses += [given[name] for name in ("href", "src", "srcset", "action") if name in given]
        self.ids += [given["id"]] if "id" in given else []
        if tag not in self.VOID:
            self.open.append((tag, given.get("id")))

    def handle_endtag(self, tag):
        opened, _ = self.open.pop()
        assert opened == tag

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "style":
            return
        self.said += data
        for _, name in self.open:
            if name:
                self.within[name] = self.within.get(name, "") + data


def parsed(text):
    return Parsed(text)


def in_one_line(text):
    return " ".join(text.replace("`", "").split())


@pytest.mark.parametrize("branches", ["error", "split"])
def test_a_report_is_well_formed_and_says_what_the_text_says(branches):
    report = reported(branches)
    said = in_one_line(parsed(report._repr_html_()).said)
    assert report.status in said
    for each in [*report.domain, *report.notes, *report.regions, *(each.message for each in report.diagnostics)]:
        assert in_one_line(each) in said


def test_whatever_is_written_is_escaped():
    evil = "<script>alert('&')</script>"
    report = replace(
        reported("error"),
        diagnostics=(Diagnostic(id="branch", message=evil),),
        domain=(evil,),
        notes=(evil,),
        inputs={evil: [evil]},
        questions=(Question(evil, "proved", None, evil),),
        bounds=Bounds([Bound(evil, evil, (evil,), (None,), evil)]),
    )
    shown = report._repr_html_()
    assert "<script" not in shown
    assert "script" not in parsed(shown).tags
    assert in_one_line(parsed(shown).said).count(in_one_line(evil)) >= 9
    assert "script" not in parsed(report.html()).tags


def test_bounds_are_a_table():
    class Found(torch.nn.Module):
        def forward(self, x):
            return x.nonzero()

    report = check(Found(), (torch.ones(5, 5),))
    assert str(report.bounds) == "nonzero: i64[<=25, 2]"
    assert parsed(report.bounds._repr_html_()).said.splitlines()[-1] == "nonzeroi64<=25, 2"
    assert Bounds()._repr_html_() == ""


def test_a_refuted_report_says_nothing_of_accepted_inputs():
    """The fault: it ended in a table of them, and a note said that `x.shape[0] >= 1` is enforced at run time."""

    class Views(torch.nn.Module):
        def forward(self, x):
            return x.view(10)

    report = check(Views(), (torch.ones(10),), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    assert (report.status, report.domain, report.notes) == ("refuted", (), ())
    assert "<p>Every input with</p>" not in report._repr_html_()
    vacuous = check(
        Views(), (torch.ones(10),), dynamic_shapes={"x": {0: Dim("n", min=2, max=9)}}, constraints=("n > 9",)
    )
    assert vacuous.status == "vacuous"
    assert "<p>Every input with</p>" not in vacuous._repr_html_()
    assert "<p>Every input with</p>" in reported("split", low=2)._repr_html_()


@pytest.mark.parametrize("status", ["proved", "refuted"])
def test_what_prints_the_fields_of_a_dataclass_prints_the_report(status):
    """The fault: `rich.print(report)` showed the fields."""
    report = reported("error" if status == "refuted" else "split")
    stream = io.StringIO()
    Console(file=stream, width=120).print(report)
    assert " ".join(stream.getvalue().split()) == " ".join(str(report).split())


def test_a_contract_is_tables_of_its_inputs_and_formulas():
    class Takes(torch.nn.Module):
        def forward(self, x, *, scale=2.0, flag=None):
            return x * scale if flag is None else x

    shapes = {"x": {0: Dim("n", min=1, max=8)}, "scale": None, "flag": None}
    contract = check(Takes(), (torch.ones(3, 2),), {"scale": 3.0, "flag": None}, dynamic_shapes=shapes).contract
    page = parsed(contract._repr_html_())
    assert page.tags.count("table") == 2
    rows = page.said.splitlines()
    assert "xfloat32n, 2" in rows
    assert "scale3.0" in rows
    assert "x.shape[0] <= 8" in rows


@pytest.mark.thorough
def test_regions_show_their_report_and_without_one_their_formulas():
    regions = reported("split", low=2).program
    assert "The code, and what it asks" in regions._repr_html_()
    said = parsed(replace(regions, report=None)._repr_html_()).said
    assert all(each in said for each in regions.domains)
