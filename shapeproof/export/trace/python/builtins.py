"""Keep sizes symbolic where Python's `int`, `float` and `len` would return plain numbers and freeze a size.

Python lets no object define `int(n)`, and torch follows only `torch.sym_int(n)`. So while a model is traced, its
functions run rewritten code. In this code, calls of `int`, `float`, `len`, `divmod` and a few functions that want a
plain number or bool (`math.sqrt`) go to plain_numbers.py. All functions of the user's files are rewritten. So are
functions of installed libraries that are reachable through classes, global names, closures and containers. Function
objects keep their identity, since a model may look one up in a table. Each function and each module is restored
afterwards. Code of torch and of Python is left unchanged.

Eager runs the model's own code; a replay shows where the two disagree.

Also finds the functions of the user's files: a hook, a table or a default may call a function that no name reaches.

The walk covers the contents of the user's modules and of a model: classes, containers, closures, defaults, objects of
the user's classes. It skips objects of torch, of Python and of installed libraries, and runs no code of any of them.
"""

from __future__ import annotations

import array
import contextlib
import functools
import mmap
import sys
import weakref
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export.ops.properties import IDENTITY, has_bodies
from shapeproof.export.shim.modules import deep_copied, held_outside_torch
from shapeproof.export.shim.process.one_thread import one_thread
from shapeproof.export.shim.replaced import bound
from shapeproof.export.source.abstract import is_a
from shapeproof.export.source.frames import is_users_file
from shapeproof.export.source.instructions import codes_within, steps_of
from shapeproof.export.source.raised import watched
from shapeproof.export.trace.python.plain_numbers import (
    CALLED,
    FUNCTIONS,
    MEMBERS,
    NAMES,
    WITHIN,
    CodePlace,
    forgetting,
    place_of,
)
from shapeproof.export.trace.python.plain_objects import (
    FOREIGN,
    HEAP,
    REMEMBERING,
    carried,
    classes,
    elements,
    home,
    inner,
    is_of_users_class,
    is_users,
    is_walked,
    members,
    own_names,
    reached,
)
from shapeproof.export.trace.python.remembering import ABSENT, Remembered, assign
from shapeproof.export.trace.python.rewriting import (
    EXCEPT,
    assigned,
    catches,
    compares_objects,
    global_names,
    rewritten,
)
from shapeproof.export.trace.python.whether_traced import Compiler


def fresh_copy(mod: torch.nn.Module, copied: dict[int, torch.Tensor] | None = None) -> torch.nn.Module:
    """A copy that shares parameters and buffers but no Python state, so that no trace sees what another has changed.

    `copied` is filled: by the id of each tensor's copy, the model's own.

    Raises:
        UsageError: an array of the model lies in the memory of a parameter or buffer, which a copy would part; or a
            function of the copy reaches the model itself.
    """
    shared: dict[int, Any] = {id(tensor): tensor for tensor in [*mod.parameters(), *mod.buffers()]}
    model, memo = deep_copied(mod, shared)
    originals = memo.get(id(memo), ())  # deepcopy keeps them
    kept = [each for key, each in memo.items() if key == id(each)]  # refused a copy: a memoryview
    _refuse_parted(mod, [*originals, *kept])
    _refuse_reached(mod, model)
    if copied is not None and len(memo) > len(shared):
        own = (each for each in originals if isinstance(each, torch.Tensor))
        copied |= {id(memo[id(each)]): each for each in own}
    return model


def _refuse_parted(model: torch.nn.Module, objects: Sequence[Any]) -> None:
    """Raise UsageError if one of the objects, an array say, lies in the memory of a tensor of the model."""
    if (outside := held_outside_torch(model, objects)) is not None:
        what = f"the model holds the memory of {outside[0]} in an object of class {type(outside[1]).__name__}, too"
        raise UsageError(f"{what}, and no program sees what Python writes there: give that object a copy")


def _refuse_reached(model: torch.nn.Module, copy: torch.nn.Module) -> None:
    """Raise UsageError if a function of a copy, a hook say, reaches the model: no trace sees what it writes there."""
    names = {id(part): f"the model's `{name}`" if name else "the model" for name, part in model.named_modules()}
    pending = [(each, "code") for part in copy.modules() for each in _code_of(part)]
    met = {id(each) for each, _ in pending}
    while pending:
        value, where = pending.pop()
        where = f"`{value.__qualname__}`" if type(value) is FunctionType else where
        for held in _in_reach(value):
            if id(held) in names:
                how = "past its arguments, which a copy cannot: take the module that a hook or a method is given"
                raise UsageError(f"{where} reaches {names[id(held)]} {how}")
            if id(held) not in met and not is_a(held, (torch.nn.Module, torch.Tensor, type, ModuleType)):
                met.add(id(held))
                pending.append((held, where))


