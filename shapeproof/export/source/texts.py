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
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MappingProxyType, MethodType
from typing import Any

import torch

from shapeproof.export.shim.numbers.symbols import PLAIN
from shapeproof.export.source.abstract import (
    TEXT,
    UNKNOWN,
    Called,
    EndError,
    Look,
    Member,
    Objects,
    Stack,
    has_text,
    is_a,
    names_of,
    operand,
    require,
    running,
    stack_before,
)
from shapeproof.export.source.frames import in_torch, is_users, model_frames
from shapeproof.export.source.handlers import catches_at, catching
from shapeproof.export.source.instructions import Step, instructions

_FOR_A_CHECK = {"_check_with", "sentence"}
"""Functions that request the message of a torch._check."""
_CHECKS = ("_assert", "_check")
"""What the names of torch's functions begin with that do no more than raise an error with a message."""
_MAKING = (str, repr, ascii, format, str.join, str.format, str.replace, str.strip, str.upper, str.lower, str.title)
"""Functions that make a text of any other."""
_ABOUT_THE_TYPE = (isinstance, callable)
"""Functions whose result is the same for every text."""
_ADDING = {"+", "+=", "%"}
_PUSHING = {"call", "call with all", "operate", "format"}
"""Steps that do no more with a text than push it, or pass it to the function that they call."""
_LEVELS = ("debug", "info", "warning", "error", "critical", "exception", "log")
_LOGGING = tuple(getattr(owner, name) for owner in (logging, logging.Logger, logging.LoggerAdapter) for name in _LEVELS)
_READING = {"local", "cell"}
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
    if index is None or instructions(code)[index].does not in _PUSHING:
        return False
    step, look = instructions(code)[index], _names_that_stay(frame, index)
    stack = stack_before(code, index, look)
    Objects(code, look).run(step, stack)
    made = stack.pop()
    taking = type(made) is Called and (returning is None or _code(made) is not returning)
    caller = frame.f_back
    returned = functools.cache(lambda: caller is not None and _made_in(caller, code))
    flow = _Flow(code, look, returned, functools.cache(lambda: _is_caught_by_nobody(frame)), frozenset())
    if taking and "file" in (made.names or ()):
        return False
    return flow.said(index + 1, [*stack, flow.call(Called(made.function, (TEXT,), None)) if taking else TEXT])


def _names_that_stay(frame: FrameType, index: int) -> Look:
    """Return the lookup of the names in a frame that have their present values also later: after a step."""
    known, steps = names_of(frame), instructions(frame.f_code)
    returns = any(step.jumps and step.value <= at for at, step in enumerate(steps))
    stored = {step.value for at, step in enumerate(steps) if step.does.startswith("store") and (returns or at > index)}
    return lambda name: UNKNOWN if name in stored else known(name)


