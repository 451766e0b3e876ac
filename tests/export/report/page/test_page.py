"""The page of a report: each question and finding at its line, and nothing said that is not known."""

from __future__ import annotations

import itertools
import linecache
import re
import sys

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export import Report, check, load_report
from tests.export.report.page.test_html import in_one_line, parsed
from tests.export.report.test_text import defined

MODEL = """
class Model(torch.nn.Module):
    def forward(self, x, y):
        rows = x.view(-1, 4)
        if y.shape[0] > 5:
            rows = rows * 2
        found = y.nonzero()
        torch._check(found.shape[0] != 1)
        return rows, torch.cat([y, y * 3]), found, x + torch.ones(8)
"""
CALLED = """
n = Dim("n", min=1, max=40)
report = check(model, (torch.ones(8), torch.ones(7)), dynamic_shapes=({0: n}, {0: Dim("m", min=1, max=30)}))
"""


@pytest.fixture(scope="module")
def report():
    model = defined(MODEL, "page_model.py")["Model"]()
    return defined(CALLED, "page_call.py", model=model)["report"]


@pytest.fixture(scope="module")
def page(report):
    return parsed(report.html())


def at(page, file, line):
    """The text at a line of a file."""
    number = [name for name in page.within if re.fullmatch(rf"m1-f\d+-{line}", name)]
    files = {name: page.within[name] for name in number}
    text = linecache.getline(file, line).strip()
    return in_one_line(" ".join(said for said in files.values() if in_one_line(text) in in_one_line(said)))


def test_every_question_is_at_its_line_with_how_it_was_settled(report, page):
    assert {each.settled for each in report.questions} >= {"proved", "refuted", "from data"}
    for each in report.questions:
        here = at(page, each.where.file, each.where.line) if each.where else in_one_line(page.said)
        assert f"{each.settled} {each.text}" in here


def test_every_finding_is_named_at_its_line_and_told_whole(report, page):
    assert len(report.diagnostics) == 2
    for number, each in enumerate(report.diagnostics, 1):
        assert f"{number} {each.id}" in at(page, each.file, each.line)
        told = in_one_line(page.within[f"m1-d{number}"])
        for part in [each.message, *(n.text for n in each.notes), *(h.text for h in each.help)]:
            assert in_one_line(part) in told


def test_a_declaration_is_shown_where_it_stands(page):
    assert 'x.shape[0] = Dim("n", min=1, max=40)' in at(page, "page_call.py", 2)


def test_the_repair_stands_beside_what_was_declared(report, page):
    told = page.within["m1"]
    for each in report.repair().code:
        assert each in told


def test_nothing_is_fetched_and_no_id_is_there_twice(report, page):
    assert len(set(page.ids)) == len(page.ids)
    assert page.addresses
    for address in page.addresses:
        assert address.startswith("data:image/svg+xml;base64,") or address.removeprefix("#") in page.ids, address
    assert not re.search(r"https?:|url\(|@import|<script|<link", report.html())


def test_a_page_is_written_and_a_saved_report_has_the_same(report, tmp_path):
    assert report.html(tmp_path / "page.html") == (tmp_path / "page.html").read_text(encoding="utf-8")
    report.save(tmp_path / "report.json")
    loaded = load_report(tmp_path / "report.json")
    assert loaded.questions == report.questions
    assert parsed(loaded.html()).said.replace("report", "Model") == parsed(report.html()).said.replace(
        "report", "Model"
    )


def test_of_a_file_that_has_changed_no_line_is_shown_but_those_the_report_has(report):
    """The fault to avoid: a margin beside lines that were not there when the model was checked."""
    kept = linecache.cache["page_model.py"]
    changed = MODEL.replace("        rows = x.view(-1, 4)\n", "        other = 1\n        rows = x.view(-1, 4)\n")
    linecache.cache["page_model.py"] = (len(changed), None, changed.splitlines(keepends=True), "page_model.py")
    try:
        said = parsed(report.html()).said
    finally:
        linecache.cache["page_model.py"] = kept
    assert "other = 1" not in said
    assert "def forward" not in said
    assert "rows = x.view(-1, 4)" in said


def test_a_dim_to_draw_must_be_there(report):
    assert report.html(dims=["y.shape[0]"]) != report.html()
    with pytest.raises(UsageError, match="no dim is called 'z'"):
        report.html(dims=["z"])


class Mixed(torch.nn.Module):
    def forward(self, x, y):
        z = (x @ y).relu() if x.shape[0] > 3 else x @ y + 1
        return z.reshape(-1, 2) if z.shape[1] % 2 == 0 else z.flatten()


@pytest.mark.parametrize("branches", ["error", "split"])
@pytest.mark.parametrize("bounds", [{"min": 1, "max": 9}, {"min": 4, "max": 9}, {"max": 6}])
def test_what_is_called_proved_holds_at_every_declared_size(branches, bounds):
    """The fault to avoid: an answer that follows from a branch that was taken, shown as one for all sizes."""
    shapes = ({0: Dim("n", **bounds)}, {1: Dim("m", min=0, max=5)})
    report = check(Mixed(), (torch.ones(4, 3), torch.ones(3, 4)), dynamic_shapes=shapes, branches=branches)
    names = {"x.shape[0]": "x0", "y.shape[1]": "y1"}
    proved = [each.text for each in report.questions if each.settled == "proved"]
    assert proved
    low = bounds.get("min", 2)
    for text in proved:
        formula = parse_formula(text.replace("x.shape[0]", "x0").replace("y.shape[1]", "y1"))
        assert formula.symbols <= set(names.values())
        for x, y in itertools.product(range(low, bounds["max"] + 1), range(6)):
            assert holds_at(formula, {"x0": x, "y1": y}), (text, x, y)


def test_on_a_proved_page_nothing_is_refuted():
    report = check(torch.nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("n", min=0, max=9)},))
    assert report.status == "proved"
    assert not {each.settled for each in report.questions} & {"refuted", "undecided"}
    assert "What the program accepts" in report.html()
    assert f"{report.peak_bytes_bound:,} bytes" in report.html()


def test_without_matplotlib_the_page_says_what_a_plot_needs(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "a plot needs matplotlib: pip install" in parsed(report.html()).said
    with pytest.raises(UsageError, match="a plot needs matplotlib"):
        report.html(dims=["y.shape[0]"])


@pytest.mark.quick
@pytest.mark.parametrize("status", ["proved", "refuted", "undecided", "vacuous"])
def test_a_report_of_which_little_is_known_is_a_page(status):
    for text in (Report(status).html(), Report(status)._repr_html_()):
        assert parsed(text).said.split().count(status) >= 1
