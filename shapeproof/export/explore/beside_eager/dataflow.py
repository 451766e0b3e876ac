"""Compare a program with the model by dataflow: both run on hollow tensors, and no product is computed.

Equal numbers of the results prove them equal to the bit, at any size (hollow.py). Where numbers differ, the smallest
differing piece of both is run with random operands (pieces.py); if it gives the same, it counts as the same from there.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from shapeproof.export.explore.beside_eager import hollow
from shapeproof.export.explore.beside_eager.forms import Form, copied_state
from shapeproof.export.explore.beside_eager.pieces import Pieces
from shapeproof.export.explore.beside_eager.runner import (
    Relation,
    Replay,
    Run,
    compared,
    outcome,
    run_apart,
    unequal,
    unequal_leaf,
    unequal_sizes,
)
from shapeproof.export.graph import nodes
from shapeproof.export.limits import RETRIES
from shapeproof.export.shim.modules import deep_copied, tensors_of
from shapeproof.export.shim.process.each_call import in_place_of_each_call
from shapeproof.export.shim.process.idle_work import quiet
from shapeproof.export.shim.storages import holds_data
from shapeproof.export.shim.trees import tensors_in
from shapeproof.export.shim.without_data import reads_told
from shapeproof.export.trace.python.whether_traced import asked

_NOT_RUN = Replay(Relation.NOT_RUN)

Plainly = Callable[[Any, tuple[Any, ...], Any], Any]


class Dataflow:
    """Compares programs with a model by dataflow; pieces that were compared once are not compared again.

    `plainly` runs an operator that reads nothing hollow.
    """

    def __init__(self, mod: torch.nn.Module, plainly: Plainly) -> None:
        self._mod, self._plainly = mod, plainly
        self._pieces = Pieces()
        self._vain: Counter[Form] = Counter()
        """How often a program was not shown to do the same: its operators need data at every point."""

    @property
    def pieces(self) -> int:
        """The number of pieces that were compared by random operands."""
        return self._pieces.count

    def replay(self, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any], calls: int) -> Replay:
        """Return whether a program does what the model does on some inputs, in so many calls one after the other.

        SAME is proved; so are the relations in which one or both raise, but for what data would make them raise.
        MAY_DIFFER: both ran to their ends, and some of their results have other numbers.
        """
        module = form.module if self._vain[form] < RETRIES else None
        found = _NOT_RUN if module is None else self._replay(form, module, args, kwargs, calls)
        self._vain[form] += found.relation in {Relation.NOT_RUN, Relation.MAY_DIFFER}
        return found

    def _replay(
        self, form: Form, module: torch.fx.GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any], calls: int
    ) -> Replay:
        numbers = hollow.Numbers()
        mine, theirs = hollow.Run(numbers), hollow.Run(numbers)
        try:
            known = mine.emptied(_given(self._mod, args, kwargs))
            others = theirs.emptied(_given(module, args, kwargs))
        except hollow.Unknown:
            return _NOT_RUN
        eager, exported = deep_copied(self._mod, known)[0], copied_state(module, others)
        want = got = None
        for _ in range(calls):
            want = self._run(mine, eager, args, kwargs, known)
            if got is None or nodes.mutates(module.graph):
                got = self._run(theirs, exported, args, kwargs, others)
            if want is None or got is None:
                return _NOT_RUN
            renamed = _unchanged if asked() else self._pieces.renamed(mine, theirs)
            unlike = functools.partial(_unlike, mine, theirs, renamed)
            found = compared(eager, want, got, form, unlike)
            if found.relation is Relation.DIFFERENT:
                certain = unequal(want.result, got.result, unequal_sizes)
                return found if certain is not None else replace(found, relation=Relation.MAY_DIFFER)
            if found.relation is not Relation.SAME:
                return found
        return Replay(Relation.SAME)

    def error(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
        """Return what the model raises on inputs like these, whatever their elements are; None if that is not known."""
        run = hollow.Run(hollow.Numbers(), keeps_few=False, tries_kernels=False)
        try:
            known = run.emptied(_given(self._mod, args, kwargs))
        except hollow.Unknown:
            return None
        eager, given = deep_copied(self._mod, known)[0], copy.deepcopy((args, kwargs), dict(known))
        with self.running(run):
            error = outcome(eager, *given)[1]
        return None if run.unknown is not None else error

    def running(self, run: hollow.Run) -> contextlib.ExitStack:
        """Return a block in which a hollow run is told of all operators, and of all reads."""
        stack = contextlib.ExitStack()
        stack.enter_context(quiet())
        stack.enter_context(reads_told(run.read_unseen))
        stack.enter_context(in_place_of_each_call(functools.partial(run.call, plainly=self._plainly)))
        return stack

    def _run(
        self, run: hollow.Run, call: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], known: Any
    ) -> Run | None:
        """Run a copy; None if the run gives up."""
        with self.running(run):
            done = run_apart(call, args, kwargs, known)
        return None if run.unknown is not None else done


def _unchanged(operand: Any) -> Any:
    """Return the operand: no piece counts as another one where the model has asked whether it is traced."""
    return operand


def _given(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    without = (each for each in tensors_of(mod) if not holds_data(each))
    return [*mod.parameters(), *mod.buffers(), *tensors_in((args, kwargs)), *without]


def _unlike(mine: hollow.Run, theirs: hollow.Run, renamed: Callable[[Any], Any], want: Any, got: Any) -> str | None:
    """Return the reason why two leaves are not known to be the same, or None."""
    hollows = mine.is_hollow(want), theirs.is_hollow(got)
    if not any(hollows):
        return unequal_leaf(want, got)
    if not all(hollows) or mine.read(want) != renamed(theirs.read(got)):
        return unequal_sizes(want, got) or "the values may differ"
    return None
