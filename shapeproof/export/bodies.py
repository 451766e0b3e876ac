"""Are two bodies of a higher-order operator (a branch of torch.cond) the same?

They are where the same operators run on the same operands in the same order, and each check of one is made by the other
or follows from what is known. The operands of the bodies themselves are compared by whoever calls them (graphs.py).

A body is read as it was traced: none is run again, so sizes are the same only where they are computed alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch

from shapeproof.export import tracing

Implied = Callable[[torch.fx.Node], bool]
"""Whether a check in a body follows from what is known."""


def same_body(mine: torch.fx.GraphModule, other: torch.fx.GraphModule, implied: tuple[Implied, Implied]) -> bool:
    """Whether two bodies are the same; `implied` says for each which of its checks need not be made."""
    left, right = _Body(mine), _Body(other)
    if len(left.acting) != len(right.acting):
        return False
    for place, (a, b) in enumerate(zip(left.acting, right.acting, strict=True)):
        if left.reading(a) != right.reading(b) or not _same_attribute(left.attribute(a), right.attribute(b), implied):
            return False
        left.known[a] = right.known[b] = place
    checks = left.checks(), right.checks()
    return all(
        known(check)
        for ours, theirs, known in ((checks[0], checks[1], implied[0]), (checks[1], checks[0], implied[1]))
        for reading, check in ours.items()
        if reading not in theirs
    )


class _Body:
    """A body, and what its nodes read: the same in another body that computes the same."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._module = module
        self.known: dict[torch.fx.Node, Hashable] = {}
        needed: set[torch.fx.Node] = set()
        for node in reversed(module.graph.nodes):
            acts = node.op in {"placeholder", "output"} or (node.is_impure() and node.target is not tracing.ASSERTION)
            if acts or node in needed:
                needed |= {node, *node.all_input_nodes}
        self.acting = [node for node in module.graph.nodes if node in needed]
        """The nodes that do something, or that such a one needs; checks aside."""

    def reading(self, node: torch.fx.Node) -> Hashable:
        """What a node does, and to what."""
        operands = torch.fx.map_arg((node.args, node.kwargs), self._known)  # type: ignore[arg-type]
        return node.op, node.target if node.op == "call_function" else None, repr(operands)

    def _known(self, node: torch.fx.Node) -> Hashable:
        if node not in self.known:
            self.known[node] = self.reading(node)
        return "node", self.known[node]

    def checks(self) -> dict[Hashable, torch.fx.Node]:
        """The checks by their conditions; what one says where it fails makes no difference."""
        made = [node for node in self._module.graph.nodes if node.target is tracing.ASSERTION]
        return {repr(torch.fx.map_arg(node.args[:1], self._known)): node for node in made}  # type: ignore[arg-type]

    def attribute(self, node: torch.fx.Node) -> Any:
        """What a node takes from the module."""
        return getattr(self._module, str(node.target), None) if node.op == "get_attr" else None


def _same_attribute(mine: Any, other: Any, implied: tuple[Implied, Implied]) -> bool:
    if isinstance(mine, torch.fx.GraphModule) and isinstance(other, torch.fx.GraphModule):
        return same_body(mine, other, implied)
    if isinstance(mine, torch.Tensor) and isinstance(other, torch.Tensor):
        return mine.dtype == other.dtype and mine.shape == other.shape and bool(torch.equal(mine, other))
    return mine is other
