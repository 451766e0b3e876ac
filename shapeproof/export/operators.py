"""Runs the operators of a trace, and settles the decisions of each as soon as it is done.

An operator is met twice: as the graph records it, and as fake tensors meet it with all that it is composed of. Its
decisions are settled as a whole where it is recorded; one that is recorded in parts leaves them to its parts, and what
is never recorded is settled where fake tensors meet it.

How a decision is settled is in local.py; this file only makes an operator repeatable. Operators whose results are known
by rule (recurrent.py) are not run at all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.export import local, nodes, recurrent
from shapeproof.export.shape_env import ProofShapeEnv, leaves, map_tensors
from shapeproof.export.storages import storage_of
from shapeproof.export.trial import Trial

Run = Callable[[Any, Any, Any], Any]
"""Runs an operator, given its positional and its named arguments."""


def call(func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator."""
    return func(*args, **kwargs)


def _unchanged(result: Any) -> Any:
    return result


class Operators:
    """The operators of one trace.

    Args:
        env: whose trial is asked.
        apart: while an operator is run again, nothing is recorded and no earlier answer is looked up.
        by_rule: whether results may be given by rule; they have no elements.
    """

    def __init__(
        self, env: ProofShapeEnv, apart: Callable[[], AbstractContextManager[Any]], *, by_rule: bool = True
    ) -> None:
        self._env = env
        self._apart = apart
        self._by_rule = by_rule
        self._recorded = 0

    def record(
        self, func: Any, args: Any, kwargs: Any, run: Run = call, note: Callable[[Any], Any] = _unchanged
    ) -> Any:
        """Run an operator as the graph records it; `note` records one whose result is given by rule."""
        self._recorded += 1
        count = self._recorded
        run = self._ruled(run, note)
        return self._run(func, args, kwargs, run, self._ruled(call), settling=lambda: count == self._recorded)

    def run(self, func: Any, args: Any, kwargs: Any, run: Run) -> Any:
        """Run an operator as fake tensors meet it; if it is a part of another, that settles its decisions."""
        run = self._ruled(run)
        settling = (lambda: True) if self._env.innermost is None else None
        return self._run(func, args, kwargs, run, run, settling=settling)

    def _run(  # noqa: PLR0913 - a call, and how it is made
        self, func: Any, args: Any, kwargs: Any, run: Run, again: Run, *, settling: Callable[[], bool] | None
    ) -> Any:
        """Run an operator; afterwards settle its decisions with the help of other runs, if it is `settling` them."""
        operation = _Operation(self._env, self._apart, func, (args, kwargs), again) if settling else None
        with self._env.running(func, args, kwargs):
            result = run(func, args, kwargs)
            if operation and settling and settling() and result is not NotImplemented:
                operation.settle(result)
        return result

    def _ruled(self, run: Run, note: Callable[[Any], Any] = _unchanged) -> Run:
        """How to run an operator, if no rule gives its result."""

        def ruled(func: Any, args: Any, kwargs: Any) -> Any:
            given = None
            if self._by_rule and func in recurrent.RECURRENT:
                with self._apart():
                    given = recurrent.results(func, args, kwargs, self._equal)
            return run(func, args, kwargs) if given is None else note(given)

        return ruled

    def _equal(self, a: int | torch.SymInt, b: int | torch.SymInt) -> bool:
        return self._env.trial.settled(f.eq(self._env.read(a), self._env.read(b))) is True


class _Operation:
    """An operator about to be run, what it may change kept as it was, so that it can be run again."""

    def __init__(self, env: ProofShapeEnv, apart: Any, func: Any, arguments: Any, run: Run) -> None:
        self._env, self._apart, self._func, self._arguments, self._run = env, apart, func, arguments, run
        self._steps, self._known = len(env.trial.steps), len(env.trial.learned)
        self._brought = env.brought
        self._operands = _tensors(arguments)
        self._changes = nodes.is_mutable(func)
        self._repeatable = nodes.is_repeatable(func)
        if self._repeatable and self._changes:
            self._repeatable = all(getattr(each, "constant", None) is None for each in self._operands)
            self._arguments = self._aliased()

    def _aliased(self) -> Any:
        """The arguments with an alias of each tensor, whose view the operator may change as it likes."""
        detach = torch.ops.aten.detach.default
        return map_tensors(self._arguments, lambda tensor: self._run(detach, (tensor,), {}))

    def settle(self, result: Any) -> None:
        """Have what makes no difference to the result forgotten."""
        trial, (_, checks) = self._env.trial, self._brought
        self._brought = self._env.brought
        if not self._repeatable or len(trial.steps) == self._steps or self._brought[1] != checks:
            return
        found = leaves(result)
        values = [*self._operands, *found]
        if all(storage_of(tensor) is not None for tensor in _tensors(values)):
            key = (self._func, _modes(), self._key(self._arguments), self._key(values), *local.sharing(values))
            made = local.Call(key, self._operands, found, self._again, self._env.read)
            local.settle(trial, self._steps, self._known, made)

    def _key(self, value: Any) -> Hashable:
        """What of the arguments an operator's sizes may depend on; `([a], b)` is another call than `([a, b],)`."""
        if isinstance(value, tuple | list):
            return (type(value), *map(self._key, value))
        if isinstance(value, dict):
            return (dict, *((name, self._key(each)) for name, each in value.items()))
        if isinstance(value, torch.Tensor):
            kind = (value.dtype, value.device, value.layout, value.requires_grad, value.is_conj(), value.is_neg())
            return (*kind, tuple(map(self._env.read, (*value.shape, *value.stride(), value.storage_offset()))))
        if isinstance(value, torch.SymInt):
            return self._env.read(value)
        return (type(value), str(value))

    def _again(self, trial: Trial) -> tuple[list[torch.Tensor], list[Any]]:
        with self._env.asking(trial), self._apart():
            args, kwargs = self._aliased() if self._changes else self._arguments
            result = self._run(self._func, args, kwargs)
            if self._env.brought != (self._brought[0], 0):
                message = "the operator takes other sizes from data, or checks data, there"
                raise LookupError(message)
        return _tensors((args, kwargs)), leaves(result)


def _modes() -> Hashable:
    """The ambient modes that decide how an operator is composed."""
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(values) if isinstance(leaf, torch.Tensor)]
