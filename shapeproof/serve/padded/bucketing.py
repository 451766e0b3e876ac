"""Chooses the static sizes to compile for, so that padding inputs up to them wastes little.

The plan is the best that there is, and what is said of it (each size has a bucket, so much is wasted) is counted over
every size of the domain in integers. Whether a program may be padded at all is another question: padding.py.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

from shapeproof.constraints.errors import ShapeproofError, UsageError
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.syntax.text import parse_term
from shapeproof.constraints.terms import Term
from shapeproof.export.forms.programs import VerifiedProgram
from shapeproof.seen import Seen
from shapeproof.serve.padded.padding import Padding, padding_of
from shapeproof.serve.padded.plans import Plan, Point, Search, dominates, fewest, least_waste
from shapeproof.serve.padded.sized import Sizes, sizes_of
from shapeproof.wording import values_text

Cost = Callable[[Point], int]
_RESOLUTIONS = (12, 24, 48)
"""How many values of each dim are tried as corners, where several dims have more; the next where none will do."""


@dataclass(frozen=True)
class Buckets:
    """The sizes to pad to; each declared size goes to the cheapest bucket that holds it.

    Attributes:
        names: the dims.
        corners: the buckets, a number for each dim, in order.
        waste: the cost of all sizes padded, divided by their cost unpadded; None if that is 0.
        worst: the largest such ratio of a single size; None if a size of cost 0 is padded.
        status: "proved": no other plan is better; "undecided": the search was cut off, another plan may be.
    """

    names: tuple[str, ...]
    corners: tuple[Point, ...]
    waste: Fraction | None
    worst: Fraction | None
    status: Literal["proved", "undecided"]
    _least: Point = field(repr=False)
    _cost: Cost = field(repr=False)
    _padding: Padding | None = field(repr=False, default=None)

    @property
    def sizes(self) -> list[Any]:
        """The buckets: ints for one dim, dicts for several."""
        return [self._shown(corner) for corner in self.corners]

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.sizes))
        said = "no other plan wastes less" if self.status == "proved" else "another plan may waste less"
        wasted = f"costs {_times(self.waste)} as much, at worst {_times(self.worst)}"
        return f"{' x '.join(self.names)}: {sizes}   {wasted}; {said}"

    def bucket(self, **sizes: int) -> Any:
        """The bucket that a size is padded to: an int for one dim, a dict for several.

        Args:
            sizes: the dims by name.

        Raises:
            UsageError: a dim is missing or unknown, or no bucket holds the sizes.

        >>> buckets({"n": (1, 64)}, at_most=3).bucket(n=20)
        21
        """
        if sizes.keys() != set(self.names):
            raise UsageError(f"expected sizes of {', '.join(self.names)}, got {', '.join(sizes) or 'none'}")
        return self._shown(self.corner_of(tuple(sizes[name] for name in self.names)))

    def corner_of(self, point: Point) -> Point:
        """Return the bucket of a point whose numbers are in the order of the names."""
        if len(self.names) == 1:
            index = bisect.bisect_left(self.corners, point)
            found = self.corners[index : index + 1] if point >= self._least else ()
        else:
            found = tuple(each for each in self.corners if dominates(each, point))
        if not found or not dominates(point, self._least):
            raise UsageError(f"no bucket holds {values_text(dict(zip(self.names, point, strict=True)))}")
        return min(found, key=lambda corner: (self._cost(corner), corner))

    def tensorrt(self, layout: Mapping[str, Sequence[int | str]] | None = None) -> list[dict[str, Any]]:
        """A TensorRT optimization profile for each bucket: the least, the best and the greatest sizes that it takes.

        Args:
            layout: the sizes of each input, a dim by its name; without it, the profiles are of the dims.

        Returns:
            For each bucket `{"x": (min, opt, max)}`, as `IOptimizationProfile.set_shape` takes them.

        Raises:
            UsageError: a layout names an unknown dim.

        >>> buckets({"n": (1, 64)}, at_most=2).tensorrt({"x": ("n", 16)})
        [{'x': ((1, 16), (32, 16), (32, 16))}, {'x': ((33, 16), (64, 16), (64, 16))}]
        """
        return [self._profile(corner, layout) for corner in self.corners]

    def _profile(self, corner: Point, layout: Mapping[str, Sequence[int | str]] | None) -> dict[str, Any]:
        ends = [dict(zip(self.names, each, strict=True)) for each in (self._from(corner), corner, corner)]
        if layout is None:
            return {name: tuple(end[name] for end in ends) for name in self.names}
        unknown = sorted({dim for dims in layout.values() for dim in dims if isinstance(dim, str)} - set(self.names))
        if unknown:
            raise UsageError(f"unknown dim {unknown[0]!r}: the buckets have the dims {', '.join(self.names)}")
        return {
            name: tuple(tuple(end[dim] if isinstance(dim, str) else dim for dim in dims) for end in ends)
            for name, dims in layout.items()
        }

    def _from(self, corner: Point) -> Point:
        """The least sizes of a profile: those above the bucket below; of several dims, the least of all."""
        index = self.corners.index(corner)
        if len(self.names) > 1 or index == 0:
            return self._least
        return (self.corners[index - 1][0] + 1,)

    @property
    def padding(self) -> Padding:
        """Whether the program may be padded, and how that is known.

        Raises:
            UsageError: the buckets belong to no program.
        """
        if self._padding is None:
            raise UsageError("these buckets belong to no program: plan them from a program")
        return self._padding

    def pad(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs of a call, padded with zeros up to their bucket. `padding.call` cuts the results back, too.

        Args:
            args: the positional arguments.
            kwargs: the keyword arguments.

        Returns:
            The arguments, padded.

        Raises:
            UsageError: the buckets belong to no program.
            OutsideDomain: the program does not take the inputs.
        """
        return self.padding.pad(self.corner_of, args, kwargs or {})

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """What the program gives for inputs: padded up to their bucket, and cut back.

        Args:
            args: the positional arguments.
            kwargs: the keyword arguments.
        """
        return self.padding.call(self.corner_of, args, kwargs)

    def _shown(self, corner: Point) -> Any:
        return corner[0] if len(self.names) == 1 else dict(zip(self.names, corner, strict=True))


