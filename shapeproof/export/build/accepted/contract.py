"""The contract of a program: the declared inputs, the domain of their sizes, and how they lie in memory.

The contract is stored with the program. Each module of the program checks the contract first and raises OutsideDomain.
assertions.py writes into the graph the part that a graph can hold; a saved program carries the rest as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term
from shapeproof.contract.outside import OutsideDomain
from shapeproof.contract.sizes import SizeGuard
from shapeproof.export.build.accepted.guards import Guard, Layout, Memory, TensorGuard, guard_of, relaxed
from shapeproof.export.build.assertions import without_kinds
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.graph import nodes
from shapeproof.export.graph.aliasing import observes_aliasing, written_inputs
from shapeproof.export.ops.properties import OWN_BACKWARD, STRIDES
from shapeproof.export.shim import guarding
from shapeproof.export.shim.storages import memory_order
from shapeproof.export.shim.trees import leaves

_Program = torch.export.ExportedProgram


@dataclass(frozen=True)
class Requirements:
    """The requirements on the inputs of a program.

    Attributes:
        inputs: the user's name of each flat input, in order.
        sizes: the terms of the sizes of each input (an int: of its value).
        formulas: the formulas that hold for their symbols.
        declared: the formulas that the user wrote.
        names: the user's names of the symbols.
        memory: the layout of the inputs in memory that the program relies on.
        own_backward: the parts of the model's gradients that the program lacks.
    """

    inputs: tuple[str, ...]
    sizes: tuple[tuple[Term, ...], ...]
    formulas: tuple[Formula, ...]
    declared: frozenset[Formula]
    names: Mapping[str, str]
    memory: Memory = field(default_factory=lambda: Memory({}))
    own_backward: frozenset[str] = frozenset()

    def __deepcopy__(self, memo: Any) -> Requirements:
        return self

    @classmethod
    def of(cls, inputs: Inputs, formulas: Sequence[Formula], program: _Program, reads: Iterable[str]) -> Requirements:
        """Return the contract of a traced program; `reads`: the properties of tensors that its model reads."""
        read = frozenset(reads)
        memory = _memory(inputs, program, read - OWN_BACKWARD)
        return replace(cls.of_sizes(inputs, formulas), memory=memory, own_backward=read & OWN_BACKWARD)

    @classmethod
    def of_sizes(cls, inputs: Inputs, formulas: Sequence[Formula]) -> Requirements:
        """Return a contract without requirements on memory."""
        return cls(
            tuple(leaf.name for leaf in inputs.leaves),
            tuple(leaf.terms for leaf in inputs.leaves),
            tuple(formulas),
            frozenset(inputs.domain.formulas),
            inputs.user_names,
        )

    def with_memory_of(self, others: Iterable[Requirements]) -> Requirements:
        """Return this contract with the memory requirements of others added."""
        memory = self.memory
        for other in others:
            memory |= other.memory
        return replace(self, memory=memory)

    def size_guard(self, program: _Program) -> SizeGuard:
        """Return the guard of all sizes together."""
        named = self.size_names(program)
        return SizeGuard(
            self.sizes,
            self.formulas,
            self.declared,
            self.names,
            lambda leaf, index: named[leaf][index],
        )

    def size_names(self, program: _Program) -> list[list[str]]:
        """Return the user's names of the sizes of each flat input: `x.shape[0]`, or the name of an int."""
        guards = self.guards(program).values()
        return [
            [f"{name}.shape[{dim}]" if isinstance(guard, TensorGuard) else name for dim in range(len(terms))]
            for name, guard, terms in zip(self.inputs, guards, self.sizes, strict=True)
        ]

    def guards(self, program: _Program) -> dict[str, Guard]:
        """Return the guard of each flat input by its name in the graph, in order."""
        given = zip(self.inputs, nodes.input_nodes(program.graph, len(self.inputs)), strict=True)
        return {node.name: guard_of(name, node.meta["val"]) for name, node in given}

    def state(self, program: _Program) -> tuple[str, ...]:
        """Return the names of the model's tensors that must share no memory with an input; no unwritten parameters."""
        signature = program.graph_signature
        buffers = {*signature.buffers, *signature.lifted_tensor_constants} if self.memory.writes else set()
        return tuple(sorted(buffers | self.memory.state))

    def on(self, program: _Program, module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Make a module of the program check the contract, and return the module."""
        if self.inputs:
            without_kinds(module)
            guarding.guard_inputs(module, InputGuards(self, program), self.state(program))
        guarding.guard_structure(module, _misfit)
        return module

    def note_in(self, program: _Program) -> None:
        """Store as text, in the saved program, the checks that its graph cannot hold; torch's `module()` runs them."""
        sources = [f"L['flat_args'][{index}]" for index in range(len(self.inputs))]
        guarding.note_guards(
            program,
            [
                code
                for index, (guard, source) in enumerate(zip(self.guards(program).values(), sources, strict=True))
                for code in [*guard.code(source), *self.memory.code(index, source)]
            ],
        )

    def refuse_example(self, inputs: Inputs) -> None:
        """Check that the example lies in memory as the program requires.

        Raises:
            UsageError: it does not, so the program would refuse its own example.
        """
        if inputs.example is None:
            return
        try:
            self.memory.check([leaf.example for leaf in inputs.leaves], {})
        except OutsideDomain as outside:
            raise UsageError(f"of the example inputs, {outside}: give tensors of their own") from None


def _memory(inputs: Inputs, program: _Program, reads: frozenset[str]) -> Memory:
    """The layout in memory that the inputs of a traced program must have."""
    layouts = {
        index: Layout(leaf.name, memory_order(leaf.example), leaf.example.requires_grad)
        if isinstance(leaf.example, torch.Tensor)
        else Layout(leaf.name, tuple(range(len(leaf.terms))), requires_grad=False)
        for index, leaf in enumerate(inputs.leaves)
        if leaf.is_tensor and getattr(leaf.example, "layout", torch.strided) is torch.strided
    }
    given, written = nodes.input_nodes(program.graph, len(inputs.leaves)), written_inputs(program.graph)
    states = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs if spec.target}
    return Memory(
        layouts,
        reads | {STRIDES} if observes_aliasing(program.graph) else reads,
        frozenset(index for index, node in enumerate(given) if node in written),
        frozenset(states[node.name] for node in written.difference(given) if node.name in states),
    )


