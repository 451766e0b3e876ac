"""Compares a verdict with a profile of seen inputs: each is declared and served, or the smallest lost one is shown.

The points that the profile keeps are tried one by one. All others are proved from the bounds and relations of the
profile, or a note says what is unknown. A note also lists declared sizes that were never seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import evaluate, holds_at, linear
from shapeproof.constraints.meaning.intervals import Bounds, Interval
from shapeproof.constraints.records.diagnostics import Diagnostic, Note
from shapeproof.constraints.syntax.text import format_formula, format_term
from shapeproof.constraints.terms import symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.reading import Leaf
from shapeproof.export.forms.seen.from_seen import difference, number_seen, parameters, size_terms
from shapeproof.export.ops.properties import STRIDES
from shapeproof.export.report.report import Report
from shapeproof.seen import Seen
from shapeproof.seen.calls import Kind, Slot
from shapeproof.seen.joint import Joint, seen_sizes
from shapeproof.seen.plots import SeenSize
from shapeproof.seen.relations import relations
from shapeproof.seen.text import all_seen_are
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied
from shapeproof.wording import values_text

_SEEN = "seen "
"""Prefix of a seen size's name; with it, the name is no dim."""


def held_against(mod: torch.nn.Module, report: Report, inputs: Inputs, seen: Seen) -> Report:
    """Return the report, refuted if it does not serve some seen input."""
    formulas = inputs.domain.formulas if report.program is None else report.program.contract.formulas
    kind = tuple(sorted(map(_slot, inputs.leaves)))
    joints = seen.named(parameters(mod)).joints
    others = [difference(each, kind) for each in joints if each != kind]
    errors = lost_kinds([*others, *(["a call of kinds that were too many to be kept"] if seen.omitted else [])])
    notes: list[str] = []
    sizes: tuple[SeenSize, ...] = ()
    joint = joints.get(kind)
    if joint is not None:
        beside = Beside(inputs, kind, joint)
        misfits = beside.misfits(formulas)
        sizes = beside.sizes(Facts(formulas), [point for point, _ in misfits])
        errors += beside.smallest(misfits)
        if not misfits and report.status == "proved":
            texts = (each for slot, each in zip(kind, joint.constants, strict=True) if slot.kind == "tensor")
            alike = all(each == frozenset(("rows",)) for each in texts)
            notes.append(beside.known_of_all(formulas, report, "declared and served", alike=alike))
        notes += beside.never_seen(Facts(formulas))
    return replace(
        report,
        status="refuted" if errors and report.status in {"proved", "undecided"} else report.status,
        program=None if errors else report.program,
        diagnostics=(*report.diagnostics, *errors),
        notes=(*report.notes, *notes),
        seen=sizes,
    )