def buckets(
    domain: Mapping[str, Any] | Seen | VerifiedProgram,
    *,
    at_most: int | None = None,
    waste: str | Fraction | int | None = None,
    cost: str | None = None,
) -> Buckets:
    """Return the best sizes to pad to: the least waste for a number of buckets, or the fewest buckets for a waste.

    Args:
        domain: the least and the greatest size of each dim, `{"n": (1, 4096)}` or `{"n": Dim("n", min=1, max=4096)}`;
            or a `Seen`; or a program, whose dims are used, and whose padding is checked.
        at_most: the maximal number of buckets; the sum of the buckets' costs over all sizes is then least.
        waste: the maximal ratio of a padded size's cost to its own, `"1.25"`; the buckets are then the fewest.
        cost: the cost of a size as text over the dims, `"n*n + 64*n"`; by default the product of the dims.

    Returns:
        The buckets: `.sizes`, `.waste`, `.status`, `.tensorrt()`, and `.pad(args)` for a program.

    Raises:
        UsageError: an argument is invalid; the sentence names it.

    >>> print(buckets({"n": (1, 4096)}, at_most=4, cost="n*n + 64*n"))
    n: 1403, 2435, 3312, 4096   costs 1.379 times as much, at worst 3.166e+04 times; no other plan wastes less
    >>> buckets({"n": (1, 100)}, waste="1.5").sizes
    [1, 3, 6, 10, 16, 25, 39, 60, 91, 100]
    """
    sizes = sizes_of(domain)
    ratio = _wanted(at_most, waste)
    costs = _costs(sizes, cost)
    plan = _one(sizes, costs, at_most, ratio) if len(sizes.names) == 1 else _several(sizes, costs, at_most, ratio)
    found = _counted(sizes, costs, plan, ratio)
    if not isinstance(domain, VerifiedProgram):
        return found
    return replace(found, _padding=padding_of(domain, found.names, found.corners, found._least))  # noqa: SLF001 - this module's own


def _wanted(at_most: Any, waste: Any) -> Fraction | None:
    """Return the maximal ratio of a padded size's cost to its own; None if the number of buckets is given."""
    if (at_most is None) == (waste is None):
        raise UsageError(
            "expected either at_most= (how many buckets) or waste= (how much padding), got both or neither"
        )
    if waste is None:
        if isinstance(at_most, bool) or not isinstance(at_most, int) or at_most < 1:
            raise UsageError(f"at_most: expected an int of at least 1, got {at_most!r}")
        return None
    try:
        ratio = Fraction(waste)
    except (ValueError, TypeError, OverflowError, ZeroDivisionError):
        raise UsageError(f"waste: expected a ratio such as '1.25', got {waste!r}") from None
    if ratio < 1 or isinstance(waste, bool):
        raise UsageError(f"waste: expected a ratio of at least 1, such as '1.25', got {waste!r}")
    return ratio


def _costs(sizes: Sizes, text: str | None) -> Cost:
    """Return the cost function; a cost must not be negative."""
    term = _cost_term(sizes.names, "*".join(sizes.names) if text is None else text)

    @functools.cache
    def cost(point: Point) -> int:
        try:
            value = evaluate(term, dict(zip(sizes.names, point, strict=True)))
        except (ShapeproofError, ArithmeticError) as error:
            raise UsageError(f"cost: it has no value at {sizes.said(point)}: {error}") from None
        if value < 0:
            raise UsageError(f"cost: expected a cost of at least 0, got {value} at {sizes.said(point)}")
        return value

    return cost


