"""The questions of one trace that its facts leave open; the causes of findings are among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Decision


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
