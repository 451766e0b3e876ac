"""The use of a text made from a number: text that only goes into an error or a log does not affect the result.

Also finds the dict or set in which the code looks up a size, from the current instruction.

Python then compares the size with each number in the container; each comparison is an ordinary question.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MappingProxyType, MethodType
from typing import Any

import torch

from shapeproof.export.shim.numbers.symbols import PLAIN
from shapeproof.export.source.bytecode import (
    LOCAL,
    TEXT,
    UNKNOWN,
    WITH_SPEC,
    Called,
    Instruction,
    Look,
    Member,
    has_text,
    index_at,
    instructions,
    is_a,
    is_jump,
    names_of,
    run,
    running,
    stack_before,
)
from shapeproof.export.source.frames import in_torch, is_users, model_frames
from shapeproof.export.source.handlers import catches_at, catching

_FOR_A_CHECK = {"_check_with", "sentence"}
"""Functions that request the message of a torch._check."""
_CHECKS = ("_assert", "_check")
"""What the names of torch's functions begin with that do no more than raise an error with a message."""
_MAKING = (str, repr, ascii, format, str.join, str.format, str.replace, str.strip, str.upper, str.lower, str.title)
"""Functions that make a text of any other."""
_ABOUT_THE_TYPE = (isinstance, callable)
"""Functions whose result is the same for every text."""
_ADDING = {"+", "+=", "%"}
_PUSHING = {"CALL", "CALL_FUNCTION_EX", "BINARY_OP", "FORMAT_VALUE"}
"""Instructions that do no more with a text than push it, or pass it to the function that they call."""
_LEVELS = ("debug", "info", "warning", "error", "critical", "exception", "log")
_LOGGING = tuple(getattr(owner, name) for owner in (logging, logging.Logger, logging.LoggerAdapter) for name in _LEVELS)
_READING = {*LOCAL, "LOAD_CLOSURE"}
_ENTERED = [UNKNOWN] * (3 if sys.version_info >= (3, 14) else 2)
"""What a `with` pushes: its exit, and what its entry returns."""
_OPENING = {"locals", "vars", "eval", "exec"}
"""Functions that read local names which the code does not mention."""


def number_in_text(number: Any, frame: FrameType) -> Any:
    """Specialize a number whose text the user's code may act on: each value gets a separate program.

    Return None if the text is only printed, logged or raised, or if the code is not the user's. What Python's own
    modules make of a number (`repr` of a dataclass, `pprint`) is a text of the code that calls them.
    """
    asking: FrameType | None = frame
    while asking is not None and not is_users(asking) and _is_pythons(asking):
        asking = asking.f_back
    return None if asking is None or not is_users(asking) or _is_only_said(asking) else plain(number)


def _is_pythons(frame: FrameType) -> bool:
    """True if a frame runs code of Python's own modules, or code that they generate."""
    home = str(frame.f_globals.get("__name__")).partition(".")[0]
    return home in sys.stdlib_module_names or frame.f_code.co_filename == "<string>"


def number_used(number: Any, frame: FrameType) -> Any:
    """Specialize a number that the user's code uses as a plain one; return None if the code is not the user's."""
    return plain(number) if is_users(frame) else None


def plain(number: Any) -> Any:
    """Specialize a symbolic number: ask for its value, so that each answer gets a separate program."""
    return PLAIN[type(number)](number)


def _is_only_said(frame: FrameType) -> bool:
    caller = frame.f_back
    if frame.f_code.co_name == "<lambda>" and caller is not None and caller.f_code.co_name in _FOR_A_CHECK:
        return _is_caught_by_nobody(frame)
    return _made_in(frame, None)


def _is_caught_by_nobody(frame: FrameType) -> bool:
    """True if no caller of a frame catches what the frame raises: a handler may read the text of an exception."""
    around = itertools.dropwhile(lambda each: each is not frame, model_frames())
    return catching(None, itertools.islice(around, 1, None)) is None


