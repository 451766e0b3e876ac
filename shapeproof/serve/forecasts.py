"""How many programs a declared domain needs: the regions, the lines that make their borders, and the least number.

above   each union of regions that one traced program might serve is explored as one domain; what is proved is merged
below   every program that exploring the domain traces is run at sizes of every region; of these programs, the fewest
        that between them do there what eager does

Where the two meet, the number is the least that there is, of programs as the model gives them when it is traced.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, TypeVar

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.records.domain import Declaration, Origin
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import symbol
from shapeproof.export import ConstraintViolation, Report
from shapeproof.export.build.regions import ReportedRegions
from shapeproof.export.declare.inputs import Inputs, declare
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.beside_eager.forms import forms_of
from shapeproof.export.explore.explorer import Explorer
from shapeproof.export.explore.regions import split
from shapeproof.export.shim.process.modes import generators_restored
from shapeproof.export.shim.process.one_thread import one_thread
from shapeproof.export.source.declared_at import in_the_call
from shapeproof.export.trace import tracer
from shapeproof.export.trace.python.builtins import found_once
from shapeproof.export.verify import verified
from shapeproof.solver.answers.witness import ascending
from shapeproof.solver.facts import Facts
from shapeproof.solver.sampled.exhaustion import box_size

MOST_REGIONS = 6
"""Of more regions, no unions are explored."""
POINTS = 4
"""Sizes of each region at which programs are run."""
MOST_STATIC = 10**6
"""Points of a domain that are counted one by one."""

Point = dict[str, int]


@dataclass(frozen=True)
class Border:
    """A line of the model that takes a side by sizes.

    Attributes:
        formula: the question, in the user's names.
        file: where it is asked.
        line: the number of the line.
    """

    formula: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.formula} at {PurePath(self.file).name}:{self.line}"


@dataclass(frozen=True)
class Forecast:
    """How many programs a declared domain needs.

    Attributes:
        regions: what each program serves, in the user's names.
        at_least: no fewer programs serve the domain.
        borders: the lines of the model that make more than one of it.
        witnesses: sizes, one of each region.
        static: how many programs of static sizes there would be; None if that is not finite, or not counted.
        report: what was proved of the domain.
    """

    regions: tuple[str, ...]
    at_least: int
    borders: tuple[Border, ...]
    witnesses: tuple[Point, ...]
    static: int | None
    report: Report

    @property
    def programs(self) -> int:
        """So many programs serve the domain: proved."""
        return len(self.regions)

    @property
    def least(self) -> bool:
        """True if no fewer programs suffice."""
        return self.at_least == self.programs

    def __str__(self) -> str:
        number = f"{self.programs} program{'s' if self.programs != 1 else ''}"
        known = "the least number" if self.least else f"at least {self.at_least}"
        lines = [f"{number} ({known})", *(f"  {index}. {each}" for index, each in enumerate(self.regions, 1))]
        lines += [f"  border: {each}" for each in self.borders]
        return "\n".join([*lines, *([] if self.static is None else [f"  of static sizes: {self.static}"])])


def forecast(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    constraints: Sequence[str] = (),
) -> Forecast:
    """How many programs a declared domain needs, before anything is called.

    Args:
        model: the model.
        args: the example inputs.
        kwargs: the example inputs that are given by name.
        dynamic_shapes: what is declared, as for `export`.
        constraints: relations, as for `export`.

    Returns:
        The number, whether it is the least, the regions and the lines that make their borders.

    Raises:
        ConstraintViolation: the model does not support what is declared, or that is undecided.
        UsageError: an entry is invalid; the sentence names it.

    >>> class Model(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x * 2 if x.shape[0] <= 30 else x - 1
    >>> shapes = {"x": {0: torch.export.Dim("n", min=0, max=99)}}
    >>> found = forecast(Model(), (torch.ones(5),), dynamic_shapes=shapes)
    >>> found.programs, found.least, found.regions, found.static
    (2, True, ('x.shape[0] <= 30', 'x.shape[0] >= 31'), 100)
    """
    inputs = declare(model, args, kwargs, dynamic_shapes, constraints, in_the_call())
    with one_thread:
        report = verified(model, inputs, splitting=True)
        if report.status != "proved" or report.program is None:
            raise ConstraintViolation(report)
        return _Counter(model, inputs, report).forecast()


class _Counter:
    """Counts the programs of one proved report."""

    def __init__(self, model: torch.nn.Module, inputs: Inputs, report: Report) -> None:
        self._model = model
        self._report = report
        self._holds: tuple[Formula, ...] = (f.TRUE,)
        required = () if report.program is None else report.program.contract.formulas
        if isinstance(report.program, ReportedRegions):
            self._holds = report.program.holds
        self._inputs = _claiming(inputs, required)
        self._points = [_points(holds, self._inputs) for holds in self._holds]
        self._keys = [
            frozenset((region, place) for place in range(len(each))) for region, each in enumerate(self._points)
        ]

    def forecast(self) -> Forecast:
        """The forecast."""
        served = self._served() if len(self._holds) > 1 else []
        at_least = max(1, fewest_to_cover(frozenset().union(*self._keys), served) or 1)
        blocks = self._merged(served, at_least)
        unions = [f.disjunction(*(self._holds[index] for index in block)) for block in blocks]
        names = self._inputs.user_names
        return Forecast(
            tuple(format_formula(each, rename=names) if each is not f.TRUE else "every size" for each in unions),
            at_least,
            tuple(self._borders()) if len(blocks) > 1 else (),
            tuple({names[name]: size for name, size in region[0].items()} for region in self._points if region),
            _static(self._inputs),
            self._report,
        )

    def _merged(self, served: Sequence[frozenset[Any]], at_least: int) -> tuple[tuple[int, ...], ...]:
        """The regions, those together that one program is proved to serve."""
        if len(self._holds) > MOST_REGIONS:
            return tuple((index,) for index in range(len(self._holds)))

        @functools.cache
        def may_be(block: tuple[int, ...]) -> bool:
            wanted = frozenset().union(*(self._keys[index] for index in block))
            return any(wanted <= each for each in served) and self._is_one(block)

        return fewest_blocks(len(self._holds), may_be, at_least)

    def _is_one(self, block: tuple[int, ...]) -> bool:
        """True if one program is proved to serve all these regions."""
        union = f.disjunction(*(self._holds[index] for index in block))
        inputs = _claiming(self._inputs, (union,), self._points[block[0]][:1])
        try:
            return bool(self._points[block[0]]) and verified(self._model, inputs).status == "proved"
        except Exception:  # noqa: BLE001 - whatever the model or torch raises, it is not proved
            return False

    def _served(self) -> list[frozenset[Any]]:
        """For every program traced in the domain, the points of regions at which it agrees with eager."""
        return [
            frozenset(
                (region, place)
                for region, place in frozenset().union(*self._keys)
                if replay.Eager(self._model, self._inputs).compare(forms, self._points[region][place]).agrees
            )
            for forms in map(forms_of, self._traced())
        ]

    def _traced(self) -> list[torch.export.ExportedProgram]:
        """Every program that exploring the domain traces."""
        found: list[torch.export.ExportedProgram] = []

        def trace(*args: Any, **kwargs: Any) -> torch.export.ExportedProgram:
            found.append(tracer.trace(self._model, self._inputs, *args, **kwargs))
            return found[-1]

        explorer = Explorer(replay.Eager(self._model, self._inputs), trace, lambda _: None, splitting=True)
        with found_once(self._model), generators_restored():
            split(explorer, self._inputs.facts(), lambda *_: None)
        return found

    def _borders(self) -> Iterator[Border]:
        seen = set()
        for decision in self._report.decisions:
            where = decision.where
            if decision.of_the_model and where is not None and (where.file, where.line) not in seen:
                seen.add((where.file, where.line))
                text = format_formula(decision.formula, rename=self._inputs.user_names)
                yield Border(text, where.file, where.line)


def _claiming(inputs: Inputs, formulas: Sequence[Formula], anchors: Sequence[Point] | None = None) -> Inputs:
    """The inputs where these hold, too, and nothing is left to be inferred."""
    more = tuple(Declaration(each, Origin(str(each))) for each in formulas if each not in inputs.domain.formulas)
    domain = replace(inputs.domain.claimed(), declarations=(*inputs.domain.declarations, *more))
    return replace(inputs, domain=domain, anchors=inputs.anchors if anchors is None else tuple(anchors))


def _points(holds: Formula, inputs: Inputs) -> list[Point]:
    """Some sizes in a region: large ones first, since programs differ little where sizes are 0 or 1."""
    names, found = list(inputs.domain.symbols), dict[str, Point]()
    for wishes in (*([f.ge(symbol(name), low) for name in names] for low in (2, 1, 0)), []):
        facts = Facts([*inputs.domain.formulas, holds, *wishes])
        points = ({name: point[name] for name in names} for point in ascending(facts, names))
        found |= {str(point): point for point in itertools.islice(points, POINTS)}
    return list(found.values())[:POINTS]


def _static(inputs: Inputs) -> int | None:
    """Return the number of points of the domain."""
    known = inputs.domain.ranges()
    boxes = [known.get(name, Interval()) for name in inputs.domain.symbols]
    count = box_size(boxes)
    if count is None or count > MOST_STATIC:
        return None
    ranges = (range(each.lower or 0, (each.upper or 0) + 1) for each in boxes)
    points = (dict(zip(inputs.domain.symbols, values, strict=True)) for values in itertools.product(*ranges))
    return sum(all(true_at(each, point) is True for each in inputs.domain.formulas) for point in points)


_T = TypeVar("_T", bound=Hashable)
MOST_SETS = 24
"""No cover is sought for more sets than this, counting only sets that lie in no other."""


def fewest_to_cover(whole: frozenset[_T], sets: Iterable[frozenset[_T]]) -> int | None:
    """How many of the sets cover the whole at least; None if there are too many sets, or they do not cover it.

    >>> fewest_to_cover(frozenset("abc"), [frozenset("ab"), frozenset("bc"), frozenset("b")])
    2
    """
    distinct = {each & whole for each in sets}
    kept = [each for each in distinct if not any(each < other for other in distinct)]
    if frozenset().union(*kept) != whole or len(kept) > MOST_SETS:
        return None if whole else 0
    counts = range(len(kept) + 1)
    return next(n for n in counts if any(frozenset().union(*some) == whole for some in itertools.combinations(kept, n)))


def partitions(count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """The partitions of 0, 1, ... into blocks, those with fewest blocks first.

    >>> list(partitions(3))[:3]
    [((0, 1, 2),), ((0, 1), (2,)), ((0, 2), (1,))]
    """

    def grown(index: int) -> Iterator[tuple[tuple[int, ...], ...]]:
        if index < 0:
            yield ()
            return
        for blocks in grown(index - 1):
            for place, block in enumerate(blocks):
                yield (*blocks[:place], (*block, index), *blocks[place + 1 :])
            yield (*blocks, (index,))

    yield from sorted(grown(count - 1), key=len)


def fewest_blocks(count: int, may_be: Callable[[tuple[int, ...]], bool], least: int = 1) -> tuple[tuple[int, ...], ...]:
    """The partition into fewest blocks that all may be; a block of one always may. Fewer than `least` are not tried.

    >>> fewest_blocks(3, lambda block: block != (0, 1, 2) and block != (0, 1))
    ((0, 2), (1,))
    """
    tried = (each for each in partitions(count) if len(each) >= least)
    return next(each for each in tried if all(len(block) == 1 or may_be(block) for block in each))
