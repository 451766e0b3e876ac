"""Walks through everything that a model's code can read: attributes, classes, closures, globals.

The walk starts at the model and at torch's global hooks. It enters containers, objects, and the functions, classes and
modules of the user's files; of a global scope or a module it takes the names that these functions use. The code of
torch, Python and installed libraries is taken as it is. The walk runs no code of the user's.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import inspect
import io
import logging
import operator
import pkgutil
import runpy
import sys
import threading
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, NamedTuple

import torch

from shapeproof.export.shim.modules import GLOBAL_HOOKS, KNOWN_BY_IDENTITY, NOT_OF_FORWARD, registered
from shapeproof.export.source.frames import is_users_file
from shapeproof.export.source.instructions import Step, codes_within, steps_of
from shapeproof.export.trace.python.plain_objects import FOREIGN, HEAP, REMEMBERING, own_names
from shapeproof.export.trace.python.rewriting import global_names

ABSENT = object()
"""The value of an empty slot or cell."""
PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
"""The classes whose values are alike if their texts are."""
_DICTS = {dict, OrderedDict, defaultdict, MappingProxyType}
CHANGING = {*_DICTS, list, set, deque}
"""The containers whose items may be replaced."""
_ITERABLE = {*CHANGING, tuple, torch.Size, frozenset}
_READING = {"__iter__", "__len__", "__getitem__", "__contains__", "items", "keys", "values"}
"""A container of a class that defines one of these is read otherwise than its items say."""
_PARTS: dict[Any, tuple[str, ...]] = {
    MethodType: ("__self__", "__func__"),
    BuiltinFunctionType: ("__self__",),
    functools.partial: ("func", "args", "keywords"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget",),
    slice: ("start", "stop", "step"),
    REMEMBERING: ("__wrapped__",),
}
"""What objects of Python's own consist of. The results that a cache keeps are eager's, too."""
_HELD = {FunctionType, MethodType, functools.partial, *_ITERABLE}
"""In what a library made of a user's function: may hold the user's."""
_CODE = (FunctionType, staticmethod, classmethod, property, REMEMBERING)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_INERT = (*KNOWN_BY_IDENTITY, MemberDescriptorType, logging.Logger, io.IOBase, *_LOCKS)
"""Classes of objects that are known by their identity. A model computes with nothing that it reads of a log or lock."""
_ANNOTATIONS = {"__annotations__", "__annotations_cache__", "__annotate_func__"}
_FORGOTTEN = {*_ANNOTATIONS, "__doc__", "__dict__", "__weakref__", "__vectorcalloffset__"}
"""Names of a class that no computation reads; Python sets some when they are asked for, or called."""
_DEFAULTS = ("__defaults__", "__kwdefaults__")
_DYNAMIC = {"getattr", "vars", "attrgetter", "methodcaller", "__dict__", "globals"}
"""A function that uses one of these names may read attributes by any name."""
_MODULES: dict[str, Any] = sys.modules
_BY_TEXT = (
    *(eval, exec, __import__, builtins, _MODULES, importlib.import_module, pkgutil.resolve_name, runpy.run_module),
    *(runpy.run_path, sys._getframe, inspect.currentframe, inspect.stack),  # noqa: SLF001 - its name is the fault
)
"""Python's ways to what no name in a function's code names."""
MOST_ENTRIES = 2**17
"""The most values that are compared at each call."""
MOST_BYTES = 2**20
"""The most bytes of one array that are compared at each call."""


class Entry(NamedTuple):
    """A value: the path of its holder, and how another value is put in its place; None if that cannot be done."""

    value: Any
    holder: str
    put: Callable[[Any], None] | None


class Reach:
    """What the code of a model can read.

    Attributes:
        entries: every value, by its path.
        looks: by the same paths, what programs depend on: the text of a plain value, the kind and size of a container,
            the identity of a tensor. A parameter or buffer of the model looks like another of its kind and sizes.
        unreadable: the paths of values whose state cannot be read.
        named: the holders of values that are read by name or index, by their identity, with these names.
        containers: the iterables whose values are read in order.
        fields: the slots and cells that are read: a getter and its owner.
        sized: the containers in which a further name or index matters.
        contents: what is compared by value: each function gives the value now.
        absent: the global names that are read and do not exist, with their scopes.

    >>> layer = torch.nn.Module()
    >>> layer.scales = [1.0, 2.0]
    >>> Reach(layer).looks["model.scales[1]"]
    (<class 'float'>, '2.0')
    """

    def __init__(self, model: torch.nn.Module, ignored: Collection[str] = ()) -> None:
        self._ignored = frozenset(ignored)
        self.entries: dict[str, Entry] = {}
        self.looks: dict[str, Any] = {}
        self.unreadable: list[str] = []
        self.modules: list[torch.nn.Module] = []
        self.tensors: list[torch.Tensor] = []
        self.named: dict[int, tuple[Any, list[Any]]] = {}
        self.containers: list[Any] = []
        self.fields: list[tuple[Callable[[Any], Any], Any]] = []
        self.sized: list[Any] = []
        self.contents: list[Callable[[], Any]] = []
        self.absent: list[tuple[dict[str, Any], str]] = []
        self._constants: list[tuple[str, torch.Tensor]] = []
        self._registered = {id(held) for each in model.modules() for held in registered(each)}
        self._shareable: set[str] = set()
        self._met: dict[int, str] = {}
        self._names = {"forward"}
        self._waiting: dict[str, list[tuple[str, Entry]]] = {}
        self._scopes: list[dict[str, Any]] = []
        self._globals: set[tuple[int, str]] = set()
        self._pending = [(f"hooks[{index}]", Entry(each, "", None)) for index, each in enumerate(GLOBAL_HOOKS)]
        self._pending.append(("model", Entry(model, "", None)))
        while self._pending and len(self.entries) < MOST_ENTRIES:
            self._meet(*self._pending.pop())
        self.unreadable += [path for path, _ in self._pending[:1]]
        if "tolist" in self._names:
            self._hold_constants()

    def _meet(self, path: str, entry: Entry) -> None:
        if path in self._ignored:
            return
        while path in self.entries:  # of two classes or scopes with one name
            path += "'"
        self.entries[path] = entry
        self.looks[path] = self._look(path, entry.value)

    def _push(self, path: str, value: Any, holder: str, put: Callable[[Any], None] | None = None) -> None:
        self._pending.append((path, Entry(value, holder, put)))

    def _read(self, held: Any, keys: Collection[Any], *, whole: bool = True) -> None:
        """Have values compared that are read by name or index; `whole`: a further name or index matters, too."""
        self.named.setdefault(id(held), (held, []))[1].extend(keys)
        self.sized += [held] if whole else []

    def _look(self, path: str, value: Any) -> Any:
        kind: Any = type(value)
        if kind in PLAIN:
            if kind is str:
                self._use(frozenset((value,)))
            return kind, repr(value)
        known = self._met.setdefault(id(value), path)
        if known != path:
            return kind, known
        if isinstance(value, torch.Tensor):
            return self._tensor(path, value)
        if isinstance(value, type):
            return self._class(path, value)
        if isinstance(value, ModuleType):
            return self._module(value)
        if isinstance(value, FunctionType):
            return self._function(path, value)
        if isinstance(value, _INERT):
            return id(value)
        return kind, self._contents(path, value, _base(kind)), self._attributes(path, value, kind)

    def _contents(self, path: str, value: Any, base: Any) -> Any:
        """Take what a value holds as an object of Python's own or of a library in C."""
        if base in _ITERABLE:
            return self._items(path, value, base)
        for name in _PARTS.get(base, ()):
            self._push(f"{path}.{name}", getattr(value, name), path)
        if isinstance(value, weakref.ReferenceType):
            self._push(f"{path}()", value(), path)
        if base is ContextVar:
            self.fields.append((_value_here, value))
            self._push(f"{path}.get()", _value_here(value), path)
            return None
        if base is CellType:
            return self._field(path, "cell_contents", CellType.cell_contents, value)
        if base in {BuiltinFunctionType, torch.device}:
            return id(value) if base is BuiltinFunctionType else str(value)
        if base in {object, SimpleNamespace, *_PARTS}:
            return None
        return base.__repr__(value) if base in PLAIN else self._memory(path, value, base)

    def _items(self, path: str, value: Any, base: Any) -> Any:
        if any(_READING & vars(each).keys() for each in type(value).__mro__[: type(value).__mro__.index(base)]):
            self.unreadable.append(path)
        if base in _DICTS:
            return self._of_dict(path, value, base)
        items = list(base.__iter__(value))
        paths = [f"{path}[{index}]" for index in range(len(items))]
        for index, (inner, item) in enumerate(zip(paths, items, strict=True)):
            put = functools.partial(operator.setitem, value, index) if base in {list, deque} else None
            self._push(inner, item, path, put)
        if base in CHANGING:
            self._compare(value, range(len(items)), paths, (value,))
        return len(items)

    def _of_dict(self, path: str, value: Any, base: Any) -> Any:
        names = [repr(key) if type(key) in PLAIN else f"key {index}" for index, key in enumerate(value)]
        paths = [f"{path}[{name}]" for name in names]
        if id(value) in self._registered:
            self._shareable.update(paths)
        for inner, (key, item) in zip(paths, base.items(value), strict=True):
            self._push(inner, item, path, functools.partial(operator.setitem, value, key))
            self._push(f"{inner} key", key, path)
        self._compare(value, tuple(value), paths, (value, base.values(value)))
        return tuple(names)

    def _compare(self, value: Any, keys: Sequence[Any], paths: Sequence[str], read: tuple[Any, ...]) -> None:
        """Have the items of a container compared: all in order, or else those that are not ignored."""
        if self._ignored.isdisjoint(paths):
            self.containers += read
            self.sized.append(value)
        else:
            self._read(value, [key for key, path in zip(keys, paths, strict=True) if path not in self._ignored])

    def _memory(self, path: str, value: Any, base: Any) -> Any:
        """Take the bytes of an array or a NumPy number; of other values in C, the text if they are hashed by value."""
        try:
            held = memoryview(value)
        except (TypeError, ValueError, BufferError):
            if base.__hash__ in {None, object.__hash__}:
                self.unreadable.append(path)
            return base.__repr__(value)
        if held.nbytes > MOST_BYTES or "O" in held.format:
            self.unreadable.append(path)
            return None
        self.contents.append(functools.partial(bytes_of, value))
        return bytes_of(value)

    def _attributes(self, path: str, value: Any, kind: type) -> Any:
        """Take the class, the dict and the slots of an object whose class is written in Python."""
        if not kind.__flags__ & HEAP and kind is not SimpleNamespace:
            return None
        if kind.__flags__ & HEAP:
            self._push(f"{kind.__module__}.{kind.__qualname__}", kind, path)
            self.fields.append((type, value))
        if isinstance(value, torch.nn.Module):
            self.modules.append(value)
        slots = [slot for cls in kind.__mro__ if cls.__flags__ & HEAP for slot in vars(cls).items()]
        slots = [(name, each) for name, each in slots if isinstance(each, MemberDescriptorType)]
        found = [self._field(path, name, each, value) for name, each in slots if name not in _FORGOTTEN]
        if not any("__dict__" in vars(each) for each in kind.__mro__):
            return found
        names = own_names(value)
        if type(names) is not dict:
            self.unreadable.append(path)
            return None
        return found, self._named(path, names, value)

    def _named(self, path: str, names: Mapping[str, Any], value: Any) -> frozenset[str]:
        """Take the attributes in a dict; of a module those that its call reads."""
        skipped = NOT_OF_FORWARD if isinstance(value, torch.nn.Module) else ()
        own = [name for name in names if name not in skipped]
        for name in own:
            self._push(f"{path}.{name}", names[name], path, functools.partial(operator.setitem, names, name))
        self._read(names, [name for name in own if f"{path}.{name}" not in self._ignored])
        return frozenset(own)

    def _field(self, path: str, name: str, member: Any, value: Any) -> bool:
        """Take a slot or a cell; return whether it is empty."""
        inner = f"{path}.{name}"
        found = _field_of(member, value)
        if inner not in self._ignored:
            empty = functools.partial(_field_of, member)
            self.fields.append((empty if found is ABSENT else member.__get__, value))
        if found is not ABSENT:
            self._push(inner, found, path, functools.partial(member.__set__, value))
        return found is ABSENT

    def _tensor(self, path: str, value: torch.Tensor) -> Any:
        """Take a tensor. A program may hold the number in a tensor of one element that is no parameter or buffer."""
        named = self._named(path, vars(value), value)
        if torch.nn.parameter.is_lazy(value):
            self.unreadable.append(path)
            return id(value)
        self.tensors.append(value)
        dense = value.layout is torch.strided
        if path in self._shareable:
            return value.shape, value.dtype, value.device, value.layout, dense and value.stride(), named
        if not dense or value.is_meta or value.numel() != 1:
            self._constants += [(path, value)] if dense and not value.is_meta else []
            return id(value), named
        self.contents.append(functools.partial(number_of, value))
        return id(value), named, number_of(value)

    def _hold_constants(self) -> None:
        """Take the numbers in tensors that are no parameters or buffers: of these, `tolist` gives a trace numbers."""
        for path, value in self._constants:
            if value.nbytes > MOST_BYTES:
                self.unreadable.append(path)
            else:
                self.contents.append(functools.partial(number_of, value))
                self.looks[path] = *self.looks[path], number_of(value)

    def _class(self, path: str, value: type) -> Any:
        """Take what a class and its bases define, of the user's functions those whose names are used."""
        if not value.__flags__ & HEAP or value is torch.nn.Module:
            return id(value)
        for each in (*value.__bases__, *([type(value)] if _is_users_module(type(value).__module__) else [])):
            self._push(f"{each.__module__}.{each.__qualname__}", each, path)
        names = [name for name in vars(value) if name not in _FORGOTTEN and f"{path}.{name}" not in self._ignored]
        users = _is_users_module(value.__module__)
        for name in names:
            self._member(f"{path}.{name}", value, name, users=users)
        self._read(vars(value), names)
        return id(value), frozenset(names)

    def _member(self, path: str, cls: type, name: str, *, users: bool) -> None:
        member = vars(cls)[name]
        entry = Entry(member, path.rpartition(".")[0], functools.partial(_set_member, cls, name))
        pythons = name == "_abc_impl" or (name.startswith("__") and not isinstance(member, _CODE))
        if not users or pythons:
            self.looks[path] = repr(member) if type(member) in PLAIN else id(member)
        elif not isinstance(member, _CODE) or name.startswith("__") or {name, *_DYNAMIC} & self._names:
            self._pending.append((path, entry))
        else:
            self._waiting.setdefault(name, []).append((path, entry))

    def _function(self, path: str, value: FunctionType) -> Any:
        """Take what a function of the user's reads: defaults, closure, attributes, the globals that it names."""
        code, scope = value.__code__, value.__globals__
        if not _is_users_code(code):
            cells = _cells_of_users(value)
            for index, cell in enumerate(cells):
                self._push(f"{path}.__closure__[{index}]", cell, path)
            return id(value), cells and self._named(path, vars(value), value)
        for name in (*_DEFAULTS, "__closure__"):
            self._push(f"{path}.{name}", getattr(value, name), path)
        self.fields += [(vars(FunctionType)[name].__get__, value) for name in ("__code__", *_DEFAULTS)]
        used = _used(code)
        for name in used.globals:
            self._global(scope, name)
        if "globals" in used.globals:
            self._open(scope)
        self.unreadable += [f"{path}: {name}" for name in sorted(used.names) if _is_by_text(name, used, scope)]
        for level, name in used.imports:
            self._import(scope, level, name)
        self._use(used.names)
        return code, self._named(path, vars(value), value)

    def _global(self, scope: dict[str, Any], name: str) -> None:
        path = f"{scope.get('__name__')}.{name}"
        if (id(scope), name) in self._globals or path in self._ignored:
            return
        self._globals.add((id(scope), name))
        if name in scope:
            self._read(scope, [name], whole=False)
            self._push(path, scope[name], str(scope.get("__name__")), functools.partial(operator.setitem, scope, name))
        else:
            self.absent.append((scope, name))
            self.contents.append(functools.partial(operator.contains, scope, name))

    def _import(self, scope: dict[str, Any], level: int, name: str) -> None:
        """Take a module that a function imports when it runs."""
        try:
            full = importlib.util.resolve_name("." * level + name, scope.get("__package__"))
        except ImportError:
            return  # the function raises there
        if full.partition(".")[0] not in FOREIGN:
            self._global(_MODULES, full)

    def _module(self, value: ModuleType) -> Any:
        """Take from a module of the user's the names that functions use."""
        if _is_users_module(value.__name__):
            self._open(vars(value))
        return id(value)

    def _open(self, scope: dict[str, Any]) -> None:
        """Take from a global scope what has a name that functions use or a text has, now or later."""
        self._scopes.append(scope)
        for name in self._names & scope.keys():
            self._global(scope, name)

    def _use(self, names: frozenset[str]) -> None:
        """Note the names that a function uses: each may be meant of a class or of a module."""
        new = names - self._names
        self._names |= new
        for name in list(self._waiting) if _DYNAMIC & new else new & self._waiting.keys():
            self._pending += self._waiting.pop(name)
        for scope in self._scopes:
            for name in new & scope.keys():
                self._global(scope, name)


