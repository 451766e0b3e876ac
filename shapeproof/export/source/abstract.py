"""One abstract interpreter of a function's instructions, over values of any domain.

A `Machine` keeps the stack and follows the jumps; a subclass says what its values are, what each step computes of them,
and which side of a test is taken. Here is the domain of objects: values derived from names, attributes and constants.
No user code is run: no function is called and no property is read. The result of a call is represented by that call.
"""

from __future__ import annotations

import inspect
import sys
import types
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from shapeproof.export.source.instructions import ENDING, Step, instructions

UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda _: "UNKNOWN"})()
"""A value about which nothing is known."""
TEXT: Any = type("Text", (), {"__repr__": lambda _: "TEXT"})()
"""A value that depends on a text in question; nothing else is known about it."""
NULL = object()
"""The marker that Python pushes beside a function that is not a method."""
Look = Callable[[str], Any]
"""Returns the value of a name; UNKNOWN if it has none."""
Stack = list[Any]
"""The values on the stack, the top last."""


class EndError(Exception):
    """The next step is not followed."""


def require(holds: object) -> None:
    """End here unless a condition holds.

    Raises:
        EndError: it does not hold.
    """
    if not holds:
        raise EndError


_HELD_BY_THE_FRAME = 3
"""The references to a dict that only its frame holds, seen where one name and one argument hold it, too."""
COMPUTING = {
    *("operate", "subscript", "compare", "contains", "is", "not", "truth", "format", "compute", "extend", "common"),
    *("tuple", "list", "dict", "dict of keys", "function", "super", "cell"),
}
"""The steps that do no more than compute one value from those that they pop."""


