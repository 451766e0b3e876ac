"""Draws the regions of a split model: as a table, and for one or two dims as a map of sizes.

The map evaluates the regions' formulas at every size, or at a sample of sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload
from xml.sax.saxutils import escape

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.records.domain import ranges
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.wording import values_text

CELLS = 128
"""The maximal number of sizes drawn per dim; a larger range is sampled at equal distances."""
UNBOUNDED = 64
"""The range drawn for a dim without an upper bound: from its lower bound to this much more."""

REFUSED, REFUTED, UNSERVED = "refused", "refuted", "not served"
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f")
_FILLS = {REFUSED: "#eeeeee", REFUTED: "url(#refuted)", UNSERVED: "#ffffff"}
_HATCH = (
    '<defs><pattern id="refuted" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" fill="#ffffff"/><path d="M0,6 L6,0" stroke="#b00000" stroke-width="2"/>'
    "</pattern></defs>"
)
_WIDTH, _STRIP, _LEFT, _TOP, _LINE = 480, 40, 70, 16, 18


@dataclass(frozen=True)
class RegionMap(Sequence[str]):
    """The formula of each region, as a sequence of texts that can draw itself.

    Attributes:
        holds: the formula of each region.
        domain: the formulas that hold for all sizes; outside the domain every program refuses.
        refuted: for each reason, the sizes at which the model is refuted.
        names: the user's name of each symbol.

    >>> from shapeproof.constraints.syntax.text import parse_formula as parse
    >>> regions = RegionMap((parse("n <= 30"), parse("n >= 31")), (parse("n >= 1"), parse("n <= 64")))
    >>> regions.where({"n": 31}), regions.where({"n": 65})
    ('region 2', 'refused')
    >>> print(regions)
    region   sizes     for example
    1        n <= 30   n = 1
    2        n >= 31   n = 31
    """

    holds: tuple[Formula, ...] = ()
    domain: tuple[Formula, ...] = ()
    refuted: tuple[Formula, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        texts = tuple(format_formula(formula, rename=self.names) for formula in self.holds)
        return texts[index]

    def __len__(self) -> int:
        return len(self.holds)

    def __str__(self) -> str:
        rows = [("region", "sizes", "for example")]
        for number, text in enumerate(self, 1):
            rows.append((str(number), text, self._example(f"region {number}")))
        rows += [(kind, "", example) for kind in (REFUTED, UNSERVED) if (example := self._example(kind))]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = ("   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)

    def where(self, point: Mapping[str, int]) -> str:
        """Return where a point lies: `region 1` and so on, refused, refuted, or not served."""
        if not all(holds_at(formula, point) for formula in self.domain):
            return REFUSED
        if any(holds_at(formula, point) for formula in self.refuted):
            return REFUTED
        inside = (number for number, formula in enumerate(self.holds, 1) if holds_at(formula, point))
        return next((f"region {number}" for number in inside), UNSERVED)

    def svg(self) -> str:
        """Return a map over one or two dims.

        Raises:
            UsageError: the regions have no dims, or more than two.
        """
        dims = self._dims()
        if len(dims) not in {1, 2}:
            named = ", ".join(self.names.get(name, name) for name in dims) or "no dims"
            raise UsageError(f"a map has one or two dims, and these regions have {len(dims)}: {named}")
        across, *up = ((name, _shown(dims[name])) for name in dims)
        return _svg(self, across, up[0] if up else None)

    def _repr_svg_(self) -> str | None:
        return self.svg() if self and len(self._dims()) in {1, 2} else None

    def _dims(self) -> dict[str, Interval]:
        """Return the range of each symbol, in order of declaration."""
        symbols = {name for formula in (*self.holds, *self.domain, *self.refuted) for name in formula.symbols}
        known = ranges(self.domain)
        order = [*(name for name in self.names if name in symbols), *sorted(symbols - self.names.keys())]
        return {name: known.get(name, Interval()) for name in order}

    def _example(self, kind: str) -> str:
        """Return the first drawn point of this kind, in words; empty if there is none."""
        dims = {name: _shown(interval) for name, interval in self._dims().items()}
        for values in itertools.islice(itertools.product(*dims.values()), CELLS**2):
            point = dict(zip(dims, values, strict=True))
            if self.where(point) == kind:
                return values_text(point, self.names)
        return ""


def _shown(interval: Interval) -> Sequence[int]:
    low = 0 if interval.lower is None else interval.lower
    high = low + UNBOUNDED if interval.upper is None else interval.upper
    return range(low, high + 1, max(1, -(-(high + 1 - low) // CELLS)))


def _svg(regions: RegionMap, across: tuple[str, Sequence[int]], up: tuple[str, Sequence[int]] | None) -> str:
    """Draw the cells, the axes with their ends, and a legend."""
    (x_name, columns), (y_name, rows) = across, up or ("", [0])
    width = _WIDTH / len(columns)
    height = (_WIDTH if up else _STRIP) / len(rows)
    body = []
    seen = {f"region {number}" for number in range(1, len(regions) + 1)}
    for row, y in enumerate(reversed(rows)):
        kinds = [regions.where({x_name: x} | ({y_name: y} if up else {})) for x in columns]
        seen.update(kinds)
        for kind, start, count in _runs(kinds):
            box = f'x="{_LEFT + start * width:g}" y="{_TOP + row * height:g}"'
            body.append(f'<rect {box} width="{count * width:g}" height="{height:g}" fill="{_fill(kind)}"/>')
    bottom = _TOP + height * len(rows)
    body += _axes(regions.names.get(x_name, x_name), columns, bottom)
    if up:
        body += [_text(_LEFT - 6, bottom, str(rows[0]), "end"), _text(_LEFT - 6, _TOP + 12, str(rows[-1]), "end")]
        body.append(_text(4, (_TOP + bottom) / 2, regions.names.get(y_name, y_name)))
    legend = bottom + 2 * _LINE
    for index, kind in enumerate(sorted(seen, key=_order)):
        top = legend + index * _LINE
        body.append(f'<rect x="{_LEFT}" y="{top:g}" width="12" height="12" fill="{_fill(kind)}" stroke="#666666"/>')
        number = _order(kind)
        body.append(_text(_LEFT + 20, top + 11, f"{kind}   {regions[number - 1]}" if number <= len(regions) else kind))
    size = f'width="{_LEFT + _WIDTH + 16}" height="{legend + len(seen) * _LINE + 4:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, _HATCH, *body, "</svg>"]) + "\n"


def _runs(kinds: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    start = 0
    for kind, run in itertools.groupby(kinds):
        count = len(list(run))
        yield kind, start, count
        start += count


def _axes(name: str, columns: Sequence[int], bottom: float) -> list[str]:
    step = columns[1] - columns[0] if len(columns) > 1 else 1
    title = name if step == 1 else f"{name}, every {step}"
    ends = [_text(_LEFT, bottom + 14, str(columns[0])), _text(_LEFT + _WIDTH, bottom + 14, str(columns[-1]), "end")]
    return [*ends, _text(_LEFT + _WIDTH / 2, bottom + 14, title, "middle")]


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _order(kind: str) -> int:
    """Return a sort key: regions by number, then the other kinds."""
    if kind.startswith("region "):
        return int(kind.removeprefix("region "))
    return 1_000_000 + list(_FILLS).index(kind)


def _fill(kind: str) -> str:
    return _FILLS.get(kind) or _COLOURS[(_order(kind) - 1) % len(_COLOURS)]
