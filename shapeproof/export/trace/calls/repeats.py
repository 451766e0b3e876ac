"""Gives an operator's result without running it, where it was called like that before.

A model repeats itself: layer after layer it calls the same operators on operands of the same sizes. An operator whose
decisions were all settled gives the same sizes all over the region, which only shrinks while a trial goes on; so the
next call like it need not be run. Nor need one that another trace of the model has made in a domain that contains this
one's (recalled.py), or whose result is known by rule (ops/shape_functions.py).

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

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import ZERO, Term
from shapeproof.export.ops.elementwise import keeps_layout
from shapeproof.export.ops.shape_functions import RULED, Sizes, result_like
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import is_bare
from shapeproof.export.trace.calls.recalled import Given, Recalled
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.export.trace.translate import Untranslatable
from shapeproof.export.trace.trial import Trial


@dataclass(frozen=True, slots=True)
class _Like:
    """What a tensor with a storage of its own is like, but for its elements."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...] | None
    """None where it lies row by row."""
    dtype: torch.dtype
    device: torch.device
    differentiable: bool

    def made(self) -> torch.Tensor:
        if self.strides is None:
            return torch.empty(self.shape, dtype=self.dtype, device=self.device)
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
        recalled: what other traces of the model have given, which learn from this one.
    """

    def __init__(
        self, env: ProofShapeEnv, apart: Callable[[], AbstractContextManager[Any]], recalled: Recalled | None
    ) -> None:
        self._env, self._apart, self._recalled = env, apart, recalled
        self._noted: dict[Hashable, _Like] = {}
        self._sizes = Sizes(env.read, lambda formula: env.trial.settled(formula) is True)
        self._facts = (env.trial, frozenset(env.trial.known.formulas))

    def given(self, key: tuple[Any, ...], arguments: Any, operands: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """The result of a call, if one like it was noted, or it is known by rule; None where it is to be run.

        A new one each time, and kept nowhere: torch copies what a factory gives if somebody holds it.
        """
        if not all(map(is_bare, operands)):
            return None
        like = self._noted.get(self._now(key)) or self._by_rule(key, arguments, operands) or self._recall(key)
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
            like = _Like(tuple(result.shape), result.stride(), result.dtype, result.device, result.requires_grad)
            self._noted[self._now(key)] = like
            if self._recalled is not None and self._env.trial.unrestricted and self._without_data:
                self._recalled.note(key, self._everywhere(result))

    def _everywhere(self, result: torch.Tensor) -> Given:
        """What any trace that begins with the facts of this one has."""
        sizes, strides = (tuple(map(self._env.read, numbers)) for numbers in (result.shape, result.stride()))
        return Given(self._known, sizes, strides, result.dtype, result.device, result.requires_grad)

    def _by_rule(self, key: tuple[Any, ...], arguments: Any, operands: Sequence[torch.Tensor]) -> _Like | None:
        """The result of an operator whose sizes are known by rule."""
        func, read = key[0], self._env.read
        if not operands:
            return None
        tracked = torch.is_grad_enabled() and any(each.requires_grad for each in operands)
        if keeps_layout(func, operands, read):
            (x,) = operands
            return _Like(tuple(x.shape), x.stride(), x.dtype, x.device, tracked)
        if func not in RULED:
            return None
        with self._apart():
            found = result_like(func, arguments, operands, self._sizes)
        if found is None:
            return None
        sizes, dtype = found
        plain = tuple(map(self._plainly, sizes))
        like = _Like(plain, None, dtype, operands[0].device, tracked and dtype.is_floating_point)
        self._noted[self._now(key)] = like
        self._env.trial.passed_over = True
        return like

    @property
    def _known(self) -> frozenset[Formula]:
        """The facts that the trace began with."""
        if self._facts[0] is not self._env.trial:
            self._facts = (self._env.trial, frozenset(self._env.trial.known.formulas))
        return self._facts[1]

    @property
    def _without_data(self) -> bool:
        """Whether no number was taken from data yet, so that every term is of declared sizes."""
        return self._env.brought == (0, 0)

    def _recall(self, key: tuple[Any, ...]) -> _Like | None:
        """The result as another trace had it, where it is known to be the same in this one."""
        if self._recalled is None or not self._without_data:
            return None
        given = self._recalled.of(key, self._known)
        if given is None:
            return None
        with self._apart():
            try:
                sizes, strides = (tuple(map(self._number, terms)) for terms in (given.sizes, given.strides))
            except Untranslatable:
                return None
        like = self._noted[self._now(key)] = _Like(sizes, strides, given.dtype, given.device, given.differentiable)
        self._env.trial.passed_over = True
        return like

    def _number(self, term: Term) -> int | torch.SymInt:
        """A term as a size of this trace; a plain number where the facts leave it no choice."""
        known = self._env.trial.known.reduce(term)
        if isinstance(known, Term) and known.is_constant:
            return known.constant_value
        return self._env.create_symintnode(self._env.writer.write(term), hint=None)  # type: ignore[no-any-return]

    def _plainly(self, size: int | torch.SymInt) -> int | torch.SymInt:
        """A size as a plain number where the domain leaves it no choice, as torch's own runs have it."""
        known = self._env.trial.known.reduce(self._env.read(size)) if isinstance(size, torch.SymInt) else None
        return known.constant_value if isinstance(known, Term) and known.is_constant else size

    def _now(self, key: Hashable) -> Hashable:
        """The call with what holds of it: a region that becomes wider is another."""
        return self._env.trial, self._env.trial.widened, key
