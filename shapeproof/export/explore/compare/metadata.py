"""Check that the metadata in `node.meta["val"]` is correct on another region. Compilers rely on the metadata.

Ranks, sizes and shared storage are checked. The caller passes the nodes' values on the region; an equality without a
proof counts as a difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.export.explore.compare.operations import Side
from shapeproof.export.graph import nodes
from shapeproof.export.graph.aliasing import observes_aliasing
from shapeproof.export.ops.layouts import is_empty
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator
from shapeproof.solver.prove import equal


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


def stale_metadata(side: Side) -> Difference | None:
    """Find a used node whose metadata has the wrong rank or sizes on the region (`squeeze` at size 1).

    Unused nodes do not count, since consumers drop them. A wrong rank, of which one is certain, comes first.
    """
    noted_by = translator_of(side.program)
    each = (stale(node, side.value(node), noted_by, side) for node in nodes.used(side.graph))
    found = [difference for difference in each if difference is not None]
    if not found:
        return None
    worst = next((difference for difference in found if difference.certain), found[0])
    return replace(worst, unless=f.conjunction(*(difference.unless for difference in found)))


def stale(node: torch.fx.Node, real: Any, noted_by: Translator, side: Side) -> Difference | None:
    """Describe how a node's metadata, in terms of `noted_by`, is wrong for a value of the node on a side's region."""
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
        claimed, found = noted_by.size(a), side.translator.size(b)
        if not equal(claimed, found, side.region):
            wrong.append(f.eq(claimed, found))
    return replace(at(node, f"`{label(node)}` gives another shape"), unless=f.conjunction(*wrong)) if wrong else None


def aliasing_changed(side: Side) -> Difference | None:
    """Find a node that shares storage on the region differently from its metadata, if the program can observe it."""
    if not observes_aliasing(side.graph):
        return None
    noted: dict[Any, torch.fx.Node] = {}
    found: dict[Any, torch.fx.Node] = {}
    for node in side.graph.nodes:
        value = side.value(node)
        mine = [noted.setdefault(storage, node) for storage in storages(node.meta.get("val"))]
        other = [found.setdefault(storage, node) for storage in storages(value)]
        if mine != other and not all(_is_empty(each, side) for each in leaves(value)):
            return at(node, f"`{label(node)}` shares memory with other tensors")
    return None


def _is_empty(value: Any, side: Side) -> bool:
    """True if a tensor is proved to have no elements."""
    return (
        isinstance(value, torch.Tensor)
        and not any(map(symbols.about_data, value.shape))
        and is_empty(value, side.sizes)
    )
