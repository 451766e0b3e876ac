"""The map of a split model: the regions as a table and as a picture, held against the formulas at every size."""

from __future__ import annotations

import base64
import io
import itertools
import math
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
import torch
from PIL import Image
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
    """The colour of each cell of the drawn image as (column, row from below, colour)."""
    text = regions.svg()
    address = re.search(r'href="data:image/png;base64,([^"]+)"', text)[1]
    assert re.search(r'transform="matrix\([\d.]+ 0 0 -', text), "the first row of the image is to be the lowest"
    image = Image.open(io.BytesIO(base64.b64decode(address))).convert("RGB")
    across = regions.picture().axes[0][1]
    rows = regions.picture().rows
    wide, high = image.width / len(across), image.height / len(rows)
    for row in range(len(rows)):
        for column in range(len(across)):
            yield column, row, image.getpixel((int((column + 0.5) * wide), int((row + 0.5) * high)))


@pytest.mark.parametrize("name", MAPS)
def test_of_the_same_regions_the_same_picture_is_drawn(name):
    assert MAPS[name].svg() == replace(MAPS[name]).svg()


@pytest.mark.quick
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


@pytest.mark.quick
@pytest.mark.parametrize("divisor", [2, 3, 6, 35])
def test_a_sample_has_every_remainder(divisor):
    """The fault: of sizes up to 256 every second one was drawn, and `n % 2 == 0` seemed to hold nowhere."""
    regions = RegionMap((), formulas("n >= 1", "n <= 256"), formulas(f"n % {divisor} != 0"))
    (row,) = regions.picture().rows
    ((_, values),) = regions.picture().axes
    assert {value % divisor for value in values} == set(range(divisor))
    assert row.count("in the domain") == sum(value % divisor == 0 for value in values) > 0


def test_a_name_is_escaped():
    regions = RegionMap(formulas("n <= 3", "n >= 4"), formulas("n >= 0", "n <= 9"), (), {"n": "x['<&'].shape[0]"})
    assert ET.fromstring(regions.svg()) is not None  # noqa: S314 - written here


def test_without_dims_there_is_no_picture():
    assert RegionMap()._repr_svg_() is None
    with pytest.raises(UsageError, match="expected one or two dims to draw, got no dims"):
        RegionMap().svg()


THREE = RegionMap(
    formulas("a <= 3", "a >= 4 and b <= c"),
    formulas(*(f"{name} >= 1" for name in "abc"), *(f"{name} <= 9" for name in "abc")),
    formulas("b == 2", "a + c == 7"),
    {"a": "x.shape[0]", "b": "x.shape[1]", "c": "y.shape[0]"},
)


def test_over_two_of_three_dims_nothing_is_said_that_the_third_decides():
    """Law: where the drawn sizes tell a region, every point with these sizes lies there or is refuted."""
    sizes = range(11)
    for pair in itertools.permutations("abc", 2):
        (left,) = {*"abc"} - {*pair}
        for values in itertools.product(sizes, repeat=2):
            point = dict(zip(pair, values, strict=True))
            whole = {THREE.where(point | {left: value}) for value in sizes}
            told = THREE.where(point)
            assert told == "depends on other sizes" or whole <= {told, "refuted", "refused"}, (point, told, whole)
            assert told != "refuted" or whole <= {"refuted", "refused"}


def test_dims_are_chosen_by_the_users_names_or_those_that_most_is_said_of():
    assert [name for name, _ in THREE.picture().axes] == ["x.shape[0]", "x.shape[1]"]
    assert [name for name, _ in THREE.picture(["y.shape[0]", "b"]).axes] == ["y.shape[0]", "x.shape[1]"]
    with pytest.raises(UsageError, match=r"no dim is called 'x.shape\[2\]'"):
        THREE.svg(["x.shape[2]"])
    with pytest.raises(UsageError, match="expected one or two dims to draw, got a, b, c"):
        THREE.svg(["a", "b", "c"])


def test_a_witness_is_marked_where_its_drawn_sizes_are_refuted():
    found = [{"x.shape[0]": 4, "x.shape[1]": 1, "y.shape[0]": 3}, {"x.shape[0]": 1, "x.shape[1]": 2, "y.shape[0]": 1}]
    assert THREE.picture(["a", "c"], found).witnesses == ((4, 3),)
    assert THREE.picture(["b"], found).witnesses == ((2, 0),)


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
