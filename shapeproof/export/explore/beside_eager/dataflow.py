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
from typing import Any

import torch

from shapeproof.export.explore.beside_eager import hollow
from shapeproof.export.explore.beside_eager.forms import Form, copied_state
from shapeproof.export.explore.beside_eager.pieces import Pieces
from shapeproof.export.explore.beside_eager.runner import Relation, Run, compared, outcome, run_apart, unequal_leaf
from shapeproof.export.graph import nodes
from shapeproof.export.limits import RETRIES
from shapeproof.export.shim.modules import deep_copied
from shapeproof.export.shim.process.each_call import in_place_of_each_call
from shapeproof.export.shim.process.idle_work import quiet
from shapeproof.export.shim.trees import tensors_in
from shapeproof.export.shim.without_data import reads_told

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

    def shows_same(self, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any], calls: int) -> bool:
        """True if a program is shown to do what the model does on some inputs, in so many calls one after the other."""
        module = form.module if self._vain[form] < RETRIES else None
        same = module is not None and self._is_same(form, module, args, kwargs, calls)
        self._vain[form] += not same
        return same

    def _is_same(
        self, form: Form, module: torch.fx.GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any], calls: int
    ) -> bool:
        numbers = hollow.Numbers()
        mine, theirs = hollow.Run(numbers), hollow.Run(numbers)
        try:
            known = mine.emptied(_given(self._mod, args, kwargs))
            others = theirs.emptied(_given(module, args, kwargs))
        except hollow.Unknown:
            return False
        eager, exported = deep_copied(self._mod, known)[0], copied_state(module, others)
        want = got = None
        for _ in range(calls):
            want = self._run(mine, eager, args, kwargs, known)
            if got is None or nodes.mutates(module.graph):
                got = self._run(theirs, exported, args, kwargs, others)
            if want is None or got is None:
                return False
            unlike = functools.partial(_unlike, mine, theirs, self._pieces.renamed(mine, theirs))
            if compared(eager, want, got, form, unlike).relation is not Relation.SAME:
                return False
        return True

    def error(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
        """Return what the model raises on inputs like these, whatever their elements are; None if that is not known."""
        run = hollow.Run(hollow.Numbers(), keeps_few=False)
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
        """Run a copy; None if the run gives up, or raises: with data, it may raise for another reason."""
        with self.running(run):
            done = run_apart(call, args, kwargs, known)
        return None if done.error is not None or run.unknown is not None else done


def _given(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    return [*mod.parameters(), *mod.buffers(), *tensors_in((args, kwargs))]


def _unlike(mine: hollow.Run, theirs: hollow.Run, renamed: Callable[[Any], Any], want: Any, got: Any) -> str | None:
    """Return the reason why two leaves are not known to be the same, or None."""
    hollows = mine.is_hollow(want), theirs.is_hollow(got)
    if not any(hollows):
        return unequal_leaf(want, got)
    if not all(hollows) or want.shape != got.shape or want.dtype != got.dtype:
        return "only one of both was computed"
    return None if mine.read(want) == renamed(theirs.read(got)) else "the values may differ"
