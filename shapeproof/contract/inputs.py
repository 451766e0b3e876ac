"""The requirements on one flat input, from any library: a tensor, an int, a constant, or an object.

A tensor is any object with `.shape` and `.dtype`. A tuple of sizes also stands for a tensor; then only the sizes are
checked. Device and layout are checked for torch's tensors only.

Also the structure of a call's arguments, and the flat inputs read out of a call.

A call is read as the model takes it; otherwise as one mapping of names to inputs among the arguments (onnxruntime:
`run(None, feed)`); otherwise by the names of arguments; otherwise as one sequence of all inputs (ExecuTorch:
`execute(inputs)`). Inputs given by name or in a sequence may omit constants: programs have the constants built in.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from shapeproof.constraints.errors import nearest
from shapeproof.constraints.terms import Term
from shapeproof.contract.outside import OutsideDomain, refusal

LEFT_OUT = type("LeftOut", (), {"__repr__": lambda _: "nothing"})()
"""Stands for a missing input."""
HIDDEN = type("Hidden", (), {"__repr__": lambda _: "something"})()
"""Stands for an input inside an opaque container."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a tensor, given instead of the tensor."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class TensorInput:
    """A tensor of one dtype, device, layout and rank.

    Attributes:
        name: the user's name.
        graph_name: the name in the program and in files made from the program.
        dtype, device, layout: by torch's names, without `torch.`.
        sizes: the terms of its sizes.
    """

    name: str
    graph_name: str
    dtype: str
    device: str
    layout: str
    sizes: tuple[Term, ...]

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is not such a tensor; dynamic sizes are not checked."""
        if getattr(value, "is_nested", False):  # torch raises where its sizes are read
            raise self._unlike("layout", Word("nested"), Word(self.layout))
        if not hasattr(value, "shape") or not (isinstance(value, Sizes) or hasattr(value, "dtype")):
            raise absent(self.name) if value is LEFT_OUT else refusal({self.name: value}, "a tensor")
        if not isinstance(value, Sizes):
            self._check_properties(value)
        if len(value.shape) != len(self.sizes):
            raise self._unlike("ndim", len(value.shape), len(self.sizes))
        for index, (given, term) in enumerate(zip(value.shape, self.sizes, strict=True)):
            if not isinstance(given, int) or isinstance(given, bool) or given < 0:
                what = f"{self.name}.shape[{index}]"
                raise refusal({what: given}, f"{what} >= 0")
            if term.is_constant and given != term.constant_value:
                raise self._unlike(f"shape[{index}]", given, term.constant_value)

    def _check_properties(self, value: Any) -> None:
        given = dtype_name(value.dtype)
        if given != self.dtype:
            raise self._unlike("dtype", Word(given), Word(self.dtype))
        if is_torchs(type(value)):
            for what, expected in (("device", self.device), ("layout", self.layout)):
                given = str(getattr(value, what)).removeprefix("torch.")
                if given != expected:
                    raise self._unlike(what, Word(given), Word(expected))

    def _unlike(self, what: str, given: Any, expected: Any) -> OutsideDomain:
        return refusal({f"{self.name}.{what}": given}, f"{self.name}.{what} == {expected}")


class Word(str):
    """A name that is shown without quotes in a sentence."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class IntInput:
    """An int with a dynamic value."""

    name: str
    graph_name: str
    sizes: tuple[Term, ...]

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value is not an int; a bool is not an int."""
        if value is LEFT_OUT:
            raise absent(self.name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise refusal({self.name: value}, "an int")


@dataclass(frozen=True)
class ConstantInput:
    """A value that the trace specialized: None, a bool, an int, a float, or a string."""

    name: str
    graph_name: str
    value: Any
    sizes: tuple[Term, ...] = ()

    def check(self, value: Any) -> None:
        """Raise OutsideDomain if the value differs, or is equal but of another type."""
        if not same_constant(value, self.value):
            raise refusal({self.name: value}, "None" if self.value is None else f"{self.name} == {self.value!r}")


@dataclass(frozen=True)
class ObjectInput:
    """An object that the contract does not inspect."""

    name: str
    graph_name: str
    sizes: tuple[Term, ...] = ()

    def check(self, value: Any) -> None:
        """Accept any value."""


Input: TypeAlias = TensorInput | IntInput | ConstantInput | ObjectInput


def absent(name: str) -> OutsideDomain:
    """Return the refusal of a call in which this input is missing."""
    return OutsideDomain(f"{name} is not given", {}, f"{name} is given")


def same_constant(value: Any, expected: Any) -> bool:
    """True if a value is the constant: equal, of the same type, and of the same sign for a zero; NaN equals NaN.

    >>> same_constant(0.0, -0.0), same_constant(True, 1), same_constant(float("nan"), float("nan"))
    (False, False, True)
    """
    if type(value) is not type(expected):
        return False
    if isinstance(expected, float):
        equal = value == expected and math.copysign(1, value) == math.copysign(1, expected)
        return equal or (math.isnan(value) and math.isnan(expected))
    return bool(value == expected)


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype of any library: `float32`.

    >>> dtype_name("float32")
    'float32'
    """
    return str(dtype).removeprefix("torch.")


