"""Decide from bytecode whether the two sides of a branch rejoin in the same state, so that the branch has no effect.

`n > 1 and mask is None` is False for every n if there is a mask. From the branch, the instructions of both sides are
followed as long as they only load values, compare or compute numbers, assign local names, or jump forward. The sides
rejoin where they reach one instruction with the same objects on the stack and in the local names.

`n % 2 == 1 or h % 2 == 1`, where n is odd, has an effect only where both are even: if the other side compares symbolic
numbers, it is followed for each answer; where the answers are those with which it does not rejoin is returned.

Laws:
- No code of the user's runs here, and nothing is read that could run code (a property). An instruction that may have an
  effect, may raise, or asks something else about a symbolic number ends its side.
- The other side leaves the plain bool that eager has there. Where the traced side leaves the symbolic bool, the two do
  not rejoin: the program would compute the bool, with another value on the other side.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.terms import Term
from shapeproof.export.shim.callers import OURS, outwards
from shapeproof.export.source.abstract import NULL, EndError, Machine, Stack, locals_of, require, running
from shapeproof.export.source.frames import line_of
from shapeproof.export.source.instructions import Step, handler_of
from shapeproof.export.trace.python.plain_objects import (
    PLAIN,
    SIGNS,
    attribute,
    compared,
    imported,
    is_object,
    item,
    named,
)
from shapeproof.export.trace.python.whether_traced import answered
from shapeproof.export.trace.translate import Untranslatable

_MOST_COMPARED = 3
"""The number of comparisons of symbolic numbers on one way."""
_LONGEST = 64
"""The number of instructions that are followed on one side."""
_DEEPEST = 3
"""The number of functions that may be inside each other."""
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
"""What each sign computes of ints, and of terms."""
_DIVIDING = {"//", "%"}
_SHOWING = {"locals", "vars", "dir", "eval", "exec"}
"""Functions that may show a frame's local names: the dict that they return would be brought up to date."""
_builtins_of = operator.attrgetter("__builtins__")
_WITH_ARGUMENTS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR


@dataclass(frozen=True, slots=True)
class _Symbolic:
    """The symbolic bool that is tested, on the side that is being traced."""

    true: bool


Read = Callable[[Any], Term]
"""Returns the term of an int, symbolic or not."""
_KNOWN: Mapping[Formula, bool] = {f.TRUE: True, f.FALSE: False}
"""The comparisons that have one answer at all sizes."""


class _OpenError(Exception):
    """The next instruction tests a comparison of symbolic numbers, to which no answer is assumed yet."""

    def __init__(self, asked: Formula) -> None:
        super().__init__(asked)
        self.asked = asked


def where_apart(asked: Any, read: Read, outcome: bool) -> Formula | None:  # noqa: FBT001 - the answer to the question
    """Return where the branch that asks now has an effect on inputs of its other side: FALSE if it has none.

    None if it may have one everywhere.

    Args:
        asked: torch's node of the symbolic bool in question.
        read: returns the term of an int.
        outcome: the side that is being traced.
    """
    frame = _branching(asked)
    index = None if frame is None else running(frame)
    if frame is None or index is None:
        return None
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED or _SHOWING.intersection(frame.f_code.co_names):
        return None
    scope = _Scope(frame.f_code, functools.cache(lambda: locals_of(frame)), frame.f_globals, frame.f_builtins, read)
    side = _Side(scope)
    before = side.steps[index - 1]
    copies = 1 + (before.does == "copy" and before.arg == 1)  # of `a and b`, the tested value stays as the value
    traced = dict(side.states(index, [_Symbolic(outcome)] * copies))
    try:
        ways = list(_ways(scope, index, [not outcome] * copies, traced))
    except Untranslatable:
        return None
    apart = [where for where, rejoins in ways if not rejoins]
    return None if len(apart) == len(ways) else f.disjunction(*apart)


