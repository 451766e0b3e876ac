"""Run the operators of a trace, and settle the decisions of each operator right after its run.

Each operator is seen twice: by the proxy tracer, which records it, and by FakeTensorMode, together with the operators
it decomposes into. The decisions of an operator are settled as a whole where it is recorded. If the parts of an
operator are recorded instead, each part settles its own decisions. An operator that is not recorded settles its
decisions under FakeTensorMode.

settle.py settles a decision; this file makes an operator repeatable. An operator is not run if a rule (recurrent.py) or
an earlier call (repeats.py) gives its result.

*Numbers that a dtype cannot hold.* Eager raises, and torch's fakes, and rules for sizes, do not look at them.

The kernel decides. It runs on tensors of the same dtypes with at most two elements a dimension: once with the number,
and once with 1 in place of every large number. If only the first run raises, the number is at fault, and the trace
raises the same error. A symbolic number gets the check that it lies within the dtype, if the kernel raises for each
number outside: a number that wraps around to 0 may be at fault as a divisor, and the next one is not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.export.ops import schemas
from shapeproof.export.ops.shapes import recurrent
from shapeproof.export.ops.shapes.layouts import keeps_layout, sharing
from shapeproof.export.ops.table import DETACH, is_unary, kind_of, known_of
from shapeproof.export.shim.numbers.symbols import bounds_refused
from shapeproof.export.shim.process.each_call import unrecorded
from shapeproof.export.shim.process.modes import Switches, casts, modes
from shapeproof.export.shim.storages import kind, storage_of
from shapeproof.export.shim.trees import is_bare, leaves, map_all, map_tensors, tensors_in
from shapeproof.export.trace.calls import settle
from shapeproof.export.trace.calls.repeats import Fresh, Repeats
from shapeproof.export.trace.calls.stated import Stated
from shapeproof.export.trace.checks.failures import may_fail, raised_by
from shapeproof.export.trace.known.known_sizes import KnownSizes
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.export.trace.trial import Trial
from shapeproof.plain import Saving, saves_time

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
        self._repeating = repeating and by_rule and saves_time(Saving.RESULTS)
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
                one = self._repeating and operation.left_nothing and isinstance(result, torch.Tensor)
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
        self.operands = tensors_in(arguments)
        self._changes = schemas.is_mutable(func)
        self._repeatable = schemas.is_repeatable(func)
        self._settles = env.trial.in_place and saves_time(Saving.SETTLING)
        self._gives_its_operand = self._changes and self._settles and _is_its_operand(env, func, *arguments)
        if self._repeatable and self._changes and not self._gives_its_operand:
            mutated = tensors_in(schemas.written(func, *arguments))
            self._repeatable = all(getattr(each, "constant", None) is None for each in mutated)
            self.arguments = self._aliased()

    def _aliased(self) -> Any:
        """Return the arguments with each tensor aliased; the operator may change the alias's view."""
        return map_tensors(self.arguments, lambda tensor: self._run(DETACH, (tensor,), {}))

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
        if not (self._settles and self._repeatable) or len(trial.steps) == self._steps:
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
        if all(storage_of(tensor) is not None for tensor in tensors_in(values)):
            key = (self.key, self._key(values), *sharing(values))
            recorded, either = self._recorded, self._recorded and known_of(self._func).alias_or_copy
            made = settle.Call(key, self.operands, found, self._again, self._env.read, recorded, either)
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
        return tensors_in((args, kwargs)), leaves(result)


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
    if not is_unary(func) or not schemas.only_writes(func):
        return False
    operands = tensors_in((args, kwargs))
    return all(map(is_bare, operands)) and keeps_layout(operands, env.read)


def _modes(operands: Sequence[torch.Tensor]) -> Hashable:
    """Return the ambient modes, which select an operator's decomposition and affect its result."""
    casting = map(torch.get_autocast_dtype, sorted(filter(casts, {tensor.device.type for tensor in operands})))
    backends = torch.backends
    return torch.is_grad_enabled(), *casting, backends.mkldnn.enabled, backends.cudnn.enabled, *modes()


_NUMBER = {"number", "Optional[number]", "float", "Optional[float]"}
_SMALL = 127
"""Every dtype but bool holds the numbers up to this one, and a bool takes any number."""

_PLAIN = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}
"""What stands for a symbolic number that is not looked at."""

Is = Callable[[int | torch.SymInt, int], bool]
"""True if a size has this value everywhere in the trace's region."""


