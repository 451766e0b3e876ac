"""Compares a verdict with a profile of seen inputs: each is declared and served, or the smallest lost one is shown.

The points that the profile keeps are tried one by one. All others are proved from the bounds and relations of the
profile, or a note says what is unknown. A note also lists declared sizes that were never seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at, linear
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.records.diagnostics import Diagnostic, Note
from shapeproof.constraints.syntax.text import format_formula, format_term
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.declare.from_seen import difference, parameters
from shapeproof.export.declare.inputs import Inputs, Leaf
from shapeproof.export.report.report import Report
from shapeproof.export.serving import bounds, contained, of_memory
from shapeproof.seen import Seen
from shapeproof.seen.calls import Kind, Slot, size_names
from shapeproof.seen.joint import Joint
from shapeproof.seen.plots import SeenSize
from shapeproof.seen.relations import relations
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied
from shapeproof.wording import values_text

_SEEN = "seen "
"""Prefix of a seen size's name; with it, the name is no dim."""


@dataclass(frozen=True, slots=True)
class _Declared:
    """A declared size: `factor*name + offset`, or the number `offset` if there is no name."""

    term: Term
    name: str | None
    factor: int = 0
    offset: int = 0

    @classmethod
    def of(cls, term: Term) -> _Declared:
        form = linear(term)
        return cls(term, None, 0, term.constant_value) if form is None else cls(term, *form)

    def within(self, domain: Facts) -> tuple[int | None, int | None]:
        """The least and the greatest size; None where there is no bound."""
        if self.name is None:
            return self.offset, self.offset
        interval = domain.range_of(self.name)
        low, high = (
            None if end is None else self.factor * end + self.offset for end in (interval.lower, interval.upper)
        )
        return (low, high) if self.factor > 0 else (high, low)

    def value(self, size: int) -> int | None:
        """Return the value of the dim at this size; None if no value of the dim gives this size."""
        return (size - self.offset) // self.factor if (size - self.offset) % self.factor == 0 else None


def held_against(mod: torch.nn.Module, report: Report, inputs: Inputs, seen: Seen) -> Report:
    """Return the report, refuted if it does not serve some seen input."""
    formulas = inputs.domain.formulas if report.program is None else report.program.contract.formulas
    kind = tuple(sorted(map(_slot, inputs.leaves)))
    joints = seen.named(parameters(mod)).joints
    errors = [Diagnostic(id="seen", message=_not_served(difference(each, kind))) for each in joints if each != kind]
    if seen.omitted:
        errors.append(Diagnostic(id="seen", message=_not_served("a call of kinds that were too many to be kept")))
    notes: list[str] = []
    beside: tuple[SeenSize, ...] = ()
    joint = joints.get(kind)
    if joint is not None:
        against = _Against(inputs, kind, joint, _sizes(inputs, kind), formulas)
        beside = tuple(against.beside())
        lost = against.lost()
        errors += lost
        if not lost and report.status == "proved":
            texts = (each for slot, each in zip(kind, joint.constants, strict=True) if slot.kind == "tensor")
            alike = all(each == frozenset(("rows",)) for each in texts)
            notes.append(against.known_of_all() + of_memory(report, alike=alike))
        notes += against.never_seen()
    status = "refuted" if errors and report.status in {"proved", "undecided"} else report.status
    program = None if errors else report.program
    return replace(
        report,
        status=status,
        program=program,
        diagnostics=(*report.diagnostics, *errors),
        notes=(*report.notes, *notes),
        seen=beside,
    )