def _made_in(frame: FrameType, returning: CodeType | None) -> bool:
    """True if the text that a frame's present instruction makes is only said.

    `returning`: the code that returns or yields the text to that instruction, or to the function of C that it calls.
    """
    code, index = frame.f_code, running(frame)
    if index is None or instructions(code)[index].opname not in _PUSHING:
        return False
    step, look = instructions(code)[index], _names_that_stay(frame, index)
    stack = stack_before(code, index, look)
    run(step, stack, look)
    made = stack.pop() if stack else UNKNOWN
    taking = type(made) is Called and (returning is None or _code(made.function) is not returning)
    caller = frame.f_back
    returned = functools.cache(lambda: caller is not None and _made_in(caller, code))
    flow = _Flow(code, look, returned, functools.cache(lambda: _is_caught_by_nobody(frame)), frozenset())
    if taking and "file" in flow.named(index, made).values():
        return False
    return flow.said(index + 1, [*stack, flow.call(Called(made.function, (TEXT,)), None) if taking else TEXT])


def _names_that_stay(frame: FrameType, index: int) -> Look:
    """Return the lookup of the names in a frame that have their present values also later: after an instruction."""
    known, steps = names_of(frame), instructions(frame.f_code)
    returns = any("BACKWARD" in step.opname for step in steps)
    stored = {
        step.argval for at, step in enumerate(steps) if step.opname.startswith("STORE_") and (returns or at > index)
    }
    return lambda name: UNKNOWN if name in stored else known(name)


class _Flow:
    """Follows a text through the code of a function. What it does not understand does not only say the text.

    Args:
        code: the code.
        look: returns the value of a name in it.
        returned: tells whether the text is only said once the function has returned or yielded it.
        escapes: tells whether no caller catches what the function raises.
        around: the codes that are being followed.
    """

    def __init__(
        self,
        code: CodeType,
        look: Look,
        returned: Callable[[], bool],
        escapes: Callable[[], bool],
        around: frozenset[CodeType],
    ) -> None:
        self._code = code
        self._steps = instructions(code)
        self._look = look
        self._returned = returned
        self._escapes = escapes
        self._around = around | {code}
        self._followed: set[tuple[int, tuple[bool, ...]]] = set()

    def of_name(self, name: str) -> bool:
        """True if the text that a local name holds is only said."""
        if name in self._code.co_freevars or not _OPENING.isdisjoint(self._code.co_names):
            return False
        reads = (index for index, step in enumerate(self._steps) if step.opname in _READING and step.argval == name)
        return all(self.said(index + 1, [*stack_before(self._code, index, self._look), TEXT]) for index in reads)

    def said(self, index: int, stack: list[Any]) -> bool:
        """True if all that follows an instruction's predecessor, with this stack, only says the text on the stack."""
        while any(map(has_text, stack)):
            here = index, tuple(map(has_text, stack))
            if here in self._followed:  # what follows from here has been looked at, or is being
                return True
            self._followed.add(here)
            after = self._after(index, stack)
            if after is None:
                return False
            if not all(self.said(*each) for each in after[1:]):
                return False
            if not after:
                return True
            index, stack = after[0]
        return True

    def _after(self, index: int, stack: list[Any]) -> list[tuple[int, list[Any]]] | None:
        """Run one instruction: return where it leads, with the stack there; None if it may not only say the text."""
        step, rest, top = self._steps[index], stack[:-1], stack[-1]
        match step.opname:
            case "RAISE_VARARGS":
                return [] if self._raises_uncaught(step) else None
            case "RETURN_VALUE":
                return [] if not has_text(top) or (_is_text(top) and self._returned()) else None
            case "YIELD_VALUE":
                return [(index + 1, [*rest, UNKNOWN])] if _is_text(top) and self._returned() else None
            case "POP_TOP":
                return [(index + 1, rest)] if _is_text(top) else None
            case "STORE_FAST" | "STORE_DEREF":
                said = not has_text(top) or (_is_text(top) and self.of_name(step.argval))
                return [(index + 1, rest)] if said else None
            case "BEFORE_WITH":
                return [(index + 1, [*rest, *_ENTERED])] if _names_a_part(top) else None
            case "JUMP_FORWARD" | "JUMP_BACKWARD":
                return self._at(step, stack)
            case "FOR_ITER":
                return None if has_text(top) else [(index + 1, [*stack, UNKNOWN]), *self._at(step, rest)]
            case name if name.startswith("POP_JUMP"):
                return None if has_text(top) else [(index + 1, rest), *self._at(step, rest)]
            case name if is_jump(step) or not _is_harmless(step, stack):
                return None
        stack = list(stack)
        if not run(step, stack, self._look):
            return None
        if step.opname.startswith("CALL"):
            called = stack[-1]
            stack[-1] = self.call(called, self.named(index, called) if step.opname == "CALL" else None)
            if called is not stack[-1] and not _prints(called.function) and not self._raises_uncaught(step):
                return None
        return [(index + 1, stack)]

    def _raises_uncaught(self, step: Instruction) -> bool:
        """True if nobody would catch, and perhaps read, an exception with the text that an instruction raises."""
        return not catches_at(self._code, step.offset, self._look) and self._escapes()

    def _at(self, step: Instruction, stack: list[Any]) -> list[tuple[int, list[Any]]]:
        """Return where a jump leads, with the stack there."""
        index = index_at(self._code, step.argval)
        if index is None:
            raise ValueError("a jump leads to no instruction")
        return [(index, stack)]

    def named(self, index: int, called: Called) -> Mapping[int, str]:
        """Return the names of a call's arguments, by their positions, for those that are passed by name."""
        before = (step for step in self._steps[max(0, index - 2) : index] if step.opname == "KW_NAMES")
        names = next((self._code.co_consts[step.arg or 0] for step in before), ())
        return dict(enumerate(names, len(called.args) - len(names)))

    def call(self, called: Called, named: Mapping[int, str] | None) -> Any:
        """Return a call's result: UNKNOWN if it is the same for every text, TEXT if it is made of the text.

        The call itself, if the function may do anything with the text. `named`: the arguments passed by name; None if
        it is not known which parameter takes the text.
        """
        if not has_text(called) or not all(map(_is_text, called.args)) or "file" in (named or {}).values():
            return called
        function = called.function.function if type(called.function) is Member else called.function
        about_the_type = any(function is each for each in _ABOUT_THE_TYPE)
        says = _prints(called.function) or called.function is warnings.warn
        if about_the_type or says or (_checks(function) and _is_message(called, named)):
            return UNKNOWN
        if any(function is each for each in _MAKING):
            return TEXT
        if named is None or type(function) is not FunctionType or has_text(called.function):
            return called
        if self._passed(called, function, named, returned=False):
            return UNKNOWN
        return TEXT if self._passed(called, function, named, returned=True) else called

    def _passed(self, called: Called, function: FunctionType, named: Mapping[int, str], *, returned: bool) -> bool:
        """True if a function only says the text that it is passed; `returned`: or returns it."""
        code = function.__code__
        positions = code.co_varnames[type(called.function) is Member : code.co_argcount]
        keywords = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
        by_position = len(called.args) - len(named)
        if code in self._around or by_position > len(positions) or not keywords.issuperset(named.values()):
            return False
        look = _global_names(function)
        flow = _Flow(code, look, lambda: returned, lambda: True, self._around)
        taken = (named[n] if n in named else positions[n] for n, each in enumerate(called.args) if has_text(each))
        return all(map(flow.of_name, taken))


