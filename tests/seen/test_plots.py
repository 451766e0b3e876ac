"""Plots of sizes seen against sizes served: drawn where the extra is installed, one sentence where it is not."""

from __future__ import annotations

import sys
from xml.etree import ElementTree as ET

import pytest

from shapeproof.constraints.errors import UsageError
from shapeproof.seen import Seen
from shapeproof.seen.plots import MISSING, SeenSize, plot_html, svg
from tests.seen.calls import Tensor

SIZES = (
    SeenSize("x.shape[0]", (3, 7, 300), (300,), (0, 64)),
    SeenSize("x.shape[1] < 4 & more", (5, 9), (), (2, None)),
    SeenSize("k", (-4, 2**80), (), None),
)


@pytest.fixture
def without(monkeypatch):
    """As where the extra is not installed."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.thorough
def test_each_size_is_a_row_of_an_svg_that_is_the_same_each_time():
    pytest.importorskip("matplotlib", reason="the plots extra")
    text = svg(SIZES)
    page = ET.fromstring(text)  # noqa: S314 - written here
    said = {node.text for node in page.iter() if node.tag.endswith("text")}
    assert {size.name for size in SIZES} <= said
    assert text.startswith("<svg")
    assert svg(SIZES) == text
    assert "#cf222e" in text
    assert "#cf222e" not in svg(SIZES[1:])


@pytest.mark.usefixtures("without")
def test_without_the_extra_it_is_one_sentence():
    with pytest.raises(UsageError, match="a plot needs matplotlib"):
        svg(SIZES)
    assert plot_html(SIZES) == f"<div>{MISSING.replace(chr(34), '&quot;')}</div>"


def test_what_never_varied_has_no_plot():
    seen = Seen()
    seen.add((Tensor(3, 4),), names=("x",))
    assert seen._repr_html_() == "<pre>L[&#x27;x&#x27;]: tensor size=[3, 4] stride=[4, 1]</pre>\n"
    with pytest.raises(UsageError, match="there is nothing to draw"):
        svg([])


@pytest.mark.usefixtures("without")
def test_a_notebook_shows_the_text_of_a_profile_in_any_case():
    seen = Seen()
    for n in (3, 9):
        seen.add((Tensor(n),), names=("x",))
    assert "size=[?]" in seen._repr_html_()
    assert "pip install" in seen._repr_html_()
