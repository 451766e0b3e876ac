"""Decides from exception tables whether the user's code catches an exception raised at a place of the stack.

A trace takes one path. If an operator or a check may fail on data and a handler of the model catches the failure, eager
continues where the program raises. From the current instruction, every path of the exception is followed. It leaves the
function through a handler that raises, through `finally`, and through a `with` whose exit returns no true value. A path
that reaches a return has caught the exception. If the class of an `except` or the result of a context manager's exit is
unknown, the exception counts as caught.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.source.bytecode import (
    READ,
    UNKNOWN,
    Called,
    Instruction,
    Look,
    Member,
    handled_ranges,
    handler_of,
    index_at,
    instructions,
    is_a,
    is_jump,
    names_of,
    stack_before,
)
from shapeproof.export.source.frames import location, model_frames
from shapeproof.wording import line_text

Kinds = frozenset[type[BaseException]] | None
"""The exact classes that an exception may have, without subclasses; None if it may have any class."""


@dataclass(frozen=True, slots=True)
class Caught:
    """An operation that may fail on data, its line in the user's code, and the line that would catch the failure."""

    what: str
    where: SourceLocation | None
    handler: SourceLocation

    @property
    def sentence(self) -> str:
        """The reason why no program matches the model."""
        at = f"{line_text(self.where)}: " if self.where else ""
        return (
            f"{at}whether {self.what} fails depends on data, and `{self.handler.text}` at {line_text(self.handler)} "
            "catches it: a program cannot go on as the handler does; let it raise, or choose with torch.where"
        )


class Handlers:
    """The handlers of a model that is being traced; `where` returns the line of the model being run."""

    def __init__(self, where: Callable[[], SourceLocation | None]) -> None:
        self._where = where
        self.caught: Caught | None = None
        """The first operation that may fail on data below a handler that continues."""

    def must_not_catch(self, kinds: Kinds, what: str) -> None:
        """Record an operation that may fail on data with an exception of these kinds."""
        handler = None if self.caught else catching(kinds)
        if handler is not None:
            self.caught = Caught(what, self._where(), handler)


_RETURNING = {"RETURN_VALUE", "RETURN_GENERATOR", "YIELD_VALUE"}


_CAUGHT_BY_PYTHON = (AttributeError, StopIteration)
"""Exceptions that `hasattr`, `getattr` with a default, a loop and `next` may catch without a visible frame."""


def catching(kinds: Kinds, frames: Iterable[FrameType] | None = None) -> SourceLocation | None:
    """Return the line that catches an exception of these kinds raised by the caller; None if none does.

    `frames`: the frames that it passes through, the model's by default.
    """
    for frame in model_frames() if frames is None else frames:
        if kinds and any(issubclass(kind, _CAUGHT_BY_PYTHON) for kind in kinds):
            return location(frame)
        ways = _followed(frame.f_code, frame.f_lasti, kinds, names_of(frame))
        if ways.caught:
            return location(frame, ways.line)
        kinds = ways.leaving
        if kinds is not None and not kinds:
            return None
    return None


def catches_at(code: CodeType, offset: int, look: Look) -> bool:
    """True if a code may catch an exception that is raised at an instruction."""
    return _followed(code, offset, None, look).caught


@dataclass(slots=True)
class _Ways:
    """The paths of an exception: true if one continues normally, its line, and the kinds that may leave the code."""

    caught: bool = False
    line: int | None = None
    leaving: Kinds = frozenset()

    def leave(self, kinds: Kinds) -> None:
        self.leaving = None if kinds is None or self.leaving is None else self.leaving | kinds


@dataclass(frozen=True, slots=True)
class _State:
    """A point of a path: the next instruction, the kinds in flight, the handler's line."""

    index: int
    kinds: Kinds
    line: int | None