def _misfit(said: str) -> OutsideDomain:
    return OutsideDomain(said, {}, "the structure of the example")


class InputGuards(torch.nn.Module):
    """Checks, before the graph runs, the flat inputs and the model's tensors that must share no memory with them."""

    def __init__(self, contract: Requirements, program: _Program, *, of_several: bool = False) -> None:
        super().__init__()
        guards = [*contract.guards(program).values()]
        self._each = list(map(relaxed, guards, contract.sizes)) if of_several else guards
        self._sizes = contract.size_guard(program)
        self._memory = contract.memory
        self._state = contract.state(program)
        self._spec = program.call_spec.in_spec

    def __deepcopy__(self, memo: Any) -> InputGuards:
        return self  # it holds no reference to the module that it guards

    def forward(self, *values: Any) -> None:
        """Raise OutsideDomain for inputs outside the contract; in a trace, the graph's assertions check the sizes."""
        for guard, value in zip(self._each, values, strict=False):
            guard.check(value)
        if guarding.is_traced():
            return
        self._sizes.check(values)
        if self._memory.matters:
            self._memory.check(values, dict(zip(self._state, values[len(self._each) :], strict=True)))

    def arranged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return inputs in the order of the example's; raise OutsideDomain if they are structured otherwise."""
        return guarding.arranged(args, kwargs, self._spec, _misfit)

    def point(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, int]:
        """Return each symbol's value for arranged inputs; raise OutsideDomain for inputs outside the contract."""
        given = leaves((args, kwargs))
        self(*given)
        return self._sizes.point(given)