def _code_of(module: torch.nn.Module) -> Iterator[Any]:
    """Yield what a module holds that may be code, hooks too, and the methods that `forward` names, directly or not."""
    for value in vars(module).values():
        yield from elements(value) if is_a(value, dict) else (value,)
    users = (kind for kind in reversed(classes(type(module))) if is_of_users_class(kind))
    methods = {name: value for kind in users for name, value in members(kind).items()}
    pending = ["forward"]
    while pending:
        method = methods.pop(pending.pop(), None)
        yield method
        for function in (method, *inner(method)):
            pending += global_names(function.__code__) if type(function) is FunctionType else ()


def _in_reach(value: Any) -> Iterator[Any]:
    """Yield what code reaches through a value: contents, closures, defaults, the globals that it names, referents."""
    if type(value) is FunctionType:
        yield from carried(value)
        if is_users_file(value.__code__.co_filename):
            named = {
                step.value for code in codes_within(value.__code__) for step in steps_of(code) if step.does == "global"
            }
            yield from (value.__globals__.get(name) for name in named)
    elif type(value) is weakref.ref:
        yield value()
    elif type(value) is MethodType:
        yield from (value.__func__, *([value.__self__] if is_walked(value.__func__) else ()))
    else:
        yield from (*elements(value), *inner(value))
        if type(value) is SimpleNamespace or is_of_users_class(value):
            yield from (own_names(value) or {}).values()


_MEMORY = (np.ndarray, np.flatiter, bytearray, memoryview, array.array, mmap.mmap)
_functions: ContextVar[tuple[FunctionType, ...] | None] = ContextVar("functions", default=None)


def found_once(model: torch.nn.Module) -> AbstractContextManager[object]:
    """Inside this block, the user's functions are searched only once.

    Raises:
        UsageError: the model's functions reach memory of its tensors past torch.
    """
    _refuse_parted(model, [*_memory_reached(model)])
    return bound(_functions, users_functions(model))


def _memory_reached(model: torch.nn.Module) -> Iterator[Any]:
    """Yield the arrays that the functions in a model hold, and that these and `forward` name as globals.

    Not those that the user's files hold beside: a script keeps the array of which it made a parameter.
    """
    functions, others = reached(model.modules())
    forwards = (members(cls).get("forward") for module in model.modules() for cls in classes(type(module)))
    for each in (*functions, *(each for each in forwards if type(each) is FunctionType)):
        others += [each.__globals__.get(name) for name in each.__code__.co_names]
    for each in others:
        owner = each.__self__ if type(each) is BuiltinFunctionType else each  # `array.fill`
        if is_a(owner, _MEMORY):
            yield owner


_Places: TypeAlias = Container[CodePlace]


@contextlib.contextmanager
def kept_symbolic(model: torch.nn.Module, loops: _Places = (), branches: _Places = ()) -> Iterator[frozenset[str]]:
    """Inside this block, a model keeps sizes symbolic where its code asks for plain numbers.

    The model is a copy made for one trace. The value is the set of names that its code uses. `loops`, `branches`: the
    functions whose loops are recorded as one step for all, and whose branches are merged (loops.py, branches.py).

    >>> class Half(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x[: int(x.shape[0] / 2)]
    >>> half = Half()
    >>> with kept_symbolic(half):
    ...     half(torch.arange(5))
    tensor([0, 1])
    """
    rewriting = _Rewriting()
    for module in model.modules():
        rewriting.meet(type(module))
        for name, value in list(vars(module).items()):
            rewriting.meet(type(value))
            made = rewriting.member(value)
            if made is not None:
                vars(module)[name] = made
            for hook in elements(value) if is_a(value, dict) else ():
                rewriting.member(hook)
    with one_thread, contextlib.ExitStack() as after:
        replaced = list(rewriting.members())
        rewriting.hold_classes()
        found = _functions.get()
        codes = rewriting.codes(users_functions(model) if found is None else found, loops, branches)
        after.callback(rewriting.remembered.bring_back)
        for cls, name, made in replaced:
            after.callback(type.__setattr__, cls, name, members(cls)[name])
            type.__setattr__(cls, name, made)
        for scope, name, made in rewriting.globals():
            after.callback(_put_back, scope, name, made, scope.get(name, ABSENT))
            scope[name] = made
        for function, code in codes.items():
            after.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = code
        for cell, made in rewriting.cells:
            after.callback(setattr, cell, "cell_contents", cell.cell_contents)
            cell.cell_contents = made
        if rewriting.must_watch():
            after.enter_context(watched())
        yield frozenset(rewriting.names)


