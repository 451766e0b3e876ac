"""Find the equalities of the example that a large model needs, before any trace: by runs of eager at other sizes.

A domain with these equalities is simple, and one trace inside it is enough. A trace at unequal sizes would only raise,
and one at the example's sizes would pin what is equal there by chance. The exploration settles every claim afterwards,
as in any other domain.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.constraints.records.decisions import Decision, Kind, SourceLocation
from shapeproof.constraints.records.domain import Role
from shapeproof.constraints.terms import symbol
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.beside_eager.runner import map_integers
from shapeproof.export.explore.findings import Narrowing
from shapeproof.export.explore.inferred.narrowing import asked_for, equal_in_example
from shapeproof.export.explore.points import Sizes
from shapeproof.export.limits import CHEAP_ELEMENTS, LARGE_PROGRAM, RUNS, TIED_SIZES
from shapeproof.export.source.errors import led_to
from shapeproof.plain import Saving, saves_time
from shapeproof.solver.facts import Facts

_DATA: Sequence[Callable[[torch.Tensor], torch.Tensor]] = (torch.zeros_like, torch.Tensor.detach)
"""What eager's integers are: 0, or the example's. A model may look at a mask's size only where the mask has a 0."""


class Ties:
    """The equalities that eager needs in a domain, between inferred sizes or with the example's numbers."""

    def __init__(self, eager: Eager, domain: Facts, example: Point) -> None:
        self._eager, self._domain, self._example = eager, domain, example
        self._open = sorted(eager.inputs.domain.of_role(Role.INFERRED))
        self._making = _DATA
        self._told: dict[tuple[int, ...], list[SourceLocation | None]] = {}

    def needed(self) -> list[Narrowing]:
        """Return the equalities without which eager raises; none if they do not suffice, or if the model is small."""
        many = len(equal_in_example(self._eager.inputs, self._example)) > TIED_SIZES
        modules = len([*self._eager.mod.modules()])
        if many or not saves_time(Saving.LOOKS) or modules * RUNS <= LARGE_PROGRAM:
            return []
        self._making = [made for made in _DATA if not self._raised(self._example, [made])]
        if not self._making or self._suffice(()):
            return []
        found = self._tied()
        if not self._suffice(found):
            fixed = {name: self._example[name] for name in self._open if self._is_fixed(name)}
            self._open = [name for name in self._open if name not in fixed]
            found = [*self._tied(), *(f.eq(symbol(name), size) for name, size in fixed.items())]
        return asked_for([*map(self._asked, found)], self._eager.inputs) if self._suffice(found) else []

    def _tied(self) -> list[Formula]:
        """Return the equalities between sizes that are not free."""
        held = {name for name in self._open if not self._is_free(name)}
        return [*equal_in_example(self._eager.inputs, self._example, self._example.keys() - held)]

    def _is_free(self, name: str) -> bool:
        """True if eager accepts a size twice as large, and without it all those that equal it in the example."""
        others = [each for each in self._alike(name) if each != name]
        return not self._changed([name], 2) and not self._changed(others, 2)

    def _is_fixed(self, name: str) -> bool:
        """True if eager rejects a size twice as large, as a multiple is, and one less, as is within a bound.

        The size is changed alone, and together with all those that equal it in the example.
        """
        ways = itertools.product(([name], self._alike(name)), ((2, 0), (1, -1)))
        return all(self._changed(names, factor, more) for names, (factor, more) in ways)

    def _alike(self, name: str) -> list[str]:
        return [each for each in self._open if self._example[each] == self._example[name]]

    def _suffice(self, equal: Sequence[Formula]) -> bool:
        """True if eager accepts a generic point with these equalities."""
        point = Sizes(self._eager.inputs).generic(self._domain.assuming(*equal))
        return point is not None and not self._told_at(point)

    def _changed(self, names: Sequence[str], factor: int, more: int = 0) -> list[SourceLocation | None]:
        """Return the line that led to what eager raises where these sizes change; nothing if it accepts them."""
        point = self._example | {name: factor * self._example[name] + more for name in names}
        return self._told_at(point) if self._domain.contains(point) else [None]

    def _asked(self, equal: Formula) -> Decision:
        lines = (line for name in sorted(equal.symbols) for line in self._changed([name], 2))
        return Decision(equal, Kind.ASSERTED, outcome=True, where=next(lines, None))

    def _told_at(self, point: Point) -> list[SourceLocation | None]:
        key = tuple(point[name] for name in sorted(self._example))
        if key not in self._told:
            self._told[key] = self._raised(point, self._making)
        return self._told[key]

    def _raised(
        self, point: Point, making: Sequence[Callable[[torch.Tensor], torch.Tensor]]
    ) -> list[SourceLocation | None]:
        """Return the line that led to what eager raises on any of these data; nothing if it raises nothing.

        A point with many elements is not run.
        """
        if self._eager.inputs.elements(point) > CHEAP_ELEMENTS:
            return []
        given = (map_integers(*self._eager.inputs.at(point, filled=True), made) for made in making)
        error = next(filter(None, itertools.starmap(self._eager.error_on, given)), None)
        return [] if error is None else [led_to(error)]
