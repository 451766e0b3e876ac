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

import functools
import inspect
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.terms import Term
from shapeproof.export.shim.callers import OURS, outwards
from shapeproof.export.source.bytecode import (
    LOCAL,
    NULL,
    PASSED,
    Instruction,
    end_of,
    index_at,
    instructions,
    locals_of,
    running,
)
from shapeproof.export.source.frames import line_of
from shapeproof.export.trace.python.plain_objects import (
    PLAIN,
    SIGNS,
    EndError,
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
    copies = 1 + _tests_a_copy(instructions(frame.f_code)[index - 1])
    traced = {state.rest: state for state in _followed(_Side(scope, index, [_Symbolic(outcome)] * copies))}
    try:
        ways = list(_ways(_Side(scope, index, [not outcome] * copies), traced))
    except Untranslatable:
        return None
    apart = [where for where, rejoins in ways if not rejoins]
    return None if len(apart) == len(ways) else f.disjunction(*apart)


def _tests_a_copy(before: Instruction) -> bool:
    """True if the tested value is on the stack twice: of `a and b`, it stays there as the value."""
    return before.opname == "COPY" and before.arg == 1


def _ways(start: _Side, traced: Mapping[Hashable, _State]) -> Iterator[tuple[Formula, bool]]:
    """Yield where each way through the other side is taken, and whether it rejoins the traced side."""
    open_ = [_KNOWN]
    while open_:
        answers = open_.pop()
        side = replace(start, stack=list(start.stack), stored={}, answers=answers)
        try:
            rejoins = any(state.rest in traced and _same(state, traced[state.rest]) for state in _followed(side))
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


@dataclass(frozen=True, slots=True)
class _State:
    """What is to run, the values pushed since the branch, and the local names assigned since."""

    rest: Hashable
    stack: tuple[Any, ...]
    stored: Mapping[str, Any]


def _followed(side: _Side) -> Iterator[_State]:
    """Yield the states of one side after the branch."""
    try:
        for _ in range(_LONGEST):
            side.step()
            yield _State(end_of(side.scope.code, side.index), tuple(side.stack), dict(side.stored))
    except EndError:
        return


def _same(one: _State, other: _State) -> bool:
    if len(one.stack) != len(other.stack) or one.stored.keys() != other.stored.keys():
        return False
    stored = (one.stored[name] is other.stored[name] for name in one.stored)
    return all(a is b for a, b in zip(one.stack, other.stack, strict=True)) and all(stored)


@dataclass(slots=True)
class _Side:
    """One side of a branch, or a function that it calls, while it is followed."""

    scope: _Scope
    index: int = 0
    stack: list[Any] = field(default_factory=list)
    stored: dict[str, Any] = field(default_factory=dict)
    answers: Mapping[Formula, bool] | None = None
    """What is assumed of comparisons of symbolic numbers; None if a symbolic number that is read ends the side."""

    @property
    def next(self) -> Instruction:
        """The instruction to follow."""
        return instructions(self.scope.code)[self.index]

    def step(self) -> None:
        """Follow one instruction.

        Raises:
            EndError: it is none of those that are followed.
        """
        step = self.next
        target = self._jump(step) if "JUMP" in step.opname else None
        if "JUMP" not in step.opname:
            self._apply(step)
        self.index = self.index + 1 if target is None else index_at(self.scope.code, target) or 0
        if target is not None and target <= step.offset:
            raise EndError

    def returned(self) -> Any:
        """Follow a whole function, and return its plain value."""
        for _ in range(_LONGEST):
            step = self.next
            if step.opname == "RETURN_VALUE":
                value = self._pop()
                if type(value) in PLAIN:
                    return value
                break
            self.step()
        raise EndError

    def _jump(self, step: Instruction) -> int | None:
        """Return the offset to which a jump goes; None if it does not jump."""
        match step.opname.replace("_FORWARD_IF", "_IF"):
            case "JUMP_FORWARD":
                return int(step.argval)
            case "POP_JUMP_IF_TRUE" | "POP_JUMP_IF_FALSE" as name:
                jumps = self._truth(self._pop()) is name.endswith("TRUE")
            case "POP_JUMP_IF_NONE" | "POP_JUMP_IF_NOT_NONE" as name:
                jumps = (self._pop() is None) is not name.endswith("NOT_NONE")
            case "JUMP_IF_TRUE_OR_POP" | "JUMP_IF_FALSE_OR_POP" as name:
                value = self._pop()
                jumps = self._truth(value) is (name == "JUMP_IF_TRUE_OR_POP")
                self.stack += [value] if jumps else []
            case _:
                raise EndError
        return int(step.argval) if jumps else None

    def _apply(self, step: Instruction) -> None:
        """Apply an instruction that does not jump."""
        match step.opname:
            case name if name in PASSED:
                return
            case "LOAD_CONST":
                self.stack.append(step.argval)
            case name if name in LOCAL:
                self.stack.append(named(step.argval, self.stored, self.scope.local))
            case "LOAD_GLOBAL":
                value = named(step.argval, self.scope.module, lambda: self.scope.builtin)
                self._push(value, marked=bool((step.arg or 0) & 1))
            case "LOAD_ATTR" | "LOAD_METHOD" as name:
                self._push(attribute(self._pop(), step.argval), marked=name == "LOAD_METHOD")
            case "PUSH_NULL":
                self.stack.append(NULL)
            case "COPY" if step.arg == 1:
                self.stack += [self._pop()] * 2
            case "POP_TOP":
                self._pop()
            case "STORE_FAST":
                self._store(step.argval, self._pop())
            case _:
                self.stack.append(self._computed(step))

    def _computed(self, step: Instruction) -> Any:
        """Return the value that an instruction computes from the values on the stack."""
        match step.opname:
            case "IS_OP":
                return is_object(self._pop(), self._pop()) is not bool(step.arg)
            case "COMPARE_OP":
                right, left = self._pop(), self._pop()
                return self._compared(step.argval, left, right)
            case "UNARY_NOT":
                return not self._truth(self._pop())
            case "TO_BOOL":
                return self._truth(self._pop())
            case "BINARY_OP":
                right, left = self._pop(), self._pop()
                return self._number(step.argrepr, left, right)
            case "BINARY_SUBSCR":
                index, values = self._pop(), self._pop()
                return item(values, index)
            case "IMPORT_NAME":
                return imported(step.argval, self._pop(), self._pop(), self.scope.builtin)
            case "CALL" if step.arg == 0:
                line = step.positions.lineno if step.positions else None
                return _called([self._pop(), self._pop()], line_of(self.scope.code, line or 0), self.scope)
        raise EndError

    def _number(self, sign: str, left: Any, right: Any) -> int | Term:
        """Return the int that Python computes; of symbolic numbers, its term. Only plain ints divide."""
        if sign not in _ARITHMETIC or (sign in _DIVIDING and not (type(right) is int and right > 0)):
            raise EndError
        plain = type(left) is int and type(right) is int
        found: int | Term = _ARITHMETIC[sign](*((left, right) if plain else map(self._term, (left, right))))
        return found

    def _compared(self, sign: str, left: Any, right: Any) -> bool | Formula:
        """Return the bool that Python computes; of symbolic numbers, where it is true."""
        if sign not in SIGNS or PLAIN.issuperset(map(type, (left, right))):
            return compared(sign, left, right)
        return f.real_compare(sign, self._term(left), self._term(right))

    def _term(self, number: Any) -> Term:
        if self.answers is None or not (type(number) in {int, torch.SymInt} or isinstance(number, Term)):
            raise EndError
        return number if isinstance(number, Term) else self.scope.read(number)

    def _truth(self, value: Any) -> bool:
        """Return the side that a test of a value takes; of a comparison of symbolic numbers, the assumed answer."""
        if isinstance(value, _Symbolic):
            return value.true
        if isinstance(value, Formula):
            if self.answers is None or value not in self.answers:
                raise _OpenError(value)
            return self.answers[value]
        if type(value) not in PLAIN:
            raise EndError
        return bool(value)

    def _store(self, name: str, value: Any) -> None:
        """Assign a local name, unless that may drop the last reference to an object, whose finalizer would run."""
        held = self.stored if name in self.stored else self.scope.local()
        if name in held and type(held[name]) not in PLAIN:
            raise EndError
        self.stored[name] = value

    def _push(self, value: Any, *, marked: bool) -> None:
        self.stack += [NULL, value] if marked else [value]

    def _pop(self) -> Any:
        if not self.stack:
            raise EndError
        return self.stack.pop()


def _called(slots: list[Any], where: SourceLocation, scope: _Scope) -> Any:
    """Return the plain value of a function without arguments, which is followed, too."""
    (function, *others) = [slot for slot in slots if slot is not NULL] or [None]
    if others or type(function) is not FunctionType:
        raise EndError
    if (answer := answered(function, where)) is not None:  # the same on both sides of a trace, not in eager
        return answer
    code = function.__code__
    takes_arguments = code.co_argcount or code.co_kwonlyargcount or code.co_flags & _WITH_ARGUMENTS
    if takes_arguments or code.co_flags & _SUSPENDED or function.__closure__ or scope.depth >= _DEEPEST:
        raise EndError
    own = _Scope(code, dict, function.__globals__, _builtins_of(function), scope.read, scope.depth + 1)
    return _Side(own).returned()