@dataclass(frozen=True, slots=True)
class _Against:
    """A declared domain beside the seen calls of its kind.

    Attributes:
        inputs: what is declared.
        kind: the kind of the inputs.
        joint: the seen calls of this kind.
        sizes: the declared form of each number of a point.
        formulas: what the sizes must meet.
    """

    inputs: Inputs
    kind: Kind
    joint: Joint
    sizes: Sequence[_Declared]
    formulas: Sequence[Formula]

    def beside(self) -> Iterator[SeenSize]:
        """The sizes that varied, with the range that is declared and served."""
        domain = Facts(self.formulas)
        lost = [point for point in self.joint.points if self._misfit(point) is not None]
        for column, name in enumerate(size_names(self.kind)):
            if self.joint.varying[column]:
                seen, missing = (tuple(sorted({point[column] for point in each})) for each in (self.joint.points, lost))
                yield SeenSize(name, seen, missing, self.sizes[column].within(domain))

    def _misfit(self, point: Sequence[int]) -> Note | None:
        """The first declaration or requirement that an input violates."""
        dims: dict[str, int] = {}
        for name, size, declared in zip(size_names(self.kind), point, self.sizes, strict=True):
            value = size if declared.name is None else declared.value(size)
            wanted = declared.offset if declared.name is None else dims.setdefault(declared.name, value or 0)
            if value is None or value != wanted:
                return Note("declared", f"{name} = {format_term(declared.term, rename=self.inputs.user_names)}")
        for formula in self.formulas:
            if not holds_at(formula, dims):
                label = "declared" if formula in self.inputs.domain.formulas else "required"
                return Note(label, format_formula(formula, rename=self.inputs.user_names))
        return None

    def lost(self) -> list[Diagnostic]:
        """The smallest kept input that is not served, as an error."""
        names = size_names(self.kind)
        for point in sorted(self.joint.points, key=lambda each: (max(each, default=0), sum(each), each)):
            note = self._misfit(point)
            if note is not None:
                whole = dict(zip(names, point, strict=True))
                varied = {name: whole[name] for name, varies in zip(names, self.joint.varying, strict=True) if varies}
                shown = varied or whole
                message = _not_served(f"`{values_text(shown)}`")
                return [Diagnostic(id="seen", message=message, notes=(note,), witness=shown)]
        return []

    def known_of_all(self) -> str:
        """A sentence that all seen inputs are served, if that is proved; else one that lists the unknown conditions."""
        open_ = [format_formula(each, rename=self.inputs.user_names) for each in self._open()]
        return contained(self.joint, open_, "declared and served")

    def _open(self) -> Iterator[Formula]:
        """The conditions on sizes that are not proved for all seen inputs."""
        names = [_SEEN + name for name in size_names(self.kind)]
        facts = Facts([*(each.formula for each in relations(self.joint, names)), *bounds(self.joint, names)])
        defined: set[str] = set()
        for name, size in zip(names, self.sizes, strict=True):
            same = f.eq(symbol(name), size.term)
            if size.name is None or size.name in defined:
                yield from () if implied(same, facts) else (same,)
                continue
            defined.add(size.name)
            fits = f.divides(size.factor, symbol(name) - size.offset)
            yield from () if implied(fits, facts) else (fits,)
            facts.learn(same)
        yield from (each for each in self.formulas if not implied(each, facts))

    def never_seen(self) -> Iterator[str]:
        """A note of the declared sizes that are beyond all seen sizes."""
        domain = Facts(self.formulas)
        seen: dict[str, Interval] = {}
        for size, ends in zip(self.sizes, self.joint.bounds, strict=True):
            values = sorted(value for end in ends if size.name and (value := size.value(end)) is not None)
            if size.name and values:
                seen.setdefault(size.name, Interval(values[0], values[-1]))
        for name, interval in seen.items():
            declared, user_name = domain.range_of(name), self.inputs.user_names[name]
            low, high = interval.lower, interval.upper
            beyond = [f"{user_name} < {low}"] if declared.lower is None or declared.lower < (low or 0) else []
            if declared.upper is None or declared.upper > (high or 0):
                beyond.append(f"{user_name} > {high}")
            if beyond:
                yield f"declared and never seen: {', '.join(beyond)}"


def _slot(leaf: Leaf) -> Slot:
    if leaf.is_tensor:
        return Slot(leaf.source, "tensor", str(leaf.example.dtype).removeprefix("torch."), len(leaf.terms))
    return Slot(
        leaf.source, "int" if leaf.terms else "None" if leaf.example is None else type(leaf.example).__qualname__
    )


def _not_served(what: str) -> str:
    return f"an input that was seen is not served: {what}"


def _sizes(inputs: Inputs, kind: Kind) -> list[_Declared]:
    """The declared form of each number of a point."""
    terms = {leaf.source: leaf.terms for leaf in inputs.leaves}
    return [_Declared.of(term) for slot in kind for term in terms[slot.source]]
