"""Choose points of a domain: values of the declared sizes at which the model is traced or eager is run.

Sizes chooses where to trace: generic and smallest points. Fitting chooses where to run: points that are complete, and
not much larger than the first one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.limits import CORNERS, REPLAY_ELEMENTS, REPLAY_GROWTH, STAND_IN_GROWTH
from shapeproof.solver.answers.witness import find, generic, smallest
from shapeproof.solver.facts import Facts


class Sizes:
    """Finds values for the declared sizes."""

    def __init__(self, inputs: Inputs) -> None:
        self.declared = frozenset(inputs.domain.symbols)
        self._names = inputs.user_names

    def generic(self, facts: Facts) -> dict[str, int] | None:
        """Return a generic point, restricted to the declared symbols and those of the facts.

        Facts that share history may have learned about other symbols too.
        """
        point = generic(facts, sorted(self.declared))
        spoken_of = self.declared.union(*(formula.symbols for formula in facts.formulas))
        return {name: point[name] for name in point if name in spoken_of} if isinstance(point, dict) else None

    def smallest(self, facts: Facts) -> dict[str, int] | None:
        """Return the smallest sizes at which the facts hold."""
        point = smallest(f.TRUE, facts, sorted(self.declared))
        return self.of(point) if isinstance(point, dict) else None

    def of(self, point: dict[str, int]) -> dict[str, int]:
        """Restrict a point to the declared sizes."""
        return {name: value for name, value in point.items() if name in self.declared}

    def describe(self, point: dict[str, int]) -> str:
        """Describe a point in the user's names."""
        names = self._names
        return ", ".join(f"{names.get(name, name)} = {value}" for name, value in sorted(point.items())) or "the example"


_GENERAL = 2
"""The least size that is none of the special ones, 0 and 1."""
Found = Mapping[str, int] | Undecided | None
"""The solver's answer when it is asked for a point."""


class Fitting:
    """Completes points, and leaves out those whose inputs are much larger than those that were run first.

    Args:
        inputs: the inputs.
        begun: the point that was run first; a name that a point leaves out has its value there.
    """

    def __init__(self, inputs: Inputs, begun: Mapping[str, int]) -> None:
        self.names = sorted(inputs.domain.symbols)
        self._inputs, self._begun = inputs, begun
        self._large = inputs.elements(begun) > REPLAY_ELEMENTS

    def completed(self, point: Mapping[str, int]) -> dict[str, int]:
        """Return values for all declared sizes."""
        return {name: point[name] if name in point else self._begun[name] for name in self.names}

    def whole(self, point: Found, growth: int = REPLAY_GROWTH) -> dict[str, int] | None:
        """Return a point that was found, completed; None if none was found, or if it is too large."""
        if not isinstance(point, Mapping):
            return None
        whole = self.completed(point)
        most = max(REPLAY_ELEMENTS, growth * self._inputs.elements(self._begun))
        return whole if self._inputs.elements(whole) <= most else None

    def among(self, points: Iterable[Found]) -> Iterator[dict[str, int]]:
        """Yield those that fit, completed."""
        return (whole for point in points if (whole := self.whole(point)) is not None)

    def corners(self, domain: Facts, run: Sequence[Mapping[str, int]]) -> Iterator[dict[str, int]]:
        """Yield the points with each size at an end of its range, or as near to it as the domain allows.

        An end that is too large to be run is approached alone, the other sizes at their least, unless a point that has
        been run is as near. If the example's inputs are large already, every size from 2 on is near enough.
        """
        free = self._free(domain)
        for ends in itertools.islice(itertools.product((False, True), repeat=len(free)), CORNERS):
            corner = self._corner(dict(zip(free, ends, strict=True)), domain, run)
            if corner is not None:
                yield corner

    def _free(self, domain: Facts) -> list[str]:
        """Return the sizes with several values; of sizes known to be equal, one."""
        first: dict[object, str] = {}
        for name in self.names:
            first.setdefault(domain.reduce(symbol(name)), name)
        return [name for value, name in first.items() if not (isinstance(value, Term) and value.is_constant)]

    def _corner(
        self, ends: Mapping[str, bool], domain: Facts, run: Sequence[Mapping[str, int]]
    ) -> dict[str, int] | None:
        """Return a corner. A size without bounds in the domain (an int) keeps its first value."""
        facts, best = domain.fork(), None
        for name, high in ends.items():
            bounds = facts.ranges.get(name)
            if bounds is None:
                continue
            whole, stands_in = self._first(name, _towards(bounds.upper if high else bounds.lower, bounds.lower), facts)
            if whole is None:
                continue
            near = min(whole[name], _GENERAL) if self._large else whole[name]
            if stands_in and (sum(ends.values()) > 1 or any(point[name] >= near for point in run)):
                return None
            facts, best = facts.assuming(f.eq(symbol(name), whole[name])), whole
        return best

    def _first(self, name: str, values: Iterable[int], facts: Facts) -> tuple[dict[str, int] | None, bool]:
        """Return a point with the first value that can be run, and whether it stands for one that is too large."""
        too_large = False
        for value in values:
            found = find(f.TRUE, facts.assuming(f.eq(symbol(name), value)))
            whole = self.whole(found, STAND_IN_GROWTH if too_large else REPLAY_GROWTH)
            if whole is not None:
                return whole, too_large
            too_large |= isinstance(found, Mapping)
        return None, too_large

    def ones(self, domain: Facts) -> Iterator[dict[str, int]]:
        """Yield the point that sets as many sizes as possible to 1, one after the other."""
        facts = domain.fork()
        for name in self.names:
            one = facts.assuming(f.eq(symbol(name), 1))
            facts = facts if one.contradictory else one
        return self.among([find(f.TRUE, facts)])


def _towards(end: int | None, lower: int | None) -> Iterator[int]:
    """Yield the end, then values ever nearer to the lower bound."""
    value = 64 if end is None else end
    floor = 0 if lower is None else lower
    while value > floor:
        yield value
        value = (value + floor) // 2
    yield floor


def failing_point(inputs: Inputs, required: Formula, domain: Facts) -> dict[str, int] | None:
    """Return the smallest point of a domain where a requirement fails."""
    found = smallest(f.negate(required), domain, sorted(inputs.domain.symbols))
    return {name: found[name] for name in inputs.domain.symbols} if isinstance(found, dict) else None
