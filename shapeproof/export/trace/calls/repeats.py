"""Gives an operator's result without running it, where it was called like that before.

A model repeats itself: layer after layer it calls the same operators on operands of the same sizes. An operator whose
decisions were all settled gives the same sizes all over the region, which only shrinks while a trial goes on; so the
next call like it need not be run.

Law: what is given here is, but for its elements, what a run would give. So an operator is run again that writes, gives
a view or anything but one plain tensor of floats, takes sizes from data, or by whose run others would learn more than
by its result. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.constraints.terms import ZERO
from shapeproof.export.ops.elementwise import keeps_layout
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import is_bare
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.export.trace.trial import Trial


@dataclass(frozen=True, slots=True)
class _Like:
    """What a tensor with a storage of its own is like, but for its elements."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: torch.dtype
    device: torch.device
    differentiable: bool

    def made(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device)


class _Differentiable(torch.autograd.Function):
    """Makes a result that depends on its operands: autograd lets what depends on them be changed in place."""

    @staticmethod
    def forward(ctx: Any, like: _Like, trial: Trial, *_operands: torch.Tensor) -> torch.Tensor:
        ctx.trial = trial
        return like.made()

    @staticmethod
    def backward(ctx: Any, *_gradients: Any) -> None:
        """The model takes gradients itself: for these every operator is to be run."""
        ctx.trial.doubtful = True
        message = "an operator that was not run has no derivative"
        raise NotImplementedError(message)


class Repeats:
    """What the operators of one trace have given, for calls like theirs.

    Args:
        env: whose trial is asked.
        apart: while it lasts, nothing is recorded.
    """

    def __init__(self, env: ProofShapeEnv, apart: Callable[[], AbstractContextManager[Any]]) -> None:
        self._env = env
        self._apart = apart
        self._noted: dict[Hashable, _Like] = {}

    def given(self, key: tuple[Any, ...], operands: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """The result of a call, if one like it was noted, or it is known by rule; None where it is to be run.

        A new one each time, and kept nowhere: torch copies what a factory gives if somebody holds it.
        """
        if not all(map(is_bare, operands)):
            return None
        like = self._noted.get(self._now(key)) or self._by_rule(key[0], operands)
        if like is None:
            return None
        with self._apart():
            if not like.differentiable:
                return like.made()
            return _Differentiable.apply(like, self._env.trial, *operands)  # type: ignore[no-untyped-call, no-any-return]

    def note(self, key: Hashable, operands: Sequence[torch.Tensor], result: Any) -> None:
        """Note the result of a call that has left nothing open and taught nothing."""
        if not (is_bare(result) and result.is_floating_point() and all(map(is_bare, operands))):
            return
        lies_at_the_front = self._env.read(result.storage_offset()) is ZERO  # asked of torch, it would be a decision
        if lies_at_the_front and set(storages(result)).isdisjoint(storages(list(operands))):
            self._noted[self._now(key)] = _Like(
                tuple(result.shape), result.stride(), result.dtype, result.device, result.requires_grad
            )

    def _by_rule(self, func: Any, operands: Sequence[torch.Tensor]) -> _Like | None:
        """The result of an operator that treats elements one by one."""
        if not keeps_layout(func, operands, self._env.read):
            return None
        (x,) = operands
        differentiable = torch.is_grad_enabled() and x.requires_grad
        return _Like(tuple(x.shape), x.stride(), x.dtype, x.device, differentiable)

    def _now(self, key: Hashable) -> Hashable:
        """The call with what holds of it: a region that becomes wider is another."""
        return self._env.trial, self._env.trial.widened, key
