"""Answers Python's own questions to a symbolic number: its hash, its text, attributes that a plain number has.

Torch's symbolic number has no hash, and its text is the symbol's name. A condition acts as a bool only in a branch: in
`(n == 37) == 1` sympy compares a condition with a number, and `n == Mode.LARGE`, for an `IntEnum`, compares object
identities. Inside `answered`, the given functions answer for the numbers of one ShapeEnv; numbers of other ShapeEnvs
are unaffected.
"""

from __future__ import annotations

import contextlib
import numbers
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.experimental import sym_node

from shapeproof.export.shim.callers import OURS, TORCH
from shapeproof.export.shim.numbers.sym_nodes import is_whole
from shapeproof.export.shim.numbers.symbols import PLAIN
from shapeproof.export.shim.replaced import replaced

Answer = Callable[..., Any]
"""Takes a number, the asking frame, and the details of the question. None: use torch's own answer."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The functions that answer for the numbers of a ShapeEnv.

    Attributes:
        give_hash: returns the hash of a size.
        in_text: returns the number to print.
        decided: returns the plain number.
        attribute: takes a name that torch's class lacks.
        unlike: takes another number, of a class that torch does not know; returns no answer.
    """

    give_hash: Answer
    in_text: Answer
    decided: Answer
    attribute: Answer
    unlike: Answer


_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_ARITHMETIC = ("__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__", "__xor__")
_OF_ONE: Mapping[str, Callable[[bool], Any]] = {
    "__index__": operator.index,
    "__float__": float,
    "__invert__": operator.invert,
    "__neg__": operator.neg,
}


@contextlib.contextmanager
def answered(shape_env: Any, answers: Answers) -> Iterator[None]:
    """Answer for the numbers of a ShapeEnv inside the block."""

    def ask(answer: Answer, number: Any, *more: Any) -> Any:
        # A frame that holds itself would keep alive the tensors in all frames around it: torch copies tensors that have
        # other owners.
        own = getattr(number.node, "shape_env", None) is shape_env  # the size of a nested tensor has none
        return answer(number, sys._getframe(2), *more) if own else None

    with contextlib.ExitStack() as after:
        for cls in PLAIN:
            give_hash = answers.give_hash if cls is torch.SymInt else answers.decided
            members = {
                "__repr__": _answering(ask, answers.in_text, cls.__repr__, repr),
                "__format__": _answering(ask, answers.in_text, cls.__repr__, format),
                "__hash__": _answering(ask, give_hash, cls.__hash__, hash),
                "__getattr__": _lacking(ask, answers.attribute),
            }
            flag = cls is torch.SymBool
            others = _as_bool(cls, ask, answers.decided) if flag else _of_number(cls, ask, answers.unlike)
            after.enter_context(replaced(cls, **members | others))
        after.enter_context(replaced(sym_node, to_node=_operand(sym_node.to_node)))
        yield


@contextlib.contextmanager
def compared_at_once() -> Iterator[None]:
    """Inside this block, what a model's code compares is decided at once: `n > 1` is a bool for each function it calls.

    Inside `answered`.
    """
    with contextlib.ExitStack() as after:
        for cls in (torch.SymInt, torch.SymFloat):
            after.enter_context(replaced(cls, **{name: _at_once(getattr(cls, name)) for name in _COMPARISONS}))
        yield


def _at_once(torchs: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def member(self: Any, other: Any) -> Any:
        found = torchs(self, other)
        asked = isinstance(found, torch.SymBool) and not sys._getframe(1).f_code.co_filename.startswith((TORCH, OURS))
        return bool(found) if asked else found

    return member


def _operand(torchs: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Convert a plain operand to a node: torch accepts only int, float and bool, not their subclasses."""

    def to_node(self: sym_node.SymNode, number: Any) -> Any:
        if isinstance(number, int) and (type(number) is not bool or not self.is_bool()):
            return torchs(self, int(number))
        return torchs(self, float(number) if isinstance(number, float) else number)

    return to_node


def _answering(
    ask: Callable[[Answer, Any], Any], answer: Answer, torchs: Callable[..., Any], use: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a member that uses an answer, or does as torch's does."""

    def member(self: Any, *more: Any) -> Any:
        found = ask(answer, self)
        return torchs(self) if found is None else use(found, *more)

    return member


def _of_number(cls: Any, ask: Callable[..., Any], unlike: Answer) -> dict[str, Any]:
    """The members of Python's int and float that torch's numbers lack, or have otherwise."""
    inverted = {"__invert__": lambda number: -number - 1} if cls is torch.SymInt else {}
    return _equality(cls, ask, unlike) | inverted | {"__rpow__": _power_of(cls.__rpow__)}


def _power_of(torchs: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Raise a number to this one; torch has no power of a negative float, which is real for a whole exponent."""

    def powered(exponent: Any, base: Any) -> Any:
        if isinstance(base, float) and base < 0 and is_whole(exponent):
            return (1 - 2 * (exponent % 2)) * (-base) ** exponent
        return torchs(exponent, base)

    return powered


def _equality(cls: Any, ask: Callable[..., Any], unlike: Answer) -> dict[str, Any]:
    """Handle numbers of classes that torch does not know: Python would compare the identities of the objects."""

    def beside(torchs: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def compared(self: Any, other: Any) -> Any:
            if isinstance(other, numbers.Number) and not isinstance(other, int | float):
                if not isinstance(other, numbers.Integral):
                    ask(unlike, self, other)
                else:
                    other = int(other)
            return torchs(self, other)

        return compared

    return {name: beside(getattr(cls, name)) for name in ("__eq__", "__ne__")}


def _lacking(ask: Callable[..., Any], attribute: Answer) -> Callable[[Any, str], Any]:
    def lacking(self: Any, name: str) -> Any:
        found = None if name == "node" else ask(attribute, self, name)
        if found is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return found

    return lacking


def _as_bool(cls: Any, ask: Callable[[Answer, Any], Any], decided: Answer) -> dict[str, Any]:
    """The members of Python's bool that torch's condition lacks."""

    def of_two(name: str) -> Callable[[Any, Any], Any]:
        torchs = getattr(cls, name, lambda *_: NotImplemented)

        def member(self: Any, other: Any) -> Any:
            found = ask(decided, self)
            if found is None:
                return torchs(self, other)
            other = bool(other) if isinstance(other, torch.SymBool) else other
            return _applied(name, found, other)

        return member

    def of_one(function: Callable[[bool], Any]) -> Callable[[Any], Any]:
        return _answering(ask, decided, lambda number: function(bool(number)), function)

    names = (*_COMPARISONS, *_ARITHMETIC, *(f"__r{name[2:]}" for name in _ARITHMETIC))
    return {name: of_two(name) for name in names} | {name: of_one(function) for name, function in _OF_ONE.items()}


def _applied(name: str, value: bool, other: Any) -> Any:  # noqa: FBT001 - it is the operand
    """Apply an operator to a bool and another value, by the name of the method, also `__radd__` and the like."""
    if name.startswith("__r"):
        return getattr(operator, f"__{name[3:]}")(other, value)
    return getattr(operator, name)(value, other)
