"""The structure of a call's arguments, and the flat inputs read out of a call.

A call is read as the model takes it; otherwise as one mapping of names to inputs among the arguments (onnxruntime:
`run(None, feed)`); otherwise by the names of arguments; otherwise as one sequence of all inputs (ExecuTorch:
`execute(inputs)`). Inputs given by name or in a sequence may omit constants: programs have the constants built in.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from shapeproof.constraints.errors import nearest
from shapeproof.contract.inputs import (
    HIDDEN,
    LEFT_OUT,
    ConstantInput,
    Input,
    IntInput,
    ObjectInput,
    Sizes,
    TensorInput,
    dtype_name,
)
from shapeproof.contract.outside import OutsideDomain

_CONTAINERS = (dict, list, tuple)
_MAPPINGS = (dict, Mapping)  # isinstance is fast for the first


class _Misfit(Exception):
    """The arguments have another structure."""


@dataclass(frozen=True)
class Items:
    """A list or a tuple."""

    kind: type[list[Any] | tuple[Any, ...]]
    parts: tuple[Tree, ...]

    def split(self, value: Any) -> list[Any]:
        """Return the parts. Raises _Misfit if the value has another structure."""
        if not isinstance(value, self.kind) or len(value) != len(self.parts):
            raise _Misfit
        return list(value)


@dataclass(frozen=True)
class Entries:
    """A mapping by its keys, or an object by its attributes. A mapping is also accepted in place of an object."""

    keys: tuple[Any, ...]
    parts: tuple[Tree, ...]
    is_object: bool = False
    kind: str = ""
    """The class that the program takes, which a contract does not check; empty for a dict."""

    def split(self, value: Any) -> list[Any]:
        """Return the parts. Raises _Misfit if the value has another structure."""
        if isinstance(value, Mapping):
            if value.keys() != set(self.keys):
                raise _Misfit
            return [value[key] for key in self.keys]
        if not self.is_object or not all(hasattr(value, key) for key in self.keys):
            raise _Misfit
        return [getattr(value, key) for key in self.keys]


@dataclass(frozen=True)
class Opaque:
    """A container that cannot be inspected; it holds these flat inputs."""

    leaves: tuple[int, ...]
    kind: str = ""


Tree: TypeAlias = int | Items | Entries | Opaque
"""An int is the number of a flat input."""


def leaves_of(tree: Tree, *, hidden: bool = False) -> Iterator[int]:
    """The numbers of the flat inputs in a tree; `hidden`: of those in opaque containers alone."""
    match tree:
        case int():
            yield from () if hidden else (tree,)
        case Opaque(leaves):
            yield from leaves
        case Items() | Entries():
            for part in tree.parts:
                yield from leaves_of(part, hidden=hidden)


@dataclass(frozen=True)
class Structure:
    """How a call gives the inputs.

    Attributes:
        args: positional arguments, as the program takes them.
        kwargs: keyword arguments, as the program takes them.
        parameters: the model's names of its positional arguments; those of `*args` have no names.
        arguments: all arguments by name.
    """

    args: tuple[Tree, ...]
    kwargs: Mapping[str, Tree]
    parameters: tuple[str, ...]
    arguments: Mapping[str, Tree]

    def __str__(self) -> str:
        given = [*self.parameters, *(f"{name}=" for name in self.kwargs)]
        return f"({', '.join(given)})"


class Reader:
    """Reads the flat inputs out of a call."""

    def __init__(self, structure: Structure, inputs: Sequence[Input]) -> None:
        self._structure = structure
        self._inputs = inputs
        self._asked = tuple(index for index, each in enumerate(inputs) if not isinstance(each, ConstantInput))
        self._nothing = [each.value if isinstance(each, ConstantInput) else LEFT_OUT for each in inputs]
        by_name = {each.name: index for index, each in enumerate(inputs)}
        by_graph = {each.graph_name: index for index, each in enumerate(inputs)}
        self._flat = by_graph | by_name
        self._namings = (by_name, by_graph, self._flat)  # `d_a` may be an argument and also the graph's name of d['a']
        flat = [*structure.args, *structure.kwargs.values()] == list(range(len(inputs)))
        self._is_flat = flat and not any(isinstance(each, ObjectInput) for each in inputs)
        self._keywords = tuple(structure.kwargs)

    def flat(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the flat inputs, in order; a missing input that is no constant is LEFT_OUT or HIDDEN.

        Raises:
            OutsideDomain: the call has another structure.
        """
        readings = [self._as_called, self._as_feed, self._as_named, self._as_sequence]
        if self._is_flat:
            given = [*args, *kwargs.values()] if kwargs else [*args]
            held = [value for value in given if isinstance(value, _CONTAINERS)]
            if not held and len(args) == len(self._structure.args) and tuple(kwargs) == self._keywords:
                return given
            if len(held) == 1 and isinstance(held[0], dict):
                readings = [self._as_feed]  # no other reading accepts a dict as an input
        for read in readings:
            try:
                return read(args, kwargs)
            except _Misfit:
                continue
        raise self._refusal(args, kwargs)

    def _as_called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Read the call as the model takes it."""
        structure = self._structure
        if len(args) != len(structure.args) or kwargs.keys() != structure.kwargs.keys():
            raise _Misfit
        given = zip(structure.args, args, strict=True)
        return self._filled([*given, *((tree, kwargs[name]) for name, tree in structure.kwargs.items())])

    def _as_named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Read the arguments by name, as Python binds them."""
        named = dict(zip(self._structure.parameters, args, strict=False))
        if len(args) > len(self._structure.parameters) or named.keys() & kwargs.keys():
            raise _Misfit
        return self._by_name(named | dict(kwargs))

    def _as_feed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Read one mapping among the arguments, by the names of inputs or of arguments."""
        given = [*args, *kwargs.values()] if kwargs else args
        feeds = [each for each in given if isinstance(each, _MAPPINGS) and self._is_feed(each)]
        if len(feeds) != 1:
            raise _Misfit
        (feed,) = feeds
        if not feed.keys() <= self._flat.keys():
            return self._by_name(feed)
        naming = next(each for each in self._namings if feed.keys() <= each.keys())
        return self._fed((naming[name], value) for name, value in feed.items())

    def _is_feed(self, given: Mapping[Any, Any]) -> bool:
        return bool(given) and (given.keys() <= self._flat.keys() or given.keys() <= self._structure.arguments.keys())

    def _as_sequence(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Read one sequence of all inputs, or of all inputs that are not constants."""
        given = [*args, *kwargs.values()]
        if len(given) != 1 or not isinstance(given[0], list | tuple):
            raise _Misfit
        for expected in (range(len(self._inputs)), self._asked):
            if len(given[0]) == len(expected):
                return self._fed(zip(expected, given[0], strict=True))
        raise _Misfit

    def _fed(self, given: Iterable[tuple[int, Any]]) -> list[Any]:
        values = list(self._nothing)
        for index, value in given:
            values[index] = self._leaf(index, value, fed=True)
        return values

    def _by_name(self, given: Mapping[str, Any]) -> list[Any]:
        arguments = self._structure.arguments
        if not given.keys() <= arguments.keys():
            raise _Misfit
        return self._filled([(arguments[name], value) for name, value in given.items()])

    def _filled(self, given: Sequence[tuple[Tree, Any]]) -> list[Any]:
        values = list(self._nothing)
        waiting = list(given)
        while waiting:
            tree, value = waiting.pop()
            if isinstance(tree, int):
                values[tree] = self._leaf(tree, value)
            elif isinstance(tree, Opaque):
                for index in tree.leaves:
                    values[index] = HIDDEN
            else:
                waiting += zip(tree.parts, tree.split(value), strict=True)
        return values

    def _leaf(self, index: int, value: Any, *, fed: bool = False) -> Any:
        """Return the value of a flat input.

        A tuple of ints stands for a tensor's sizes; in a feed, an array may be an int.
        """
        declared = self._inputs[index]
        if not isinstance(value, _CONTAINERS):
            is_array = fed and isinstance(declared, IntInput) and getattr(value, "shape", None) == ()
            is_int = is_array and dtype_name(value.dtype).startswith(("int", "uint"))
            return operator.index(value) if is_int else value
        if isinstance(declared, TensorInput) and not isinstance(value, dict):
            try:
                return Sizes(tuple(map(_whole, value)))
            except TypeError:
                raise _Misfit from None
        if not isinstance(declared, ObjectInput):
            raise _Misfit
        return value

    def _refusal(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> OutsideDomain:
        """Return the error, which says in a sentence what differs."""
        structure = self._structure
        declared = f"what is declared is {structure}"
        names = [each for each in kwargs if each not in structure.arguments]
        if not kwargs and len(args) == 1 and isinstance(args[0], Mapping):
            names = [each for each in args[0] if each not in structure.arguments and each not in self._flat]
        if names:
            known = [*structure.arguments, *self._flat]
            said = f"`{names[0]}` is no input{nearest(str(names[0]), dict.fromkeys(known))}"
        elif len(args) != len(structure.args):
            said = f"{len(args)} positional arguments are given, but {len(structure.args)} are declared"
        elif kwargs.keys() != structure.kwargs.keys():
            said = f"the keyword arguments {sorted(kwargs)} are given, but {sorted(structure.kwargs)} are declared"
        else:
            said = f"the arguments are structured in another way; {declared}"
        return OutsideDomain(said, {}, declared)


def _whole(value: Any) -> int:
    """Return the size as an int. Raises TypeError if it is none; an array with one int in it is rejected too."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError
    return int(value)
