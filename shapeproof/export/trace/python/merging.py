"""Computes both sides of a branch, and chooses by a term: `torch.sym_ite` of torch's graphs.

Law: a branch is merged only if its test and both sides compute wherever it is reached: while they do, no question is
open, no check may fail, and nothing is raised. Otherwise the branch is taken as it was. What both sides leave as one
object stays that object; two numbers become one, which is each side's own where that side is taken.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinMethodType
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import value_at
from shapeproof.constraints.nodes import postorder
from shapeproof.export.shim.bodies import recorder
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
_Lazy = tuple[Callable[[], Any], ...]
_NOTHING = object()


def _require(holds: object) -> None:
    if not holds:
        raise NotMerged


# ---------------------------------------------------------------------- what code that is written over calls


def merged(
    test: Callable[[], Any], then: _Side, otherwise: _Side, held: _Lazy = (), *given: Callable[[], Any]
) -> _Values | None:
    """Return the values that a branch leaves, chosen by a term; None if the branch is to be taken as it was.

    `given`: what the names hold that the branch assigns; `held`: those of them that nobody else reads. To drop an
    object may run code, and only one side drops it.
    """
    values = _values(given)
    if recorder() is None or not all(map(_is_dropped_in_silence, (*values, *_values(held)))):
        return None
    try:
        with bound(COMPUTING_BOTH, True):  # noqa: FBT003 - it is the value
            condition = _condition(test())
            if isinstance(condition, bool):
                return None
            return _joined(condition, then(*values), otherwise(*values))
    except Exception:  # noqa: BLE001 - a side may raise whatever it likes where it is not taken
        return None


def _is_dropped_in_silence(value: Any) -> bool:
    if type(value) in _SEQUENCES:
        return all(map(_is_dropped_in_silence, value))
    return value is _NOTHING or type(value) in _NUMBERS or type(value) in PLAIN


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


def call(function: Any, *args: Any) -> Any:
    """Call a function of numbers, or ask a tensor for its sizes."""
    of_tensor = type(function) is BuiltinMethodType and is_a(function.__self__, torch.Tensor)
    of_numbers = _of_numbers(function)
    _require(of_tensor or of_numbers)
    _require(not any(type(each) is torch.SymBool for each in args))  # torch has no bounds for a number of a condition
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
    if is_a(value, torch.Tensor):
        _require(name in {"shape", "ndim", "size", "dim"})
        return getattr(value, name)
    if is_a(value, torch.nn.Module):
        own = own_names(value) or {}
        held, found = own.get("_modules"), any(name in vars(each) for each in (*type(value).__mro__, value))
        if not found and type(held) is dict and type(value).__getattr__ is torch.nn.Module.__getattr__:
            return held[name]
    return attribute(value, name)


def take(value: Any, index: Any) -> Any:
    """Take an element of a plain container."""
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
    _require(not any(isinstance(each, t.Where) for each in postorder(formula)))  # torch has no bounds for one in one
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
    _require(kinds == {tuple} and len(then) == len(otherwise))
    return _joined(condition, then, otherwise)


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
    _require(more is not None)
    return otherwise + torch.sym_ite(condition, more, 0)  # torch has no bounds for one that depends on another


def _cycle(more: t.Term, here: Facts, there: Facts) -> int | None:
    """Return m where a number is m in one place, and at least 0 and less than m in another: modulo m it is 0 there."""
    point = find(f.TRUE, there)
    cycle = value_at(more, point) if isinstance(point, dict) and more.symbols <= point.keys() else None
    if cycle is None or cycle < 1 or not implied(f.eq(more, cycle), there):
        return None
    return cycle if implied(f.conjunction(f.ge(more, 0), f.lt(more, cycle)), here) else None
