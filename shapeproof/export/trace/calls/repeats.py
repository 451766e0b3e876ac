"""Return an operator's result without running it where an earlier call like it was run, or a rule gives the result.

A model repeats itself: layer after layer calls the same operators on operands of the same sizes. If all decisions of an
operator were settled, it returns the same sizes in the whole region. The region only shrinks while a trial runs, so the
next call like it need not be run. Nor need it be if a rule gives its result (ops/shapes/shape_functions.py).

Law: a result returned here equals the result of a run, except for its elements. So only a call that returns one fresh
float tensor, mutates nothing, takes no size from data and adds no fact beyond its result is memoized.

*Views* are known without a run: `view`, `expand` or `slice`, dimensions that are moved, an operand itself.

Law: where `plain_view` gives a view, eager raises nothing, at any size, and its result shares the operand's storage and
has the given sizes, strides and offset; strides that reach no element may differ, unless the view is exact. Where
`gives_its_operand` is true, eager returns the operand itself.

The rules compare sizes by what the caller knows of the whole domain: no answer that torch assumed in the call supports
them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.terms import ONE, ZERO, Term, bare, floor_div
from shapeproof.export.ops import schemas
from shapeproof.export.ops.shapes.layouts import Size, Sizes, dims, keeps_layout, lie_row_by_row, lies_row_by_row
from shapeproof.export.ops.shapes.samples import Dims, dims_of
from shapeproof.export.ops.shapes.shape_functions import result_like
from shapeproof.export.ops.table import is_unary, kind_of, known_of
from shapeproof.export.shim.process.each_call import unrecorded
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import is_bare
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
        if is_unary(func) and not schemas.is_mutable(func) and keeps_layout(operands, self._env.read):
            (x,) = operands
            return Like(tuple(x.shape), x.stride(), x.dtype, x.device, tracked)
        if known.shape is None:
            return None
        with unrecorded():
            found = result_like(func, known.shape, schemas.by_name(func, *arguments), operands, self._sizes)
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


def _is_left_open(size: Size) -> bool:
    return isinstance(size, int) and size == -1


@dataclass(frozen=True, slots=True)
class Laid:
    """Where the elements of a view lie in the storage of its operand; `exact`: as in eager even if none is reached."""

    sizes: Sequence[Size]
    strides: Sequence[Size]
    offset: Size
    exact: bool = True


Rule = Callable[[Mapping[str, Any], Sizes], Laid | None]


def plain_view(func: Any, arguments: tuple[Any, Any], sizes: Sizes, write: Callable[[Term], Size]) -> Laid | None:
    """Return where the elements of a view lie at every size; None where torch must say.

    Args:
        func: the operator.
        arguments: its positional arguments, and those by name.
        sizes: answers questions about sizes.
        write: returns a term as a size.

    >>> from shapeproof.constraints.terms import constant
    >>> sizes = Sizes(constant, lambda _: False)
    >>> plain_view(torch.ops.aten.select.int, ((torch.ones(2, 3), 0, 1), {}), sizes, lambda size: size.constant_value)
    Laid(sizes=[3], strides=[1], offset=3, exact=True)
    """
    asked = known_of(func).as_asked
    if known_of(func).order:
        call = schemas.by_name(func, *arguments)
        found = dims_of(func, call)
        return None if found is None else _moved(call["self"], found)
    if asked is not None:
        call = schemas.by_name(func, *arguments)
        return _reshaped(call["self"], call[asked], sizes, write)
    rule = _VIEWS.get(kind_of(func))
    return None if rule is None else rule(schemas.by_name(func, *arguments), sizes)


def _moved(x: torch.Tensor, found: Dims) -> Laid:
    shape, strides, offset = x.shape, x.stride(), x.storage_offset()
    after = [*found[1:], None][: len(found)]  # a dimension that is put in has the stride of a step over the next one
    stepping = [
        strides[at] if at is not None else 1 if next_ is None else shape[next_] * strides[next_]
        for at, next_ in zip(found, after, strict=True)
    ]
    return Laid([1 if at is None else shape[at] for at in found], stepping, offset)


def _reshaped(x: torch.Tensor, asked: Sequence[Size], sizes: Sizes, write: Callable[[Term], Size]) -> Laid | None:
    """`view`, `reshape`: the first dimensions stay, and the others lie row by row before and after.

    The size that is left open is divided as a term: torch's expression of a quotient costs more than the whole rule.
    """
    left = [at for at, size in enumerate(asked) if _is_left_open(size)]
    mine, found = dims(x.shape, x.stride(), sizes.read), list(asked)
    whole = prod((size for size, _ in mine), start=ONE)
    if len(left) == 1:
        known = prod((sizes.read(size) for at, size in enumerate(asked) if at != left[0]), start=ONE)
        if not sizes.at_least(known, 1):
            return None
        open_ = bare(floor_div(whole, known))
        if open_ * known is not whole:
            return None
        found[left[0]] = write(open_)
    kept = next(at for at in range(len(mine) + 1) if lie_row_by_row(mine[at:]))
    if len(left) > 1 or len(found) < kept:
        return None
    terms = list(map(sizes.read, found))
    counted = all(sizes.at_least(size, 0) for at, size in enumerate(terms) if at not in left)
    alike = all(size is own for size, (own, _) in zip(terms, mine[:kept], strict=False))
    if not (counted and alike and sizes.equal(prod(terms, start=ONE), whole)):
        return None
    strides = [*x.stride()[:kept], *(prod(found[at + 1 :]) for at in range(kept, len(found)))]
    return Laid(found, strides, x.storage_offset(), exact=False)


def _expanded(call: Mapping[str, Any], sizes: Sizes) -> Laid | None:
    """`expand`: a size of 1 becomes another one, and dimensions are put in before the first."""
    x, asked = call["self"], call["size"]
    lead = len(asked) - x.dim()
    if lead < 0 or call["implicit"]:
        return None
    found = [(size, 0, sizes.at_least(size, 0)) for size in asked[:lead]]
    for size, own, stride in zip(asked[lead:], x.shape, x.stride(), strict=True):
        if _is_left_open(size) or sizes.equal(size, own):
            found.append((own, stride, True))
        else:
            found.append((size, 0, sizes.read(own) is ONE and sizes.at_least(size, 0)))
    if not all(fits for _, _, fits in found):
        return None
    return Laid([size for size, _, _ in found], [stride for _, stride, _ in found], x.storage_offset(), exact=False)


def _sliced(call: Mapping[str, Any], sizes: Sizes) -> Laid | None:
    """`slice`: both ends are known to lie in the dimension, the second one not before the first."""
    x, dim, step = call["self"], call["dim"], call["step"]
    if not -x.dim() <= dim < x.dim() or type(step) is not int or step < 1:
        return None
    at = dim % x.dim()
    size, stride = x.shape[at], x.stride(at)
    first, last = (_end(call[name], size, default, sizes) for name, default in (("start", 0), ("end", size)))
    if first is None or last is None or not sizes.at_least(last - first, 0):
        return None
    length = last - first if step == 1 else (last - first + (step - 1)) // step
    shape, strides = list(x.shape), list(x.stride())
    shape[at], strides[at] = length, stride * step
    return Laid(shape, strides, x.storage_offset() + first * stride)


def _end(asked: Size | None, size: Size, default: Size, sizes: Sizes) -> Size | None:
    """Return an end of a slice as a position from 0 to the size; None if it is not known to be one."""
    if asked is None:
        return default
    if isinstance(asked, int) and asked < 0:
        return size + asked if sizes.at_least(size, -asked) else None
    if sizes.read(asked) is sizes.read(size) or (isinstance(asked, int) and asked == sys.maxsize):
        return size
    if not sizes.at_least(asked, 0):
        return None
    if sizes.known(f.ge(sizes.read(size), sizes.read(asked))):
        return asked
    return size if sizes.known(f.ge(sizes.read(asked), sizes.read(size))) else None


def _selected(call: Mapping[str, Any], sizes: Sizes) -> Laid | None:
    """`select`: a plain index within the dimension."""
    x, dim, index = call["self"], call["dim"], call["index"]
    if not -x.dim() <= dim < x.dim() or type(index) is not int:
        return None
    at = dim % x.dim()
    size, strides = x.shape[at], list(x.stride())
    if not sizes.at_least(size, index + 1 if index >= 0 else -index):
        return None
    first = index if index >= 0 else size + index
    offset = x.storage_offset() + first * strides.pop(at)
    return Laid([*x.shape[:at], *x.shape[at + 1 :]], strides, offset)


_VIEWS: Mapping[str, Rule] = {"expand": _expanded, "slice": _sliced, "select": _selected}


def gives_its_operand(func: Any, arguments: tuple[Any, Any], sizes: Sizes) -> bool:
    """True if eager returns the operand itself: it is contiguous, row by row, or has the dtype that is asked for."""
    call = schemas.by_name(func, *arguments) if known_of(func).alias_or_copy else {}
    if "memory_format" not in call or "other" in call:
        return False
    x, layout, memory = call["self"], call.get("layout"), call.get("memory_format")
    if "copy" not in call:  # `contiguous`, not `to`
        return memory in {0, torch.contiguous_format} and lies_row_by_row(x, sizes.read)  # 0: the schema's default
    same = all(call.get(name) in {None, getattr(x, name)} for name in ("dtype", "device"))
    plain = layout in {None, x.layout} and not call["copy"] and not call.get("pin_memory")
    return same and plain and memory in {None, torch.preserve_format}