def _put_back(scope: dict[str, Any], name: str, made: Any, value: Any) -> None:
    """Restore a global name, unless the model has assigned the name during the trace."""
    if scope.get(name) is made:
        assign(scope, name, value)


def _is_noted(code: CodeType) -> bool:
    """True if it is noted what the handlers of a code catch: those of the user's files, and of code without a file."""
    return is_users_file(code.co_filename) or code.co_filename.startswith("<")


def _is_foreign(value: FunctionType | type) -> bool:
    name = home(value) if isinstance(value, type) else value.__module__
    if name == "builtins":  # objects created by `exec` say so, too
        return isinstance(value, type) and not value.__flags__ & HEAP
    return str(name or "").partition(".")[0] in FOREIGN


_WRAPPING: Mapping[type, Callable[[Any, Any], Any]] = {
    MethodType: lambda value, found: MethodType(found, value.__self__),
    staticmethod: lambda _, found: staticmethod(found),
    classmethod: lambda _, found: classmethod(found),
    functools.partial: lambda value, found: functools.partial(found, *value.args, **value.keywords),
    property: lambda value, found: property(found, value.fset, value.fdel, value.__doc__),
}
"""Makes one of Python's own wrappers anew, around another function."""


class _Rewriting:
    """Finds each function that a model may call, and the code that the function is to run."""

    def __init__(self) -> None:
        self._seen: dict[FunctionType, None] = {}
        self._classes: dict[type, bool] = {}
        """The classes that were met, and whether code names them: it may make objects of them."""
        self.cells: list[tuple[CellType, Any]] = []
        """The closure cells to replace, with their values during the trace."""
        self.names = {"forward", "__call__", "__init__", "__getitem__"}
        self._globals: dict[tuple[int, str], tuple[dict[str, Any], str, Any]] = {}
        self._reached: set[tuple[int, frozenset[str]]] = set()
        self._copies: dict[str, ModuleType] = {}
        self.remembered = Remembered()

    def meet(self, cls: type, *, named: bool = False) -> None:
        """Take a class and its bases: their functions may be called, and `__init__` if code names the class."""
        for each in classes(cls):
            if not _is_foreign(each):
                self._classes[each] = named or self._classes.get(each, False)

    def hold_classes(self) -> None:
        """Remember the attributes of the classes that were found: the model may set them."""
        for cls in self._classes:
            self.remembered.attributes(cls)

    def members(self) -> Iterator[tuple[type, str, Any]]:
        """Yield the class members to replace, for the names in use."""
        seen: set[tuple[type, str]] = set()
        while found := {*self._members_in_use()} - seen:
            seen |= found
            for cls, name in found:
                self._hold(members(cls)[name])
                made = self.member(members(cls)[name])
                if made is not None:
                    yield cls, name, made

    def _members_in_use(self) -> Iterator[tuple[type, str]]:
        for cls, named in self._classes.items():
            yield from ((cls, name) for name in members(cls) if name in self.names and (named or name != "__init__"))

    def globals(self) -> list[tuple[dict[str, Any], str, Any]]:
        """Return the replaced global names: the module's dict, the name, and the value during the trace."""
        return list(self._globals.values())

    def must_watch(self) -> bool:
        """True if a user's function, found by name or as a hook, has an `except` that cannot note what it catches."""
        noting = not has_bodies(self.names)
        codes = (each.__code__ for each in self._seen)
        return any(catches(code, otherwise=noting) for code in codes if _is_noted(code))

    def codes(
        self, functions: Sequence[FunctionType], loops: _Places, branches: _Places
    ) -> dict[FunctionType, CodeType]:
        """Return the rewritten code of each function, found here or given, whose code changes."""
        others: Mapping[str, Any] = NAMES if has_bodies(self.names) else {**CALLED, EXCEPT: None}
        found = {}
        for function in self._seen | dict.fromkeys(functions):
            scope, code = function.__globals__, function.__code__
            loop, branch = (place_of(code) in places for places in (loops, branches))
            if loop or branch:
                code = self._written_over(function, loop=loop, branch=branch)
            left_out = scope if _is_noted(code) else {*scope, EXCEPT}
            mine = {name: other for name, other in others.items() if name.removeprefix("case ") not in left_out}
            made = rewritten(code, code.co_filename, frozenset(mine.items()))
            if made is not function.__code__:
                found[function] = made
                for name, other in mine.items():
                    if isinstance(other, str):
                        self._exchange(scope, other, CALLED[name])
        return found

    def _written_over(self, function: FunctionType, *, loop: bool, branch: bool) -> CodeType:
        from shapeproof.export.trace.python import loops, merging, rolled

        for name, value in {**(rolled.NAMES if loop else {}), **(merging.NAMES if branch else {})}.items():
            self._exchange(function.__globals__, name, value)
        return loops.written_over(function, loop=loop, branch=branch) or function.__code__

    def member(self, value: Any) -> Any:
        """Return the replacement of a value in an object or a class; None if the value stays."""
        if type(value) is FunctionType:
            self._find(value)
            return None
        found = next((self.member(each) for each in inner(value)), None)
        if is_a(value, REMEMBERING):
            return forgetting(value)
        wraps = _WRAPPING.get(type(value))
        return None if wraps is None or found is None else wraps(value, found)

    def _find(self, function: FunctionType) -> None:
        """Take a function, and find the functions that it may call."""
        if function in self._seen or _is_foreign(function):
            return
        self._seen[function] = None
        code = function.__code__
        names = global_names(code)
        asks = is_users_file(code.co_filename) and ("id" in names or compares_objects(code, function.__globals__))
        self.names |= names | ({IDENTITY} if asks else set())
        scope = function.__globals__
        self._reach(scope, names)
        for name in assigned(code):
            self.remembered.global_name(scope, name)
        for cell in function.__closure__ or ():
            self._look_into(cell, names)

    def _reach(self, scope: dict[str, Any], names: frozenset[str]) -> None:
        """Take the values of these global names, which may be called."""
        if (id(scope), names) in self._reached:
            return
        self._reached.add((id(scope), names))
        for name in names & scope.keys():
            self._hold(scope[name])
            found = self._value(scope[name], names)
            if found is not None:
                self._exchange(scope, name, found)

    def _exchange(self, scope: dict[str, Any], name: str, value: Any) -> None:
        self._globals[id(scope), name] = (scope, name, value)

    def _value(self, value: Any, names: frozenset[str]) -> Any:
        """Return the replacement of a value for a function that uses these names; None if the value stays."""
        if type(value) is FunctionType and has_bodies(called := {value.__name__, str(value.__module__)}):
            self.names |= called  # whatever the model calls it
        if is_a(value, (FunctionType, BuiltinFunctionType, REMEMBERING)):
            return FUNCTIONS[value](value) if value in FUNCTIONS else self.member(value)
        if is_a(value, ModuleType):
            return self._exchanged(value, names)
        if is_a(value, type):
            self.meet(value, named=True)
        return None

    def _exchanged(self, module: ModuleType, names: frozenset[str]) -> ModuleType | None:
        """Return a copy of a foreign module with symbolic functions; None if these names reach none of them.

        A user's module is not copied: the values of its names are replaced.
        """
        held: Any = own_names(module) or {}
        title = str(held.get("__name__"))
        making = MEMBERS.get(title, {})
        if not making and title.partition(".")[0] not in FOREIGN | {"builtins"}:
            self._reach(held, names)
        found: dict[str, Any] = {name: make(getattr(module, name)) for name, make in making.items() if name in names}
        for within in names.intersection(WITHIN.get(title, ())):
            found[within] = self._exchanged(getattr(module, within), names)
        found = {name: value for name, value in found.items() if value is not None}
        if not found:
            return None
        kind = Compiler if module is torch.compiler else ModuleType
        made = self._copies.setdefault(title, kind(title, module.__doc__))
        vars(made).update({**held, **vars(made), **found})
        return made

    def _look_into(self, cell: CellType, names: frozenset[str]) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # it is empty
            return
        self._hold(value)
        found = self._value(value, names)
        if found is not None:
            self.cells.append((cell, found))

    def _hold(self, value: Any) -> None:
        """Take the contents of a container, which may be called, and remember what the model may change."""
        self.remembered.container(value)
        known = is_a(value, (type, ModuleType, FunctionType, BuiltinFunctionType))
        if not known and not _is_foreign(type(value)):
            self.remembered.attributes(value)
        for each in elements(value) if is_a(value, (dict, list, tuple)) else ():
            self.member(each)


def users_functions(model: torch.nn.Module) -> tuple[FunctionType, ...]:
    """Return all functions of the user's files that the user's modules or the model hold, directly or indirectly."""
    modules = [module for name, module in list(sys.modules.items()) if name == "__main__" or is_users(name)]
    return tuple(reached([*map(own_names, modules), *model.modules()])[0])
