"""The map of a split model: the regions as a table and as a picture, held against the formulas at every size."""

from __future__ import annotations

import itertools
import math
import re
from xml.etree import ElementTree as ET

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export import check, load_report
from shapeproof.export.report.region_map import RegionMap
from tests.agreement import agree


def formulas(*texts):
    return tuple(map(parse_formula, texts))


LINE = RegionMap(
    formulas("n != 10 and n <= 30", "n != 10 and n >= 31", "n == 10"),
    formulas("n >= 0", "n <= 60"),
    (),
    {"n": "x.shape[0]"},
)
PLANE = RegionMap(
    formulas("h <= w", "h >= w + 1"),
    formulas("h >= 1", "h <= 24", "w >= 1", "w <= 24", "h*w <= 320"),
    formulas("h == 7", "h % 8 == 0 and w == 3"),
    {"h": "x.shape[0]", "w": "x.shape[1]"},
)


MAPS = {"line": LINE, "plane": PLANE}


def drawn(regions):
    """The fill of each drawn cell as (column, row from below, fill), for a map of sizes that are all drawn."""
    root = ET.fromstring(regions.svg())  # noqa: S314 - written here
    dims = regions._dims()
    columns, *rows = (interval.upper - interval.lower + 1 for interval in dims.values())
    boxes = [e for e in root.iter("{http://www.w3.org/2000/svg}rect") if "stroke" not in e.attrib and "x" in e.attrib]
    left = min(float(e.get("x")) for e in boxes)
    top = min(float(e.get("y")) for e in boxes)
    wide = 480 / columns
    for box in boxes:
        start, count = (float(box.get("x")) - left) / wide, float(box.get("width")) / wide
        row = round((float(box.get("y")) - top) / float(box.get("height")))
        for column in range(round(start), round(start + count)):
            yield column, (rows[0] if rows else 1) - 1 - row, box.get("fill")


@pytest.mark.parametrize("name", MAPS)
def test_the_picture_is_golden(golden, name):
    golden.check(f"export/map_{name}.svg", MAPS[name].svg())


@pytest.mark.parametrize("name", MAPS)
def test_the_table_is_golden(golden, name):
    golden.check(f"export/map_{name}.txt", str(MAPS[name]))


@pytest.mark.parametrize("name", MAPS)
def test_every_cell_has_the_colour_of_where_its_size_goes(name):
    regions = MAPS[name]
    lows = [interval.lower for interval in regions._dims().values()]
    colours = {}
    cells = list(drawn(regions))
    for column, row, fill in cells:
        point = dict(zip(regions._dims(), (lows[0] + column, *(low + row for low in lows[1:])), strict=True))
        assert colours.setdefault(regions.where(point), fill) == fill, point
    assert len(set(colours.values())) == len(colours)
    sizes = [range(i.lower, i.upper + 1) for i in regions._dims().values()]
    assert len(cells) == len(list(itertools.product(*sizes)))


def test_a_long_range_is_sampled_and_says_so():
    text = RegionMap(formulas("n <= 30", "n >= 31"), formulas("n >= 0", "n <= 4096")).svg()
    assert "n, every 33" in text
    assert len(re.findall("<rect", text)) < 10


def test_a_name_is_escaped():
    regions = RegionMap(formulas("n <= 3", "n >= 4"), formulas("n >= 0", "n <= 9"), (), {"n": "x['<&'].shape[0]"})
    assert ET.fromstring(regions.svg()) is not None  # noqa: S314 - written here


@pytest.mark.parametrize("names", [(), ("a", "b", "c")])
def test_another_number_of_dims_has_no_picture(names):
    regions = RegionMap(formulas(*(f"{name} <= 3" for name in names)))
    assert regions._repr_svg_() is None
    with pytest.raises(UsageError, match="a map has one or two dims, and these regions have"):
        regions.svg()


class Branches(torch.nn.Module):
    """Raises at seven."""

    def forward(self, x):
        if x.shape[0] == 7:
            raise ValueError
        return x + 1 if x.shape[0] > 3 else x


def test_the_report_of_a_split_model_draws_itself(tmp_path):
    """Refuted areas are marked, and a saved report draws the same."""
    shapes = {"x": {0: Dim("n", min=1, max=20)}}
    report = check(Branches(), (torch.randn(5),), dynamic_shapes=shapes, branches="split")
    (name,) = report.regions._dims()
    kinds = [report.regions.where({name: n}) for n in range(22)]
    assert [n for n, kind in enumerate(kinds) if kind == "refuted"] == [7]
    assert [n for n, kind in enumerate(kinds) if kind == "refused"] == [0, 21]
    assert len(set(kinds)) == 4
    report.save(tmp_path / "report.json")
    assert load_report(tmp_path / "report.json").regions.svg() == report.regions._repr_svg_()


def test_regions_whose_conditions_are_not_defined_everywhere_are_drawn():
    """The fault: below five the square root raises, and so did the table, the picture and the question where."""

    class Roots(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0]
            if n < 5:
                return x + 1
            return x * 2 if int(math.sqrt(n - 5)) > 2 else x * 3

    shapes = ({0: Dim("n", min=0, max=30)},)
    report = check(Roots(), (torch.ones(7),), dynamic_shapes=shapes, branches="split")
    assert report.status == "proved"
    (name,) = report.regions.names
    places = [report.regions.where({name: n}) for n in range(31)]
    assert len({*places[:5]}) == len({*places[5:14]}) == len({*places[14:]}) == 1
    assert len({*places}) == len(report.regions) == 3
    assert str(report.regions)
    assert report.regions.svg()
    run = report.program.module()
    assert all(agree(Roots(), run, (torch.ones(n),)) for n in range(31))