def _global_names(function: FunctionType) -> Look:
    """Return the lookup of names in a function that is not running: only global ones have a value."""
    own = {*function.__code__.co_varnames, *function.__code__.co_cellvars, *function.__code__.co_freevars}
    known = vars(builtins) | function.__globals__
    return lambda name: UNKNOWN if name in own else known.get(name, UNKNOWN)


def _is_text(value: Any) -> bool:
    """True unless a value comes of a call that may do anything with the text."""
    return value is TEXT or not has_text(value)


def _is_harmless(step: Instruction, stack: list[Any]) -> bool:
    """True if an instruction can neither fail for some texts only, nor store one."""
    left, right = [UNKNOWN, *stack][-2:]
    if step.opname == "BINARY_OP" and (has_text(left) or has_text(right)):
        return step.argrepr in _ADDING and all(each is TEXT or type(each) is str for each in (left, right))
    if step.opname == "BINARY_SUBSCR" or (step.opname == "FORMAT_VALUE" and (step.arg or 0) & WITH_SPEC):
        return not has_text(left) and not has_text(right)
    return not step.opname.startswith(("STORE_", "DELETE_", "SEND"))


def _prints(function: Any) -> bool:
    """True for a function that prints or logs, and does nothing else."""
    called = function.function if type(function) is Member else function
    if type(called) is str:
        return function.owner.function is logging.getLogger and called in _LEVELS
    return any(called is each for each in (builtins.print, *_LOGGING))


def _checks(function: Any) -> bool:
    """True for a function of torch's that raises an error with the message it is given, and does no more."""
    return type(function) is FunctionType and function.__module__ == "torch" and function.__name__.startswith(_CHECKS)


