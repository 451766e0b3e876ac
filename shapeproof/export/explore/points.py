"""Choose points of a domain: values of the declared sizes at which the model is traced or eager is run.

Sizes chooses where to trace: generic and smallest points. Fitting makes points fit to be run: complete, and not much
larger than the first one. The functions below choose where to run:

replay_points   the whole program beside eager
spread          eager, to see how far a failure reaches
kernel_points   custom operators beside their fake kernels
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point, holds_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.findings import Exploration
from shapeproof.export.limits import (
    CHEAP_ELEMENTS,
    CORNER_WORK,
    EXTENT_BOX,
    EXTENT_POINTS,
    KERNEL_POINTS,
    LARGE_ELEMENTS,
    NODE_ELEMENTS,
    REPLAY_GROWTH,
    RUNS,
)
from shapeproof.solver.answers.witness import ascending, find, generic, grant, smallest
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.reduction import Expression
from shapeproof.wording import values_text


class Sizes:
    """Finds values for the declared sizes."""

    def __init__(self, inputs: Inputs) -> None:
        self.declared = frozenset(inputs.domain.symbols)
        self._inputs = inputs

    def generic(self, facts: Facts) -> Point | None:
        """Return a generic point, restricted to the declared symbols and those of the facts.

        Facts that share history may have learned about other symbols too.
        """
        point = generic(facts, sorted(self.declared))
        spoken_of = self.declared | facts.history.symbols
        return {name: point[name] for name in point if name in spoken_of} if isinstance(point, dict) else None

    def cheap(self, facts: Facts) -> Point | None:
        """Return generic sizes at which a run costs little, if there are any."""
        for more in ((), (f.le(self._inputs.count, CHEAP_ELEMENTS),)):
            point = self.generic(facts.assuming(*more))
            if point is not None and self._inputs.elements(point) <= CHEAP_ELEMENTS:
                return self.of(point)
        return None

    def smallest(self, facts: Facts) -> Point | None:
        """Return the smallest sizes at which the facts hold."""
        point = smallest(f.TRUE, facts, sorted(self.declared))
        return self.of(point) if isinstance(point, dict) else None

    def of(self, point: Point) -> Point:
        """Restrict a point to the declared sizes."""
        return {name: value for name, value in point.items() if name in self.declared}

    def describe(self, point: Point) -> str:
        """Describe a point in the user's names."""
        return values_text(dict(sorted(point.items())), self._inputs.user_names) or "the example"


_GENERAL = 2
"""The least size that is none of the special ones, 0 and 1."""
Found = Mapping[str, int] | Undecided | None
"""The solver's answer when it is asked for a point."""