def check_numbers(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], is_: Is) -> None:
    """Raise what the kernel raises of a number; check a symbolic number where the kernel would.

    >>> x = torch.ones(2, dtype=torch.int8)
    >>> check_numbers(torch.ops.aten.full_like.default, (x, 127), {}, int.__eq__)
    >>> check_numbers(torch.ops.aten.full_like.default, (x, 300), {}, int.__eq__)
    Traceback (most recent call last):
    RuntimeError: value cannot be converted to type int8_t without overflow
    """
    names = _numbers_of(func)
    if not names:
        return
    given = schemas.by_name(func, args, kwargs)
    large = [name for name in names if isinstance(given[name], torch.SymInt) or _is_large(given[name])]
    dtypes = _dtypes(given) if large else []
    for name in large:
        call = _Call(func, given, name, large, is_)
        if isinstance(given[name], torch.SymInt):
            _check_symbolic(call, given[name], dtypes)
        elif any(_exceeds(given[name], dtype) for dtype in dtypes):
            error = call.fault(given[name])
            if error is not None:
                raise error


def _check_symbolic(call: _Call, number: torch.SymInt, dtypes: Sequence[torch.dtype]) -> None:
    for dtype in dtypes:
        lowest, highest = _held(dtype)
        for outside, step, within in ((highest + 1, 1, number <= highest), (lowest - 1, -1, number >= lowest)):
            error = call.fault_beyond(outside, step) if -(2**63) <= outside < 2**63 else None
            if error is not None:
                torch._check(within, functools.partial(str, error))  # noqa: SLF001 - the name that models use


@functools.cache
def _numbers_of(func: Any) -> tuple[str, ...]:
    """Return the names of an operator's arguments that are numbers; none for operators of users, and random ones.

    None for `arange`: its kernel holds numbers as int64 or double, whatever the dtype, and makes as many elements.
    """
    schema = schemas.schema_of(func)
    if schema is None or schemas.is_random(func) or func.namespace != "aten" or kind_of(func) == "arange":
        return ()
    return tuple(each.name for each in schema.arguments if str(each.type) in _NUMBER)


def _is_large(value: Any) -> bool:
    return isinstance(value, int | float) and not -_SMALL <= value <= _SMALL


def _dtypes(given: Mapping[str, Any]) -> list[torch.dtype]:
    """Return the dtypes of a call that have bounds."""
    every = [each.dtype if isinstance(each, torch.Tensor) else each for each in leaves(list(given.values()))]
    found = dict.fromkeys(each for each in every if isinstance(each, torch.dtype))
    return [each for each in found if each != torch.bool and not each.is_complex]


def _exceeds(value: float, dtype: torch.dtype) -> bool:
    lowest, highest = _held(dtype)
    free = dtype.is_floating_point and not math.isfinite(value)
    return not free and not lowest <= value <= highest


def _held(dtype: torch.dtype) -> tuple[Any, Any]:
    """Return the least and the largest number that torch converts; a negative one becomes unsigned by wrapping."""
    if dtype.is_floating_point:
        limit = int(torch.finfo(dtype).max)
        return -limit, limit
    info = torch.iinfo(dtype)
    return (info.min if info.min < 0 else -info.max), info.max


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of an operator, with one of its large numbers left open."""

    func: Any
    given: Mapping[str, Any]
    name: str
    large: Sequence[str]
    is_: Is

    def fault(self, number: float) -> BaseException | None:
        """Return what the kernel raises because of a number; None if it does not raise, or raises for 1, too."""
        ones = dict.fromkeys(self.large, 1)
        error = self._raised({**ones, self.name: number})
        return None if error is None or self._raised(ones) is not None else error

    def fault_beyond(self, number: int, step: int) -> BaseException | None:
        """Return what the kernel raises of a number and of the next one, also if the other large numbers are as large.

        `arange(n, m)` refuses a start beyond its end, which is no fault of the dtype.
        """
        error = self.fault(number)
        if error is None or self.fault(number + step) is None:
            return None
        return error if self._raised(dict.fromkeys(self.large, number)) is not None else None

    def _raised(self, numbers: Mapping[str, float]) -> BaseException | None:
        """Run the kernel without the trace's modes, which belong to the trace's thread."""
        with ThreadPoolExecutor(1) as other:
            return other.submit(self._run, numbers).exception()

    def _run(self, numbers: Mapping[str, float]) -> None:
        named = {name: map_all(value, self._small) for name, value in self.given.items()}
        self.func(**{**named, **numbers})

    def _small(self, value: Any) -> Any:
        """Return a small tensor for a tensor, and a plain number for a symbolic one.

        Kernels treat a tensor of one element differently: `fill_` converts without a check.
        """
        if isinstance(value, torch.Tensor):
            return torch.zeros([self._few(size) for size in value.shape], dtype=value.dtype, device="cpu")
        return _PLAIN.get(type(value), value)

    def _few(self, size: int | torch.SymInt) -> int:
        return next((few for few in (0, 1) if self.is_(size, few)), 2)
