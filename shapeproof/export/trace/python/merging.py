"""Computes both sides of a branch, and chooses by a term: `torch.sym_ite` of torch's graphs.

Law: a branch is merged only if its test and both sides compute wherever it is reached: while they do, no question is
open, no check may fail, and nothing is raised. Otherwise the branch is taken as it was. What both sides leave as one
object stays that object; two numbers become one, which is each side's own where that side is taken.

A side may pad a tensor by a constant, or take its first elements, where the other side leaves the tensor: to pad by 0
and to take all elements is to leave it. Eager leaves the tensor itself there, so nobody may tell the result from it
(one_body.refuse_told_apart).
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import BuiltinMethodType, MethodType
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import value_at
from shapeproof.constraints.nodes import postorder
from shapeproof.export.ops.shapes.layouts import dims
from shapeproof.export.shim.bodies import recorder
from shapeproof.export.shim.process.modes import unwatched
from shapeproof.export.shim.replaced import bound
from shapeproof.export.source.abstract import is_a
from shapeproof.export.trace.python import branches
from shapeproof.export.trace.python.plain_numbers import CALLED
from shapeproof.export.trace.python.plain_objects import PLAIN, attribute, own_names
from shapeproof.export.trace.shape_env import COMPUTING_BOTH, NotMerged, ProofShapeEnv
from shapeproof.solver.answers.witness import find
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied

_Values = tuple[Any, ...]
_Side = Callable[..., _Values]
_NOTHING = object()


def _require(holds: object) -> None:
    if not holds:
        raise NotMerged


# ---------------------------------------------------------------------- what code that is written over calls


def merged(test: Callable[[], Any], then: _Side, otherwise: _Side, *given: Callable[[], Any]) -> _Values | None:
    """Return the values that a branch leaves, chosen by a term; None if the branch is to be taken as it was."""
    if recorder() is None:
        return None
    try:
        with bound(COMPUTING_BOTH, True):  # noqa: FBT003 - it is the value
            condition = _condition(test())
            if isinstance(condition, bool):
                return None
            values = _values(given)
            found = _joined(condition, then(*values), otherwise(*values))
        return tuple(each.made() if isinstance(each, _Changed) else each for each in found)
    except Exception:  # noqa: BLE001 - a side may raise whatever it likes where it is not taken
        return None


def chosen(test: Callable[[], Any], then: _Side, otherwise: _Side, *given: Callable[[], Any]) -> _Values:
    """Return the values that a branch within a side leaves."""
    condition, values = _condition(test()), _values(given)
    if isinstance(condition, bool):
        return (then if condition else otherwise)(*values)
    return _joined(condition, then(*values), otherwise(*values))


def picked(test: Callable[[], Any], then: Callable[[], Any], otherwise: Callable[[], Any], *plain: Any) -> Any:
    """Return the value of `then if test else otherwise`; `plain`: what computes it as it was, outside of a side."""
    sides = (lambda: (then(),)), (lambda: (otherwise(),))
    if not plain:
        return chosen(test, *sides)[0]
    found = merged(test, *sides)
    return plain[0]() if found is None else found[0]


def _values(given: Iterable[Callable[[], Any]]) -> _Values:
    """Return what names hold before a branch; of a name that holds nothing, what no side can use or leave."""
    found = []
    for each in given:
        try:
            found.append(each())
        except NameError:
            found.append(_NOTHING)
    return tuple(found)


def any_of(*parts: Callable[[], Any]) -> Any:
    """Return `a or b`, as one condition."""
    return _not(all_of(*(functools.partial(_unlike, part) for part in parts)))


def _unlike(part: Callable[[], Any]) -> Any:
    return negation(part())


def all_of(*parts: Callable[[], Any]) -> Any:
    """Return `a and b`, as one condition."""
    found: Any = True
    for part in parts:
        found = _both(found, _condition(part()))
        if found is False:
            break
    return found


def negation(value: Any) -> Any:
    """Return `not a`, as one condition."""
    return _not(_condition(value))


def number(value: Any) -> Any:
    """Return a plain value or a symbolic number, with which Python computes without running code."""
    _require(type(value) in _NUMBERS or type(value) in PLAIN)
    return value


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function of numbers, ask a tensor for its sizes, or note that a tensor is padded."""
    if function is torch.nn.functional.pad:
        return _padded(*args, **kwargs)
    of_tensor = type(function) is BuiltinMethodType and is_a(function.__self__, torch.Tensor)
    of_crop = type(function) is MethodType and type(function.__self__) is _Cropped
    of_numbers = _of_numbers(function)
    _require((of_tensor or of_crop or of_numbers) and not kwargs)
    for each in args:
        for part in each if type(each) in _SEQUENCES else (each,):
            number(part)
    return (of_numbers or function)(*args)


