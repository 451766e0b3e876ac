"""The page and the chart of what exports cost say what the committed results say."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from benchmarks import footprint
from benchmarks.bars import APART, Bar, bars
from benchmarks.chart import CHART, PAGE, RESULTS, chart, with_figures
from benchmarks.models import MODELS


def record():
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def row(model, ratio, outcome="proved", seconds=1.0, theirs="exported"):
    ours = {"seconds": seconds, "outcome": outcome}
    return {"model": model, "ratio": ratio, "torch": {"seconds": 1.0, "outcome": theirs}, "shapeproof": ours}


def test_the_page_shows_the_committed_figures():
    page = PAGE.read_text(encoding="utf-8")
    assert with_figures(page, record()) == page


def test_the_chart_shows_the_committed_figures():
    shown = CHART.read_text(encoding="utf-8")
    assert chart(record()["rows"]) == shown
    ET.fromstring(shown)  # noqa: S314 - it is ours


def test_every_model_of_a_bar_is_measured():
    assert set(APART) <= MODELS.keys()
    assert {each["model"] for each in record()["rows"]} <= MODELS.keys()


def test_each_bar_has_a_figure():
    rows = [row("bert", 1.5), row("llama", 0.8), row("llama_32_layers", 0.9, seconds=9.0), row("vit", 1.2, "undecided")]
    rows += [
        row("towers", 1.4, theirs="UserError"),
        row("swin", 0.2),
        row("swin_four_stages", 0.2),
        row("dims_1", 3.0),
        row("dims_16", 3.0),
        row("x.auto", 9.0),
    ]
    more = {"peak_bytes": {"torch": 100, "shapeproof": 110}, "help": {"seconds": 0.1, "imports_torch": True}}
    met = {bar.name: bar.is_met for bar in bars({"rows": rows, **more})}
    assert met == {
        "median ratio": False,
        "worst ratio (bert)": True,
        "ratio of llama": True,
        "ratio of llama_32_layers": False,
        "ratio of vit": False,
        "ratio of swin": True,
        "power of the layers by which Llama grows": False,
        "dims_16 by dims_1": True,
        "swin_four_stages by swin": True,
        "peak memory of an export": True,
        "seconds of shapeproof --help": False,
    }


def test_a_bar_is_met_at_its_figure():
    assert Bar("b", 2.0, 2.0).is_met
    assert not Bar("b", 0.1, 2.0, "not ended").is_met


def test_help_imports_no_torch():
    assert footprint.start_of_help()["imports_torch"] is False


def test_a_child_that_fails_is_an_error():
    with pytest.raises(RuntimeError, match="no_such_module"):
        footprint.in_child("-m", "no_such_module")
