"""One program that is served: its domain, what it was made for, and how it is run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.contract.outside import OutsideDomain
from shapeproof.export import Report, VerifiedProgram
from shapeproof.serve.calling.calls import CallForm
from shapeproof.serve.calling.state import attribute
from shapeproof.serve.domains import FlatDomain, symbols


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
    form: CallForm = field(repr=False)
    modes: tuple[Hashable, ...] = field(repr=False)
    module: torch.fx.GraphModule = field(repr=False)
    run: Callable[..., Any] = field(repr=False)
    declared: bool = False

    @property
    def key(self) -> Hashable:
        """What all its calls have in common besides sizes and data: the `Request.key` of each."""
        return self.form, self.modes

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
        point = dict(zip(symbols(len(sizes)), sizes, strict=True))
        return all(true_at(each, point) is True for each in self.flat.formulas) and self.takes(inputs)

    def takes(self, inputs: Sequence[Any]) -> bool:
        """True if inputs whose sizes are in the domain lie in memory as the program requires."""
        return self.misfit(inputs) is None

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
    def _state(self) -> tuple[str, ...]:
        return self.exported.contract.state(self.exported)

    def covers(self, other: Program) -> bool:
        """True if this program is proved to serve every input that the other serves."""
        mine, others = self.exported.contract.memory, other.exported.contract.memory
        return self.key == other.key and (not mine.matters or mine == others) and other.flat.within(self.flat)
