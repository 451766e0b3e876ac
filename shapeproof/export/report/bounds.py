"""The tensors of a program with sizes from data, and the bounds of these sizes, as data."""

from __future__ import annotations

from dataclasses import dataclass

from shapeproof.export.report.render import bounds_html


@dataclass(frozen=True, slots=True)
class Bound:
    """A tensor of the program with a size that comes from data.

    `name` is its name in the graph. `sizes` are texts: a number, `<=25` for a least upper bound, or `?`. `limits` are
    the same as numbers, None if there is no bound. `missing` says what would bound an unbounded size.

    >>> print(Bound("nonzero", "i64", ("<=25", "2"), (25, 2)))
    nonzero: i64[<=25, 2]
    """

    name: str
    dtype: str
    sizes: tuple[str, ...]
    limits: tuple[int | None, ...]
    missing: str = ""

    def __str__(self) -> str:
        missing = f"   {self.missing}" if self.missing else ""
        return f"{self.name}: {self.dtype}[{', '.join(self.sizes)}]{missing}"


class Bounds(tuple[Bound, ...]):
    """The tensors of a program with sizes from data; a notebook shows them as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        return bounds_html(self)
