"""Are two bodies of a higher-order operator (a branch of torch.cond) the same?

They are where the same operators run on the same operands in the same order, and each check of one is made by the other
or follows from what is known. equivalence.py compares the operands of the bodies themselves.

A body is read as it was traced: none is run again, so sizes are the same only where they are computed alike, or where
one of an operand has one value there, which torch writes into the body. What is noted of its nodes is to be so there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.export.graph.constants import same_constant
from shapeproof.export.shim.numbers import symbols

_SIZE = torch.ops.aten.sym_size.int
Implied = Callable[[torch.fx.Node], bool]
"""Whether a check in a body follows from what is known."""
OneValue = Callable[[Any], int | None]
"""The value of a size, where it has but one."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known where two bodies are compared.

    Attributes:
        implied: for each of the two, which of its checks need not be made.
        one_value: the value of a size as the second notes it.
        is_noted: whether what the first notes of a node is so there, given the node's twin.
    """

    implied: tuple[Implied, Implied]
    one_value: OneValue
    is_noted: Callable[[torch.fx.Node, torch.fx.Node], bool]


def same_body(mine: torch.fx.GraphModule, other: torch.fx.GraphModule, known: Known) -> bool:
    """Whether two bodies are the same, given the same operands; the second was traced where they are compared."""
    operands = [node.meta.get("val") for node in other.graph.find_nodes(op="placeholder")]
    if len(mine.graph.find_nodes(op="placeholder")) != len(operands):
        return False
    left, right = (_Body(each, operands, known.one_value) for each in (mine, other))
    if len(left.acting) != len(right.acting):
        return False
    for place, (a, b) in enumerate(zip(left.acting, right.acting, strict=True)):
        attributes = left.attribute(a), right.attribute(b)
        if left.reading(a) != right.reading(b) or not _same_attribute(*attributes, known) or not known.is_noted(a, b):
            return False
        left.known[a] = right.known[b] = place
    checks = left.checks(), right.checks()
    return all(
        implied(check)
        for ours, theirs, implied in zip(checks, reversed(checks), known.implied, strict=True)
        for reading, check in ours.items()
        if reading not in theirs
    )


class _Body:
    """A body, and what its nodes read: the same in another body that computes the same."""

    def __init__(self, module: torch.fx.GraphModule, operands: Sequence[Any], one_value: OneValue) -> None:
        self._module = module
        self.known: dict[torch.fx.Node, Hashable] = {}
        self._written: dict[torch.fx.Node, Any] = {}
        """Sizes of operands that are numbers, and what is computed from these."""
        values = dict(zip(module.graph.find_nodes(op="placeholder"), operands, strict=True))
        for node in module.graph.nodes:
            size = values[node.args[0]].shape[node.args[1]] if node.target is _SIZE and node.args[0] in values else None
            value = self._computed(node) if size is None else one_value(size)
            if value is not None:
                self._written[node] = value
        needed: set[torch.fx.Node] = set()
        for node in reversed(module.graph.nodes):
            acts = node.op in {"placeholder", "output"} or (node.is_impure() and node.target is not symbols.ASSERTION)
            if acts or node in needed:
                needed |= {node, *node.all_input_nodes}
        self.acting = [node for node in module.graph.nodes if node in needed and node not in self._written]
        """The nodes that do something, or that such a one needs; checks aside."""

    def _computed(self, node: torch.fx.Node) -> Any:
        """The number that a node computes from numbers; None where it does not."""
        symbolic = isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)
        if not symbolic or node.op != "call_function" or not self._written.keys() >= set(node.all_input_nodes):
            return None
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self._written.__getitem__)
        try:
            return node.target(*args, **kwargs)  # type: ignore[operator]
        except ArithmeticError:
            return None

    def reading(self, node: torch.fx.Node) -> Hashable:
        """What a node does, and to what."""
        operands = torch.fx.map_arg((node.args, node.kwargs), self._known)  # type: ignore[arg-type]
        return node.op, node.target if node.op == "call_function" else None, repr(operands)

    def _known(self, node: torch.fx.Node) -> Hashable:
        if node in self._written:
            number: Hashable = self._written[node]
            return number
        if node not in self.known:
            self.known[node] = self.reading(node)
        return "node", self.known[node]

    def checks(self) -> dict[Hashable, torch.fx.Node]:
        """The checks by their conditions; what one says where it fails makes no difference."""
        made = [node for node in self._module.graph.nodes if node.target is symbols.ASSERTION]
        return {repr(torch.fx.map_arg(node.args[:1], self._known)): node for node in made}  # type: ignore[arg-type]

    def attribute(self, node: torch.fx.Node) -> Any:
        """What a node takes from the module."""
        return getattr(self._module, str(node.target), None) if node.op == "get_attr" else None


def _same_attribute(mine: Any, other: Any, known: Known) -> bool:
    if isinstance(mine, torch.fx.GraphModule) and isinstance(other, torch.fx.GraphModule):
        return same_body(mine, other, known)
    return same_constant(mine, other)