def _ways(scope: _Scope, index: int, stack: Stack, traced: Mapping[Hashable, object]) -> Iterator[tuple[Formula, bool]]:
    """Yield where each way through the other side is taken, and whether it rejoins the traced side."""
    open_ = [_KNOWN]
    while open_:
        answers = open_.pop()
        try:
            states = _Side(scope, answers).states(index, stack)
            rejoins = any(state in traced for state, _ in states)
        except _OpenError as test:
            if len(answers) < len(_KNOWN) + _MOST_COMPARED:
                open_ += [{**answers, test.asked: answer} for answer in (True, False)]
                continue
            rejoins = False
        yield f.conjunction(*(asked if answer else f.negate(asked) for asked, answer in answers.items())), rejoins


def _branching(asked: Any) -> FrameType | None:
    """Return the frame whose current instruction tests the symbolic bool; None if the question is asked otherwise."""
    testing = next((frame for frame in outwards() if frame.f_code is torch.SymBool.__bool__.__code__), None)
    if testing is None or testing.f_back is None or testing.f_locals["self"].node is not asked:
        return None
    return None if testing.f_back.f_code.co_filename.startswith(OURS) else testing.f_back


@dataclass(frozen=True, slots=True)
class _Scope:
    """A function's code and names, and what reads its numbers; the local names are looked up only if needed."""

    code: CodeType
    local: Callable[[], Mapping[str, Any]]
    module: Mapping[str, Any]
    builtin: Mapping[str, Any]
    read: Read
    depth: int = 0


