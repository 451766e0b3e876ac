"""Chooses the sizes at which a file is run, in the domain and outside of it; makes inputs from a contract alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.constraints.records.domain import Declaration, Domain, Origin, Variable
from shapeproof.contract import Contract
from shapeproof.contract.inputs import ConstantInput, Entries, Input, Items, ObjectInput, TensorInput, Tree
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.reading import Leaf, TensorSpec
from shapeproof.export.explore.points import Fitting, Found, Sizes, spread
from shapeproof.solver.answers.witness import smallest
from shapeproof.solver.facts import Facts

MOST_POINTS = 24
"""The sizes of the domain at which a file is run, at most; a third as many outside of it."""


def facts_of(contract: Contract) -> Facts:
    """Return what holds for the sizes that a contract accepts."""
    return Facts([*contract.formulas, *_sizes(contract)])


def _sizes(contract: Contract) -> list[Formula]:
    """No size is negative."""
    return [f.ge(term, 0) for each in contract.inputs if isinstance(each, TensorInput) for term in each.sizes]


def inside(inputs: Inputs, contract: Contract, asked: Iterable[Formula] = ()) -> list[Point]:
    """Return sizes of the domain, the smallest first; `asked`: what the trace asked about sizes.

    These are the example, the smallest sizes, the corners, sizes of 1, the smallest of each answer to a question,
    generic ones; then others, spread evenly over a small domain, and in a large one the smallest.
    """
    domain, sizes = facts_of(contract), Sizes(inputs)
    start = inputs.example or sizes.smallest(domain)
    if start is None:
        return []
    fitting = Fitting(inputs, start)
    found = itertools.chain(
        inputs.anchors,
        fitting.among([sizes.smallest(domain)]),
        fitting.corners(domain, []),
        fitting.ones(domain),
        fitting.among(_each_answer(fitting.names, domain, asked)),
        fitting.among([sizes.generic(domain)]),
        fitting.among(itertools.islice(spread(domain, fitting.names), 2 * MOST_POINTS) if fitting.names else ()),
    )
    return sorted(_distinct(found, domain, MOST_POINTS), key=_size)


def outside(inputs: Inputs, contract: Contract) -> list[Point]:
    """Return sizes that the contract refuses: the smallest that violate one of its formulas and no other."""
    start = inputs.example or Sizes(inputs).smallest(facts_of(contract))
    if start is None:
        return []
    fitting = Fitting(inputs, start)
    sizes = _sizes(contract)

    def violating(formula: Formula) -> Found:
        others = (each for each in contract.formulas if each is not formula)
        return smallest(f.negate(formula), Facts([*others, *sizes]), fitting.names)

    violated = map(violating, contract.formulas)
    return _distinct(fitting.among(violated), Facts(sizes), MOST_POINTS // 3)


def _each_answer(names: Sequence[str], domain: Facts, asked: Iterable[Formula]) -> Iterator[Found]:
    sizes = frozenset(names)
    for each in itertools.islice(dict.fromkeys(asked), MOST_POINTS):
        if each.symbols and each.symbols <= sizes:
            yield from (smallest(side, domain, names) for side in (each, f.negate(each)))


def _distinct(points: Iterable[Point], domain: Facts, most: int) -> list[Point]:
    """Return the first points of a domain, each once."""
    found: dict[Any, Point] = {}
    for point in points:
        if domain.contains(point):
            found.setdefault(tuple(sorted(point.items())), point)
        if len(found) == most:
            break
    return list(found.values())


def _size(point: Point) -> tuple[int, int]:
    return max(point.values(), default=0), sum(point.values())


def inputs_of(contract: Contract) -> Inputs:
    """Return the inputs of a contract as declared inputs without example: random floats, and integers of 0 and 1.

    Raises:
        UsageError: an input, or a container of inputs, is an object, of which a contract knows no more.
    """
    leaves = tuple(_leaf(index, each) for index, each in enumerate(contract.inputs))
    symbols = {name: None for each in leaves for term in each.terms for name in sorted(term.symbols)}
    variables = {name: Variable(name, contract.names.get(name, name), "dim") for name in symbols}
    declared = tuple(Declaration(each, Origin("the contract")) for each in contract.formulas)
    args = tuple(map(_nested, contract.structure.args))
    kwargs = {name: _nested(tree) for name, tree in contract.structure.kwargs.items()}
    return Inputs(args, kwargs, leaves, Domain(variables, declared), anchors=())


def _leaf(index: int, declared: Input) -> Leaf:
    match declared:
        case TensorInput():
            spec = TensorSpec(getattr(torch, declared.dtype), ())
            return Leaf(str(index), declared.name, spec, declared.sizes, device=torch.device(declared.device))
        case ConstantInput(value=value):
            return Leaf(str(index), declared.name, value)
        case ObjectInput():
            raise UsageError(f"the contract does not say what `{declared.name}` is: give the model, too")
        case _:
            return Leaf(str(index), declared.name, 0, declared.sizes)


def _nested(tree: Tree) -> Any:
    """Return containers as the program takes them; what a leaf is does not matter."""
    match tree:
        case int():
            return tree
        case Items():
            return tree.kind(map(_nested, tree.parts))
        case Entries(is_object=False, kind=""):
            return dict(zip(tree.keys, map(_nested, tree.parts), strict=True))
        case _:
            raise UsageError(f"the program takes a {tree.kind.partition(' ')[0]}: give the model, too")