def _followed(code: CodeType, offset: int, kinds: Kinds, look: Look) -> _Ways:
    """Follow every path of an exception that is raised at an instruction."""
    if not READ:
        return _Ways(caught=bool(code.co_exceptiontable), leaving=kinds)
    ways, seen = _Ways(), set[_State]()
    pending = _handled(code, offset, kinds, None, ways)
    while pending:
        state = pending.pop()
        if state in seen:
            continue
        seen.add(state)
        step = instructions(code)[state.index]
        if step.opname in _RETURNING:
            ways.caught, ways.line = True, state.line
            return ways
        pending += _next(code, step, state, look, ways)
    return ways


def _next(code: CodeType, step: Instruction, state: _State, look: Look, ways: _Ways) -> list[_State]:
    index, line = state.index, state.line
    match step.opname:
        case "RERAISE":
            return _handled(code, step.offset, state.kinds, line, ways)
        case "RAISE_VARARGS":
            kinds = _raised(code, index, step.arg or 0, look) if step.arg else state.kinds
            return _handled(code, step.offset, kinds, line, ways)
        case "CHECK_EXC_MATCH":
            return _tested(code, state, _split(state.kinds, _top(code, index, look)))
        case "WITH_EXCEPT_START":
            return _tested(code, state, _swallowed(_manager(code, state, look), state.kinds))
    there = index_at(code, step.argval) if is_jump(step) else None
    on = not is_jump(step) or "IF" in step.opname or not step.opname.startswith("JUMP_")
    return [_State(at, state.kinds, line) for at in (there, index + 1 if on else None) if at is not None]


def _tested(code: CodeType, state: _State, kinds: tuple[Kinds, Kinds]) -> list[_State]:
    """Return both sides of the jump after a test, each with its kinds: those with which it holds, and fails."""
    steps = instructions(code)
    jump = next(at for at in range(state.index, len(steps)) if is_jump(steps[at]))
    line, places = _line_of(steps[state.index]) or state.line, [index_at(code, steps[jump].argval), jump + 1]
    sides = zip(places if steps[jump].opname.endswith("IF_TRUE") else places[::-1], kinds, strict=True)
    return [_State(at, kind, line) for at, kind in sides if at is not None and (kind is None or kind)]


def _handled(code: CodeType, offset: int, kinds: Kinds, line: int | None, ways: _Ways) -> list[_State]:
    """Return the handler of an exception raised at an instruction; without a handler, the exception leaves the code."""
    target = handler_of(code, offset)
    index = None if target is None else index_at(code, target)
    if index is None:
        ways.leave(kinds)
        return []
    return [_State(index, kinds, _first_line(code, index) or line)]


def _first_line(code: CodeType, index: int) -> int | None:
    return next(filter(None, map(_line_of, instructions(code)[index:])), None)


def _line_of(step: Instruction) -> int | None:
    return step.positions.lineno if step.positions else None


def _top(code: CodeType, index: int, look: Look) -> Any:
    stack = stack_before(code, index, look)
    return stack[-1] if stack else UNKNOWN


def _raised(code: CodeType, index: int, count: int, look: Look) -> Kinds:
    """The class of the exception that a `raise` with `count` operands (an exception, and its cause) raises."""
    stack = stack_before(code, index, look)
    value = stack[-count] if len(stack) >= count else UNKNOWN
    kind = value.function if type(value) is Called else value
    return frozenset({kind}) if is_a(kind, type) and issubclass(kind, BaseException) else None


def _split(kinds: Kinds, named: Any) -> tuple[Kinds, Kinds]:
    """Split the kinds into those that an `except` catches and the rest."""
    classes = named if type(named) is tuple else (named,)
    if not all(is_a(each, type) for each in classes):
        return kinds, kinds
    if kinds is None:
        return None, (frozenset() if any(issubclass(Exception, each) for each in classes) else None)
    caught = frozenset(kind for kind in kinds if issubclass(kind, classes))
    return caught, kinds - caught


# ---------------------------------------------------------------------- context managers


def _manager(code: CodeType, state: _State, look: Look) -> Any:
    """The context manager of the `with` whose exit is called."""
    handlers = [entry for entry in handled_ranges(code) if _calls_the_exit(code, entry.target, state.index)]
    start = min((entry.start for entry in handlers), default=None)
    index = None if start is None else index_at(code, start)
    if not index or instructions(code)[index - 1].opname != "BEFORE_WITH":
        return UNKNOWN
    return _top(code, index - 1, look)


