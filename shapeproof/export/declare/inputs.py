"""The user's declarations: the inputs of a model, their symbolic sizes, and the domain of the sizes.

Builds concrete inputs at a point of the domain: empty ones for tracing, filled ones for replay.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import AdditionalInputs, Dim

from shapeproof.constraints.errors import Unevaluable, UsageError
from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.records.domain import Declaration, Domain
from shapeproof.constraints.syntax.text import format_formula, format_term
from shapeproof.constraints.terms import ONE, Term, name_of, total
from shapeproof.export.declare.materialize import fill, like_example
from shapeproof.export.declare.reading import Leaf, Reader, TensorSpec
from shapeproof.export.shim.inputs import binding, dims
from shapeproof.export.shim.storages import holds_data, with_plain_sizes
from shapeproof.export.source.declared_at import Where, nowhere
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.wording import values_text


@dataclass(frozen=True, slots=True)
class Inputs:
    """The declared inputs of a model."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: tuple[Leaf, ...]
    domain: Domain
    anchors: tuple[dict[str, int], ...]
    """The points of the given inputs, which must stay in the domain, the example's first; empty without an example."""
    bound: Mapping[str, Any] = field(repr=False, default_factory=dict)
    """The given inputs, by the names of the model's arguments."""
    dynamic_shapes: Any = field(repr=False, default=None)
    """The dynamic_shapes as given, a ShapesCollection as a tree."""
    constraints: tuple[str, ...] = ()
    """The relations as given."""
    notes: tuple[str, ...] = ()
    """Declarations that have no effect, in words."""
    hints: Mapping[str, int] = field(default_factory=dict)
    """The sizes for which compilers should tune, by symbol (`hint_override` of a mark)."""
    remade: Callable[[Callable[[str, Any], Any]], Any] = field(repr=False, default=lambda _: None)
    """Returns dynamic_shapes in the given form, with each entry changed by a function of source and entry."""

    budget: Budget = field(default_factory=Budget, repr=False, compare=False)
    """What one question to the solver about these inputs may cost."""
    demands: list[Callable[[Mapping[str, int], dict[str, Any]], None]] = field(default_factory=list, compare=False)
    """Learned from traces: each changes the inputs made for a point so that their data meet a condition of the model.
    """

    @property
    def example(self) -> dict[str, int] | None:
        """The point of the user's example; None if some tensor has no example."""
        return self.anchors[0] if self.anchors else None

    @property
    def sizes(self) -> dict[str, tuple[Term, ...]]:
        """The declared terms by torch's source name, for inputs with a symbolic size."""
        return {leaf.source: leaf.terms for leaf in self.leaves if any(not term.is_constant for term in leaf.terms)}

    @property
    def shapes(self) -> dict[str, list[str]]:
        """The declared sizes of each input (an int: its value) as text, over the symbols of the domain."""
        return {leaf.name: [format_term(term) for term in leaf.terms] for leaf in self.leaves if leaf.terms}

    @property
    def user_names(self) -> dict[str, str]:
        """From symbol to the user's name for it."""
        return self.domain.user_names

    def automatic(self, varies: Callable[[Leaf, int], bool]) -> Any:
        """Return dynamic_shapes in the given form, with Dim.AUTO for the sizes of each input that vary."""
        leaves = {leaf.source: leaf for leaf in self.leaves}

        def entry(source: str, _: Any) -> Any:
            leaf = leaves[source]
            hints = {index: Dim.AUTO for index in range(len(leaf.terms)) if varies(leaf, index)}
            return (hints or None) if leaf.is_tensor else hints.get(0)

        return self.remade(entry)

    @property
    def conditions(self) -> Iterator[tuple[str, Term, Callable[[Any], Any]]]:
        """Yield the conditions that marks name: the user's name of the size, the size, a function of it."""
        for leaf in self.leaves:
            for index in (index for index, mark in enumerate(leaf.marks) if mark is not None):
                for condition in dims.specializations(leaf.example, index):
                    yield leaf.size_name(index), leaf.terms[index], condition

    def facts(self) -> Facts:
        """Return the declared domain as facts."""
        return Facts(self.domain.formulas, self.budget)

    def check_anchors(self) -> None:
        """Check that the given inputs lie in the declared domain.

        Raises:
            UsageError: an input violates a declaration, or the declaration has no value there; the message names both.
        """
        for number, point in enumerate(self.anchors):
            for declaration in self.domain.declarations:
                if declaration.formula.symbols and not _holds(declaration, point):
                    names = self.user_names
                    what = f"additional input {number}" if number else "the example"
                    sizes = values_text({each: point[each] for each in sorted(declaration.formula.symbols)}, names)
                    declared = format_formula(declaration.formula, rename=names)
                    raise UsageError(f"{what} has {sizes}, but {declared} is declared")

    @property
    def count(self) -> Term:
        """The number of elements in the inputs."""
        return total(math.prod(leaf.terms, start=ONE) for leaf in self.leaves if leaf.is_tensor)

    def elements(self, point: Mapping[str, int]) -> int:
        """Return the number of elements in the inputs at a point."""
        return sum(math.prod(evaluate(term, point) for term in leaf.terms) for leaf in self.leaves if leaf.is_tensor)

    def at(
        self, point: Mapping[str, int], *, filled: bool, seed: int | None = 0
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return concrete inputs at a point; `filled`: with data like the example's, or its own data without a seed."""
        values = {leaf.source: _materialize(leaf, point, filled=filled, seed=seed) for leaf in self.leaves}
        if filled:
            self._identify(values)
            known = all(holds_data(each) for each in values.values() if isinstance(each, torch.Tensor))
            own = all(point.get(name) == size for name, size in (self.example or {"": 0}).items())  # keep its data
            for meet in self.demands if known and not own else ():
                meet(point, values)
        return binding.rebuild_inputs(self.args, self.kwargs, values)

    def _identify(self, values: dict[str, Any]) -> None:
        """Pass one tensor twice if the example does and its sizes allow: a model may ask `q is k`."""
        first: dict[int, Any] = {}
        for leaf in self.leaves:
            if isinstance(leaf.example, torch.Tensor):
                made = first.setdefault(id(leaf.example), values[leaf.source])
                if made.shape == values[leaf.source].shape:
                    values[leaf.source] = made


def declare(  # noqa: PLR0913, PLR0917 - all that a call says, and where
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    dynamic_shapes: Any,
    constraints: Sequence[str] = (),
    where: Where = nowhere,
) -> Inputs:
    """Read the user's declarations, and their lines.

    Raises:
        UsageError: an entry is invalid; the message names it.
    """
    _check_kinds(mod, args, kwargs)
    kwargs = binding.in_order(mod, args, kwargs or {})
    others = binding.further_inputs(dynamic_shapes) if isinstance(dynamic_shapes, AdditionalInputs) else []
    named = binding.name_leaves(mod, args, kwargs)
    own = {each.device for each in mod.parameters()}
    home = own.pop() if len(own) == 1 else None
    examples = [Leaf(source, name, with_plain_sizes(value), device=home) for source, name, value in named]
    if others:
        from shapeproof.export.declare import anchors  # seldom are there further inputs

        anchors.check_alike(mod, examples, others)
    shapes = binding.read_shapes(mod, args, kwargs, dynamic_shapes)
    reader = Reader(where, shapes.roots, by_marks=not shapes.given)
    leaves = tuple(reader.leaf(leaf, shapes.entries.get(leaf.source)) for leaf in examples)
    relations = tuple(dict.fromkeys((*shapes.relations, *_texts(constraints))))
    reader.relations(relations)
    sampled = any(isinstance(leaf.example, TensorSpec) for leaf in leaves)
    return Inputs(
        args,
        kwargs,
        leaves,
        Domain(reader.variables, tuple(reader.declarations)),
        () if sampled else (dict(reader.example), *(anchors.further_anchors(mod, leaves, others) if others else ())),
        binding.bind(mod, args, kwargs),
        shapes.given,
        relations,
        tuple(_in_vain(mod, leaves, by_marks=not shapes.given)),
        {**dict(_overrides(leaves)), **shapes.hints},
        functools.partial(binding.map_shapes, mod, args, kwargs, shapes.tree),
    )


def _in_vain(mod: torch.nn.Module, leaves: Sequence[Leaf], *, by_marks: bool) -> Iterator[str]:
    """The marks that have no effect, in words."""
    for name, held in itertools.chain(mod.named_parameters(), mod.named_buffers()):
        if dims.is_marked(held):
            yield f"the marks of `{name}` have no effect: its sizes are the model's own, and only those of inputs vary"
    for leaf in leaves:
        if not isinstance(leaf.example, torch.Tensor):
            continue
        if by_marks:
            yield from dims.without_effect(leaf.example, leaf.name)
        elif dims.is_marked(leaf.example):
            yield f"the marks of `{leaf.name}` have no effect: dynamic_shapes says what its sizes are"


def _overrides(leaves: Sequence[Leaf]) -> Iterator[tuple[str, int]]:
    for leaf in leaves:
        for index, term in enumerate(leaf.terms if isinstance(leaf.example, torch.Tensor) else ()):
            name, size = name_of(term), dims.hint_override(leaf.example, index)
            if name is not None and size is not None:
                yield name, size


def _check_kinds(mod: Any, args: Any, kwargs: Any) -> None:
    if not isinstance(mod, torch.nn.Module):
        message = f"the model must be a torch.nn.Module, not {type(mod).__name__}"
    elif isinstance(mod, torch.jit.ScriptModule):
        message = "torch.export does not take a ScriptModule: give the module it was made of"
    elif not isinstance(args, tuple):
        message = f"args must be a tuple of example inputs, not {type(args).__name__}"
    elif kwargs is not None and not isinstance(kwargs, dict):
        message = f"kwargs must be a dict of example inputs, not {type(kwargs).__name__}"
    else:
        return
    raise UsageError(message)


def _texts(constraints: Any) -> tuple[str, ...]:
    if isinstance(constraints, tuple | list) and all(isinstance(text, str) for text in constraints):
        return tuple(constraints)
    raise UsageError(f"constraints must be a sequence of texts such as ['b % 2 == 0'], not {constraints!r}")


def _holds(declaration: Declaration, example: Mapping[str, int]) -> bool:
    try:
        return holds(declaration.formula, example)
    except (ArithmeticError, ValueError):
        return False
    except Unevaluable as error:
        raise UsageError(f"{declaration.origin.text!r} cannot be evaluated at the example: {error}") from None


def _materialize(leaf: Leaf, point: Mapping[str, int], *, filled: bool, seed: int | None) -> Any:
    if not leaf.is_tensor:
        return evaluate(leaf.terms[0], point) if leaf.terms else leaf.example
    sizes = [evaluate(term, point) for term in leaf.terms]
    if isinstance(leaf.example, TensorSpec):
        tensor = torch.empty(sizes, dtype=leaf.example.dtype, device=leaf.device)
        return fill(tensor, None, seed) if filled else tensor
    return like_example(leaf.example, sizes, filled=filled, seed=seed)
