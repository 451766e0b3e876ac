"""Find operators of a program whose fake kernels `check_operator` has proved in this process.

A proof concerns the declared arguments. It applies to a call if the call's tensors have the same ranks and dtypes and
lie contiguously, its sizes are proved to be among those declared, and its other arguments are the same values. Any
other call leaves the operator trusted, and so does a kernel or fake kernel registered since the proof.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term, name_of, symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.reading import Leaf
from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.shim.custom_operators import fake_kernel, python_kernel
from shapeproof.export.shim.inputs.binding import rebuild_inputs
from shapeproof.export.shim.storages import dense_strides
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator, Untranslatable
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.reduction import substitute
from shapeproof.solver.prove import implied


@dataclass(frozen=True, slots=True)
class _Proof:
    """A proof by `check_operator`: the code that it read, the arguments by name as leaves, and facts about them."""

    code: tuple[Any, ...]
    arguments: Mapping[str, Any]
    domain: Sequence[Formula]


_proofs: dict[Any, list[_Proof]] = {}
"""The proofs by operator, for the life of the process; a proof stays valid while the code is the same."""


def remember_proof(operator: Any, inputs: Inputs, names: Mapping[str, str]) -> None:
    """Remember that an operator does what its fake kernel says, over the declared sizes of its arguments.

    `names` maps each argument of its schema to its name among the declared arguments.
    """
    apart = {name: symbol(f"{name} of {operator.name()}") for name in inputs.domain.symbols}
    leaves = (replace(leaf, terms=tuple(substitute(each, apart) for each in leaf.terms)) for leaf in inputs.leaves)
    args, kwargs = rebuild_inputs(inputs.args, inputs.kwargs, {leaf.source: leaf for leaf in leaves})
    by_schema = {name: kwargs[shown] for name, shown in names.items() if shown in kwargs}
    arguments = schemas.by_name(operator, args, by_schema)
    domain = [substitute(each, apart) for each in inputs.domain.formulas]
    _proofs.setdefault(operator, []).append(_Proof(_code(operator), arguments, domain))


@contextlib.contextmanager
def unproved(operator: Any) -> Iterator[None]:
    """Trust an operator like any other while this block checks it; the proofs of the operator return afterwards."""
    proofs = _proofs.pop(operator, [])
    try:
        yield
    finally:
        _proofs[operator] = proofs


def _code(operator: Any) -> tuple[Any, ...]:
    functions = (python_kernel(operator), fake_kernel(operator))
    return tuple((function, getattr(function, "__code__", None)) for function in functions)


def is_checked(operator: Any, program: torch.export.ExportedProgram, facts: Facts) -> bool:
    """True if some proof covers each call of an operator, by its name, in a program whose sizes meet these facts."""
    every = (node for each in graph_modules(program.graph_module) for node in each.graph.nodes)
    calls = [node for node in every if schemas.is_foreign(node.target) and node.target.name() == operator]
    translator = translator_of(program)
    return all(any(_Covering(translator, facts).covers(each, node) for each in _valid(node.target)) for node in calls)


def _valid(operator: Any) -> list[_Proof]:
    return [each for each in _proofs.get(operator, ()) if each.code == _code(operator)]


class _Covering:
    """Decides whether a proof covers a call."""

    def __init__(self, translator: Translator, facts: Facts) -> None:
        self._term, self._facts = translator.size, facts

    def covers(self, proof: _Proof, node: torch.fx.Node) -> bool:
        """True if the arguments of a node are among those of the proof."""
        given = nodes.arguments(node)
        try:
            pairs = [pair for name, had in given.items() for pair in self._pairs(proof.arguments.get(name), had)]
        except (LookupError, Untranslatable):
            return False
        values: dict[str, Term] = {}
        for declared, had in pairs:
            size = name_of(declared)
            if size is not None:
                values.setdefault(size, had)
        wanted = [f.eq(substitute(declared, values), had) for declared, had in pairs]
        wanted += [substitute(each, values) for each in proof.domain]
        return all(implied(each, self._facts) for each in wanted)

    def _pairs(self, declared: Any, had: Any) -> Iterator[tuple[Term, Term]]:
        """Yield each declared size with the size of the call.

        Raises:
            LookupError: the arguments differ in something other than sizes.
        """
        value = nodes.metadata(had)
        if isinstance(declared, list | tuple) and isinstance(value, list | tuple) and len(declared) == len(value):
            for each in zip(declared, value, strict=True):
                yield from self._pairs(*each)
        elif isinstance(declared, Leaf) and declared.is_tensor and isinstance(value, torch.Tensor):
            yield from self._of_tensor(declared, value)
        elif isinstance(declared, Leaf) and declared.terms and isinstance(value, int | torch.SymInt):
            yield declared.terms[0], self._term(value)
        else:
            expected = declared.example if isinstance(declared, Leaf) else declared
            if type(expected) is not type(value) or expected != value:
                raise LookupError

    def _of_tensor(self, declared: Leaf, value: torch.Tensor) -> Iterator[tuple[Term, Term]]:
        plain = value.layout == torch.strided and value.device.type == "cpu" and not (value.is_conj() or value.is_neg())
        if not plain or value.dtype != declared.example.dtype or value.dim() != len(declared.terms):
            raise LookupError
        yield from zip(declared.terms, map(self._term, value.shape), strict=True)
        dense = dense_strides(range(value.dim()), value.shape)
        for size, stride, wanted in zip(value.shape, value.stride(), dense, strict=True):
            equal = f.eq(self._term(stride), self._term(wanted))
            if not implied(f.disjunction(equal, f.le(self._term(size), 1)), self._facts):
                raise LookupError
