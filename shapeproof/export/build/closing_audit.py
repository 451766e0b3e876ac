"""The closing audit: does the program itself check everything that the proof relies on?

A proof holds for inputs in the enforced domain and for data that pass the checks recorded by the trace.
Law: each of these formulas follows from the assertions of the final graph, as readback.py reads them, together with the
guarantees of operators on their results. `unmatched` returns the formulas that do not follow.

Law: another form of a program (decomposed, merged, with gradients) makes every check of the program. `lost` returns the
checks that the form does not make; a check is known by its message.

A derived size is read under a separate name: with `x: [2*k + 1]` the graph reads `x.shape[0]`, and `k` stands for
`(x.shape[0] - 1)//2`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term, symbol
from shapeproof.contract.sizes import further_sizes, plainly, readings
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.graph.nodes import arguments, calls_of, graphs_that_run, input_nodes
from shapeproof.export.graph.readback import Value, assertions
from shapeproof.export.ops.table import SIZE
from shapeproof.export.shim.numbers.symbols import ASSERTION, DATA_ASSERTION, PROMISED
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.trace.records import DataCheck
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Untranslatable
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


def unmatched(
    program: torch.export.ExportedProgram,
    inputs: Inputs,
    domain: Sequence[Formula],
    data: Sequence[DataCheck] = (),
    promised: Sequence[Formula] = (),
) -> list[Formula]:
    """Return the claims that the program does not check.

    Assertions in a body that may not run (a branch of torch.cond) count only for checks recorded inside a body.

    Args:
        program: the finished program.
        inputs: the declared inputs.
        domain: formulas about the sizes of the inputs, which the program must check.
        data: checks recorded by the trace, also about numbers from data; the program must make them.
        promised: what operators guarantee of those numbers; the program need not check these formulas.
    """
    read = _Read(program, inputs)
    outer = [each for graph in graphs_that_run(program.graph_module) for each in assertions(graph, read.source)]
    known = Facts([*read.sizes, *outer], inputs.budget)
    missing = _missing([*read.relations, *domain], known)
    for formula in [*promised, *(claim for claim in domain if claim not in missing)]:
        known.learn(formula)
    missing += _missing([check.formula for check in data if not check.inside], known)
    for body in graph_modules(program.graph_module)[1:]:
        for formula in assertions(body.graph, read.source):
            known.learn(formula)
    return missing + _missing([check.formula for check in data if check.inside], known)


def lost(checks: Counter[str], form: torch.export.ExportedProgram) -> list[str]:
    """Return the checks that a form of a program does not make as often as required; see `checks_of`.

    >>> class Model(torch.nn.Module):
    ...     def forward(self, x):
    ...         torch.ops.aten._assert_async.msg(x.any(), "x is zero")
    ...         return x + 1
    >>> form = torch.export.export(Model(), (torch.ones(2),))
    >>> lost(Counter(["x is zero", "x is negative"]), form)
    ['x is negative']
    """
    return list((checks - checks_of(form.graph_module)).elements())


def checks_of(module: torch.fx.GraphModule) -> Counter[str]:
    """Count the graphs, bodies included, that make a check, by its message; bounds that operators promise are none."""
    return Counter(message for each in graph_modules(module) for message in _messages(each.graph))


def _messages(graph: torch.fx.Graph) -> set[str]:
    calls = calls_of(graph, ASSERTION, DATA_ASSERTION)
    said = {arguments(node)["assert_msg"] for node in calls}
    return {message for message in said if not message.startswith(PROMISED)}


def _missing(claims: Sequence[Formula], known: Facts) -> list[Formula]:
    stated = set(known.formulas)
    return [claim for claim in claims if claim not in stated and not implied(claim, known)]


class _Read:
    """The names of the numbers that a graph reads from its inputs and from data.

    Attributes:
        sizes: facts about the names: sizes are nonnegative, and symbols have definitions.
        relations: declared relations between sizes and symbols that are read elsewhere; these are claims, too.
    """

    def __init__(self, program: torch.export.ExportedProgram, inputs: Inputs) -> None:
        terms = [leaf.terms for leaf in inputs.leaves]
        places = readings(terms)
        self._translator = translator_of(program)
        self._leaves: dict[Any, int] = {node: leaf for leaf, node in enumerate(input_nodes(program.graph, len(terms)))}
        self._names: dict[Any, Term] = {
            (leaf, index): symbol(f"#{leaf}.{index}") for leaf in range(len(terms)) for index in range(len(terms[leaf]))
        }
        self._names |= {(at.leaf, at.index): symbol(name) for name, at in places.items() if at.is_plain}
        self.sizes = [f.ge(own, 0) for (leaf, _), own in self._names.items() if inputs.leaves[leaf].is_tensor]
        derived = ((name, self._names[at.leaf, at.index], at) for name, at in places.items() if not at.is_plain)
        self.sizes += [f.eq(symbol(name), at.value(own, plainly)) for name, own, at in derived]
        self.relations = [equation for _, equation in further_sizes(terms).values()]

    def source(self, node: torch.fx.Node) -> Value:
        """Return the value of a node that reads an input or data; used by readback.py."""
        operand, index = node.args if node.target is SIZE else (node, 0)
        named = self._names.get((self._leaves.get(operand), index))
        if named is not None:
            return named
        try:
            return self._translator.quantity(node.meta.get("val"))
        except Untranslatable:
            return None
