"""Choose points of a domain: values of the declared sizes at which the model is traced or eager is run."""

from __future__ import annotations

from shapeproof.constraints import formulas as f
from shapeproof.export.declare.inputs import Inputs
from shapeproof.solver.answers.witness import generic, smallest
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts


class Sizes:
    """Finds values for the declared sizes; `budget` is the work that one solver question may cost."""

    def __init__(self, inputs: Inputs, budget: Budget) -> None:
        self.declared = frozenset(inputs.domain.symbols)
        self._names = inputs.user_names
        self._budget = budget

    def generic(self, facts: Facts) -> dict[str, int] | None:
        """Return a generic point, restricted to the declared symbols and those of the facts.

        Facts that share history may have learned about other symbols too.
        """
        point = generic(facts, sorted(self.declared), frozenset(), self._budget)
        spoken_of = self.declared.union(*(formula.symbols for formula in facts.formulas))
        return {name: point[name] for name in point if name in spoken_of} if isinstance(point, dict) else None

    def smallest(self, facts: Facts) -> dict[str, int] | None:
        """Return the smallest sizes at which the facts hold."""
        point = smallest(f.TRUE, facts, sorted(self.declared), self._budget)
        return self.of(point) if isinstance(point, dict) else None

    def of(self, point: dict[str, int]) -> dict[str, int]:
        """Restrict a point to the declared sizes."""
        return {name: value for name, value in point.items() if name in self.declared}

    def describe(self, point: dict[str, int]) -> str:
        """Describe a point in the user's names."""
        names = self._names
        return ", ".join(f"{names.get(name, name)} = {value}" for name, value in sorted(point.items())) or "the example"
