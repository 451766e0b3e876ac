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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import linear
from shapeproof.constraints.terms import Term, name_of, symbol
from shapeproof.export.declare.inputs import Inputs, Leaf
from shapeproof.export.graph.nodes import calls_of, graphs_that_run, input_nodes
from shapeproof.export.graph.readback import Source, Value, assertions
from shapeproof.export.ops.schemas import by_name
from shapeproof.export.shim.numbers.symbols import ASSERTION, DATA_ASSERTION, PROMISED
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator, Untranslatable
from shapeproof.export.trace.trial import DataCheck
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied

_SIZE = torch.ops.aten.sym_size.int


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
    read = _Read(program, inputs, translator_of(program))
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
    said = {by_name(node.target, node.args, node.kwargs)["assert_msg"] for node in calls}
    return {message for message in said if not message.startswith(PROMISED)}


def _missing(claims: Sequence[Formula], known: Facts) -> list[Formula]:
    stated = set(known.formulas)
    return [claim for claim in claims if claim not in stated and not implied(claim, known)]


@dataclass(slots=True)
class _Read:
    """Names of the numbers that a graph reads from its inputs and from data.

    Attributes:
        sizes: facts about the names: sizes are nonnegative, and symbols have definitions.
        relations: declared relations between sizes and symbols that are read elsewhere; these are claims, too.
    """

    program: torch.export.ExportedProgram
    inputs: Inputs
    translator: Translator
    sizes: list[Formula] = field(default_factory=list)
    relations: list[Formula] = field(default_factory=list)
    _names: dict[tuple[str, int], Term] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plain = self._read_plainly()
        self._read_derived(plain)

    def _read_plainly(self) -> set[str]:
        """Name each symbol by the first size that equals it; return the named symbols."""
        read: set[str] = set()
        for leaf, index, term in self._declared():
            own = symbol(f"{leaf.source}#{index}")
            if name_of(term) is not None and not term.symbols <= read:
                read |= term.symbols
                own = term
            self._names[leaf.source, index] = own
            self.sizes += [f.ge(own, 0)] if leaf.is_tensor else []
        return read

    def _read_derived(self, plain: set[str]) -> None:
        """Define each other symbol by a size derived from it; claim that each derived size equals its declared term."""
        for leaf, index, term in self._declared():
            own = self._names[leaf.source, index]
            form = linear(term)
            if form is not None and form.name not in plain:
                self.sizes.append(f.eq(symbol(form.name), (own - form.offset) // form.step))
                plain.add(form.name)
            if own is not term and term.symbols:
                self.relations.append(f.eq(own, term))

    def _declared(self) -> Iterator[tuple[Leaf, int, Term]]:
        for leaf in self.inputs.leaves:
            for index, term in enumerate(leaf.terms):
                yield leaf, index, term

    @property
    def source(self) -> Source:
        """The value of a node that reads an input or data; used by readback.py."""
        given = input_nodes(self.program.graph, len(self.inputs.leaves))
        leaves = dict(zip(given, self.inputs.leaves, strict=True))

        def of_input(node: torch.fx.Node, index: int) -> Value:
            leaf = leaves.get(node)
            return None if leaf is None else self._names.get((leaf.source, index))

        def value(node: torch.fx.Node) -> Value:
            operand = node.args[0] if node.target is _SIZE else node
            is_input = isinstance(operand, torch.fx.Node) and operand.op == "placeholder"
            index = node.args[1] if node.target is _SIZE else 0
            read = of_input(operand, index) if is_input else None  # type: ignore[arg-type]
            return self._noted(node.meta.get("val")) if read is None else read

        return value

    def _noted(self, value: Any) -> Value:
        """Return the meaning of a number in the node's metadata."""
        try:
            return self.translator.quantity(value)
        except Untranslatable:
            return None