class Machine:
    """Follows the instructions of one function."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.steps = instructions(code)

    def after(self, index: int, stack: Stack) -> list[tuple[int, Stack]]:
        """Run one step: return where it may lead, with the stack there.

        Raises:
            EndError: the domain does not follow this step.
        """
        step, stack = self.steps[index], list(stack)
        if not step.jumps:
            self.run(step, stack)
            return [] if step.does in ENDING else [(index + 1, stack)]
        if step.does == "jump":
            return [(step.value, stack)]
        require(step.does == "for" or step.does.startswith("if "))
        (tested,) = self.popped(stack, 1)
        on = [tested, UNKNOWN] if step.does == "for" else []
        return [(step.value, stack) if jumps else (index + 1, stack + on) for jumps in self.sides(step, tested)]

    def run(self, step: Step, stack: Stack) -> None:
        """Apply a step that does not jump to the stack."""
        match step.does:
            case "const":
                stack.append(step.value)
            case "null":
                stack.append(NULL)
            case "local" | "global" | "name":
                stack.append(self.named(step))
            case "attribute":
                stack.append(self.attribute(self.popped(stack, 1)[0], step.value))
            case "copy":
                values = self.popped(stack, step.arg)
                stack += [*values, values[0]]
            case "swap":
                lowest, *between, top = self.popped(stack, step.arg)
                stack += [top, *between, lowest]
            case "call" | "call with all":
                first, second, *args = self.popped(stack, 1 - step.effect)
                stack.append(self.called(step, [first, second], args))
            case does if does in COMPUTING:
                stack.append(self.computed(step, self.popped(stack, 1 - step.effect + step.called)))
            case _:
                self.other(step, stack)
        if step.called:
            stack.insert(-1, NULL)

    def popped(self, stack: Stack, count: int) -> Stack:
        """Pop the topmost values, in order."""
        stack[:0] = [self.below() for _ in range(count - len(stack))]
        values = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        return values

    def below(self) -> Any:
        """Return a value that was on the stack before the first step that is followed."""
        return UNKNOWN

    def named(self, step: Step) -> Any:
        """Return the value of a name."""
        raise NotImplementedError

    def attribute(self, value: Any, name: str) -> Any:
        """Return an attribute of a value."""
        raise NotImplementedError

    def called(self, step: Step, slots: Stack, args: Stack) -> Any:
        """Return the result of a call; of the two slots, one holds the function, and the other an argument or NULL."""
        raise NotImplementedError

    def computed(self, step: Step, operands: Stack) -> Any:
        """Return what a step computes from the values that it pops."""
        raise NotImplementedError

    def other(self, step: Step, stack: Stack) -> None:
        """Apply a step that does more than push a value, or that is unknown."""
        raise NotImplementedError

    def sides(self, step: Step, tested: Any) -> Iterable[bool]:
        """Return whether a jump is taken that depends on a value: true, false, or both."""
        raise NotImplementedError


def ways(steps: Sequence[Step], index: int) -> list[int]:
    """Return the steps that may follow a step which ends well."""
    step = steps[index]
    on = [] if step.does in {"jump", *ENDING} else [index + 1]
    return [step.value, *on] if step.jumps else on


def reached(steps: Sequence[Step], index: int) -> set[int]:
    """Return a step, and the steps to which it leads while nothing is raised."""
    found, pending = set[int](), [index]
    while pending:
        at = pending.pop()
        if at not in found:
            found.add(at)
            pending += ways(steps, at)
    return found


# ---------------------------------------------------------------------- the domain of objects


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """True if a value's class is one of these, or derived from one; `isinstance` may run a property of the value's."""
    return issubclass(type(value), kinds)


@dataclass(frozen=True, slots=True)
class Called:
    """The result of a call."""

    function: Any
    args: tuple[Any, ...]
    names: tuple[str, ...] | None = ()
    """The names of the last arguments; None if it is not known which parameter takes an argument."""

    @property
    def target(self) -> Any:
        """The function, of a method the one that its class defines."""
        return self.function.function if type(self.function) is Member else self.function

    @property
    def named(self) -> Mapping[int, str]:
        """The names of the arguments, by their positions, for those that are passed by name."""
        names = self.names or ()
        return dict(enumerate(names, len(self.args) - len(names)))


@dataclass(frozen=True, slots=True)
class Member:
    """A method of an object, as its class defines it; its name if the object is the result of a call."""

    owner: Any
    function: Any


@dataclass(frozen=True, slots=True)
class InPlaceOf:
    """A constant in rewritten code: `this | value` stands for the value of a global name."""

    name: str


def has_text(value: Any) -> bool:
    """True if a value depends on TEXT: it is TEXT, a method of it, or the result of a call with it."""
    if type(value) is Called:
        return has_text(value.function) or any(map(has_text, value.args))
    return has_text(value.owner) if type(value) is Member else value is TEXT


def known_of(parts: Stack) -> Any:
    """Return what is known of a value that is computed from others: a call with TEXT, else TEXT, else UNKNOWN."""
    found = [part for part in parts if has_text(part)]
    return next((part for part in found if part is not TEXT), TEXT if found else UNKNOWN)


class Objects(Machine):
    """Follows objects, and a text among them; `look` returns the value of a name."""

    def __init__(self, code: CodeType, look: Look) -> None:
        super().__init__(code)
        self.look = look

    def named(self, step: Step) -> Any:
        """Return the value of a name."""
        return self.look(step.value)

    def attribute(self, value: Any, name: str) -> Any:
        """Return an attribute, if it can be read without running code."""
        if type(value) is Called:
            return Member(value, name)
        if value is TEXT:
            return Member(value, getattr(str, name, UNKNOWN))
        if value is UNKNOWN or type(value) is Member:
            return UNKNOWN
        found = inspect.getattr_static(value, name, UNKNOWN)
        if type(found) in {types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType}:
            of_class = not is_a(value, type) and inspect.getattr_static(type(value), name, None) is found
            return Member(value, found) if of_class else found
        if type(found) is staticmethod:
            return found.__func__
        binds = inspect.getattr_static(type(found), "__get__", None) is not None
        return found if is_a(found, type) or not binds else UNKNOWN

    def called(self, step: Step, slots: Stack, args: Stack) -> Any:
        """Return a call; without a null, the upper slot is an argument: the message of an assert statement."""
        function, *own = [slot for slot in slots if slot is not NULL] or [UNKNOWN]
        if step.does == "call":
            return Called(function, (*own, *args), step.names)
        return Called(function, (known_of(args),), None)

    def computed(self, step: Step, operands: Stack) -> Any:
        """Return a tuple, a list, a function or the keys of a dict; of anything else, whether a text is in it."""
        if any(map(has_text, operands)):
            return known_of(operands)
        match step.does:
            case "operate" if is_a(operands[0], InPlaceOf):
                return self.look(operands[0].name)
            case "super":
                return Member(Called(operands[0], tuple(operands[1:])), step.value)
            case "tuple":
                return tuple(operands)
            case "list":
                return operands
            case "function":
                return operands[-1]
            case "extend" if [*map(type, operands)] == [list, tuple]:
                return [*operands[0], *operands[1]]
            case "dict" | "dict of keys" as does:
                keys = operands[::2] if does == "dict" else operands[-1]
                return dict.fromkeys(keys) if all(is_a(key, (int, float, str, tuple)) for key in keys) else UNKNOWN
        return UNKNOWN

    def other(self, step: Step, stack: Stack) -> None:
        """Put a text into a list or a set; any other step may have changed the values: only their number is kept."""
        if step.does == "add" and any(map(has_text, stack)):
            holder, *between, added = self.popped(stack, 1 + step.arg)
            stack += [known_of([holder, added]), *between]
        else:
            stack[:] = [UNKNOWN] * max(0, len(stack) + step.effect)


def stack_before(code: CodeType, index: int, look: Look) -> Stack:
    """Return the topmost values on the stack before a step, from the start of the straight line of code before it."""
    machine = Objects(code, look)
    steps, first = machine.steps, index
    while first > 0 and not steps[first].is_target and not steps[first - 1].leaves:
        first -= 1
    stack: Stack = []
    if first > 1 and steps[first - 1].does == "for" and not steps[first - 2].leaves:
        # A comprehension is a loop within an expression. Python may have put elements into a list of before the loop.
        stack = stack_before(code, first - 2, look)
        machine.run(steps[first - 2], stack)
        stack = [*(UNKNOWN if type(each) is list else each for each in stack), UNKNOWN]
    for at in range(first, index):
        if stack and _is_first_stored(steps, at):
            stack.pop()
        else:
            machine.run(steps[at], stack)
    return stack


def operand(code: CodeType, index: int, look: Look, depth: int = 1) -> Any:
    """Return a value on the stack before a step, by its depth: 1 is the top."""
    stack = stack_before(code, index, look)
    return stack[-depth] if len(stack) >= depth else UNKNOWN


def _is_first_stored(steps: Sequence[Step], at: int) -> bool:
    """True if a step assigns a local name that none before it loads: no value on the stack is that name's."""
    loaded = (each.value for each in steps[:at] if each.does == "local")
    return steps[at].does == "store" and all(name != steps[at].value for name in loaded)