def _calls_the_exit(code: CodeType, target: int, index: int) -> bool:
    first = index_at(code, target)
    return (
        first is not None
        and first <= index
        and all(step.opname == "PUSH_EXC_INFO" for step in instructions(code)[first:index])
    )


_MANAGERS = (contextlib.suppress, contextlib._GeneratorContextManager)  # noqa: SLF001 - a class without a public name


def _swallowed(manager: Any, kinds: Kinds) -> tuple[Kinds, Kinds]:
    """Split the kinds into those that a context manager may swallow and those that may pass through."""
    if type(manager) is not Called and not is_a(manager, _MANAGERS):
        return (kinds, kinds) if manager is UNKNOWN or type(manager) is Member else _by_exit(type(manager), kinds)
    if type(manager) is Called and not is_a(manager.function, (type, FunctionType, Member)):
        return kinds, kinds
    match manager:
        case Called(cls, args) if cls is contextlib.suppress:
            return _split(kinds, args)
        case contextlib.suppress():
            return _split(kinds, vars(manager)["_exceptions"])
        case Called(Member(contextlib.ContextDecorator() as decorating, FunctionType(__name__="_recreate_cm")), _):
            return _swallowed(decorating, kinds)
        case contextlib._GeneratorContextManager():  # noqa: SLF001 - a class without a public name
            return _by_generator(vars(manager)["func"], kinds)
        case Called(type() as cls, _):
            return _by_exit(cls, kinds)
        case Called(FunctionType() as function, _) | Called(Member(_, FunctionType() as function), _):
            return _by_function(function, kinds)
    return kinds, kinds


def _by_function(function: FunctionType, kinds: Kinds) -> tuple[Kinds, Kinds]:
    inner = inspect.unwrap(function)
    if _of_torch(function):
        return frozenset(), kinds
    return _by_generator(inner, kinds) if inspect.isgeneratorfunction(inner) else (kinds, kinds)


def _by_generator(function: FunctionType, kinds: Kinds) -> tuple[Kinds, Kinds]:
    """Treat a generator as a context manager: it swallows the exceptions that it catches at its `yield`."""
    code = function.__code__
    look = {**vars(builtins), **function.__globals__}
    yields = [step.offset for step in instructions(code) if step.opname == "YIELD_VALUE"]
    ways = [_followed(code, offset, kinds, lambda name: look.get(name, UNKNOWN)) for offset in yields]
    return (kinds, kinds) if any(way.caught for way in ways) else (frozenset(), kinds)


def _by_exit(cls: type, kinds: Kinds) -> tuple[Kinds, Kinds]:
    """Treat a class as a context manager: a Python `__exit__` may swallow only if it may return a true value.

    Exits of the standard library that are not Python code (locks, files) swallow nothing. Any other may.
    """
    leave = inspect.getattr_static(cls, "__exit__", None)
    if type(leave) is staticmethod:
        leave = leave.__func__
    pythons = _home(cls) in sys.stdlib_module_names
    known = not may_swallow(leave.__code__) if type(leave) is FunctionType else pythons
    return (frozenset(), kinds) if known or _of_torch(cls) else (kinds, kinds)


def may_swallow(leave: CodeType) -> bool:
    """True if the code of an `__exit__` may return a true value."""
    return not READ or not all(_returned(leave))


def _returned(code: CodeType) -> Iterator[bool]:
    """For each return of a function: true if it returns a false constant."""
    for index, step in enumerate(instructions(code)):
        if step.opname == "RETURN_VALUE":
            before = instructions(code)[index - 1]
            yield before.opname == "LOAD_CONST" and not before.argval and not step.is_jump_target


def _of_torch(value: Any) -> bool:
    return _home(value) == "torch"


def _home(value: Any) -> str:
    return str(value.__module__).partition(".")[0]