def _of_numbers(function: Any) -> Callable[..., Any] | None:
    """Return the symbolic version of a function of numbers; torch puts others in the places of some of Python's."""
    if any(function is each for each in (abs, math.ceil, math.floor, math.trunc)):
        return function
    named = (name for name in _SYMBOLIC if function is getattr(builtins, name) or function is CALLED[name])
    return next((CALLED[name] for name in named), None)


def read(value: Any, name: str) -> Any:
    """Read an attribute without running code of a user's."""
    if is_a(value, torch.Tensor) or type(value) is _Cropped:
        _require(name in ({"shape", "ndim", "size", "dim"} if is_a(value, torch.Tensor) else {"contiguous"}))
        return getattr(value, name)
    if is_a(value, torch.nn.Module):
        own = own_names(value) or {}
        held, found = own.get("_modules"), any(name in vars(each) for each in (*type(value).__mro__, value))
        if not found and type(held) is dict and type(value).__getattr__ is torch.nn.Module.__getattr__:
            return held[name]
    return attribute(value, name)


def take(value: Any, index: Any) -> Any:
    """Take an element of a plain container, or the first elements of a tensor."""
    if is_a(value, torch.Tensor):
        return _cropped(value, index if type(index) is tuple else (index,))
    ends = (index.start, index.stop, index.step) if type(index) is slice else (index,)
    of_dict = type(value) is dict and type(index) in {str, int}
    _require(of_dict or (type(value) in _SEQUENCES and {int, type(None)}.issuperset(map(type, ends))))
    return value[index]


def each_of(value: Any) -> Any:
    """Return a plain container, whose elements are assigned."""
    _require(type(value) in _SEQUENCES)
    return value


_NUMBERS = {torch.SymInt, torch.SymFloat, torch.SymBool}
_SEQUENCES = {list, tuple, torch.Size}
_SYMBOLIC = ("int", "float", "len", "min", "max", "round")
NAMES: Mapping[str, Callable[..., Any]] = {
    branches.MERGED: merged,
    branches.PICKED: picked,
    branches.CHOSEN: chosen,
    branches.ANY_OF: any_of,
    branches.ALL_OF: all_of,
    branches.NOT: negation,
    branches.CALL: call,
    branches.READ: read,
    branches.TAKE: take,
    branches.SLICE: slice,
    branches.NUMBER: number,
    branches.EACH: each_of,
}
"""The functions that code with branches written over calls, by their global names."""


# ---------------------------------------------------------------------- conditions and numbers


def _condition(value: Any) -> bool | torch.SymBool:
    """Return whether a value is true: a plain bool where that is known; NotMerged if data decide."""
    number(value)
    asked = value != 0 if type(value) is torch.SymInt else value
    if not isinstance(asked, torch.SymBool):
        _require(type(asked) in PLAIN)
        return bool(asked)
    env, formula = _asked(asked)
    _require(formula.total and not env.trial.about_data(formula) and env.row is None)
    known = env.trial.settled(formula)
    return asked if known is None else known


def _asked(condition: torch.SymBool) -> tuple[ProofShapeEnv, Formula]:
    env: ProofShapeEnv = condition.node.shape_env
    return env, env.translator.formula(condition.node.expr)


