"""A served model as a page: what was served, why something was traced, and what a declaration would have saved."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
import torch

from shapeproof.serve import compile as served
from shapeproof.serve.page import _beside
from tests.serve.test_on_demand import Branches


class Balanced(HTMLParser):
    """Sees that each element ends."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, _):
        if tag not in {"meta", "!doctype"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.thorough
def test_the_page_of_a_served_model(tmp_path):
    run = served(Branches())
    for n in (10, 20, 40, *range(60)):
        run(torch.ones(n))
    run.write_report(tmp_path / "served.html")
    page = (tmp_path / "served.html").read_text()
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert "<b>Branches</b> 63 calls, 3 missed, 3 traced, 2 programs kept" in page
    assert page.count("<svg") == 3  # the regions, the sizes seen against those served, and the misses over the calls
    ((seen, programs),) = [(seen, run.programs) for seen in run._profiles().values()]
    (size,) = _beside(seen, programs[0].key, programs)
    assert (size.name, size.served) == ("x.shape[0]", (0, None))
    assert {10, 20, 40} <= {*size.seen}
    cells = [re.sub("<[^>]*>", "", row) for row in re.findall("<tr>.*?</tr>", page)]
    assert any(each.startswith("2x.shape[0] = 20traced") and "the only one seen before" in each for each in cells)
    assert "would have saved 2 traces" in page
    declared = served(Branches(), {"x": {0: torch.export.Dim("x_0", min=10, max=40)}})
    for n in (10, 20, 40):
        declared(torch.ones(n))
    assert (declared.traced, run.traced) == (1, 3)  # as the page says


@pytest.mark.thorough
def test_a_model_that_was_not_called_and_one_of_two_sizes_and_two_dtypes():
    class Wide(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] > x.shape[1] else x * 3

    run = served(Wide())
    assert run._repr_html_() == "<div><b>Wide</b> 0 calls, 0 missed, 0 traced, 0 programs kept</div>"
    for rows, columns in ((2, 3), (5, 3), (4, 4), (7, 7)):
        run(torch.ones(rows, columns, 4))
    run(torch.ones(2, 2, dtype=torch.int64))
    page = run._repr_html_()
    assert page.count("<svg") >= 2
    assert "x.dtype = torch.int64; program" in page
    assert "&lt;=" in page