# ---------------------------------------------------------------------- what a frame runs


def running(frame: FrameType) -> int | None:
    """Return the index of the step that a frame is running; None if it is unknown."""
    return running_at(frame.f_code, frame.f_lasti)


def running_at(code: CodeType, offset: int) -> int | None:
    """Return the index of the step that runs at an offset: the last of its instruction.

    While a function of Python is called, a frame shows the end of the space that Python keeps beside the instruction.
    """
    steps = instructions(code)
    return max(0, bisect_right(steps, offset, key=lambda step: step.offset) - 1) if steps else None


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return a copy of the local names of a frame, as they are now.

    Up to Python 3.12 a function's frame keeps the dict that it shows, and with it what the names held: a weak reference
    would die later than in eager. So the dict is emptied, unless the user's code holds it too (`locals()`).
    """
    shown = frame.f_locals
    names = dict(shown)
    of_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if sys.version_info < (3, 13) and of_function and sys.getrefcount(shown) <= _HELD_BY_THE_FRAME:
        shown.clear()
    return names


def names_of(frame: FrameType) -> Look:
    """Return the lookup of names in a frame, as they are now."""
    scopes = (locals_of(frame), frame.f_globals, frame.f_builtins)
    return lambda name: next((scope[name] for scope in scopes if name in scope), UNKNOWN)