def _is_message(called: Called, named: Mapping[int, str] | None) -> bool:
    """True if the text is the message of a check: its last argument, which follows the condition."""
    if named is None:
        return False
    taking = [at for at, each in enumerate(called.args) if has_text(each)]
    return all(named.get(at, "message") == "message" and at == len(called.args) - 1 > 0 for at in taking)


def _names_a_part(manager: Any) -> bool:
    """True for torch's context managers: these take a text as the name of a part of a profile."""
    return type(manager) is Called and all(map(_is_text, manager.args)) and _is_of_torch(manager.function)


def _is_of_torch(function: Any) -> bool:
    code = _code(function)
    names_it = is_a(function, (type, FunctionType, BuiltinFunctionType)) and str(function.__module__)
    return bool(names_it and names_it.startswith("torch.")) or (code is not None and in_torch(code.co_filename))


def _code(function: Any) -> CodeType | None:
    found = function.function if type(function) is Member else function
    found = found.__func__ if type(found) is MethodType else found
    found = found.__code__ if type(found) is FunctionType else found
    return found if type(found) is CodeType else None


_DEPTHS = {"CONTAINS_OP": 1, "BINARY_SUBSCR": 2}
"""The depth of the container on the stack, counted from the top."""
_CALLS = {"CALL", "PRECALL"}
"""PRECALL is the instruction before CALL; specialized bytecode calls some methods there."""
_METHODS = {"get", "__contains__", "__getitem__", "pop", "discard", "remove"}
"""Methods that look up a key and insert none."""
_VIEWS = {"keys"}
_SETS = (set, frozenset)
"""Constructors of sets. A replacement for one of them during tracing names the constructor in `makes`."""
_KEYS = (int, float, str, tuple)
_NUMBERS = (int, float, torch.SymInt)


def hash_looked_up(size: torch.SymInt, frame: FrameType) -> int | None:
    """Return a hash for a size that the user's code looks up: that of the equal number in the container, if any.

    Raises:
        TypeError: the code inserts the size.
    """
    if not is_users(frame):
        return None
    others = _numbers_looked_at(frame)
    if others is None:
        raise TypeError("a size cannot be put into a dict or a set, whose order and places are those of one number")
    found = next((other for other in others if size == other), None)
    return hash(found) if found is not None else 1 + max(map(hash, others), default=0)


def _numbers_looked_at(frame: FrameType) -> list[Any] | None:
    """Return the numbers in the keys of the container of a lookup; None if the container is unknown."""
    container = _container(frame)
    if type(container) is MappingProxyType:
        return list(_numbers(container))
    kind = next((each for each in (dict, set, frozenset) if is_a(container, each)), None)
    if kind is None or inspect.getattr_static(type(container), "__missing__", None) is not None:
        return None
    return list(_numbers(kind.__iter__(container)))


def _container(frame: FrameType) -> Any:
    index = index_at(frame.f_code, frame.f_lasti)
    if index is None:
        return UNKNOWN
    step = instructions(frame.f_code)[index]
    stack = stack_before(frame.f_code, index, names_of(frame))
    if step.opname in _CALLS:
        below = len(stack) - (step.arg or 0)
        called = next((value for value in stack[max(0, below - 2) : below] if type(value) is Member), None)
        named = called is not None and getattr(called.function, "__name__", "") in _METHODS
        return called.owner if called is not None and named else UNKNOWN
    depth = _DEPTHS.get(step.opname)
    found = UNKNOWN if depth is None or len(stack) < depth else stack[-depth]
    return _known(found)


def _known(value: Any) -> Any:
    """Resolve a container that a call returns: for `d.keys()` the dict, for `set([...])` the elements."""
    if type(value) is not Called or len(value.args) > 1:
        return value
    function = value.function
    if type(function) is Member:
        views = not value.args and getattr(function.function, "__name__", "") in _VIEWS
        return function.owner if views else value
    makes = vars(function).get("makes") if type(function) is FunctionType else function
    if not any(makes is each for each in _SETS) or type(next(iter(value.args), None)) not in {list, tuple}:
        return value
    (values,) = value.args
    return dict.fromkeys(values) if all(is_a(each, _KEYS) for each in values) else UNKNOWN


def _numbers(keys: Iterable[Any]) -> Iterator[Any]:
    """The numbers among keys, and among the parts of keys that are tuples."""
    for key in keys:
        if is_a(key, _NUMBERS):
            yield key
        elif type(key) in {tuple, frozenset}:
            yield from _numbers(key)
