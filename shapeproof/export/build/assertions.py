"""Writes the declared domain into a traced program, as assertions that every consumer of the graph executes.

`unflatten` and AOTInductor drop guards outside the graph. Both execute an `_assert_scalar` inside the graph, and so
does the module, after save and load and after `run_decompositions()`. Each assertion carries a message in the user's
names. closing_audit.py verifies that the assertions are complete.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.contract.sizes import readings, relations
from shapeproof.export.build.clauses import clauses
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.graph import nodes
from shapeproof.export.graph.emit import Computation, NoGraphForm
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.totality import computed_whole
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied

SENTENCE = "input outside the declared domain: {}"


def assert_domain(program: torch.export.ExportedProgram, inputs: Inputs, formulas: Iterable[Formula]) -> None:
    """Add an assertion for each formula, and for each input size that is a function of others.

    A formula without graph form is left out; the closing audit reports it.
    """
    writer = _Writer(program, inputs)
    writer.kinds()
    asserted = [*writer.relations(), *((formula, "") for formula in formulas)]
    known = Facts(formula for formula, _ in asserted if formula.total)
    for formula, text in asserted:
        computed = computed_whole(formula, known)
        if computed is not None:
            with contextlib.suppress(NoGraphForm):
                writer.check(computed, text or format_formula(formula, rename=inputs.user_names))
    writer.finish()


def without_kinds(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Remove the assertions on the dtypes and ranks of inputs from a module whose guards check them."""
    for node in module.graph.find_nodes(op="call_function", target=symbols.KIND_ASSERTION):
        seen = node.args[0]
        given = seen.args[0] if seen.target is torch.ops.aten.permute.default else seen
        if given.op == "placeholder":
            module.graph.erase_node(node)
            if seen is not given and not seen.users:
                module.graph.erase_node(seen)
    module.recompile()
    return module


def word_checks(program: torch.export.ExportedProgram, trial: Trial) -> None:
    """Give each assertion on data the message of the user's check that it stands for.

    Torch splits some checks into several assertions, such as bounds of one symbol. An assertion that a check implies
    gets that check's message.
    """
    translator = translator_of(program)
    sentences = {check.formula: check.message for check in trial.checks if check.message}
    for node in program.graph.nodes:
        condition = node.args[0].meta.get("val") if node.target is symbols.ASSERTION else None
        if isinstance(condition, torch.SymBool):
            formula = translator.formula(symbols.expression(condition))
            message = sentences.get(formula) or _implying(formula, trial, sentences)
            if message:
                node.args = (node.args[0], message)


def _implying(formula: Formula, trial: Trial, sentences: Mapping[Formula, str]) -> str | None:
    for check, message in sentences.items():
        facts = trial.known.assuming(check)
        if check.symbols & formula.symbols and implied(formula, facts):
            return message
    return None


class _Writer:
    """Writes size computations and assertions behind the inputs of a graph."""

    def __init__(self, program: torch.export.ExportedProgram, inputs: Inputs) -> None:
        self._graph = program.graph_module.graph
        self._module = program.graph_module
        self._inputs = inputs
        given = nodes.input_nodes(self._graph, len(inputs.leaves))
        self._nodes = {leaf.source: node for leaf, node in zip(inputs.leaves, given, strict=True)}
        self._before = next(node for node in self._graph.nodes if node.op != "placeholder")
        self._sizes: dict[tuple[str, int], torch.fx.Node] = {}
        leaves = inputs.leaves
        self._symbols = {
            name: place.value(self._size(leaves[place.leaf].source, place.index), self._call)
            for name, place in readings([leaf.terms for leaf in leaves]).items()
        }
        self._computation = Computation(self._symbols, self._call)

    def kinds(self) -> None:
        """Assert the rank, dtype, device and layout of each tensor.

        The assertion is on `permute(x, (0, 1, ...))`, which raises for another rank. The assertion uses the permuted
        tensor, so the permute node survives when torch traces the graph again.
        """
        for node in self._nodes.values():
            noted = node.meta["val"]
            if isinstance(noted, torch.Tensor):
                strided = noted.layout == torch.strided
                seen = self._call(torch.ops.aten.permute.default, node, list(range(noted.dim()))) if strided else node
                kind = {"device": noted.device, "layout": noted.layout}
                nodes.insert_call(self._before, symbols.KIND_ASSERTION, (seen, None, None, noted.dtype), kind)

    def relations(self) -> list[tuple[Formula, str]]:
        """Return `size == term`, and its text, for each input size that is a function of the symbols."""
        found, names = [], self._inputs.user_names
        for each in relations([leaf.terms for leaf in self._inputs.leaves]):
            leaf = self._inputs.leaves[each.leaf]
            self._symbols[each.name] = self._size(leaf.source, each.index)
            shown = format_formula(each.formula, rename=names | {each.name: leaf.size_name(each.index)})
            found.append((each.formula, shown))
        return found

    def check(self, formula: Formula, text: str) -> None:
        """Assert one formula, with its text in the message."""
        for part in itertools.chain.from_iterable(map(_as_inequalities, clauses(formula))):
            condition = self._computation.formula(part)
            if isinstance(condition, torch.fx.Node):
                self._call(symbols.ASSERTION, condition, SENTENCE.format(text))

    def finish(self) -> None:
        """Erase unused nodes, and lint and recompile the graph."""
        for node in self._sizes.values():
            if not node.users:
                self._graph.erase_node(node)
        self._graph.lint()
        self._module.recompile()

    def _size(self, source: str, index: int) -> torch.fx.Node:
        placeholder = self._nodes[source]
        if not isinstance(placeholder.meta["val"], torch.Tensor):
            return placeholder
        key = (source, index)
        if key not in self._sizes:
            self._sizes[key] = self._call(torch.ops.aten.sym_size.int, placeholder, index)
        return self._sizes[key]

    def _call(self, target: Callable[..., Any], *args: Any) -> Any:
        return nodes.call_before(self._before, target, *args)


def _as_inequalities(formula: Formula) -> list[Formula]:
    """Split an equality into two inequalities.

    Torch solves an asserted equality for a symbol when it loads a program, and drops the check.
    """
    match formula:
        case f.Compare("==", term):
            return [f.le(term, 0), f.ge(term, 0)]
        case _:
            return [formula]
