"""Served programs: the domain of one and how it is run, the one that serves a call, all as one archive."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.compiled import first_holding
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.terms import Term, symbol
from shapeproof.contract.outside import OutsideDomain
from shapeproof.export import Regions, Report, VerifiedProgram
from shapeproof.export.build.accepted.contract import Requirements
from shapeproof.export.trace.known.exact_numbers import rests_of
from shapeproof.serve.calling.calls import Key
from shapeproof.serve.calling.state import attribute
from shapeproof.serve.domains import FlatDomain


@dataclass(frozen=True)
class Program:
    """A program with the domain on which it was proved.

    Attributes:
        number: counted from 1 in the order of tracing; a number is never given twice.
        exported: the program.
        declared: whether its domain was declared before anything was called.
    """

    number: int
    exported: VerifiedProgram
    flat: FlatDomain = field(repr=False)
    key: Key = field(repr=False)
    module: torch.fx.GraphModule = field(repr=False)
    run: Callable[..., Any] = field(repr=False)
    declared: bool = False

    @property
    def report(self) -> Report:
        """The report of the proof."""
        return self.exported.report

    @functools.cached_property
    def domain(self) -> tuple[str, ...]:
        """The formulas that hold for the sizes of every served input, in the user's names."""
        return tuple(map(self.flat.said, self.flat.formulas))

    def __str__(self) -> str:
        return f"program {self.number}: {', '.join(self.domain) or 'every size'}"

    @property
    def is_static(self) -> bool:
        """True if the program serves a single size of each input."""
        return all(term.is_constant for terms in self.exported.contract.sizes for term in terms)

    def serves(self, sizes: Sequence[int], inputs: Sequence[Any]) -> bool:
        """True if the domain contains inputs of this form: their sizes, and how they lie in memory."""
        point = self.flat.point(sizes)
        return all(true_at(each, point) is True for each in self.flat.formulas) and self.takes(inputs)

    def takes(self, inputs: Sequence[Any]) -> bool:
        """True if inputs whose sizes are in the domain lie in memory as the program requires, and its buffers fit."""
        return self.changed() is None and self.misfit(inputs) is None

    def changed(self) -> OutsideDomain | None:
        """Return how a buffer no longer holds the number that the program was made for; None if all do."""
        for name, number in self._rests.items():
            held = attribute(self.module, name).item()
            if held != number:
                return OutsideDomain(f"the buffer {name} = {held}", {name: held}, f"{name} == {number}")
        return None

    def misfit(self, inputs: Sequence[Any]) -> OutsideDomain | None:
        """Return how inputs lie in memory differently from what the program requires; None if they do not."""
        memory = self.exported.contract.memory
        if memory.matters:
            try:
                memory.check(inputs, {name: attribute(self.module, name) for name in self._state})
            except OutsideDomain as outside:
                return outside
        return None

    @functools.cached_property
    def _rests(self) -> dict[str, int]:
        return rests_of(self.exported)

    @functools.cached_property
    def _state(self) -> tuple[str, ...]:
        return self.exported.contract.state(self.exported)

    def covers(self, other: Program) -> bool:
        """True if this program is proved to serve every input that the other serves."""
        mine, others = self.exported.contract.memory, other.exported.contract.memory
        alike = self.key == other.key and self._rests == other._rests and (not mine.matters or mine == others)
        return alike and other.flat.within(self.flat)


def by_key(programs: Iterable[Program]) -> dict[Hashable, list[Program]]:
    """Group programs by what all their calls have in common, in order."""
    groups: dict[Hashable, list[Program]] = {}
    for program in programs:
        groups.setdefault(program.key, []).append(program)
    return groups


class Router:
    """The kept programs: one table of forms, and for each form one generated function of its sizes.

    A router is immutable, so threads use it without a lock.
    """

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = tuple(programs)
        self._groups = {
            key: (first_holding([each.flat.formulas for each in group], tuple(group[0].flat.names)), group)
            for key, group in by_key(self.programs).items()
        }

    def find(self, key: Hashable, sizes: Sequence[int], inputs: Sequence[Any]) -> Program | None:
        """Return the first program of this key whose domain contains the sizes and that takes the inputs."""
        finder, group = self._groups.get(key, _NONE)
        index = finder(*sizes)
        if index is None:
            return None
        if group[index].takes(inputs):
            return group[index]
        return next((each for each in group[index + 1 :] if each.serves(sizes, inputs)), None)


_NONE: tuple[Callable[..., int | None], list[Program]] = (lambda *_: None, [])


def regions_of(programs: Sequence[Program]) -> Regions:
    """The regions of programs that differ in sizes alone.

    Raises:
        UsageError: there is none, or they differ in more.
    """
    if not programs:
        raise UsageError("there is no program to save yet: call it first")
    first = programs[0]
    if any(each.key != first.key for each in programs):
        message = "the programs differ in dtypes, ranks, constants or modes, and an archive of regions differs in sizes"
        raise UsageError(f"{message}: save each of `programs` by itself")
    for each in programs:
        _hold_what_is_run(each)
    domain = f.disjunction(*(f.conjunction(*each.flat.formulas) for each in programs))
    contract = Requirements(
        first.exported.contract.inputs,
        _sizes(programs),
        (domain,),
        frozenset(),
        first.flat.names,
        first.exported.contract.with_memory_of(each.exported.contract for each in programs[1:]).memory,
    )
    return Regions(
        tuple(each.exported for each in programs),
        tuple(f.conjunction(*each.flat.formulas) for each in programs),
        contract,
    )


def _hold_what_is_run(program: Program) -> None:
    """Have an exported program hold the tensors that its module runs on: the model may have others since the trace."""
    for held in (program.exported.state_dict, program.exported.constants):
        held.update({name: attribute(program.module, name) for name in held})


def _sizes(programs: Sequence[Program]) -> tuple[tuple[Term, ...], ...]:
    """The flat sizes by input, each its own symbol."""
    own = iter(map(symbol, programs[0].flat.names))
    return tuple(tuple(next(own) for _ in range(length)) for length in programs[0].flat.lengths)
