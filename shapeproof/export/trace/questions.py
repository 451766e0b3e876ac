"""The questions of one trace that its facts leave open; the causes of findings are among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.export.source.places import Place


@dataclass(slots=True)
class Questions:
    """The questions of one trace that its facts leave open, with the user's names; findings' causes are among them."""

    asked: dict[Formula, Decision] = field(default_factory=dict)
    """Each question with its answer. The user's own line takes precedence over an assumption of torch."""
    names: dict[Formula, Mapping[str, str]] = field(default_factory=dict)
    """The user's names for the symbols of a question, at the line that asks."""
    learned_before: dict[Formula, int] = field(default_factory=dict)
    """For each question, how many facts the trace had learned when it was asked."""
    answered: set[Formula] = field(default_factory=set)
    """Questions that the region answers."""
    against: dict[Formula, Decision] = field(default_factory=dict)
    """The questions whose answer from the region differs from torch's fallback."""
    varying: dict[Formula, bool] = field(default_factory=dict)
    """For each question: is it seen to hold at some points of the domain and to fail at others?"""

    def has(self, formula: Formula, kind: Kind) -> bool:
        """True if the question has been noted, and this kind of question does not take precedence."""
        known = self.asked.get(formula)
        return known is not None and (known.kind is not Kind.ASSUMED or kind is Kind.ASSUMED)

    def note(self, decision: Decision, here: Place, learned: int) -> None:
        """Note a question with its answer, the place that asks, and the number of facts learned before."""
        self.asked[decision.formula] = decision
        self.names[decision.formula] = here.names
        self.learned_before[decision.formula] = learned

    def note_check(self, formula: Formula, here: Place, learned: int) -> None:
        """Note where a check on data is made, unless the same question was asked before."""
        self.names.setdefault(formula, here.names)
        self.learned_before.setdefault(formula, learned)
