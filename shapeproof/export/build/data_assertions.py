"""Asserts answers about data: the program refuses data that answer a question differently from the trace.

Law: an assertion directly follows the last number that it mentions. Formulas that have no graph form, or mention a
number that the outermost graph does not hold, are returned.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import torch

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import name_of
from shapeproof.export.graph import nodes
from shapeproof.export.graph.emit import Computation, has_graph_form
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator

SENTENCE = "it is not known whether the program is right for these data: {} does not hold"


def assert_answers(program: torch.export.ExportedProgram, answers: Iterable[Formula]) -> list[Formula]:
    """Add an assertion for each formula.

    Returns:
        The formulas that cannot be asserted.
    """
    graph, numbers = program.graph_module.graph, _numbers(program)
    place = {node: index for index, node in enumerate(graph.nodes)}
    left = []
    for answer in dict.fromkeys(answers):
        if not answer.symbols <= numbers.keys() or not has_graph_form(answer):
            left.append(answer)
            continue
        last = max((numbers[name][0] for name in answer.symbols), key=place.__getitem__)
        _write(answer, {name: numbers[name] for name in answer.symbols}, _after(last))
    graph.lint()
    program.graph_module.recompile()
    return left


_Number = tuple[torch.fx.Node, int | None]
"""A node that is a number; or a tensor node and the index of a size."""


def _numbers(program: torch.export.ExportedProgram) -> dict[str, _Number]:
    """Map each symbol to the first node that it can be read from."""
    translator = translator_of(program)
    found: dict[str, _Number] = {}
    for node in program.graph_module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            _note(found, value, (node, None), translator)
        elif isinstance(value, torch.Tensor):
            for index, size in enumerate(value.shape):
                _note(found, size, (node, index), translator)
    return found


def _note(found: dict[str, _Number], size: int | torch.SymInt, where: _Number, translator: Translator) -> None:
    name = name_of(translator.size(size))
    if name is not None:
        found.setdefault(name, where)


def _after(node: torch.fx.Node) -> torch.fx.Node:
    """Return the next node that is not an input of the graph."""
    following = node.next
    while following.op == "placeholder":
        following = following.next
    return following


def _write(answer: Formula, numbers: dict[str, _Number], before: torch.fx.Node) -> None:
    call = functools.partial(nodes.call_before, before)
    read = {
        name: node if index is None else call(torch.ops.aten.sym_size.int, node, index)
        for name, (node, index) in numbers.items()
    }
    condition = Computation(read, call).formula(answer)
    nodes.insert_call(before, symbols.ASSERTION, (condition, SENTENCE.format(format_formula(answer))))