def _not(condition: Any) -> Any:
    return torch.sym_not(condition) if isinstance(condition, torch.SymBool) else not condition


def _both(one: Any, other: Any) -> Any:
    if isinstance(one, bool) or isinstance(other, bool):
        plain, rest = (one, other) if isinstance(one, bool) else (other, one)
        return rest if plain else False
    return one & other


def _joined(condition: torch.SymBool, then: Iterable[Any], otherwise: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(_one(condition, *pair) for pair in zip(then, otherwise, strict=True))


def _one(condition: torch.SymBool, then: Any, otherwise: Any) -> Any:
    """Return the value that is each side's where that side is taken."""
    kinds = {type(then), type(otherwise)}
    _require(then is not _NOTHING and otherwise is not _NOTHING)
    if then is otherwise or (len(kinds) == 1 and kinds <= PLAIN and repr(then) == repr(otherwise)):
        return then
    if kinds <= {int, torch.SymInt}:
        return _whole(condition, then, otherwise)
    if kinds <= {bool, torch.SymBool}:
        return _not(_both(_not(_both(condition, then)), _not(_both(_not(condition), otherwise))))
    if kinds == {tuple} and len(then) == len(otherwise):
        found = _joined(condition, then, otherwise)
        _require(not any(isinstance(each, _Changed) for each in found))
        return found
    if isinstance(then, _Changed):
        return then.where(condition, otherwise)
    _require(isinstance(otherwise, _Changed))
    return otherwise.where(_not(condition), then)


def _whole(condition: torch.SymBool, then: Any, otherwise: Any) -> Any:
    """Return one of two integers, in a form that every consumer computes, if one is proved equal on each side."""
    env, formula = _asked(condition)
    one, other, facts = env.read(then), env.read(otherwise), env.trial.facts
    on, off = facts.assuming(formula), facts.assuming(formula.negation)
    if implied(f.eq(one, other), off):
        return then
    if implied(f.eq(one, other), on):
        return otherwise
    if implied(f.ge(one, other), on) and implied(f.le(one, other), off):
        return torch.sym_max(then, otherwise)
    if implied(f.le(one, other), on) and implied(f.ge(one, other), off):
        return torch.sym_min(then, otherwise)
    for base, more, here, there in ((otherwise, then, on, off), (then, otherwise, off, on)):
        cycle = _cycle(env.read(more) - env.read(base), here, there)
        if cycle is not None:
            return base + (more - base) % cycle
    more = (one - other).constant_value if (one - other).is_constant else None
    _require(more is not None and not any(isinstance(each, t.Where) for each in postorder(formula)))
    return otherwise + torch.sym_ite(condition, more, 0)  # torch has no bounds for one that depends on another


def _cycle(more: t.Term, here: Facts, there: Facts) -> int | None:
    """Return m where a number is m in one place, and at least 0 and less than m in another: modulo m it is 0 there."""
    point = find(f.TRUE, there)
    cycle = value_at(more, point) if isinstance(point, dict) and more.symbols <= point.keys() else None
    if cycle is None or cycle < 1 or not implied(f.eq(more, cycle), there):
        return None
    return cycle if implied(f.conjunction(f.ge(more, 0), f.lt(more, cycle)), here) else None


# ---------------------------------------------------------------------- tensors that a side changes


@dataclass(frozen=True)
class _Changed:
    """What a side makes of a tensor: nothing by these numbers, where another side leaves the tensor."""

    tensor: torch.Tensor
    numbers: tuple[Any, ...]

    def where(self, condition: torch.SymBool, other: Any) -> _Changed:
        """Return what is made of the tensor where a condition holds; elsewhere the other value is left."""
        idle = self.idle() if other is self.tensor else None
        if idle is None:
            _require(type(other) is type(self) and replace(other, numbers=self.numbers) == self)
            idle = other.numbers
        numbers = (_whole(condition, *pair) for pair in zip(self.numbers, idle, strict=True))
        return replace(self, numbers=tuple(numbers))

    def idle(self) -> tuple[Any, ...]:
        """Return the numbers by which nothing is done."""
        raise NotImplementedError

    def made(self) -> torch.Tensor:
        """Change the tensor."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Padded(_Changed):
    value: Any

    def idle(self) -> tuple[Any, ...]:
        return (0,) * len(self.numbers)

    def made(self) -> torch.Tensor:
        made = torch.nn.functional.pad(self.tensor, list(self.numbers), value=self.value)
        return _not_told_apart(self.tensor, made)


def _padded(tensor: Any, pad: Any, mode: Any = "constant", value: Any = None) -> _Padded:
    """Note that a tensor is padded by a constant."""
    _require(is_a(tensor, torch.Tensor) and type(pad) in {list, tuple} and mode == "constant")
    _require(len(pad) % 2 == 0 and len(pad) <= 2 * tensor.dim() and {int, torch.SymInt}.issuperset(map(type, pad)))
    _require(type(value) in {int, float, type(None)})
    return _Padded(tensor, tuple(pad), value)


@dataclass(frozen=True)
class _Cropped(_Changed):
    copied: bool = False

    def idle(self) -> tuple[Any, ...]:
        return tuple(self.tensor.shape)

    def contiguous(self) -> _Cropped:
        """Note that the elements are copied, unless they are all."""
        return replace(self, copied=True)

    def made(self) -> torch.Tensor:
        made = self.tensor[tuple(slice(None, end) for end in self.numbers)]
        return _not_told_apart(self.tensor, made.contiguous()) if self.copied else made


def _cropped(tensor: torch.Tensor, index: tuple[Any, ...]) -> _Cropped:
    """Note that the first elements of a tensor are taken, along each dim."""
    parts = list(index)
    if parts.count(...) == 1:
        at = parts.index(...)
        parts[at : at + 1] = [slice(None)] * (tensor.dim() - len(parts) + 1)
    _require(len(parts) <= tensor.dim() and all(type(each) is slice for each in parts))
    _require(all(each.start in (None, 0) and each.step in (None, 1) for each in parts))
    ends = [each.stop for each in parts] + [None] * (tensor.dim() - len(parts))
    _require({int, torch.SymInt, type(None)}.issuperset(map(type, ends)))
    return _Cropped(tensor, tuple(size if end is None else end for end, size in zip(ends, tensor.shape, strict=True)))


def _not_told_apart(tensor: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """Return a copy in place of a tensor; NotMerged if its layout may tell."""
    sizes = [each for each in (*tensor.shape, *made.shape) if isinstance(each, torch.SymInt)]
    env: ProofShapeEnv = sizes[0].node.shape_env
    with unwatched():
        plain = tensor.layout is torch.strided and not (tensor.is_conj() or tensor.is_neg())
        _require(plain and env.read(tensor.storage_offset()) is t.ZERO and _lies_like_a_copy(tensor, env))
    env.perhaps_the_same.append((tensor, made))
    return made


def _lies_like_a_copy(tensor: torch.Tensor, env: ProofShapeEnv) -> bool:
    """True if the dims lie row by row, or those of an image with the channels last, as a copy would lie."""
    laid = dims(tensor.shape, tensor.stride(), env.read)
    if _lie_row_by_row(laid, env):
        return True
    wide = len(laid) == _IMAGE and all(env.trial.settled(f.ge(size, 2)) for size, _ in laid[1:])
    return wide and _lie_row_by_row([laid[0], *laid[2:], laid[1]], env)


_IMAGE = 4
"""The dims of an image: torch keeps the channels last."""


def _lie_row_by_row(laid: Sequence[tuple[t.Term, t.Term]], env: ProofShapeEnv) -> bool:
    """True if each stride is proved to be the product of the later sizes, where a size of 0 counts as 1 or as 0."""
    elements = counted = t.ONE
    for size, stride in reversed(laid):
        if not any(env.trial.settled(f.eq(stride, each)) for each in (elements, counted)):
            return False
        elements, counted = elements * size, counted * t.maximum(t.ONE, size)
    return True
