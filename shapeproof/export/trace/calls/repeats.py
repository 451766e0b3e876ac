"""Return an operator's result without running it where an earlier call like it was run, or a rule gives the result.

A model repeats itself: layer after layer calls the same operators on operands of the same sizes. If all decisions of an
operator were settled, it returns the same sizes in the whole region. The region only shrinks while a trial runs, so the
next call like it need not be run. Nor need it be if a rule gives its result (ops/shapes/shape_functions.py).

Law: a result returned here equals the result of a run, except for its elements. So only a call that returns one fresh
float tensor, mutates nothing, takes no size from data and adds no fact beyond its result is memoized.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints.terms import ZERO, Term
from shapeproof.export.ops import schemas
from shapeproof.export.ops.layouts import Sizes, keeps_layout
from shapeproof.export.ops.shapes.shape_functions import result_like
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.process.unrun import unrecorded
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import is_bare
from shapeproof.export.trace.calls.plain_views import Laid, gives_its_operand, plain_view
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.export.trace.translate import Untranslatable
from shapeproof.export.trace.trial import Trial

Fresh = Callable[[Sequence[Any], Sequence[Any] | None, torch.dtype, torch.device], torch.Tensor]
"""A function that makes a fake tensor with its own storage, given sizes, strides, dtype and device."""


ITSELF = object()
"""The result of a call that returns its first operand."""


@dataclass(frozen=True, slots=True)
class Like:
    """A fresh tensor that an operator returns, without its elements."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...] | None
    """None if the tensor is contiguous, row by row."""
    dtype: torch.dtype
    device: torch.device
    differentiable: bool

    def over(self, change: Callable[[Any], Any]) -> Like:
        """Return it with each size and stride changed."""
        strides = None if self.strides is None else tuple(map(change, self.strides))
        return replace(self, sizes=tuple(map(change, self.sizes)), strides=strides)


class _Differentiable(torch.autograd.Function):
    """Make a result that depends on its operands, so that autograd lets dependent tensors be changed in place."""

    @staticmethod
    def forward(ctx: Any, made: Callable[[], torch.Tensor], trial: Trial, *_operands: torch.Tensor) -> torch.Tensor:
        ctx.trial = trial
        return made()

    @staticmethod
    def backward(ctx: Any, *_gradients: Any) -> None:
        """Mark the trial as doubtful: the model takes gradients itself, which needs a run of every operator."""
        ctx.trial.layouts.doubtful = True
        raise NotImplementedError("an operator that was not run has no derivative")


class Repeats:
    """Results of one trace's operators, for later calls like theirs.

    Args:
        env: the ShapeEnv whose trial is asked.
        fresh: makes results that share no storage.
    """

    def __init__(self, env: ProofShapeEnv, fresh: Fresh) -> None:
        self._env, self._fresh = env, fresh
        self.are_making = False
        """True while a result is made: torch's dispatcher then asks the fake mode for nothing else."""
        self._sizes = Sizes(env.read, lambda formula: env.trial.settled(formula) is True)
        self._from_the_start = Sizes(env.read, lambda formula: env.trial.settled(formula, env.trial.known) is True)

    def given(self, key: tuple[Any, ...], arguments: Any, operands: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Return the result of a call if a call like it was noted or a rule gives it; None if the call must be run.

        Each call makes a new tensor and keeps no reference: torch copies the result of a factory if a reference to it
        is held.
        """
        if not all(map(is_bare, operands)):
            return None
        like = self._env.trial.memo.get(key) or self._by_rule(key, arguments, operands)
        if like is None:
            return None
        self.are_making = True
        try:
            with unrecorded():
                return self._made(like, operands)
        finally:
            self.are_making = False

    def _made(self, like: object, operands: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return a result of operands; of a view, torch's dispatcher notes that it is one."""
        if isinstance(like, Laid):
            return torch.as_strided(operands[0], like.sizes, like.strides, like.offset)
        if not isinstance(like, Like):
            return operands[0]
        made = functools.partial(self._fresh, like.sizes, like.strides, like.dtype, like.device)
        if not like.differentiable:
            return made()
        return _Differentiable.apply(made, self._env.trial, *operands)  # type: ignore[no-untyped-call]

    def note(self, key: Hashable, operands: Sequence[torch.Tensor], result: Any) -> None:
        """Note the result of a call that left no open decision and added no fact."""
        if not (is_bare(result) and result.is_floating_point() and all(map(is_bare, operands))):
            return
        lies_at_the_front = self._env.read(result.storage_offset()) is ZERO  # a question to torch would be a decision
        if lies_at_the_front and set(storages(result)).isdisjoint(storages(list(operands))):
            like = Like(tuple(result.shape), result.stride(), result.dtype, result.device, result.requires_grad)
            self._env.trial.memo[key] = like

    def _by_rule(self, key: tuple[Any, ...], arguments: Any, operands: Sequence[torch.Tensor]) -> Any:
        """Return the result of an operator whose sizes a rule gives; None if there is no such rule."""
        func, known = key[0], known_of(key[0])
        shared = self._sharing(func, arguments) if operands else None
        if shared is not None:
            self._env.trial.memo[key] = shared
            return shared
        tracked = torch.is_grad_enabled() and any(each.requires_grad for each in operands)
        if known.elementwise and keeps_layout(operands, self._env.read):
            (x,) = operands
            return Like(tuple(x.shape), x.stride(), x.dtype, x.device, tracked)
        if known.shape is None:
            return None
        with unrecorded():
            found = result_like(known.shape, schemas.by_name(func, *arguments), operands, self._sizes)
        if found is None:
            return None
        sizes, dtype, strides = found
        device = operands[0].device if operands else torch.device("cpu")
        like = Like(sizes, strides, dtype, device, tracked and dtype.is_floating_point).over(self._plainly)
        self._env.trial.memo[key] = like
        self._env.trial.layouts.by_rules = True
        return like

    def _sharing(self, func: Any, arguments: Any) -> Any:
        """Return a result that shares the memory of the first operand; None if no rule gives one.

        Torch may run a graph again, and must find the same sizes there: a rule asks the facts at the start.
        """
        if torch.is_inference_mode_enabled():
            return None
        with unrecorded():
            if gives_its_operand(func, arguments, self._from_the_start):
                return ITSELF
            try:
                laid = plain_view(func, arguments, self._from_the_start, self._written)
            except Untranslatable:
                return None
            self._env.trial.layouts.by_rules |= laid is not None and not laid.exact
            return laid

    def _written(self, term: Term) -> int | torch.SymInt:
        """Return a term as a size of this trace.

        Raises:
            Untranslatable: it has no expression.
        """
        if term.is_constant:
            return term.constant_value
        return self._env.create_symintnode(self._env.writer.write(term), hint=None)

    def _plainly(self, size: int | torch.SymInt) -> int | torch.SymInt:
        """Return a size as a plain number where the domain leaves only one value, as torch's own runs do."""
        known = self._env.trial.known.reduce(self._env.read(size)) if isinstance(size, torch.SymInt) else None
        return known.constant_value if isinstance(known, Term) and known.is_constant else size