class _Used(NamedTuple):
    globals: frozenset[str]
    names: frozenset[str]
    imports: frozenset[tuple[int, str]]


@functools.lru_cache(maxsize=2**14)
def _used(code: CodeType) -> _Used:
    """Return the global names that a function reads, all names and texts in its code, and what it imports."""
    codes = [*codes_within(code)]
    texts = {text for each in codes for text in each.co_consts if isinstance(text, str)}
    read = {step.value for each in codes for step in steps_of(each) if step.does in {"global", "name"}}
    imports = {each for inner in codes for each in _imported(steps_of(inner))}
    return _Used(frozenset(read), global_names(code) | texts, frozenset(imports))


def _is_by_text(name: str, used: _Used, scope: Mapping[str, Any]) -> bool:
    """True if a name in a function's code, of a global or of what an imported module has, is one of _BY_TEXT."""
    modules = [scope.get(each) for each in used.globals] + [_MODULES.get(full) for _, full in used.imports]
    own = [scope.get(name, vars(builtins).get(name))] if name in used.globals else []
    found = own + [vars(each).get(name) for each in modules if isinstance(each, ModuleType)]
    return any(each is way for each in found for way in _BY_TEXT)


def _imported(steps: Sequence[Step]) -> Iterator[tuple[int, str]]:
    """Yield the level and name of each module that code may import: packages around it, and modules within it."""
    for level, within, step in zip(steps, steps[1:], steps[2:], strict=False):
        if step.does == "import":
            parts = step.value.split(".")
            yield from ((level.value, ".".join(parts[:count])) for count in range(1, len(parts) + 1))
            yield from ((level.value, f"{step.value}.{each}".lstrip(".")) for each in within.value or ())


