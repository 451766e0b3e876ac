"""Run the operators of a trace, and settle the decisions of each operator right after its run.

Each operator is seen twice: by the proxy tracer, which records it, and by FakeTensorMode, together with the operators
it decomposes into. The decisions of an operator are settled as a whole where it is recorded. If the parts of an
operator are recorded instead, each part settles its own decisions. An operator that is not recorded settles its
decisions under FakeTensorMode.

settle.py settles a decision; this file makes an operator repeatable. An operator is not run if a rule (recurrent.py) or
an earlier call (repeats.py) gives its result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.export.ops import recurrent, schemas
from shapeproof.export.ops.layouts import keeps_layout, sharing
from shapeproof.export.ops.table import is_elementwise_in_place, known_of
from shapeproof.export.shim.numbers.symbols import bounds_refused
from shapeproof.export.shim.process.modes import Switches, modes
from shapeproof.export.shim.process.unrun import unrecorded
from shapeproof.export.shim.storages import kind, storage_of
from shapeproof.export.shim.trees import is_bare, leaves, map_tensors
from shapeproof.export.trace.calls import settle
from shapeproof.export.trace.calls.numbers import check_numbers
from shapeproof.export.trace.calls.repeats import Fresh, Repeats
from shapeproof.export.trace.calls.stated import Stated
from shapeproof.export.trace.checks.failures import may_fail, raised_by
from shapeproof.export.trace.known.known_sizes import KnownSizes
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.export.trace.trial import Trial

Run = Callable[[Any, Any, Any], Any]
"""A function that runs an operator, given its positional and named arguments."""


def call(func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator."""
    return func(*args, **kwargs)


def _unchanged(result: Any) -> Any:
    return result


class Operators:
    """The operators of one trace.

    Args:
        env: the ShapeEnv whose trial is asked.
        fresh: makes a fake tensor with its own storage.
        stated: what users state of their operators.
        by_rule: True if rules may give results; such results have no elements.
        repeating: True if an operator need not be run when its result is already known.
    """

    def __init__(
        self,
        env: ProofShapeEnv,
        fresh: Fresh,
        stated: Stated,
        *,
        by_rule: bool = True,
        repeating: bool = True,
    ) -> None:
        self._env = env
        self._stated = stated
        self._by_rule = by_rule
        self._repeating = repeating and by_rule
        self._recorded = 0
        self.repeats = Repeats(env, fresh)
        self.switches = Switches()
        self.known_sizes: KnownSizes | None = None
        """The known sizes of results; set when the trace is over."""

    def record(
        self, func: Any, args: Any, kwargs: Any, run: Run = call, note: Callable[[Any], Any] = _unchanged
    ) -> Any:
        """Run an operator that the graph records; `note` records an operator whose result is known without a run."""
        _refuse_mistaken(func, args)
        self.switches.note(func)
        self._recorded += 1
        count, mark = self._recorded, self._env.numbering.mark()
        operation = _Operation(self._env, func, (args, kwargs), self._ruled(call), recorded=True)
        with self._env.running(func, args, kwargs), bounds_refused(func):
            check_numbers(func, args, kwargs, self._equal)
            given = self._repeated(operation)
            if given is None:
                result = self._ruled(run, note)(func, args, kwargs)
            else:
                self._env.called(func, args, kwargs, given)
                self._stated.called(func, args, kwargs, given)
                result = note(given)
                operation.forget()
            if may_fail(func, args, kwargs, lambda number: self._env.about_data(number.node.expr)):
                self._env.handlers.must_not_catch(raised_by(func), f"`{func}`")
            if given is None and count == self._recorded and result is not NotImplemented:
                operation.settle(result)
                one = operation.left_nothing and isinstance(result, torch.Tensor)
                if one and self._env.numbering.accounts_for(mark, func, args, kwargs, result):
                    self.repeats.note(operation.key, operation.operands, result)
        return result

    def _repeated(self, operation: _Operation) -> torch.Tensor | None:
        """Return the result of an operator that need not be run; None if it must be run."""
        if not self._repeating:
            return None
        return self.repeats.given(operation.key, operation.arguments, operation.operands)

    def run(self, func: Any, args: Any, kwargs: Any, run: Run) -> Any:
        """Run an operator under FakeTensorMode; a part of another operator leaves its decisions to that operator."""
        if self._repeating and _is_its_operand(self._env, func, args, kwargs):
            return args[0]
        run = self._ruled(run)
        part = self._env.innermost is not None
        operation = None if part else _Operation(self._env, func, (args, kwargs), run, recorded=False)
        with self._env.running(func, args, kwargs), bounds_refused(func):
            result = run(func, args, kwargs)
            if operation and result is not NotImplemented:
                operation.settle(result)
        return result if self.known_sizes is None else self.known_sizes.of(result, (args, kwargs))

    def _ruled(self, run: Run, note: Callable[[Any], Any] = _unchanged) -> Run:
        """Return a function that takes an operator's result from a rule, and runs the operator if no rule gives it."""

        def ruled(func: Any, args: Any, kwargs: Any) -> Any:
            given = None
            if self._by_rule and known_of(func).steps:
                with unrecorded():
                    given = recurrent.results(func, args, kwargs, self._equal)
            return run(func, args, kwargs) if given is None else note(given)

        return ruled

    def _equal(self, a: int | torch.SymInt, b: int | torch.SymInt) -> bool:
        return self._env.trial.settled(f.eq(self._env.read(a), self._env.read(b))) is True


