"""The trial that answers after the trace, when compilers and consumers ask about the finished program.

It assumes only that the program does not refuse the input. No open size is specialized to a number, since nothing
records a specialization any more; and no side of a branch is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.reals import Real
from shapeproof.constraints.syntax.text import format_node
from shapeproof.constraints.terms import Term
from shapeproof.export.source.frames import Place
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.wording import equals
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import truth


class Where(Container[Formula]):
    """The set of formulas for which a predicate is true."""

    def __init__(self, holds: Callable[[Formula], bool]) -> None:
        self._holds = holds

    def __contains__(self, formula: object) -> bool:
        return isinstance(formula, Formula) and self._holds(formula)


_EVERYTHING = Where(lambda _: True)

_FREEZING = (
    "the program serves more than one `{}`, and {} asks for one number: "
    "keep the operator that asks whole (`run_decompositions` with a table without it)"
)


class ClosedTrial(Trial):
    """A trial that refuses to specialize an open size to a number.

    Args:
        known: what the inputs meet that the program does not refuse.
        point: a value for every symbol of the inputs.
        names: the user's names of the sizes.
        taken_apart: gives the facts under which the program is known to behave the same when decomposed; they answer a
            question outside an operator that needs a side. None while the program is being decomposed.
        oblivious: questions that torch's fallback answers.
        more: as for Trial.
    """

    def __init__(
        self,
        known: Facts,
        point: Mapping[str, int],
        *,
        names: Mapping[str, str],
        taken_apart: Callable[[], Facts] | None = None,
        oblivious: Container[Formula] = _EVERYTHING,
        **more: Any,
    ) -> None:
        super().__init__(known, point, oblivious=oblivious, **more)
        self.user_names = names
        self._taken_apart = taken_apart
        self.is_taken_apart, self.is_over = taken_apart is None, taken_apart is not None

    def _known_elsewhere(self, formula: Formula, place: Callable[[], Place]) -> bool | None:
        if self._taken_apart is None or place().operator is not None:
            return None
        answer = truth(formula, self._taken_apart()).always
        return self._side(formula, fallback=None) if answer is None else answer

    def _must_be_open(self, number: Term | Real, value: float, place: Callable[[], Place]) -> None:
        if self.settled(equals(number, value)) is not True:
            name = format_node(number, rename=self.user_names)
            raise UsageError(_FREEZING.format(name, place().operator or "a compiler"))


def closed(
    trial: Trial, enforced: Iterable[Formula], names: Mapping[str, str], taken_apart: Callable[[], Facts]
) -> ClosedTrial:
    """Close a trial: the program refuses the inputs that do not meet what is `enforced`."""
    known = trial.facts.resting_on(*enforced)
    return ClosedTrial(known, trial.point, data=trial.data_point.is_data, names=names, taken_apart=taken_apart)


def reopened(trial: Trial, *, by_point: bool = False) -> ClosedTrial:
    """Return another trial of a finished program, which takes a side where it is asked for one.

    `by_point`: the point answers the questions that have a fallback, too.
    """
    names = trial.user_names if isinstance(trial, ClosedTrial) else {}
    oblivious = frozenset[Formula]() if by_point else _EVERYTHING
    return ClosedTrial(
        trial.facts.resting_on(), trial.point, data=trial.data_point.is_data, names=names, oblivious=oblivious
    )


def without_specializing(trial: Trial) -> ClosedTrial:
    """Return a trial in the region of another that refuses to specialize any size."""
    region, none = trial.region.fork(), frozenset[Formula]()
    own = ClosedTrial(
        region, trial.point, data=trial.data_point.is_data, names={}, oblivious=none, in_place=trial.in_place
    )
    trial.share(own)
    return own
