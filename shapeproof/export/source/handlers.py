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
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FrameType, FunctionType
from typing import Any

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.source.abstract import UNKNOWN, Called, Look, Member, is_a, names_of, operand, ways
from shapeproof.export.source.frames import location, model_frames
from shapeproof.export.source.instructions import READ, Step, handled_ranges, handler_of, index_at, instructions
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


_CAUGHT_BY_PYTHON = (AttributeError, StopIteration)
"""Exceptions that `hasattr`, `getattr` with a default, a loop and `next` may catch without a visible frame."""


def catching(kinds: Kinds, frames: Iterable[FrameType] | None = None) -> SourceLocation | None:
    """Return the line that catches an exception of these kinds raised by the caller; None if none does.

    `frames`: the frames that it passes through, the model's by default.
    """
    for frame in model_frames() if frames is None else frames:
        if kinds and any(issubclass(kind, _CAUGHT_BY_PYTHON) for kind in kinds):
            return location(frame)
        caught, kinds = _followed(frame.f_code, frame.f_lasti, kinds, names_of(frame))
        if caught:
            return location(frame, caught.line)
        if kinds is not None and not kinds:
            return None
    return None


def catches_at(code: CodeType, offset: int, look: Look) -> bool:
    """True if a code may catch an exception that is raised at an instruction."""
    return _followed(code, offset, None, look)[0] is not None


_LEFT = -1
"""The index of the step that follows where an exception leaves the code."""


@dataclass(frozen=True, slots=True)
class _State:
    """A point of a path: the next step, the kinds in flight, the handler's line."""

    index: int
    kinds: Kinds
    line: int | None


def _followed(code: CodeType, offset: int, kinds: Kinds, look: Look) -> tuple[_State | None, Kinds]:
    """Follow every path of an exception that is raised at an instruction.

    Return where one continues normally, None if none does, and the kinds that may leave the code.
    """
    if not READ:
        return _State(0, kinds, None) if code.co_exceptiontable else None, kinds
    leaving: Kinds = frozenset()
    pending, seen = [_handled(code, offset, kinds, None)], set[_State]()
    while pending:
        state = pending.pop()
        if state in seen:
            continue
        seen.add(state)
        if state.index == _LEFT:
            leaving = None if leaving is None or state.kinds is None else leaving | state.kinds
        elif instructions(code)[state.index].does in {"return", "yield"}:
            return state, leaving
        else:
            pending += _next(code, state, look)
    return None, leaving


def _next(code: CodeType, state: _State, look: Look) -> list[_State]:
    steps, index = instructions(code), state.index
    step = steps[index]
    match step.does:
        case "raise" if step.arg:  # an exception, and its cause
            kinds = _kinds_of(operand(code, index, look, step.arg))
            return [_handled(code, step.offset, kinds, state.line)]
        case "reraise" | "raise":
            return [_handled(code, step.offset, state.kinds, state.line)]
        case "match":
            return _tested(steps, state, _split(state.kinds, operand(code, index, look)))
        case "exit":
            return _tested(steps, state, _swallowed(_manager(code, state, look), state.kinds))
    return [replace(state, index=at) for at in ways(steps, index)]


def _tested(steps: Sequence[Step], state: _State, kinds: tuple[Kinds, Kinds]) -> list[_State]:
    """Return both sides of the jump after a test, each with its kinds: those with which it holds, and fails."""
    jump = next(at for at in range(state.index, len(steps)) if steps[at].jumps)
    places = ways(steps, jump) if steps[jump].does == "if true" else ways(steps, jump)[::-1]
    line = steps[state.index].line or state.line
    return [_State(at, kind, line) for at, kind in zip(places, kinds, strict=True) if kind is None or kind]


def _handled(code: CodeType, offset: int, kinds: Kinds, line: int | None) -> _State:
    """Return the handler of an exception raised at an instruction; without a handler, the exception leaves the code."""
    index = handler_of(code, offset)
    if index is None:
        return _State(_LEFT, kinds, line)
    lines = (step.line for step in instructions(code)[index:])
    return _State(index, kinds, next(filter(None, lines), line))


def _kinds_of(raised: Any) -> Kinds:
    """Return the class of an exception that is raised: it is the exception, made by a call, or its class."""
    kind = raised.function if type(raised) is Called else raised
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
    steps = instructions(code)
    first = state.index - (steps[state.index - 1].does == "handle")
    starts = (index_at(code, entry.start) for entry in handled_ranges(code) if index_at(code, entry.target) == first)
    enter = min(starts, default=0) - 1
    return operand(code, enter, look) if enter > 0 and steps[enter].does == "enter" else UNKNOWN


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
    if inspect.isgeneratorfunction(inner):
        return _by_generator(inner, kinds)
    returned = list(_managers_of(inner))
    known = all(type(each) is not Called or is_a(each.function, type) for each in returned)
    swallowing = not known or any(_swallowed(each, kinds)[0] for each in returned)
    return (kinds, kinds) if swallowing or not returned else (frozenset(), kinds)


def _managers_of(function: FunctionType) -> Iterator[Any]:
    """Yield what a function may return, as far as its names tell; a name may be one that it imports."""
    code = function.__code__
    steps = instructions(code)
    imported = {
        after.value: sys.modules.get(str(step.value), UNKNOWN)
        for step, after in itertools.pairwise(steps)
        if step.does == "import" and after.does == "store"
    }
    look = {**vars(builtins), **function.__globals__, **imported}
    for at, step in enumerate(steps):
        if step.does == "return":
            yield operand(code, at, lambda name: look.get(name, UNKNOWN))


def _by_generator(function: FunctionType, kinds: Kinds) -> tuple[Kinds, Kinds]:
    """Treat a generator as a context manager: it swallows the exceptions that it catches at its `yield`."""
    code = function.__code__
    look = {**vars(builtins), **function.__globals__}
    yields = [step.offset for step in instructions(code) if step.does == "yield"]
    found = (_followed(code, offset, kinds, lambda name: look.get(name, UNKNOWN)) for offset in yields)
    return (kinds, kinds) if any(caught for caught, _ in found) else (frozenset(), kinds)


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
    for before, step in itertools.pairwise(instructions(code)):
        if step.does == "return":
            yield before.does == "const" and not before.value and not step.is_target


def _of_torch(value: Any) -> bool:
    return _home(value) == "torch"


def _home(value: Any) -> str:
    return str(value.__module__).partition(".")[0]