class _Operation:
    """An operator about to be run; operands that it may mutate are kept as they were, so that it can be run again."""

    def __init__(self, env: ProofShapeEnv, func: Any, arguments: Any, run: Run, *, recorded: bool) -> None:
        self._env, self._func, self.arguments, self._run, self._recorded = env, func, arguments, run, recorded
        self._steps, self._known = len(env.trial.steps), len(env.trial.learned.formulas)
        self._relaid = len(env.trial.layouts.forgotten)
        self._history, self._brought = env.trial.region.history, env.brought
        self.operands = _tensors(arguments)
        self._changes = schemas.is_mutable(func)
        self._repeatable = schemas.is_repeatable(func)
        self._gives_its_operand = self._changes and env.trial.in_place and _is_its_operand(env, func, *arguments)
        if self._repeatable and self._changes and not self._gives_its_operand:
            mutated = _tensors(schemas.written(func, *arguments))
            self._repeatable = all(getattr(each, "constant", None) is None for each in mutated)
            self.arguments = self._aliased()

    def _aliased(self) -> Any:
        """Return the arguments with each tensor aliased; the operator may change the alias's view."""
        detach = torch.ops.aten.detach.default
        return map_tensors(self.arguments, lambda tensor: self._run(detach, (tensor,), {}))

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """The key of the call: calls whose arguments may lead to different questions or results have different keys."""
        return self._func, _modes(self.operands), self._key(self.arguments)

    @property
    def left_nothing(self) -> bool:
        """True if an aten operator added no fact and no open decision, and changed nothing; False for others."""
        trial, own = self._env.trial, getattr(self._func, "namespace", None) == "aten"
        now = len(trial.steps), len(trial.layouts.forgotten), trial.region.history, self._env.brought
        return own and not self._changes and now == (self._steps, self._relaid, self._history, self._brought)

    def forget(self) -> None:
        """Forget the questions asked since the call began: they make no difference."""
        trial = self._env.trial
        if len(trial.steps) > self._steps:
            trial.forget(self._steps, range(len(trial.steps) - self._steps), self._known)

    def settle(self, result: Any) -> None:
        """Forget the decisions that make no difference to the result."""
        trial = self._env.trial
        if not self._repeatable or len(trial.steps) == self._steps:
            return
        if self._env.brought[1] != self._brought[1]:
            self._settle_since(*trial.learned.last_check, result)
            return
        if self._gives_its_operand:  # what was asked is how to record it
            self.forget()
            return
        self._settle_since(self._steps, self._known, result)

    def _settle_since(self, first: int, known: int, result: Any) -> None:
        """Settle the decisions since a step; the operator has learned no check on data since then."""
        if len(self._env.trial.steps) == first:
            return
        found = leaves(result)
        values = [*self.operands, *found]
        if all(storage_of(tensor) is not None for tensor in _tensors(values)):
            key = (self.key, self._key(values), *sharing(values))
            either = self._recorded and known_of(self._func).alias_or_copy
            made = settle.Call(key, self.operands, found, self._again, self._env.read, either)
            settle.settle(self._env.trial, first, known, made)

    def _key(self, value: Any) -> Hashable:
        """Return the part of a value that sizes may depend on; `([a], b)` and `([a, b],)` have different keys."""
        if isinstance(value, tuple | list):
            return (type(value), *map(self._key, value))
        if isinstance(value, dict):
            return (dict, *((name, self._key(each)) for name, each in value.items()))
        if isinstance(value, torch.Tensor):
            laid = map(self._env.read, (*value.shape, *value.stride(), value.storage_offset()))
            return (*kind(value), value.requires_grad, tuple(laid))
        if isinstance(value, torch.SymInt):
            return self._env.read(value)
        return (type(value), str(value))

    def _again(self, trial: Trial) -> tuple[list[torch.Tensor], list[Any]]:
        with self._env.asking(trial), unrecorded():
            before = self._env.brought
            args, kwargs = self._aliased() if self._changes else self.arguments
            result = self._run(self._func, args, kwargs)
            if self._env.brought != before:
                raise LookupError("the operator takes other sizes from data, or checks data, there")
        return _tensors((args, kwargs)), leaves(result)


def _refuse_mistaken(func: Any, args: Sequence[Any]) -> None:
    """Refuse an operator that torch has wrong without elements or at a low rank, where the trace has asked about it.

    `make sweep-operators` finds these. Functions of torch that call one go by a rule of decompositions.py instead.
    """
    known = known_of(func)
    if known.wrong_when_empty is not None and args[0].numel() == 0:
        raise UsageError(known.wrong_when_empty.format(func))
    if known.least_rank is not None and args[0].dim() < known.least_rank:
        raise UsageError(f"`{func}` expects a tensor of at least {known.least_rank} dimensions, got {args[0].dim()}")


def _is_its_operand(env: ProofShapeEnv, func: Any, args: Any, kwargs: Any) -> bool:
    """True if an operator only changes the elements of its one operand, and eager raises nothing about sizes."""
    if not is_elementwise_in_place(func):
        return False
    operands = _tensors((args, kwargs))
    return all(map(is_bare, operands)) and keeps_layout(operands, env.read)


def _modes(operands: Sequence[torch.Tensor]) -> Hashable:
    """Return the ambient modes, which select an operator's decomposition and affect its result."""
    kinds = sorted(filter(torch.amp.is_autocast_available, {tensor.device.type for tensor in operands}))
    casting = [torch.get_autocast_dtype(kind) for kind in kinds if torch.is_autocast_enabled(kind)]
    backends = torch.backends
    return torch.is_grad_enabled(), *casting, backends.mkldnn.enabled, backends.cudnn.enabled, *modes()


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(values) if isinstance(leaf, torch.Tensor)]
