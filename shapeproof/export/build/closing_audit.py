"""The closing audit: is everything that a proof relies on checked by the program itself?

A proof holds for inputs in the enforced domain, on data that pass the checks that the trace has learned. Law: each of
these formulas is implied by the assertions of the final graph, which are read back from the graph (readback.py), and by
what operators promise. `unmatched` returns those that are not.

A size that a declaration makes of a symbol is read by its own name: with `x: [2*k + 1]` the graph reads `x.shape[0]`,
and `k` stands for `(x.shape[0] - 1)//2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.declare.inputs import Inputs, Leaf
from shapeproof.export.graph.readback import Source, Value, assertions
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.trace.translate import Translator, Untranslatable
from shapeproof.export.trace.trial import DataCheck
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide

_SIZE = torch.ops.aten.sym_size.int


@dataclass(frozen=True, slots=True)
class Claims:
    """What a program is to check.

    Attributes:
        domain: formulas about the sizes of the inputs.
        data: checks that the trace has learned, about numbers from data too.
        promised: what operators promise of those numbers; this need not be checked.
    """

    domain: Sequence[Formula]
    data: Sequence[DataCheck] = ()
    promised: Sequence[Formula] = ()


def unmatched(
    program: torch.export.ExportedProgram, inputs: Inputs, claims: Claims, translator: Translator, budget: Budget
) -> list[Formula]:
    """The claims that nothing in the program checks.

    What a body of a higher-order operator asserts counts for what was learned inside a body alone.
    """
    read = _Read(program, inputs, translator)
    outer = assertions(program.graph, read.source)
    known = Facts([*read.sizes, *outer], budget)
    missing = _missing([*read.relations, *claims.domain], known)
    for formula in [*claims.promised, *(claim for claim in claims.domain if claim not in missing)]:
        known.learn(formula)
    missing += _missing([check.formula for check in claims.data if not check.inside], known)
    for graph in _bodies(program):
        for formula in assertions(graph, read.source):
            known.learn(formula)
    return missing + _missing([check.formula for check in claims.data if check.inside], known)


def _missing(claims: Sequence[Formula], known: Facts) -> list[Formula]:
    stated = set(known.formulas)
    return [claim for claim in claims if claim not in stated and decide(claim, known).status != "proved"]


def _bodies(program: torch.export.ExportedProgram) -> Iterator[torch.fx.Graph]:
    """The graphs of the bodies of a program's higher-order operators."""
    modules = (module for name, module in program.graph_module.named_modules() if name)
    return (module.graph for module in modules if isinstance(module, torch.fx.GraphModule))


@dataclass(slots=True)
class _Read:
    """How the numbers that a graph takes from its inputs and from data are called.

    Attributes:
        sizes: what holds of the names: no size is negative, and what a symbol stands for.
        relations: sizes that declarations tie to symbols read elsewhere: claims as well.
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
        """A symbol is named by the first size that is just this symbol."""
        read: set[str] = set()
        for leaf, index, term in self._declared():
            own = symbol(f"{leaf.source}#{index}")
            if term.symbols and term is symbol(next(iter(term.symbols))) and not term.symbols <= read:
                read |= term.symbols
                own = term
            self._names[leaf.source, index] = own
            self.sizes += [f.ge(own, 0)] if leaf.is_tensor else []
        return read

    def _read_derived(self, plain: set[str]) -> None:
        """Another symbol is what a size that is made of it says; every such size is what its declaration says."""
        for leaf, index, term in self._declared():
            own = self._names[leaf.source, index]
            for name in term.symbols - plain:
                offset = evaluate(term, {name: 0})
                self.sizes.append(f.eq(symbol(name), (own - offset) // (evaluate(term, {name: 1}) - offset)))
                plain.add(name)
            if own is not term and term.symbols:
                self.relations.append(f.eq(own, term))

    def _declared(self) -> Iterator[tuple[Leaf, int, Term]]:
        for leaf in self.inputs.leaves:
            for index, term in enumerate(leaf.terms):
                yield leaf, index, term

    @property
    def _leaves(self) -> dict[str, Leaf]:
        """The flat inputs by the name of their placeholder: the last ones of the graph."""
        placeholders = self.program.graph.find_nodes(op="placeholder")
        last = placeholders[len(placeholders) - len(self.inputs.leaves) :]
        return {node.name: leaf for node, leaf in zip(last, self.inputs.leaves, strict=True)}

    @property
    def source(self) -> Source:
        """The value of a node that takes a number from elsewhere."""
        leaves, outer = self._leaves, self.program.graph

        def of_input(node: torch.fx.Node, index: int) -> Value:
            leaf = leaves.get(node.name) if node.graph is outer else None
            return None if leaf is None else self._names.get((leaf.source, index))

        def value(node: torch.fx.Node) -> Value:
            operand = node.args[0] if node.target is _SIZE else node
            is_input = isinstance(operand, torch.fx.Node) and operand.op == "placeholder"
            index = node.args[1] if node.target is _SIZE else 0
            read = of_input(operand, index) if is_input else None  # type: ignore[arg-type]
            return self._noted(node.meta.get("val")) if read is None else read

        return value

    def _noted(self, value: Any) -> Value:
        """A number as the trace noted it."""
        try:
            match value:
                case torch.SymInt():
                    return self.translator.term(symbols.expression(value))
                case torch.SymFloat():
                    return self.translator.real(symbols.expression(value))
                case torch.SymBool():
                    return self.translator.formula(symbols.expression(value))
        except Untranslatable:
            pass
        return None