class _Side(Machine):
    """One side of a branch, or a function that it calls.

    Args:
        scope: its code and names.
        answers: what is assumed of comparisons of symbolic numbers; None if a symbolic number that is read ends the
            side.
    """

    def __init__(self, scope: _Scope, answers: Mapping[Formula, bool] | None = None) -> None:
        super().__init__(scope.code)
        self._scope = scope
        self._answers = answers
        self._stored: dict[str, Any] = {}

    def states(self, index: int, stack: Stack) -> Iterator[tuple[Hashable, object]]:
        """Yield the states after a step, as far as the steps are followed.

        A state is what is to run, and which objects are on the stack and in the local names assigned since the branch;
        with it, these objects, which keep their identities as long as they live.
        """
        with contextlib.suppress(EndError):
            for at, values in self._points(index, stack):
                stored = dict(self._stored)
                names = frozenset((name, id(value)) for name, value in stored.items())
                yield (self._rest(at), *map(id, values), names), (values, stored)

    def returned(self) -> Any:
        """Follow a whole function, and return its plain value.

        Raises:
            EndError: it returns none.
        """
        for index, stack in self._points(0, []):
            if self.steps[index].does == "return":
                require(type(stack[-1]) in PLAIN)
                return stack[-1]
        raise EndError

    def _points(self, index: int, stack: Stack) -> Iterator[tuple[int, Stack]]:
        for _ in range(_LONGEST):
            before = index
            ((index, stack),) = self.after(index, stack)
            require(index > before)
            yield index, stack

    def _rest(self, index: int) -> Hashable:
        """Return what runs from a step to the end of the function; the index itself if that is not straight.

        Python copies the end of a function for some of the branches that lead there; its copies have the same
        positions, apart from a return that the source does not write.
        """
        end = next(at for at in range(index, len(self.steps)) if self.steps[at].leaves)
        if self.steps[end].does != "return":
            return index
        run_there = self.steps[index : end + 1]
        places = (step.does not in {"const", "return"} and step.positions for step in run_there)
        whats = ((step.does, repr(step.value), step.called, handler_of(self.code, step.offset)) for step in run_there)
        return tuple(zip(whats, places, strict=True))

    def below(self) -> Any:
        """End: what was on the stack before the branch is not known."""
        raise EndError

    def named(self, step: Step) -> Any:
        """Return the value of a name."""
        if step.does == "local":
            return named(step.value, self._stored, self._scope.local)
        require(step.does == "global")
        return named(step.value, self._scope.module, lambda: self._scope.builtin)

    def attribute(self, value: Any, name: str) -> Any:
        """Return an attribute that runs no code."""
        return attribute(value, name)

    def called(self, step: Step, slots: Stack, args: Stack) -> Any:
        """Return the plain value of a function without arguments, which is followed, too."""
        require(step.does == "call" and not args)
        return _called(slots, line_of(self.code, step.line or 0), self._scope)

    def computed(self, step: Step, operands: Stack) -> Any:
        """Return the value that a step computes."""
        match step.does, operands:
            case "is", [left, right]:
                return is_object(left, right) is not bool(step.arg)
            case "compare", [left, right]:
                return self._compared(step.value, left, right)
            case "not", [value]:
                return not self._truth(value)
            case "truth", [value]:
                return self._truth(value)
            case "operate", [left, right]:
                return self._number(step.value, left, right)
            case "subscript", [values, index]:
                return item(values, index)
        raise EndError

    def other(self, step: Step, stack: Stack) -> None:
        """Drop a value, assign a local name, or import a module."""
        match step.does:
            case "pop":
                self.popped(stack, 1)
            case "store":
                self._store(step.value, *self.popped(stack, 1))
            case "import":
                level, names = self.popped(stack, 2)
                stack.append(imported(step.value, names, level, self._scope.builtin))
            case _:
                raise EndError

    def sides(self, step: Step, tested: Any) -> tuple[bool]:
        """Return the one side that is taken."""
        require(step.does != "for")
        if step.does.endswith("none"):
            return ((tested is None) is (step.does == "if none"),)
        return (self._truth(tested) is (step.does == "if true"),)

    def _number(self, sign: str, left: Any, right: Any) -> int | Term:
        """Return the int that Python computes; of symbolic numbers, its term. Only plain ints divide."""
        require(sign in _ARITHMETIC and (sign not in _DIVIDING or (type(right) is int and right > 0)))
        plain = type(left) is int and type(right) is int
        found: int | Term = _ARITHMETIC[sign](*((left, right) if plain else map(self._term, (left, right))))
        return found

    def _compared(self, sign: str, left: Any, right: Any) -> bool | Formula:
        """Return the bool that Python computes; of symbolic numbers, where it is true."""
        if sign not in SIGNS or PLAIN.issuperset(map(type, (left, right))):
            return compared(sign, left, right)
        return f.real_compare(sign, self._term(left), self._term(right))

    def _term(self, number: Any) -> Term:
        require(self._answers is not None and (type(number) in {int, torch.SymInt} or isinstance(number, Term)))
        return number if isinstance(number, Term) else self._scope.read(number)

    def _truth(self, value: Any) -> bool:
        """Return the side that a test of a value takes; of a comparison of symbolic numbers, the assumed answer."""
        if isinstance(value, _Symbolic):
            return value.true
        if isinstance(value, Formula):
            if self._answers is None or value not in self._answers:
                raise _OpenError(value)
            return self._answers[value]
        require(type(value) in PLAIN)
        return bool(value)

    def _store(self, name: str, value: Any) -> None:
        """Assign a local name, unless that may drop the last reference to an object, whose finalizer would run."""
        held = self._stored if name in self._stored else self._scope.local()
        require(name not in held or type(held[name]) in PLAIN)
        self._stored[name] = value


def _called(slots: list[Any], where: SourceLocation, scope: _Scope) -> Any:
    """Return the plain value of a function without arguments, which is followed, too."""
    (function, *others) = [slot for slot in slots if slot is not NULL] or [None]
    require(not others and type(function) is FunctionType)
    if (answer := answered(function, where)) is not None:  # the same on both sides of a trace, not in eager
        return answer
    code = function.__code__
    takes_arguments = code.co_argcount or code.co_kwonlyargcount or code.co_flags & _WITH_ARGUMENTS
    require(not (takes_arguments or code.co_flags & _SUSPENDED or function.__closure__ or scope.depth >= _DEEPEST))
    own = _Scope(code, dict, function.__globals__, _builtins_of(function), scope.read, scope.depth + 1)
    return _Side(own).returned()
