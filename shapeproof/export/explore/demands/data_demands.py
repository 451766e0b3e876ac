"""Adapt the integers of generated inputs to what a program demands of them, at any sizes.

Indices lie within what they index, offsets within what they divide, and lengths add up to the size that they split.
Numbers read from an input pass the model's own checks. Otherwise a replay at other sizes raises for an unrelated
reason, or reads memory out of bounds. An example's own data stay unchanged.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.meaning.evaluate import holds_at, value_at
from shapeproof.constraints.terms import ZERO, Term, name_of, symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.materialize import comparable, is_ordered
from shapeproof.export.explore.demands.graph_demands import indexed, size_along
from shapeproof.export.explore.findings import Traced
from shapeproof.export.graph import nodes
from shapeproof.export.ops.table import kind_of, known_of
from shapeproof.export.trace.traced import translator_of
from shapeproof.solver.answers.witness import smallest
from shapeproof.solver.facts import Facts

Meet = Callable[[Mapping[str, int], dict[str, Any]], None]


def demands(inputs: Inputs, traced: Traced) -> list[Meet]:
    """Return a traced program's demands on its integer inputs, as functions that change inputs to meet them."""
    if traced.program is None:
        return []
    examples = {leaf.source: leaf.example for leaf in inputs.leaves}
    read = translator_of(traced.program).size
    shifted = _shifted(traced.program, inputs, read)
    sources = {node: source for node, (source, shift) in shifted.items() if shift is ZERO}
    found = list(_of_operators(traced.program, shifted, sources, read, examples))
    taken = dict(_taken(traced.program, sources, read))
    return [*found, functools.partial(_pass_checks, traced.trial.facts, taken, examples)] if taken else found


_SIGNS = {"sum of two": 1, "difference of two": -1}


def _shifted(
    program: torch.export.ExportedProgram, inputs: Inputs, read: Callable[[Any], Term]
) -> dict[torch.fx.Node, tuple[str, Term]]:
    """Return the nodes that hold a tensor input plus a number, each with the input's source and the number.

    `i`, `i.view(-1)` and `i.long()` hold the input plus 0; `i - 1` the input plus -1.
    """
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    by_name = dict(zip(names, (leaf.source for leaf in inputs.leaves), strict=False))
    found = {node: (by_name[node.name], ZERO) for node in placeholders if node.name in by_name}
    for node in program.graph.nodes:
        base = node.args[0] if node.op == "call_function" and node.args else None
        if not isinstance(base, torch.fx.Node) or base not in found:
            continue
        source, shift = found[base]
        if _keeps(node.target):
            found[node] = source, shift
        elif kind_of(node.target) in _SIGNS and not (node.kwargs or node.args[2:]):
            added = nodes.metadata(node.args[1])
            if isinstance(added, int | torch.SymInt):
                found[node] = source, shift + _SIGNS[kind_of(node.target)] * read(added)
    return found


def _keeps(target: Any) -> bool:
    """True if an operator returns all elements of its operand, in order."""
    known = known_of(target)
    return known.alias_or_copy or known.in_order


# ---------------------------------------------------------------------- of operators


def _of_operators(
    program: torch.export.ExportedProgram,
    shifted: Mapping[torch.fx.Node, tuple[str, Term]],
    sources: Mapping[torch.fx.Node, str],
    read: Callable[[Any], Term],
    examples: Mapping[str, Any],
) -> Iterator[Meet]:
    for node in program.graph.nodes:
        for indexed_node, dim, index, _ in indexed(node):
            if index in shifted:
                source, shift = shifted[index]
                yield _Within(source, _size(indexed_node, dim, read), shift, is_ordered(examples[source]))
        known = known_of(node.target)
        named = nodes.arguments(node) if known.offsets or known.lengths else {}
        if known.offsets is not None:
            divided, offsets = (named[name] for name in known.offsets)
            if offsets in sources:
                yield functools.partial(_divide, sources[offsets], _size(divided, 0, read))
        if known.lengths is not None:
            data, lengths, axis = (named[name] for name in known.lengths)
            if lengths in sources:
                yield functools.partial(_share, sources[lengths], _size(data, axis or 0, read))


def _size(node: torch.fx.Node, dim: int, read: Callable[[Any], Term]) -> Term:
    return read(size_along(node, dim))


@dataclass(frozen=True, slots=True, eq=False)
class _Within:
    """Demands integers that, plus a number, are at least 0 and less than a size."""

    source: str
    size: Term
    shift: Term
    ordered: bool

    def __call__(self, point: Mapping[str, int], values: dict[str, Any]) -> None:
        size, shift, tensor = value_at(self.size, point), value_at(self.shift, point), values[self.source]
        if size is None or shift is None or size <= 0 or tensor.is_complex():
            return
        given = comparable(tensor)
        index = given.long() + shift
        outside = (index < 0) | (index >= size)
        if bool(outside.any()):
            inside = index.clamp(0, size - 1) if self.ordered else index % size
            tensor.copy_(torch.where(outside, inside - shift, given))