def _base(kind: Any) -> Any:
    """Return the class in C that makes the objects of a class: `object` if all their state is in dicts and slots."""
    for each in kind.__mro__:
        made = each.__new__
        if not each.__flags__ & HEAP or (isinstance(made, BuiltinFunctionType) and made.__self__ is each):
            return each
    return object


def _value_here(variable: ContextVar[Any]) -> Any:
    """Return what a variable holds in the present context, or its default."""
    try:
        return variable.get()
    except LookupError:
        return ABSENT


def _is_users_module(name: str) -> bool:
    """True if a module of this name is the user's; one without a file is."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return name.partition(".")[0] not in FOREIGN and (file is None or is_users_file(file))


def _is_users_code(code: CodeType) -> bool:
    return code.co_filename.startswith("<") or is_users_file(code.co_filename)


def _cells_of_users(value: FunctionType) -> list[CellType]:
    """Return the cells with what may be the user's, of what a library made of his function (`@torch.no_grad()`)."""
    cells = [(cell, _field_of(CellType.cell_contents, cell)) for cell in value.__closure__ or ()]
    code = (each.__code__ for _, each in cells if isinstance(each, FunctionType))
    if not _is_users_module(str(value.__module__)) and not any(map(_is_users_code, code)):
        return []
    return [cell for cell, each in cells if type(each) in _HELD or _is_users_module(type(each).__module__)]


def _set_member(cls: type, name: str, value: Any) -> None:
    if vars(cls).get(name, ABSENT) is not value:
        type.__setattr__(cls, name, value)


def _field_of(member: Any, value: Any) -> Any:
    try:
        return member.__get__(value)
    except (AttributeError, ValueError):
        return ABSENT


def bytes_of(value: Any) -> tuple[Any, ...]:
    """Return the contents of an array: how it is read, and its bytes."""
    held = memoryview(value)
    return held.format, held.shape, held.tobytes()


def number_of(value: torch.Tensor) -> str | bytes:
    """Return the number in a tensor of one element, as a text: NaN is equal to itself. Of more, return the bytes."""
    if value.numel() == 1:
        return repr(value.detach().tolist())
    plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous().flatten()
    return bytes(plain.view(torch.uint8).numpy().tobytes())