class Fitting:
    """Completes points, and leaves out those whose inputs are much larger than those that were run first.

    A name that a point leaves out has its value at `start`, the point that was run first.
    """

    def __init__(self, inputs: Inputs, start: Mapping[str, int]) -> None:
        self.names = sorted(inputs.domain.symbols)
        self._inputs, self._start = inputs, start
        self._large = inputs.elements(start) > NODE_ELEMENTS

    def completed(self, point: Mapping[str, int]) -> Point:
        """Return values for all declared sizes."""
        return {name: point[name] if name in point else self._start[name] for name in self.names}

    def whole(self, point: Found, growth: int = REPLAY_GROWTH) -> Point | None:
        """Return a point that was found, completed; None if none was found, or if it is too large."""
        if not isinstance(point, Mapping):
            return None
        whole = self.completed(point)
        most = max(NODE_ELEMENTS, growth * self._inputs.elements(self._start))
        return whole if self._inputs.elements(whole) <= most else None

    def among(self, points: Iterable[Found], growth: int = REPLAY_GROWTH) -> Iterator[Point]:
        """Yield those that fit, completed."""
        return (whole for point in points if (whole := self.whole(point, growth)) is not None)

    def corners(self, domain: Facts, run: Sequence[Mapping[str, int]]) -> Iterator[Point]:
        """Yield the points with each size at an end of its range, or as near to it as the domain allows.

        Ends that are too large to be run are approached together, unless points that were run before are as near to
        each. If the example's inputs are large already, every size from 2 on is near enough.
        """
        alike, before = {name: domain.reduce(symbol(name)) for name in self.names}, [*run]
        bounds = {name: domain.range_of(name) for name in _free(alike)}
        for high in at_upper_ends(list(bounds)):
            ends = {
                name: list(_towards(each.upper if name in high else each.lower, each.lower))
                for name, each in bounds.items()
                if each != Interval()  # a size without bounds (an int) keeps its first value
            }
            for step in range(max(map(len, ends.values()), default=0)):
                left = {name: values[step:] or values[-1:] for name, values in ends.items()}
                whole = self.whole(self._nearest(left, alike, domain), REPLAY_GROWTH // 2 if step else REPLAY_GROWTH)
                if whole is not None:
                    if step == 0 or not all(self._is_near(whole[name], name, before) for name in high):
                        before.append(whole)
                        yield whole
                    break

    def _is_near(self, value: int, name: str, run: Sequence[Mapping[str, int]]) -> bool:
        return any(point[name] >= (min(value, _GENERAL) if self._large else value) for point in run)

    def _nearest(self, ends: Mapping[str, Sequence[int]], alike: Mapping[str, Expression], domain: Facts) -> Found:
        """Return the point with the first of these values; unless the domain has it, one size after the other."""
        first = {alike[name]: values[0] for name, values in ends.items()}
        known = {name: value for name, each in alike.items() if (value := _value(each, first)) is not None}
        if domain.contains(self.completed(known)):
            return known
        here = domain.fork()
        for name, values in ends.items():
            any(grant(f.eq(symbol(name), value), here) is not None for value in values)
        return find(f.TRUE, here)

    def ones(self, domain: Facts) -> Iterator[Point]:
        """Yield the point that sets as many sizes as possible to 1, one after the other."""
        one = dict.fromkeys(self.names, (1,))
        return self.among([self._nearest(one, {name: symbol(name) for name in one}, domain)])


def at_upper_ends(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the names whose sizes are at their upper ends, for each corner: every choice of at most four names.

    Of more, a choice for each pair of names and of their ends: n names have about log2(n) + 3 (Kleitman and Spencer).

    >>> [*at_upper_ends("ab")], [*map("".join, at_upper_ends("abcde"))]
    ([[], ['b'], ['a'], ['a', 'b']], ['', 'abcde', 'abc', 'ade', 'bd', 'ce'])
    """
    if 2 ** len(names) <= RUNS:
        choices = itertools.product((False, True), repeat=len(names))
        yield from (list(itertools.compress(names, chosen)) for chosen in choices)
        return
    rows = next(rows for rows in itertools.count(1) if math.comb(rows, rows // 2 + 1) >= len(names))
    columns = list(itertools.islice(itertools.combinations(range(rows), rows // 2 + 1), len(names)))
    yield from ([name for name, column in zip(names, columns, strict=True) if row in column] for row in range(-1, rows))


def _free(alike: Mapping[str, Expression]) -> list[str]:
    """Return the sizes with several values; of sizes known to be equal, one."""
    first: dict[object, str] = {}
    for name, value in alike.items():
        first.setdefault(value, name)
    return [name for value, name in first.items() if not (isinstance(value, Term) and value.is_constant)]


def _value(reduced: Expression, values: Mapping[Expression, int]) -> int | None:
    """Return the value of a size that is a constant, or equals one of these."""
    if isinstance(reduced, Term) and reduced.is_constant:
        return reduced.constant_value
    return values.get(reduced)


def _towards(end: int | None, lower: int | None) -> Iterator[int]:
    """Yield the end, then values ever nearer to the lower bound."""
    value = 64 if end is None else end
    floor = 0 if lower is None else lower
    while value > floor:
        yield value
        value = (value + floor) // 2
    yield floor


def failing_point(inputs: Inputs, required: Formula, domain: Facts) -> Point | None:
    """Return the smallest point of a domain where a requirement fails."""
    found = smallest(f.negate(required), domain, sorted(inputs.domain.symbols))
    return {name: found[name] for name in inputs.domain.symbols} if isinstance(found, dict) else None


def spread(domain: Facts, names: Sequence[str]) -> Iterator[Point]:
    """Yield points of a domain: of a small box, points spread evenly; of a larger one, the smallest.

    The step is prime to the number of points: each 10th point of a box of 60 times 5 has the same second size.
    """
    ranges = [_values(domain.range_of(name)) for name in names]
    if any(values is None for values in ranges) or math.prod(len(values or ()) for values in ranges) > EXTENT_BOX:
        return ({name: point[name] for name in names} for point in ascending(domain, names))
    box = (dict(zip(names, values, strict=True)) for values in itertools.product(*(values or () for values in ranges)))
    inside = [point for point in box if domain.contains(point)]
    steps = itertools.count(-(-len(inside) // EXTENT_POINTS) or 1)
    return iter(inside[:: next(step for step in steps if math.gcd(step, len(inside) or 1) == 1)])


def _values(interval: Interval) -> range | None:
    low, high = interval.lower, interval.upper
    return None if low is None or high is None else range(low, high + 1)


def replay_points(
    inputs: Inputs, found: Exploration, domain: Facts, run: Sequence[Mapping[str, int]]
) -> Iterator[Point]:
    """Yield the points to replay.

    These are the traced and given points, the corners, the point of ones, and a point of each slice that no point of
    `run` lies in. A slice is where a decision that was found harmless goes the other way, or where one size is 0 or 1.
    The main program's own point says less than others: what the trace fixed by mistake is right there.
    """
    fitting, affordable = Fitting(inputs, found.start), _affordable(found)
    names = fitting.names
    yield from filter(affordable, fitting.among([found.main.trial.point], 1))
    for traced in found.served:
        point = fitting.whole(traced.trial.point)
        yield point or failing_point(inputs, f.FALSE, traced.trial.region) or fitting.completed(traced.trial.point)
    yield from (anchor for anchor in inputs.anchors if domain.contains(anchor))
    yield from filter(affordable, fitting.corners(domain, run))
    yield from fitting.among(_where_laid_otherwise(found, domain))
    yield from fitting.ones(domain)
    given = (f.eq(symbol(name), size) for name in names for size in (0, 1))  # shape functions treat all sizes alike
    for slice_ in dict.fromkeys((*(step.flipped for step in found.main.trial.harmless), *given)):
        if slice_.symbols <= set(names) and not any(holds_at(slice_, point) for point in run):
            yield from fitting.among([find(slice_, domain)])


def _affordable(found: Exploration) -> Callable[[Point], bool]:
    """Return what tells of one point after the other whether a run there multiplies too much, after those before it."""
    work, left = found.forms[0].work, CORNER_WORK

    def affordable(point: Point) -> bool:
        nonlocal left
        needed = work(point)
        if needed > left:
            return False
        left -= needed
        return True

    return affordable


def _where_laid_otherwise(found: Exploration, domain: Facts) -> Iterator[Found]:
    """Points at which sizes are 1 or 0 of a tensor whose layout the model reads.

    A dimension has a stride there that reaches no element: torch's fake kernels may give one that its kernels do not.
    Each point comes with the other sizes as they were at the start, which tell strides apart, and with any other sizes.
    """
    start = found.start
    for sizes in found.main.trial.layouts.sizes_read:
        varying = [size for size in dict.fromkeys(sizes) if not size.is_constant]
        several = itertools.chain.from_iterable(itertools.combinations(varying, n) for n in range(1, len(varying) + 1))
        ones = (f.conjunction(*(f.eq(size, 1) for size in each)) for each in several)
        for where in (*itertools.islice(ones, RUNS), *(f.eq(size, 0) for size in varying)):
            if not where.symbols <= start.keys():
                continue
            kept = (f.eq(symbol(name), size) for name, size in start.items() if name not in where.symbols)
            for wanted in (f.conjunction(where, *kept), where):
                yield find(wanted, domain)


def kernel_points(inputs: Inputs, found: Exploration, domain: Facts, weight: int) -> Iterator[Point]:
    """Yield distinct points at which operators are compared with their fake kernels; a small domain is covered whole.

    These are the replay points, then points beside the borders of questions, then the smallest points. `weight` is the
    number of elements that a run reads besides the inputs'.
    """
    fitting = Fitting(inputs, found.start)
    borders, along = _borders(found, domain), _along_each(fitting.names, found, domain)
    further = fitting.among(itertools.chain(borders, along, _smallest(fitting.names, domain)))
    chosen = itertools.chain(
        [found.start],
        replay_points(inputs, found, domain, []),
        (point for point in further if domain.contains(point)),
    )
    seen: list[Point] = []
    left = LARGE_ELEMENTS
    for point in chosen:
        left -= weight + inputs.elements(point)
        if len(seen) == KERNEL_POINTS or (left < 0 and len(seen) > 1):
            return
        if point not in seen:
            seen.append(point)
            yield point


def smaller_points(point: Point, inputs: Inputs, domain: Facts) -> Iterator[Point]:
    """Yield points whose sizes have a smaller sum, the smallest first."""
    fitting = Fitting(inputs, point)
    lying = (each for each in fitting.among(_smallest(fitting.names, domain)) if domain.contains(each))
    smaller = itertools.takewhile(lambda each: sum(each.values()) < sum(point.values()), lying)
    return itertools.islice(smaller, KERNEL_POINTS)


def _borders(found: Exploration, domain: Facts) -> Iterator[Found]:
    """Yield points at, before and after the border of each question about sizes."""
    for formula in found.main.trial.questions.asked:
        if formula.symbols <= found.start.keys():
            beside = [f.eq(formula.term, k) for k in (-1, 0, 1)] if isinstance(formula, f.Compare) else [formula]
            yield from (find(each, domain) for each in beside)


def _along_each(names: Sequence[str], found: Exploration, domain: Facts) -> Iterator[Found]:
    """Yield points that raise each size in turn from its lower bound.

    The other sizes keep their first values, or take values that the domain requires.
    """
    most = KERNEL_POINTS // (len(names) + 1)
    for offset, name in itertools.product(range(most), names):
        value = (domain.range_of(name).lower or 0) + offset
        point = found.start | {name: value}
        yield point if domain.contains(point) else find(f.eq(symbol(name), value), domain)


def _smallest(names: Sequence[str], domain: Facts) -> Iterator[Point]:
    """Yield the points of growing boxes at the lower bounds; no solver is asked for them."""
    low = [domain.range_of(name).lower or 0 for name in names]
    for edge in range(KERNEL_POINTS if names else 0):
        for offsets in itertools.islice(itertools.product(range(edge + 1), repeat=len(names)), KERNEL_POINTS**2):
            if max(offsets) == edge:
                yield dict(zip(names, map(sum, zip(low, offsets, strict=True)), strict=True))
