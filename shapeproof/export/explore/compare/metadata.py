"""Check that the metadata in `node.meta["val"]` is correct on another region. Compilers rely on the metadata.

Ranks, sizes and shared storage are checked. The caller passes the nodes' values on the region; an equality without a
proof counts as a difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.export.graph import nodes
from shapeproof.export.graph.aliasing import told_apart
from shapeproof.export.graph.layouts import is_empty
from shapeproof.export.ops.shape_functions import Sizes
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves
from shapeproof.export.trace import tracer
from shapeproof.export.trace.translate import Translator
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import equal, implied


@dataclass(frozen=True, slots=True)
class Difference:
    """The first way in which two programs are not known to agree, and the user's line that causes it."""

    text: str
    stack: str | None = None
    certain: bool = False
    """True if the programs are known to differ at every point of the region, for consumers that trust the metadata."""
    unless: Formula = f.FALSE
    """Where this holds, the sizes that the program notes are right; FALSE if no such part of the region is known."""


def at(node: torch.fx.Node, text: str) -> Difference:
    """Return a difference at a node."""
    return Difference(text, node.meta.get("stack_trace"))


def label(node: torch.fx.Node) -> str:
    """Return the name of a node: its operator, or its kind."""
    return str(node.target) if node.op == "call_function" else node.op


@dataclass(frozen=True, slots=True)
class There:
    """A region, the values of a program's nodes on it, and the translator of the sizes in these values."""

    values: Mapping[torch.fx.Node, Any]
    translator: Translator
    region: Facts


def outdated(program: torch.export.ExportedProgram, there: There) -> Difference | None:
    """Find a used node whose metadata has the wrong rank or sizes on the region (`squeeze` at size 1).

    Unused nodes do not count, since consumers drop them.
    """
    noted_by = tracer.translator_of(program)
    each = (_misnoted(node, there.values.get(node), noted_by, there) for node in nodes.used(program.graph))
    found = [difference for difference in each if difference is not None]
    if not found:
        return None
    return replace(found[0], unless=f.conjunction(*(difference.unless for difference in found)))


def outdated_twin(node: torch.fx.Node, twin: torch.fx.Node, noted_by: Translator, there: There) -> Difference | None:
    """Check the metadata of a node in a body, given its twin that was traced on the region."""
    return _misnoted(node, twin.meta.get("val"), noted_by, there)


def _misnoted(node: torch.fx.Node, real: Any, noted_by: Translator, there: There) -> Difference | None:
    """Describe how a node's metadata is wrong for a value of the node."""
    noted = node.meta.get("val")
    if isinstance(noted, list | tuple) and isinstance(real, list | tuple) and len(noted) != len(real):
        return at(node, f"the program notes {len(noted)} results of `{label(node)}`, and there are {len(real)}")
    if not isinstance(noted, torch.Tensor) or not isinstance(real, torch.Tensor):
        return None
    if noted.dim() != real.dim():
        text = f"the program notes {noted.dim()} dimensions for `{label(node)}`, and there are {real.dim()}"
        return Difference(text, node.meta.get("stack_trace"), certain=True)
    wrong = []
    for a, b in zip(noted.shape, real.shape, strict=True):
        if symbols.about_data(a) or symbols.about_data(b):
            continue
        claimed, found = noted_by.size(a), there.translator.size(b)
        if not equal(claimed, found, there.region):
            wrong.append(f.eq(claimed, found))
    return replace(at(node, f"`{label(node)}` gives another shape"), unless=f.conjunction(*wrong)) if wrong else None


def shared_otherwise(program: torch.export.ExportedProgram, there: There) -> Difference | None:
    """Find a node that shares storage on the region differently from its metadata, if the program can observe it."""
    if not told_apart(program.graph):
        return None
    noted: dict[Any, torch.fx.Node] = {}
    found: dict[Any, torch.fx.Node] = {}
    for node in program.graph.nodes:
        value = there.values.get(node)
        mine = [noted.setdefault(storage, node) for storage in storages(node.meta.get("val"))]
        other = [found.setdefault(storage, node) for storage in storages(value)]
        if mine != other and not all(_is_empty(each, there) for each in leaves(value)):
            return at(node, f"`{label(node)}` shares memory with other tensors")
    return None


def _is_empty(value: Any, there: There) -> bool:
    """True if a tensor is proved to have no elements."""
    if not isinstance(value, torch.Tensor) or any(map(symbols.about_data, value.shape)):
        return False
    sizes = Sizes(there.translator.size, lambda formula: implied(formula, there.region))
    return is_empty(value, sizes)
