"""Indices that sizes alone decide, held against what they index: `table[arange(t)]` of fewer than t rows.

torch traces such a program and leaves it to run time, since indices are data. Where they are made from sizes and
constants they are not: eager raises for all data or for none. What must hold is read off a traced graph; it becomes a
finding only where eager is seen to raise at a point at which it does not hold. Nothing is ever proved here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.decisions import Decision, Kind, SourceLocation
from shapeproof.constraints.formulas import Formula
from shapeproof.export import nodes, replay, tracing
from shapeproof.export.corners import failing
from shapeproof.export.findings import Exploration, Finding, Narrowing, Outcome, narrowed
from shapeproof.export.inference import given_up
from shapeproof.export.inputs import Inputs
from shapeproof.export.places import in_torch
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide

_INDEXING = {
    "aten.embedding.default": ("weight", "indices", None),
    "aten.index_select.default": ("self", "index", "dim"),
    "aten.gather.default": ("self", "index", "dim"),
}
"""Operators that take no index below 0: what is indexed, by what, and along which dimension (None: the first).
https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html"""
_LINE = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in .+\n *(?P<text>.*)$', re.MULTILINE)


def out_of_range(
    mod: torch.nn.Module, inputs: Inputs, found: Exploration, domain: Facts, budget: Budget
) -> list[Finding | Narrowing]:
    """What the domain leaves open about indices, where eager raises for it: refuted, or given up if it is inferred."""
    program, facts = found.main.program, narrowed(domain, found.narrowings)
    seen: list[Finding | Narrowing] = []
    for node, required in _requirements(program) if program is not None else ():
        if not required.symbols <= frozenset(inputs.domain.symbols) or decide(required, facts).status != "refuted":
            continue
        seen_at = failing(mod, inputs, required, facts, budget)
        if seen_at is None:
            continue
        point, failure = seen_at
        decision = Decision(required, Kind.ASSERTED, outcome=True, where=_place(node), operator=str(node.target))
        sentence = f"{replay.Relation.EAGER_RAISES.value}: {failure}"
        seen.append(
            given_up(decision, required, found, inputs, budget)
            or Finding(Outcome.RAISES, decision, point, sentence, served=required)
        )
        facts.learn(required)
    return seen


def _requirements(program: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Formula]]:
    """What must hold of the sizes for each index that is made from sizes alone."""
    for node in program.graph.nodes:
        for source, dim, index, lowest in _indexed(node):
            if _from_sizes(index):
                env = tracing.shape_env_of(program)
                size, span = env.read(source.meta["val"].shape[dim]), env.span(index.meta["val"])
                if span.high is not None:
                    yield node, f.lt(span.high, size)
                if span.low is not None:
                    yield node, f.ge(span.low, lowest * size)


def _indexed(node: torch.fx.Node) -> Iterator[tuple[torch.fx.Node, int, torch.fx.Node, int]]:
    """What is indexed, along which dimension, by what, and how many times the size the lowest index may be."""
    name = str(node.target)
    if name not in _INDEXING and name != "aten.index.Tensor":
        return
    named = nodes.by_name(node.target, node.args, node.kwargs)
    if name in _INDEXING:
        source, index, dim = _INDEXING[name]
        yield named[source], named[dim] if dim else 0, named[index], 0
        return
    for position, index in enumerate(named["indices"]):
        if index is not None and index.meta["val"].dtype == torch.bool:
            return  # a mask takes as many dimensions as it has
        if index is not None:
            yield named["self"], position, index, -1


def _from_sizes(node: torch.fx.Node) -> bool:
    """Whether a tensor is computed from sizes and constants alone, and the same in every run."""
    rest, seen = [node], set()
    while rest:
        top = rest.pop()
        if top in seen or isinstance(top.meta.get("val"), torch.SymInt | int):
            continue
        seen.add(top)
        random = torch.Tag.nondeterministic_seeded in getattr(top.target, "tags", ())
        if top.op != "call_function" or random or top.meta.get("unbacked_bindings"):
            return False
        rest += top.all_input_nodes
    return True


def _place(node: torch.fx.Node) -> SourceLocation | None:
    """The user's line, off the stack that torch notes."""
    lines: Sequence[re.Match[str]] = list(_LINE.finditer(node.meta.get("stack_trace") or ""))
    users = [line for line in lines if not in_torch(line["file"])] or lines
    return SourceLocation(users[-1]["file"], int(users[-1]["line"]), users[-1]["text"]) if users else None
