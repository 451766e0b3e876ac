"""Sizes seen against sizes served, and counts that rise, as SVG drawn by matplotlib.

It is an extra, imported only where a plot is drawn.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from shapeproof.constraints.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MISSING = 'a plot needs matplotlib: pip install "shapeproof[plots]"'
_SERVED, _SEEN, _LOST = "#a6d8b4", "#1f4e79", "#cf222e"
_ROW, _MARGIN, _WIDTH, _STEPS = 0.42, 0.9, 7.0, 2.4
"""Inches."""
_LOG_FROM = 100
"""Sizes beyond are drawn on a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class SeenSize:
    """One size: the values kept of what was seen, those of inputs that are not served, and what is served.

    >>> SeenSize("x.shape[0]", (4, 9), served=(0, None)).largest
    9
    """

    name: str
    seen: tuple[int, ...]
    lost: tuple[int, ...] = ()
    served: tuple[int | None, int | None] | None = None
    """The least and the greatest size, None where there is no bound; None where nothing is served."""

    @property
    def largest(self) -> int:
        """The greatest number that is drawn."""
        ends = [end for end in self.served or () if end is not None]
        return max([*self.seen, *self.lost, *ends], key=abs, default=0)


def svg(sizes: Sequence[SeenSize]) -> str:
    """A row for each size: what is served as a band, what was seen as points, red where it is not served.

    Raises:
        UsageError: matplotlib is not installed, or there is nothing to draw.
    """
    if not sizes:
        raise UsageError("expected sizes that varied, got none: there is nothing to draw")
    return drawn(_ROW * len(sizes) + _MARGIN, repr(sizes), lambda axes: _draw(axes, sizes))


def drawn(height: float, salt: str, draw: Callable[[Axes], None]) -> str:
    """A figure as SVG: of the same salt the same text.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(MISSING) from None
    with mpl.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def _draw(axes: Axes, sizes: Sequence[SeenSize]) -> None:
    right = max(1, *(abs(size.largest) for size in sizes)) * 1.1
    left = min(0, *(value for size in sizes for value in size.seen)) * 1.1
    if right > _LOG_FROM:
        axes.set_xscale("symlog", linthresh=10)
    for row, size in enumerate(sizes):
        if size.served is not None:
            low, high = (math.inf if end is None else end for end in size.served)
            low, high = (left if math.isinf(low) else low), min(high, right)
            axes.broken_barh([(low, max(high - low, right / 200))], (row - 0.3, 0.6), color=_SERVED)
        for values, colour in ((size.seen, _SEEN), (size.lost, _LOST)):
            axes.plot(values, [row] * len(values), "|", color=colour, markersize=12)
    axes.set_yticks(range(len(sizes)), [size.name for size in sizes])
    axes.set_ylim(len(sizes) - 0.5, -0.5)
    axes.set_xlim(left, right)
    axes.set_xlabel("size (green: served; blue: seen; red: seen and not served)")


def plot_html(sizes: Sequence[SeenSize]) -> str:
    """The plot for a page, or the sentence that says what it needs; empty where there is nothing to draw."""
    return _or_said(lambda: svg(sizes)) if sizes else ""


def steps_html(misses: Sequence[int], calls: int) -> str:
    """The number of misses over that of calls, for a page, or the sentence that says what the plot needs.

    The misses are the numbers of the calls that missed, in order.
    """

    def draw(axes: Axes) -> None:
        axes.step([0, *misses, calls], [*range(len(misses) + 1), len(misses)], where="post", color=_SEEN)
        axes.set_xlabel("calls")
        axes.set_ylabel("misses")

    return _or_said(lambda: drawn(_STEPS, repr((misses, calls)), draw))


def _or_said(plot: Callable[[], str]) -> str:
    try:
        return plot()
    except UsageError as error:
        return f"<div>{escape(str(error))}</div>"
