"""The regions of a domain: as a table, and over one or two dims as a map of sizes.

The map evaluates the regions' formulas at every size, or at a sample of sizes; page/drawing.py draws it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from shapeproof.constraints.errors import UsageError, nearest
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.records.domain import ranges
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import FloorDiv
from shapeproof.wording import values_text

if TYPE_CHECKING:
    from shapeproof.export.report.page.drawing import Picture

CELLS = 128
"""The maximal number of sizes drawn per dim; a larger range is sampled at equal distances."""
UNBOUNDED = 64
"""The range drawn for a dim without an upper bound: from its lower bound to this much more."""

REFUSED, REFUTED, UNSERVED = "refused", "refuted", "not served"
DECLARED, ELSEWHERE = "in the domain", "depends on other sizes"
"""Without regions, and where a formula names a size that is not drawn."""
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f")
"""Okabe and Ito's, which the colour-blind can tell apart."""
_FILLS = {DECLARED: "#a6d8b4", REFUTED: "#e5484d", REFUSED: "#eeeeee", UNSERVED: "#ffffff", ELSEWHERE: "#d8d8d8"}


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
        """Return where a point lies: `region 1` and so on, refused, refuted, or not served.

        A point may have some of the sizes: then the formulas about these alone tell where it lies.
        """
        known = point.keys()
        if not all(holds_at(formula, point) for formula in self.domain if formula.symbols <= known):
            return REFUSED
        if any(holds_at(formula, point) for formula in self.refuted if formula.symbols <= known):
            return REFUTED
        if not self:
            return DECLARED
        told = [(number, formula) for number, formula in enumerate(self.holds, 1) if formula.symbols <= known]
        inside = (number for number, formula in told if holds_at(formula, point))
        left = UNSERVED if len(told) == len(self) else ELSEWHERE
        return next((f"region {number}" for number in inside), left)

    def svg(self, dims: Sequence[str] = (), witnesses: Sequence[Mapping[str, int]] = ()) -> str:
        """Return a map over one or two dims, drawn by matplotlib.

        Args:
            dims: names of one or two dims or sizes; without any, the two that are said most of. Formulas that name
                other dims as well are not drawn.
            witnesses: sizes by the user's names, marked where they are refuted.

        Raises:
            UsageError: there are no such dims, or more than two are named; or matplotlib is not installed.
        """
        return self.picture(dims, witnesses).svg()

    def picture(self, dims: Sequence[str] = (), witnesses: Sequence[Mapping[str, int]] = ()) -> Picture:
        """Return what `svg` draws.

        Raises:
            UsageError: there are no such dims, or more than two are named.
        """
        from shapeproof.export.report.page.drawing import Picture

        chosen = self._chosen(dims)
        across, *up = chosen.items()
        others = [{up[0][0]: value} for value in up[0][1]] if up else [dict[str, int]()]
        rows = tuple(tuple(self.where({across[0]: value} | other) for value in across[1]) for other in others)
        regions = [f"region {number}" for number in range(1, len(self) + 1)]
        texts = {name: f"{name}   {text}" for name, text in zip(regions, self, strict=True)}
        met = {kind for row in rows for kind in row}
        kinds = [*regions, *(kind for kind in _FILLS if kind in met)]
        fills = dict(zip(regions, itertools.cycle(_COLOURS), strict=False)) | _FILLS
        axes = tuple((self.names.get(name, name), values) for name, values in chosen.items())
        marked = tuple(self._refuted_points(list(chosen), witnesses))
        return Picture(axes, rows, {kind: (texts.get(kind, kind), fills[kind]) for kind in kinds}, marked)

    def _refuted_points(
        self, dims: Sequence[str], witnesses: Sequence[Mapping[str, int]]
    ) -> dict[tuple[int, int], None]:
        """Return the witnesses whose drawn sizes are refuted whatever the others are, as points of the plane."""
        names = {self.names.get(name, name): name for name in dims}
        found = [{names[said]: value for said, value in each.items() if said in names} for each in witnesses]
        inside = [each for each in found if len(each) == len(dims) and self.where(each) == REFUTED]
        return dict.fromkeys((each[dims[0]], each[dims[1]] if len(dims) == 2 else 0) for each in inside)

    def _repr_svg_(self) -> str | None:
        try:
            return self.svg() if self else None
        except UsageError:
            return None

    def _chosen(self, dims: Sequence[str]) -> dict[str, Sequence[int]]:
        """Return the drawn values of one or two dims."""
        own = self._dims()
        if len(dims) > 2 or not own:
            named = ", ".join(dims) or "no dims"
            raise UsageError(f"expected one or two dims to draw, got {named}")
        known = {self.names.get(name, name): name for name in own} | {name: name for name in own}
        for name in dims:
            if name not in known:
                raise UsageError(f"no dim is called {name!r}{nearest(name, known)}")
        chosen = [known[name] for name in dims] or self._said_most_of(own)
        return {name: self._shown(own[name]) for name in chosen}

    def _said_most_of(self, dims: Mapping[str, Interval]) -> list[str]:
        """Return the two dims that most formulas are about, findings before declarations; one if there is no other."""
        pairs = [set(pair) for pair in itertools.combinations(dims, 2)] or [set(dims)]
        about = [[each.symbols for each in group] for group in ((*self.refuted, *self.holds), self.domain)]
        counts = [[sum(symbols <= pair for symbols in group) for group in about] for pair in pairs]
        best = pairs[counts.index(max(counts))]
        return [name for name in dims if name in best]

    def _dims(self) -> dict[str, Interval]:
        """Return the range of each symbol, in order of declaration."""
        symbols = {name for formula in (*self.holds, *self.domain, *self.refuted) for name in formula.symbols}
        known = ranges(self.domain)
        order = [*(name for name in self.names if name in symbols), *sorted(symbols - self.names.keys())]
        return {name: known.get(name, Interval()) for name in order}

    def _example(self, kind: str) -> str:
        """Return the first drawn point of this kind, in words; empty if there is none."""
        dims = {name: self._shown(interval) for name, interval in self._dims().items()}
        for values in itertools.islice(itertools.product(*dims.values()), CELLS**2):
            point = dict(zip(dims, values, strict=True))
            if self.where(point) == kind:
                return values_text(point, self.names)
        return ""

    def _shown(self, interval: Interval) -> Sequence[int]:
        """Return the sizes that are drawn of a range: all, or some at equal distances.

        Law: no distance shares a factor with a number that sizes are divided by. With sizes 1, 3, 5, ... alone,
        `n % 2 == 0` would seem to hold nowhere.
        """
        low = 0 if interval.lower is None else interval.lower
        high = low + UNBOUNDED if interval.upper is None else interval.upper
        least = max(1, -(-(high + 1 - low) // CELLS))
        return range(low, high + 1, next(step for step in itertools.count(least) if math.gcd(step, self._divided) == 1))

    @functools.cached_property
    def _divided(self) -> int:
        """The product of the numbers that sizes are divided by."""
        nodes = (node for formula in (*self.holds, *self.domain, *self.refuted) for node in postorder(formula))
        divisors = (node.divisor for node in nodes if isinstance(node, FloorDiv))
        return math.prod({abs(each.constant_value) for each in divisors if each.is_constant})