class _Flow(Objects):
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
        super().__init__(code, look)
        self._returned = returned
        self._escapes = escapes
        self._around = around | {code}
        self._followed: set[tuple[int, tuple[bool, ...]]] = set()

    def of_name(self, name: str) -> bool:
        """True if the text that a local name holds is only said."""
        if name in self.code.co_freevars or not _OPENING.isdisjoint(self.code.co_names):
            return False
        reads = (index for index, step in enumerate(self.steps) if step.does in _READING and step.value == name)
        return all(self.said(index + 1, [*stack_before(self.code, index, self.look), TEXT]) for index in reads)

    def said(self, index: int, stack: Stack) -> bool:
        """True if all that follows a step's predecessor, with this stack, only says the text on the stack."""
        pending = [(index, stack)]
        while pending:
            index, stack = pending.pop()
            here = index, tuple(map(has_text, stack))
            if any(here[1]) and here not in self._followed:  # else what follows has been looked at, or is being
                self._followed.add(here)
                try:
                    pending += self.after(index, stack)
                except EndError:
                    return False
        return True

    def sides(self, _: Step, tested: Any) -> tuple[bool, bool]:
        """Both, unless the text is tested."""
        require(not has_text(tested))
        return False, True

    def called(self, step: Step, slots: Stack, args: Stack) -> Any:
        """Return a call's result; what may fail, with the text in its error, must not be caught."""
        called = super().called(step, slots, args)
        made = self.call(called)
        require(made is called or _prints(called) or self._raises_uncaught(step))
        return made

    def computed(self, step: Step, operands: Stack) -> Any:
        """Return what is computed, where that cannot fail for some texts only."""
        if step.does == "operate" and any(map(has_text, operands)):
            require(step.value in _ADDING and all(each is TEXT or type(each) is str for each in operands))
        if step.does == "subscript" or (step.does == "format" and len(operands) > 1):
            require(not any(map(has_text, operands)))
        return super().computed(step, operands)

    def other(self, step: Step, stack: Stack) -> None:
        """Raise, return, store or drop the text, or name a part of a profile by it."""
        top = stack[-1]
        match step.does:
            case "raise":
                require(self._raises_uncaught(step))
            case "return" | "yield":
                says_nothing = step.does == "return" and not has_text(top)
                require(says_nothing or (_is_text(top) and self._returned()))
            case "pop":
                require(_is_text(top))
            case "store" | "store cell":
                require(not has_text(top) or (top is TEXT and self.of_name(step.value)))
            case "enter":
                require(_names_a_part(top))
            case "add":
                super().other(step, stack)
                return
            case _:
                raise EndError
        stack[-1:] = [UNKNOWN] * (1 + step.effect)

    def _raises_uncaught(self, step: Step) -> bool:
        """True if nobody would catch, and perhaps read, an exception with the text that a step raises."""
        return not catches_at(self.code, step.offset, self.look) and self._escapes()

    def call(self, called: Called) -> Any:
        """Return a call's result: UNKNOWN if it is the same for every text, TEXT if it is made of the text.

        The call itself, if the function may do anything with the text.
        """
        if not has_text(called) or not all(map(_is_text, called.args)) or "file" in (called.names or ()):
            return called
        function = called.target
        says = _prints(called) or called.function is warnings.warn
        if says or any(function is each for each in _ABOUT_THE_TYPE) or (_checks(function) and _is_message(called)):
            return UNKNOWN
        if any(function is each for each in _MAKING):
            return TEXT
        if called.names is None or type(function) is not FunctionType or has_text(called.function):
            return called
        if self._passed(called, function, returned=False):
            return UNKNOWN
        return TEXT if self._passed(called, function, returned=True) else called

    def _passed(self, called: Called, function: FunctionType, *, returned: bool) -> bool:
        """True if a function only says the text that it is passed; `returned`: or returns it."""
        code, named = function.__code__, called.named
        positions = code.co_varnames[type(called.function) is Member : code.co_argcount]
        keywords = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
        by_position = len(called.args) - len(named)
        if code in self._around or by_position > len(positions) or not keywords.issuperset(named.values()):
            return False
        flow = _Flow(code, _global_names(function), lambda: returned, lambda: True, self._around)
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


def _prints(called: Called) -> bool:
    """True for a call of a function that prints or logs, and does nothing else."""
    function = called.target
    if type(function) is str:
        return called.function.owner.function is logging.getLogger and function in _LEVELS
    return any(function is each for each in (builtins.print, *_LOGGING))


def _checks(function: Any) -> bool:
    """True for a function of torch's that raises an error with the message it is given, and does no more."""
    return type(function) is FunctionType and function.__module__ == "torch" and function.__name__.startswith(_CHECKS)


def _is_message(called: Called) -> bool:
    """True if the text is the message of a check: its last argument, which follows the condition."""
    taking = [at for at, each in enumerate(called.args) if has_text(each)]
    last = all(called.named.get(at, "message") == "message" and at == len(called.args) - 1 > 0 for at in taking)
    return called.names is not None and last


def _names_a_part(manager: Any) -> bool:
    """True for torch's context managers: these take a text as the name of a part of a profile."""
    return type(manager) is Called and all(map(_is_text, manager.args)) and _is_of_torch(manager)


def _is_of_torch(called: Called) -> bool:
    function, code = called.function, _code(called)
    names_it = is_a(function, (type, FunctionType, BuiltinFunctionType)) and str(function.__module__)
    return bool(names_it and names_it.startswith("torch.")) or (code is not None and in_torch(code.co_filename))


def _code(called: Called) -> CodeType | None:
    found = called.target
    found = found.__func__ if type(found) is MethodType else found
    found = found.__code__ if type(found) is FunctionType else found
    return found if type(found) is CodeType else None


_DEPTHS = {"contains": 1, "subscript": 2}
"""The depth of the container on the stack, counted from the top."""
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
    index = running(frame)
    if index is None:
        return UNKNOWN
    step, look = instructions(frame.f_code)[index], names_of(frame)
    if step.does != "call":
        depth = _DEPTHS.get(step.does)
        return UNKNOWN if depth is None else _known(operand(frame.f_code, index, look, depth))
    slots = (operand(frame.f_code, index, look, step.arg + upper) for upper in (2, 1))
    called = next((value for value in slots if type(value) is Member), None)
    named = called is not None and getattr(called.function, "__name__", "") in _METHODS
    return called.owner if called is not None and named else UNKNOWN


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