def _cost_term(names: Sequence[str], text: Any) -> Term:
    if not isinstance(text, str):
        raise UsageError(f"cost: expected text over {', '.join(names)}, such as 'n*n + 64*n', got {text!r}")
    try:
        term = parse_term(text)
    except ShapeproofError as error:
        raise UsageError(f"cost: {text!r} cannot be read: {error}") from None
    for name in sorted(term.symbols - set(names)):
        raise UsageError(f"cost: {text!r} names {name!r}; the dims are {', '.join(names)}")
    return term


# ---------------------------------------------------------------------- the search


def _one(sizes: Sizes, cost: Cost, at_most: int | None, ratio: Fraction | None) -> Plan:
    values = [cost(point) for point in sizes.points]
    for before, point in itertools.pairwise(sizes.points):
        if cost(point) < cost(before):
            raise UsageError(
                f"cost: expected a cost that never decreases, got {cost(before)} at {sizes.said(before)} and "
                f"{cost(point)} at {sizes.said(point)}"
            )
    chosen = least_waste([1] * len(values), values, at_most or 1) if ratio is None else fewest(values, ratio)
    return Plan(tuple(sizes.points[index] for index in chosen), best=True)


def _several(sizes: Sizes, cost: Cost, at_most: int | None, ratio: Fraction | None) -> Plan:
    distinct = [sorted(set(column)) for column in zip(*sizes.points, strict=True)]
    for resolution in _RESOLUTIONS:
        axes = [_spread(values, resolution) for values in distinct]
        search = _search(sizes, cost, axes)
        plan = search.least_waste(at_most or 1) if ratio is None else search.fewest(ratio)
        exact = axes == distinct
        if plan is not None:
            return Plan(plan.corners, plan.best and exact)
        if exact:
            break
    limit = f"at_most={at_most}" if ratio is None else f"waste={str(ratio)!r}"
    raise UsageError(f"{limit}: no buckets were found that hold all sizes of {' x '.join(sizes.names)}")


def _spread(values: Sequence[int], most: int) -> list[int]:
    """Return at most this many of the values, including the last, spread by ratio."""
    if len(values) <= most:
        return list(values)
    step = math.log(len(values)) / most
    picks = {min(len(values), max(k + 1, round(math.exp(step * (k + 1))))) - 1 for k in range(most)}
    return [values[index] for index in sorted(picks | {len(values) - 1})]


def _search(sizes: Sizes, cost: Cost, axes: Sequence[Sequence[int]]) -> Search:
    """Return a search over corners of these values; sizes that the same corners hold count as one."""
    groups: dict[Point, list[int]] = {}
    for point in sizes.points:
        cell = tuple(axis[bisect.bisect_left(axis, size)] for axis, size in zip(axes, point, strict=True))
        groups.setdefault(cell, []).append(cost(point))
    corners = [corner for corner in itertools.product(*axes) if sizes.holds(corner)]
    weights, own = [len(each) for each in groups.values()], [min(each) for each in groups.values()]
    return Search(list(groups), weights, own, corners, {corner: cost(corner) for corner in corners})


# ---------------------------------------------------------------------- what is said of a plan


def _counted(sizes: Sizes, cost: Cost, plan: Plan, ratio: Fraction | None) -> Buckets:
    """Return the buckets of a plan with their waste, counted over every size by the definition alone."""
    least = tuple(map(min, zip(*sizes.points, strict=True)))
    status: Literal["proved", "undecided"] = "proved" if plan.best else "undecided"
    found = Buckets(sizes.names, tuple(sorted(plan.corners)), None, None, status, least, cost)
    padded = [cost(found.corner_of(point)) for point in sizes.points]
    own = [cost(point) for point in sizes.points]
    for point, low, high in zip(sizes.points, own, padded, strict=True):
        if high < low:
            raise UsageError(
                f"cost: expected a cost that never decreases, got {low} at {sizes.said(point)}, {high} above"
            )
        if ratio is not None and high > ratio * low:
            raise AssertionError(f"{sizes.said(point)} is padded to {high / low:g} times its cost")
    worst = (
        None if any(high > low == 0 for low, high in zip(own, padded, strict=True)) else max(map(_ratio, padded, own))
    )
    return replace(found, waste=_ratio(sum(padded), sum(own)) if sum(own) or not sum(padded) else None, worst=worst)


def _times(ratio: Fraction | None) -> str:
    return "any number of times" if ratio is None else f"{float(ratio):.4g} times"


def _ratio(padded: int, own: int) -> Fraction:
    return Fraction(padded, own) if own else Fraction(1)
