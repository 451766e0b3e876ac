"""The contents of containers among a model's inputs: as torch flattens them, and as Python code reads them.

A container is a dict, a list, or a user's object that torch flattens. Tensors, modules, classes and functions are not
searched.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
import torch.utils._pytree as pytree

from shapeproof.export.shim.inputs.binding import bind, named_leaves

MOST_PLACES = 10_000
"""Maximum number of places searched in the inputs: an object may hold any amount of data."""

_LEAVES = (torch.Tensor, torch.nn.Module, type, types.FunctionType, types.MethodType, types.ModuleType, Enum)
_PLAIN = (int, float, complex, str, bytes, range, type(None), torch.dtype, torch.device, torch.Size)
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True, slots=True)
class Held:
    """The contents of inputs at one moment.

    Attributes:
        leaves: the flat inputs, by the names that `Inputs` gives them.
        places: the contents of containers, and the containers, by the code that reads them (`c.layers[0].keys`).
    """

    leaves: dict[str, Any]
    places: dict[str, Any]

    @property
    def containers(self) -> dict[str, Any]:
        """The containers, by the code that reads them."""
        return {place: value for place, value in self.places.items() if is_container(value)}

    def place_of(self, leaf: str) -> str:
        """Return the code that reads a flat input, or its own name if no code does."""
        value = self.leaves[leaf]
        argument = argument_of(leaf)
        if isinstance(value, torch.Tensor):
            read = (at for at, held in self.places.items() if held is value and argument_of(at) == argument)
            return next(read, leaf)
        return leaf


def held(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Held:
    """Return the current contents of the model's inputs."""
    return contents(bind(mod, args, kwargs))


def contents(bound: dict[str, Any]) -> Held:
    """Return the same of inputs that `bind` has named."""
    if not any(map(is_container, bound.values())):
        return Held({}, {})
    return Held({name: value for _, name, value in named_leaves(bound)}, _places(bound))


def argument_of(place: str) -> str:
    """Return the argument of the model that contains a place.

    >>> argument_of("c.layers[0].keys"), argument_of("c['a.b']")
    ('c', 'c')
    """
    return place.replace("[", ".").partition(".")[0]


def lies_in(place: str, container: str) -> bool:
    """True if a place is a container or lies in it.

    >>> lies_in("c.k", "c"), lies_in("c.k", "c.k"), lies_in("cache.k", "c")
    (True, True, False)
    """
    return place == container or place.startswith((f"{container}.", f"{container}["))


def is_container(value: Any) -> bool:
    """True if a value may hold other values, so that a caller that holds it sees them change."""
    if isinstance(value, (*_LEAVES, *_PLAIN, *_SYMBOLIC)):
        return False
    return isinstance(value, dict | list | tuple | deque) or hasattr(value, "__dict__") or bool(_slots(value))


def _parts(container: Any) -> Iterator[tuple[str, Any]]:
    """The contents of a container, each with the code that reads it off the container."""
    if isinstance(container, dict):
        yield from ((f"[{key!r}]", value) for key, value in container.items())
    elif isinstance(container, tuple) and hasattr(container, "_fields"):
        yield from ((f".{name}", getattr(container, name)) for name in container._fields)
    elif isinstance(container, list | tuple | deque):
        yield from ((f"[{index}]", value) for index, value in enumerate(container))
    yield from ((f".{name}", value) for name, value in getattr(container, "__dict__", {}).items())
    yield from ((f".{name}", getattr(container, name)) for name in _slots(container) if hasattr(container, name))


def _slots(value: Any) -> list[str]:
    declared = [vars(kind).get("__slots__", ()) for kind in type(value).__mro__]
    names = [name for slots in declared for name in ([slots] if isinstance(slots, str) else slots)]
    return [name for name in names if name not in {"__dict__", "__weakref__"} and not name.startswith("__")]


@dataclass(frozen=True, slots=True)
class Given:
    """The result of a model.

    Attributes:
        leaves: the flat outputs.
        containers: the ids of requested containers that the result holds unchanged.
        places: the values in the result, by the code that reads them off `output`.
    """

    leaves: Sequence[Any]
    containers: AbstractSet[int]
    places: Mapping[str, Any]

    def positions(self, value: Any) -> frozenset[int]:
        """Return the indices of the flat outputs that are this value."""
        return frozenset(index for index, leaf in enumerate(self.leaves) if is_same(leaf, value))

    def read(self, value: Any) -> str:
        """Return the code that reads a value off the output."""
        return next((place for place, other in self.places.items() if is_same(value, other)), "output")


def given(result: Any, ids: Container[int]) -> Given:
    """Return the contents of a result as torch flattens it, and which containers with these ids it holds."""
    parts = pytree.tree_leaves(result, is_leaf=lambda value: id(value) in ids)
    whole = {id(part) for part in parts if id(part) in ids}
    return Given(pytree.tree_leaves(result), whole, _places({"output": result}))


def is_same(one: Any, other: Any) -> bool:
    """True if two values are one object, or equal plain numbers or texts."""
    return one is other or (type(one) is type(other) and isinstance(one, (*_PLAIN, frozenset)) and bool(one == other))


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names that stand for different values, or that only one of the two has."""
    same = {name for name, value in one.items() if name in other and is_same(value, other[name])}
    return [name for name in {**one, **other} if name not in same]


def _places(bound: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    seen: set[int] = set()
    left = deque(bound.items())
    while left and len(found) < MOST_PLACES:
        place, value = left.popleft()
        found[place] = frozenset(value) if isinstance(value, AbstractSet) else value
        if is_container(value) and id(value) not in seen:
            seen.add(id(value))
            left.extend((f"{place}{step}", part) for step, part in _parts(value))
    return found
