"""The program of a region as a branch of torch.cond: its operands, its results, and its likeness to other branches.

torch.cond forbids branches that mutate their operands, or return an operand or a view of one. merge.py chooses the
branch at run time and the sizes at which each branch is traced.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from shapeproof.constraints.terms import Term
from shapeproof.export.build.assertions import without_kinds
from shapeproof.export.build.closing_audit import checks_of
from shapeproof.export.explore.beside_eager.forms import decomposed
from shapeproof.export.graph import nodes
from shapeproof.export.graph.aliasing import written_inputs
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Untranslatable
from shapeproof.wording import said_by


class Branch:
    """A program as a function of the tensors that it uses and the flat inputs, without checks of the domain.

    Attributes:
        name: the name of the program in messages: `region 1`.
        program: the program.
        results: the values that it returns: fake tensors, symbolic numbers or constants.
        sizes: the terms of each result's sizes (a number: of its value); None for a size from data.
    """

    def __init__(self, name: str, program: torch.export.ExportedProgram) -> None:
        self.name = name
        self.program = program
        self._graph = _unchecked(program)
        (output,) = program.graph.output_node().args
        self.results = list(map(nodes.metadata, output))
        self.sizes = [_sizes(program, value) for value in self.results]
        self._copied = _views(program, output)

    def state(self) -> dict[str, torch.Tensor]:
        """Return the parameters, buffers and constants that the program uses, by name and in order."""
        tensors = self.program.state_dict | self.program.constants
        kept = torch.export.graph_signature.InputKind.USER_INPUT
        specs = (spec for spec in self.program.graph_signature.input_specs if spec.kind != kept)
        return {str(spec.target): tensors[str(spec.target)] for spec in specs}

    def checks(self) -> Counter[str]:
        """Return the checks that the branch makes."""
        return checks_of(self._graph)

    def changed(self) -> str | None:
        """Return the name of a buffer, a constant or an input that the program mutates, if any."""
        if any(map(nodes.body_writes, self.program.graph.find_nodes(op="get_attr"))):  # maybe into a tensor of its own
            signature = decomposed(self.program).graph_signature
            return next(iter([*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]), None)
        written = {node.name for node in written_inputs(self.program.graph)}
        specs = (spec for spec in self.program.graph_signature.input_specs if spec.arg.name in written)
        return next((str(spec.target or spec.arg.name) for spec in specs), None)

    def acts(self) -> bool:
        """True if a run gives tensors, or does something else: it checks data, writes, or draws random numbers."""
        calls = (each for part in graph_modules(self._graph) for each in part.graph.nodes if each.op == "call_function")
        return any(isinstance(each, torch.Tensor) for each in self.results) or any(map(torch.fx.Node.is_impure, calls))

    def __call__(
        self, state: Sequence[torch.Tensor], flat: Sequence[Any], lengths: Sequence[Any]
    ) -> tuple[torch.Tensor, ...]:
        """Return the tensors among the results, flattened to vectors where their lengths are given.

        If there is none, return a zero: torch cannot save a torch.cond without results.
        """
        try:
            results = self._graph(*state, *flat)
            tensors = [
                self._result(index, value, lengths[index])
                for index, value in enumerate(results)
                if isinstance(self.results[index], torch.Tensor)
            ]
            return tuple(tensors or [torch.zeros((), device="cpu")])
        except Exception as error:
            text = f"{self.name} cannot be traced at the sizes of the others, where torch.cond reads it too"
            raise RuntimeError(f"{text}: {said_by(error)}") from error

    def _result(self, index: int, value: torch.Tensor, length: Any) -> torch.Tensor:
        if value.dim() != self.results[index].dim():
            raise ValueError(f"result {index + 1} has {value.dim()} dimensions")
        if index in self._copied or length is None:  # the branches of torch.cond return strides of one order
            value = value.clone(memory_format=torch.contiguous_format)
        return value if length is None else value.reshape((length,))


def _sizes(program: torch.export.ExportedProgram, value: Any) -> list[Term | None]:
    translator = translator_of(program)
    found: list[Term | None] = []
    for size in value.shape if isinstance(value, torch.Tensor) else [value] if is_number(value) else []:
        try:
            found.append(translator.size(size))
        except Untranslatable:
            found.append(None)
    return found


def is_number(value: Any) -> bool:
    """True if a result is an integer: symbolic or constant."""
    return isinstance(value, torch.SymInt | int) and not isinstance(value, bool)


def _unchecked(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    """Return the graph without its assertions on inputs, which hold wherever the branch is taken, and on promises."""
    module: torch.fx.GraphModule = copy.deepcopy(program.graph_module)
    for node in list(module.graph.nodes):
        if node.target is symbols.ASSERTION and not _is_check(*node.args):
            module.graph.erase_node(node)
    return without_kinds(module)


def _is_check(condition: torch.fx.Node, message: str) -> bool:
    """True if an assertion is a check on data; torch's own message tells a bound that an operator promises."""
    return bool(symbols.data_symbols(condition.meta["val"])) and not message.startswith(symbols.PROMISED)


def _views(program: torch.export.ExportedProgram, output: Sequence[Any]) -> set[int]:
    """Return the indices of the results that share storage with an input, an earlier result or another node."""
    seen: set[Any] = set()
    for node in program.graph.nodes:
        if node not in output:
            seen.update(storages(node.meta.get("val")))
    found = set()
    for index, node in enumerate(output):
        own = set(storages(node.meta.get("val"))) if isinstance(node, torch.fx.Node) else set()
        if own & seen or (own and node.op == "placeholder"):
            found.add(index)
        seen |= own
    return found


def unlike(branches: Sequence[Branch]) -> str | None:
    """Say why the programs cannot be branches of one torch.cond, if that shows before a trace; else None."""
    first = branches[0]
    for branch in branches:
        changed = branch.changed()
        if changed is not None:
            return f"{branch.name} changes `{changed}` in place, and a branch of torch.cond must not"
        if branch.program.call_spec.out_spec != first.program.call_spec.out_spec:
            return f"{branch.name} returns another structure than {first.name}"
        for number, (mine, other) in enumerate(zip(first.results, branch.results, strict=True), 1):
            kinds = [_kind(value) for value in (mine, other)]
            if kinds[0] != kinds[1]:
                return f"result {number} is {kinds[0]} in {first.name} and {kinds[1]} in {branch.name}"
            if isinstance(other, torch.SymFloat | torch.SymBool):
                return f"result {number} is a number that is computed from sizes, and torch.cond returns tensors"
    return None


def _kind(value: Any) -> str:
    """Describe the properties that a result must share with the same result of another branch."""
    if isinstance(value, torch.Tensor):
        return f"a {value.dtype} tensor of {value.dim()} dimensions on {value.device}"
    if is_number(value):
        return "an integer"
    return type(value).__name__ if isinstance(value, torch.SymFloat | torch.SymBool) else repr(value)
