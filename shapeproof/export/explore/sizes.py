"""Points of a domain: values for what is declared, at which a trace is made or eager is run. Nothing is run here."""

from __future__ import annotations

from shapeproof.constraints import formulas as f
from shapeproof.export.declare.inputs import Inputs
from shapeproof.solver.answers.witness import generic, smallest
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts


class Sizes:
    """Finds values for the declared sizes; `budget` is what one solver question may cost."""

    def __init__(self, inputs: Inputs, budget: Budget) -> None:
        self.declared = frozenset(inputs.domain.symbols)
        self._names = inputs.user_names
        self._budget = budget

    def generic(self, facts: Facts) -> dict[str, int] | None:
        """A generic point, of what is declared and what the facts speak of: others may know more who share them."""
        point = generic(facts, sorted(self.declared), frozenset(), self._budget)
        spoken_of = self.declared.union(*(formula.symbols for formula in facts.formulas))
        return {name: point[name] for name in point if name in spoken_of} if isinstance(point, dict) else None

    def smallest(self, facts: Facts) -> dict[str, int] | None:
        """The smallest sizes at which the facts hold."""
        point = smallest(f.TRUE, facts, sorted(self.declared), self._budget)
        return self.of(point) if isinstance(point, dict) else None

    def of(self, point: dict[str, int]) -> dict[str, int]:
        """What a point says of declared sizes."""
        return {name: value for name, value in point.items() if name in self.declared}

    def describe(self, point: dict[str, int]) -> str:
        """A point in the user's words."""
        names = self._names
        return ", ".join(f"{names.get(name, name)} = {value}" for name, value in sorted(point.items())) or "the example"
