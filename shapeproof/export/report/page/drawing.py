"""Draws a map of sizes: a coloured cell for each size, or for a sample of sizes, and marks for witnesses."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from shapeproof.seen.plots import drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PLANE, _STRIP, _LINE = 4.0, 1.2, 0.25
"""Inches: the height of a map over two dims and over one, and of a line of the legend."""

Axis: TypeAlias = tuple[str, Sequence[int]]
"""The name of a dim, and its drawn values."""


@dataclass(frozen=True)
class Picture:
    """A map before it is drawn.

    Attributes:
        axes: one or two dims.
        rows: where each size lies: a row for each value of the second dim, a place in it for each value of the first.
        kinds: the places in the order of the legend, each with its text and its colour.
        witnesses: points that are marked; 0 stands for the value of a second dim that there is not.
    """

    axes: tuple[Axis, ...]
    rows: tuple[tuple[str, ...], ...]
    kinds: Mapping[str, tuple[str, str]]
    witnesses: tuple[tuple[int, int], ...] = ()

    def svg(self) -> str:
        """Return the map as SVG.

        Raises:
            UsageError: matplotlib is not installed.
        """
        return drawn((_PLANE if len(self.axes) == 2 else _STRIP) + _LINE * len(self.kinds), repr(self), self._draw)

    def _draw(self, axes: Axes) -> None:
        from matplotlib.colors import ListedColormap

        ends = [(values[0] - step(values) / 2, values[-1] + step(values) / 2) for _, values in self.axes]
        order = list(self.kinds)
        axes.imshow(
            [[order.index(kind) for kind in row] for row in self.rows],
            ListedColormap([colour for _, colour in self.kinds.values()]),
            origin="lower",
            extent=(*ends[0], *(ends[1] if len(ends) == 2 else (-0.5, 0.5))),
            aspect="auto",
            interpolation="none",
            vmin=-0.5,
            vmax=len(order) - 0.5,
        )
        self._name_axes(axes)
        if self.witnesses:
            across, up = zip(*self.witnesses, strict=True)
            axes.plot(across, up, "x", color="black", markersize=8, label="a witness", clip_on=False)
        self._explain(axes)

    def _name_axes(self, axes: Axes) -> None:
        """Name the axes, with the distance of the drawn sizes if not all are drawn; a size is a whole number."""
        from matplotlib.ticker import MaxNLocator

        titles = [name if step(values) == 1 else f"{name}, every {step(values)}" for name, values in self.axes]
        axes.set_xlabel(titles[0])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(titles) == 2:
            axes.set_ylabel(titles[1])
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        else:
            axes.set_yticks([])

    def _explain(self, axes: Axes) -> None:
        from matplotlib.patches import Patch

        patches = [Patch(facecolor=colour, edgecolor="#666666", label=text) for text, colour in self.kinds.values()]
        marks, _ = axes.get_legend_handles_labels()
        axes.figure.legend(handles=[*patches, *marks], loc="outside lower left", frameon=False)


def step(values: Sequence[int]) -> int:
    """Return the distance of the first two values."""
    first, *rest = itertools.islice(values, 2)
    return rest[0] - first if rest else 1