def is_torchs(kind: type) -> bool:
    """True if the class is `torch.Tensor` or derived from it."""
    return any(base.__name__ == "Tensor" and base.__module__ == "torch" for base in kind.__mro__)


_CONTAINERS = (dict, list, tuple)
_MAPPINGS = (dict, Mapping)  # isinstance is fast for the first


class Misfit(Exception):
    """The arguments have another structure."""


@dataclass(frozen=True)
class Items:
    """A list or a tuple."""

    kind: type[list[Any] | tuple[Any, ...]]
    parts: tuple[Tree, ...]

    def split(self, value: Any) -> list[Any]:
        """Return the parts. Raises Misfit if the value has another structure."""
        if not isinstance(value, self.kind) or len(value) != len(self.parts):
            raise Misfit
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
        """Return the parts. Raises Misfit if the value has another structure."""
        if isinstance(value, Mapping):
            if value.keys() != set(self.keys):
                raise Misfit
            return [value[key] for key in self.keys]
        if not self.is_object or not all(hasattr(value, key) for key in self.keys):
            raise Misfit
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
        agree = all(by_name.get(name, index) == index for name, index in by_graph.items())
        self._fed_names = [
            (tuple(each), self._constants_by(each)) for each in (by_name, by_graph if agree else by_name)
        ]
        self._first = next((inputs[index].name for index in self._asked), "")
        self._ints = [index for index, each in enumerate(inputs) if isinstance(each, IntInput)]
        self._is_seen = not any(isinstance(each, ObjectInput) for each in inputs)
        self._is_flat = [*structure.args, *structure.kwargs.values()] == list(range(len(inputs)))
        self._keywords = tuple(structure.kwargs)

    def _constants_by(self, naming: Mapping[str, int]) -> dict[str, Any]:
        return {name: self._nothing[index] for name, index in naming.items() if index not in self._asked}

    def plain(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """Return the flat inputs of a call in a usual form, at less cost. If they are accepted, so are those of `flat`.

        Raises:
            LookupError, TypeError, Misfit: the call has another form.
        """
        given = (*args, *kwargs.values()) if kwargs else args
        last = given[-1]
        if len(args) == len(self._structure.args) and len(kwargs) == len(self._keywords):
            if self._is_flat and not isinstance(last, _CONTAINERS) and (not kwargs or tuple(kwargs) == self._keywords):
                return given
            if not self._is_flat:
                raise Misfit
        if not self._is_seen:
            raise Misfit
        if type(last) is dict and not [each for each in given[:-1] if hasattr(each, "keys")]:
            return self._plain_feed(last)
        if len(given) == 1 and isinstance(last, list | tuple):
            return last
        raise Misfit

    def _plain_feed(self, feed: dict[str, Any]) -> list[Any]:
        names, constants = self._fed_names[self._first not in feed]
        whole = constants | feed if constants else feed
        if len(whole) != len(names):
            raise Misfit
        values = list(map(whole.__getitem__, names))
        for index in self._ints:
            values[index] = self._leaf(index, values[index], fed=True)
        return values

    def flat(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the flat inputs, in order; a missing input that is no constant is LEFT_OUT or HIDDEN.

        Raises:
            OutsideDomain: the call has another structure.
        """
        for read in (self._as_called, self._as_feed, self._as_named, self._as_sequence):
            try:
                return read(args, kwargs)
            except Misfit:
                continue
        raise self._refusal(args, kwargs)

    def _as_called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Read the call as the model takes it."""
        structure = self._structure
        if len(args) != len(structure.args) or kwargs.keys() != structure.kwargs.keys():
            raise Misfit
        given = zip(structure.args, args, strict=True)
        return self._filled([*given, *((tree, kwargs[name]) for name, tree in structure.kwargs.items())])

    def _as_named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Read the arguments by name, as Python binds them."""
        named = dict(zip(self._structure.parameters, args, strict=False))
        if len(args) > len(self._structure.parameters) or named.keys() & kwargs.keys():
            raise Misfit
        return self._by_name(named | dict(kwargs))

    def _as_feed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Read one mapping among the arguments, by the names of inputs or of arguments."""
        given = [*args, *kwargs.values()] if kwargs else args
        feeds = [each for each in given if isinstance(each, _MAPPINGS) and self._is_feed(each)]
        if len(feeds) != 1:
            raise Misfit
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
            raise Misfit
        for expected in (range(len(self._inputs)), self._asked):
            if len(given[0]) == len(expected):
                return self._fed(zip(expected, given[0], strict=True))
        raise Misfit

    def _fed(self, given: Iterable[tuple[int, Any]]) -> list[Any]:
        values = list(self._nothing)
        for index, value in given:
            values[index] = self._leaf(index, value, fed=True)
        return values

    def _by_name(self, given: Mapping[str, Any]) -> list[Any]:
        arguments = self._structure.arguments
        if not given.keys() <= arguments.keys():
            raise Misfit
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
                raise Misfit from None
        if not isinstance(declared, ObjectInput):
            raise Misfit
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