def _divide(source: str, size: Term, point: Mapping[str, int], values: dict[str, Any]) -> None:
    """Make integers begin with 0, in order, up to a size."""
    end, tensor = value_at(size, point), values[source]
    if end is not None and end >= 0 and tensor.dim():
        tensor.copy_(tensor.clamp(0, end).sort(-1).values)
        tensor[..., :1] = 0


def _share(source: str, size: Term, point: Mapping[str, int], values: dict[str, Any]) -> None:
    """Make integers of at least 0 add up to a size along the last dimension."""
    total = value_at(size, point)
    if total is not None and total >= 0:
        _add_up(values[source], total)


def _add_up(tensor: torch.Tensor, total: int) -> None:
    """Distribute a total over the elements, unless they add up to it already or their dtype cannot hold the shares."""
    count = tensor.shape[-1] if tensor.dim() else 0
    if not count or not bool((tensor.sum(-1) != total).any()):
        return
    share, rest = divmod(total, count)
    if _can_hold(tensor.dtype, share) and (not rest or _can_hold(tensor.dtype, share + 1)):
        tensor.fill_(share)
        if rest:
            tensor[..., count - rest :] = share + 1


def _can_hold(dtype: torch.dtype, value: int) -> bool:
    """Tell whether a dtype has this integer: an in-place write of any other raises, or writes another number."""
    if dtype is torch.bool:
        return value in (0, 1)
    if dtype.is_floating_point:
        return int(torch.tensor(value, dtype=dtype, device="cpu")) == value
    return torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max


# ---------------------------------------------------------------------- of checks on numbers that are taken out


@dataclass(frozen=True, slots=True)
class _Number:
    """A number that the model reads from an input: one element, or a reduction of all."""

    source: str
    how: str
    index: int = 0

    def of(self, tensor: torch.Tensor) -> int | None:
        """Return the number's present value; None if there is none."""
        if tensor.numel() == 0 or (self.how == "element" and not -len(tensor) <= self.index < len(tensor)):
            return None
        return int(tensor[self.index] if self.how == "element" else getattr(tensor, self.how)())

    def put(self, tensor: torch.Tensor, value: int) -> None:
        """Change the tensor so that the number has this value, if its dtype can hold it."""
        if self.how == "sum":
            _add_up(tensor.view(-1), value)
        elif not _can_hold(tensor.dtype, value):
            return
        elif self.how == "element":
            tensor[self.index] = value
        else:
            tensor.clamp_(**{self.how: value})
            tensor.view(-1)[0] = value


def _taken(
    program: torch.export.ExportedProgram, sources: Mapping[torch.fx.Node, str], read: Callable[[Any], Term]
) -> Iterator[tuple[str, _Number]]:
    """Yield the symbols of numbers that are read from inputs."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if not known_of(node.target).is_number:
            continue
        number = _number(node.args[0], sources)
        name = name_of(read(value)) if isinstance(value, torch.SymInt) else None
        if number is not None and name is not None:
            yield name, number


def _number(node: Any, sources: Mapping[Any, str]) -> _Number | None:
    while node not in sources and _keeps(node.target):
        node = node.args[0]
    if node in sources:
        return _Number(sources[node], "max")
    of: Any = node.args[0] if node.args else None
    rest: list[Any] = list(node.args[1:])
    how = known_of(node.target).reduces_all
    if how is not None:
        return _Number(sources[of], how) if of in sources and not rest else None
    if node.target is operator.getitem and kind_of(of.target) == "unbind":
        of, rest = of.args[0], [*of.args[1:], *rest] if len(of.args) > 1 else [0, *rest]
    elif kind_of(node.target) != "select":
        return None
    is_element = of in sources and of.meta["val"].dim() == 1 and isinstance(rest[1], int)
    return _Number(sources[of], "element", rest[1]) if is_element else None


def _pass_checks(
    facts: Facts,
    taken: Mapping[str, _Number],
    examples: Mapping[str, Any],
    point: Mapping[str, int],
    values: dict[str, Any],
) -> None:
    """Make numbers from inputs pass the model's checks, if any numbers do."""
    now = {name: number.of(values[number.source]) for name, number in taken.items()}
    whole = {**point, **{name: value for name, value in now.items() if value is not None}}
    if all(holds_at(each, whole) for each in facts.formulas if each.symbols <= whole.keys()):
        return
    facts = facts.assuming(*(f.eq(symbol(name), value) for name, value in point.items()))
    passing = smallest(f.TRUE, facts, sorted(taken))
    if not isinstance(passing, dict):
        return
    for name in now.keys() & passing.keys():
        if now[name] is not None:
            taken[name].put(values[taken[name].source], passing[name])
    for source in {number.source for number in taken.values() if number.how == "element"}:
        tensor = values[source]
        if is_ordered(examples[source]) and bool(tensor[0] <= tensor[-1]):
            tensor.clamp_(int(tensor[0]), int(tensor[-1]))