@dataclass(frozen=True, slots=True)
class Beside:
    """Declared inputs beside the seen calls of their kind."""

    inputs: Inputs
    kind: Kind
    joint: Joint

    def sizes(self, served: Facts | None, lost: Iterable[Mapping[str, int]]) -> tuple[SeenSize, ...]:
        """Return the sizes that varied, with the range that is served, and their values in the inputs that are lost."""
        terms, points = size_terms(self.inputs, self.kind), list(lost)
        return tuple(
            replace(
                each,
                lost=tuple(sorted({point[each.name] for point in points if each.name in point})),
                served=None if served is None else Bounds(served.ranges).of(terms[each.name]),
            )
            for each in seen_sizes({self.kind: self.joint})
        )

    def misfits(self, formulas: Sequence[Formula]) -> list[tuple[dict[str, int], Note]]:
        """Return the kept inputs that are not served, the smallest first, each with what it violates."""
        names = list(size_terms(self.inputs, self.kind))
        kept = sorted(self.joint.points, key=lambda each: (max(each, default=0), sum(each), each))
        points = [dict(zip(names, point, strict=True)) for point in kept]
        return [(point, note) for point in points if (note := self._misfit(point, formulas)) is not None]

    def _misfit(self, point: Mapping[str, int], formulas: Sequence[Formula]) -> Note | None:
        """Return the first declaration or requirement that an input violates."""
        dims: dict[str, int] = {}
        names = self.inputs.user_names
        for name, term in size_terms(self.inputs, self.kind).items():
            form = linear(term)
            if form is not None:
                dims.setdefault(form.name, (point[name] - form.offset) // form.step)
            if evaluate(term, dims) != point[name]:
                return Note("declared", f"{name} = {format_term(term, rename=names)}")
        failing = next((each for each in formulas if not holds_at(each, dims)), None)
        if failing is None:
            return None
        label = "declared" if failing in self.inputs.domain.formulas else "required"
        return Note(label, format_formula(failing, rename=names))

    def smallest(self, misfits: Sequence[tuple[dict[str, int], Note]]) -> list[Diagnostic]:
        """Return the smallest input that is not served, as an error: its sizes that varied."""
        varied = {each.name for each in seen_sizes({self.kind: self.joint})}
        for point, note in misfits[:1]:
            shown = {name: size for name, size in point.items() if name in varied} or point
            return [replace(each, notes=(note,), witness=shown) for each in lost_kinds([f"`{values_text(shown)}`"])]
        return []

    def known_of_all(self, formulas: Iterable[Formula], report: Report, what: str, *, alike: bool) -> str:
        """Say that all seen inputs are `what` if that is proved; else how many were tried, and what is unknown."""
        seen, (_, exact) = number_seen(self.joint), self.joint.distinct
        open_ = [format_formula(each, rename=self.inputs.user_names) for each in self._open(formulas)]
        if not open_:
            said = f"{all_seen_are(seen)} {what}: proved of their bounds and relations"
        elif exact:
            said = f"{all_seen_are(seen)} {what}: each was tried"
        else:
            kept = f"the {len(self.joint.points)} inputs kept of {seen} seen are {what}"
            said = f"{kept}; of the others it is not known that {', '.join(open_)}"
        return said + _of_memory(report, alike=alike)

    def _open(self, formulas: Iterable[Formula]) -> Iterator[Formula]:
        """Yield the conditions on sizes that are not proved for all seen inputs."""
        terms = {_SEEN + name: term for name, term in size_terms(self.inputs, self.kind).items()}
        facts = Facts([each.formula for each in relations(self.joint, list(terms))])
        for name, (low, high) in zip(terms, self.joint.bounds, strict=True):
            facts.learn(f.conjunction(f.ge(symbol(name), low), f.le(symbol(name), high)))
        defined: set[str] = set()
        for name, term in terms.items():
            form, same = linear(term), f.eq(symbol(name), term)
            if form is None or form.name in defined:
                yield from () if implied(same, facts) else (same,)
                continue
            defined.add(form.name)
            fits = f.divides(form.step, symbol(name) - form.offset)
            yield from () if implied(fits, facts) else (fits,)
            facts.learn(same)
        yield from (each for each in formulas if not implied(each, facts))

    def never_seen(self, domain: Facts) -> Iterator[str]:
        """Yield a note for each dim with declared values beyond all seen ones."""
        seen: dict[str, Interval] = {}
        for term, ends in zip(size_terms(self.inputs, self.kind).values(), self.joint.bounds, strict=True):
            form = linear(term)
            if form is not None:
                seen.setdefault(form.name, Interval(*sorted((end - form.offset) // form.step for end in ends)))
        for name, (low, high) in seen.items():
            declared, user_name = domain.range_of(name), self.inputs.user_names[name]
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


def lost_kinds(texts: Iterable[str]) -> list[Diagnostic]:
    """Return an error for each of these seen inputs, in words, which the program does not serve."""
    return [Diagnostic(id="seen", message=f"an input that was seen is not served: {each}") for each in texts]


def _of_memory(report: Report, *, alike: bool) -> str:
    """The end of a sentence if the program relies on memory properties that the profile does not keep.

    A profile keeps layouts only.
    """
    programs = getattr(report.program, "programs", (report.program,))
    memories = [each.contract.memory for each in programs if each is not None]
    known = all(memory.reads <= {STRIDES} and not (memory.writes or memory.state) for memory in memories)
    if (known and alike) or not any(memory.matters for memory in memories):
        return ""
    return "; not of how they lay in memory, on which the model relies"
