"""Judge a cell without a trace where the model rejects its sizes.

A trace runs the model at one point of a cell on tensors without data. If such a run with plain numbers for sizes raises
there, the trace would raise as well, after many times the work. If eager raises at the cell's smallest point, too, that
point is the witness, with or without a trace.
"""

from __future__ import annotations

from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.findings import Finding, Outcome
from shapeproof.export.explore.points import Sizes
from shapeproof.export.source.errors import raised_by_user
from shapeproof.export.trace.trial import Step
from shapeproof.solver.facts import Facts


def rejected(eager: Eager, sizes: Sizes, step: Step, cell: Facts) -> Finding | None:
    """Return the finding that eager raises in a cell if a trace of the cell would only raise; None if not known."""
    smallest = sizes.smallest(cell)
    failure = None if smallest is None else eager.failure_at(smallest, step.decision.where)
    if failure is None:
        return None
    point = sizes.generic(cell)
    error = None if point is None else eager.error_of_sizes(sizes.of(point))
    if error is None:
        return None
    return Finding(Outcome.RAISES, step.decision, smallest, failure, by_model=raised_by_user(error))
