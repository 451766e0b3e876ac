"""Read an operator's schema: its arguments by name, the arguments that it mutates, the views that it returns.

Also read a call of an operator for output_sizes.py and value_ranges.py: tensors as shapes, sizes as terms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term
from shapeproof.export.ops.call import Call, Shape, Span
from shapeproof.export.ops.table import kind_of, known_of
from shapeproof.export.ops.value_ranges import Bounds
from shapeproof.export.shim.custom_operators import OWN_NAMESPACES


def is_foreign(target: Any) -> bool:
    """True if the target is an operator that is not torch's own."""
    return schema_of(target) is not None and target.namespace not in OWN_NAMESPACES


def is_higher_order(target: Any) -> bool:
    """True if the target is one of torch's higher-order operators, such as `torch.cond`."""
    return getattr(target, "namespace", None) == "higher_order"


def is_random(target: Any) -> bool:
    """True if the target is an operator that may draw random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def schema_of(target: Any) -> Any:
    """Return the schema of an operator; None if the target is not an operator."""
    return getattr(target, "_schema", None)


def is_trusted(target: Any) -> bool:
    """True if an operator's statements about its results come from torch, not from the user."""
    return getattr(target, "namespace", None) in OWN_NAMESPACES and not known_of(target).states_range


@functools.cache
def _parameters(target: Any) -> tuple[tuple[str, ...], Mapping[str, Any], tuple[str, ...]]:
    """Return an operator's argument names, their defaults, and the mutated arguments; cached, since it is slow."""
    arguments = schema_of(target).arguments
    defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
    changed = (a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write)
    return tuple(a.name for a in arguments), defaults, tuple(changed)


def by_name(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operator by name, with defaults."""
    names, defaults, _ = _parameters(target)
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def written(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments that an operator mutates, with running statistics; `detach_` mutates no elements."""
    updates = updates_statistics(target, args, kwargs)
    if not updates and (not is_mutable(target) or kind_of(target) == "alias"):
        return []
    named = by_name(target, args, kwargs)
    updated = ("running_mean", "running_var") if updates else ()
    return [named.get(name) for name in (*_parameters(target)[2], *updated)]


@functools.cache
def returns_written(target: Any) -> bool:
    """True if an operator returns what it writes and nothing else, as `add_` does, or nothing at all.

    Raises:
        ValueError: some of its results are operands, and others are not.
    """
    schema = schema_of(target)
    own = [result for result in schema.returns if result.alias_info is None]
    if own and len(own) < len(schema.returns):
        raise ValueError(f"{target} returns operands and others")
    return not own and bool(schema.is_mutable)


def updates_statistics(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if a call updates running statistics, which its schema does not say."""
    asked = _switches_of_statistics(target)
    return bool(asked) and any(by_name(target, args, kwargs)[name] for name in asked)


@functools.cache
def _switches_of_statistics(target: Any) -> set[str]:
    """Return the arguments that turn on that one of torch's operators updates running statistics, besides results."""
    taken = set(_parameters(target)[0]) if getattr(target, "namespace", None) == "aten" else set()
    said = str(target.overloadpacket).endswith(("_functional", "_legit")) if "running_mean" in taken else True
    return set() if said else {"training", "use_input_stats"} & taken


def is_view_operator(target: Any, *, pure: bool) -> bool:
    """True if an operator returns a view of its first operand, and never a copy.

    `pure`: the result is not mutated, so it makes no difference whether `reshape` and similar operators copy.
    """
    schema = schema_of(target)
    if schema is None or schema.is_mutable or (not pure and known_of(target).alias_or_copy):
        return False
    aliased = [a for a in schema.arguments if a.alias_info is not None]
    return bool(aliased) and all(r.alias_info is not None for r in schema.returns)


def is_repeatable(target: Any) -> bool:
    """True if an operator leaves nothing behind when it is run again on aliases of its operands.

    It may mutate an operand in place: its contents and its view. It may not change the size of a storage, as `resize_`
    and operators with an `out` argument may.
    """
    schema = schema_of(target)
    if schema is None:
        return False
    return not schema.is_mutable or (_is_in_place(target) and not known_of(target).resizes)


def only_writes(target: Any) -> bool:
    """True for an in-place operator of torch that changes elements, but no tensor's layout."""
    if schema_of(target) is None or target.namespace != "aten" or torch.Tag.inplace_view in target.tags:
        return False
    return _is_in_place(target) and not known_of(target).resizes


def _is_in_place(target: Any) -> bool:
    return str(target.overloadpacket.__name__).endswith("_")


@functools.cache
def is_mutable(target: Any) -> bool:
    """True if an operator mutates an operand."""
    schema = schema_of(target)
    return schema is not None and bool(schema.is_mutable)


@dataclass(frozen=True, slots=True)
class Operands:
    """Reads operands.

    Attributes:
        read: returns the term of a size.
        span: returns the bounds of the integers in a tensor.
    """

    read: Callable[[Any], Term]
    span: Callable[[torch.Tensor], Span]

    def call(self, func: Any, args: Any, kwargs: Mapping[str, Any], results: Sequence[Any]) -> Call:
        """Return an operator, its arguments by name, and its results; a view's operand is read with its layout."""
        value = functools.partial(self._value, placed=known_of(func).view is not None)
        arguments = {name: value(each) for name, each in by_name(func, args, kwargs).items()}
        return Call(str(func), arguments, tuple(map(value, results)))

    def _value(self, value: Any, *, placed: bool = False) -> Any:
        if isinstance(value, torch.Tensor):
            return self._shape(value, placed=placed) if value.layout == torch.strided else value
        if isinstance(value, int | torch.SymInt) and not isinstance(value, bool):
            return self.read(value)
        return tuple(map(self._value, value)) if isinstance(value, tuple | list) else value

    def _shape(self, tensor: torch.Tensor, *, placed: bool) -> Shape:
        found = Shape(tuple(map(self.read, tensor.shape)), str(tensor.dtype), self.span(tensor))
        if not placed:
            return found
        return replace(found, strides=tuple(map(self.read, tensor.stride())), offset=self.read(tensor.storage_offset()))


def promises(call: Call) -> list[Formula]:
    """Return the facts about the sizes and numbers that a call takes from data."""
    rule = known_of(call.name).sizes
    return [] if rule is None else rule(call)


def contents(call: Call, bounds: Bounds) -> list[Span]:
    """Return a span for each result of a call, in order; further results without a span are unknown."""
    rule = known_of(call.name).values
    found = [] if rule is None else rule(call, bounds)
    return [found] if isinstance(found, Span) else list(found)


def meanings(call: Call) -> list[Term]:
    """Return the meanings of the symbols that torch makes for a view, in the order in which it makes them.

    Torch makes the symbols only where it does not know the sign of a bound; their meanings are known anyway.
    """
    rule = known_of(call.name).view
    return [] if rule is None else rule(call)


def counted(call: Call, fresh: Term) -> Call:
    """Return the call with a result that is known only in the first symbol, which is taken from data."""
    if known_of(call.name).is_number:
        return replace(call, results=(fresh,))
    source, dim = call.tensor("self"), call.integer("dim")
    if source is None or dim is None or source.size(dim) is None:
        return replace(call, results=(Shape((fresh,)),))
    index = dim.constant_value % len(source.sizes)
    return replace(call, results=(Shape((*source.sizes[:index], fresh, *source.sizes[index + 1 :])),))
