"""Recognize tensors of moved parameters, so that a table that is resized to its own size is the table.

A vision transformer interpolates its table of positions, or takes it as it is where the image has the table's size. At
that size, interpolating moves elements and computes nothing: each weight is 1 or 0. To compare two tensors of moved
elements, this file runs the moves on the elements' numbers. A table that is looked up by a buffer (`position_ids`) is
moved, too: by the integers that the buffer holds, if nothing but the model sets them.

Law: two tensors with the same numbers in the same places have equal elements. A weight of 0 times an infinity is nan,
and -0.0 may become 0.0, so the law holds for parameters of finite numbers without -0.0.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind

from shapeproof.export.limits import CHEAP_ELEMENTS
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import DETACH, kind_of, known_of
from shapeproof.export.shim.storages import is_own, kind

if TYPE_CHECKING:
    from shapeproof.export.explore.compare.operations import Side

_MOVES = frozenset({"cat", "expand", "reordered", "select", "slice"})
"""The kinds of operators that are run on the elements' numbers."""


class _Unknown(Exception):
    """The elements of a tensor are not moved elements of parameters."""


class Moved:
    """The numbers of the elements that each tensor of a program holds on a region."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._found: dict[torch.fx.Node, torch.Tensor | None] = {}
        self.resized: set[torch.fx.Node] = set()
        """The nodes that return moved elements which were resized to their own size."""
        for node in side.graph.nodes:
            operands = self.resized.intersection(node.all_input_nodes)
            begins = known_of(node.target).resizes_image or kind_of(node.target) == "embedding"
            if (operands or begins) and self.numbers(node) is not None:
                self.resized.add(node)

    @functools.cached_property
    def _state(self) -> dict[str, torch.Tensor]:
        """The numbers of the state's elements, by placeholder: programs with the same inputs get the same numbers."""
        found: dict[str, torch.Tensor] = {}
        program, begin = self._side.program, 0
        for spec in program.graph_signature.input_specs:
            value = program.state_dict.get(spec.target, program.constants.get(spec.target))
            if isinstance(value, torch.Tensor):
                if value.numel() <= CHEAP_ELEMENTS and _is_plain(value):
                    found[spec.arg.name] = torch.arange(begin, begin + value.numel(), device="cpu").reshape(value.shape)
                begin += value.numel()
        return found

    def numbers(self, node: torch.fx.Node) -> torch.Tensor | None:
        """Return the numbers of a tensor's elements, in the order of the tensor; None if they are unknown."""
        if node not in self._found:
            try:
                self._found[node] = self._run(node)
            except (_Unknown, RuntimeError, IndexError, TypeError):
                self._found[node] = None
        return self._found[node]

    def _run(self, node: torch.fx.Node) -> torch.Tensor:
        if not self._side.is_fixed(node):
            raise _Unknown
        if node.op == "placeholder" and node.name in self._state:
            return self._state[node.name]
        if node.op != "call_function":
            raise _Unknown
        target: Any = node.target
        if known_of(target).resizes_image:
            self._keeps_its_size(node)
            return self._argument(node.args[0])
        moved: torch.Tensor
        if self._is_in_order(node):
            moved = self._argument(node.args[0]).reshape(self._argument([*self._side.value(node).shape]))
        elif kind_of(target) in _MOVES and not schemas.is_mutable(target):
            args, kwargs = self._argument([*node.args]), {name: self._argument(v) for name, v in node.kwargs.items()}
            moved = target(*args, **kwargs)
        elif kind_of(target) == "embedding" and not any(node.args[3:]):  # of plain gradients
            places = self._places(node.args[1])
            moved = self._argument(node.args[0])[places]
        else:
            raise _Unknown
        if moved.numel() > CHEAP_ELEMENTS:
            raise _Unknown
        return moved

    def _places(self, node: Any) -> torch.Tensor:
        """Return the integers in a buffer that no state dict holds and that the program does not write."""
        program = self._side.program
        specs = (each for each in program.graph_signature.input_specs if each.arg.name == node.name)
        spec = next((each for each in specs if each.kind is InputKind.BUFFER and not each.persistent), None)
        found = None if spec is None else program.constants.get(str(spec.target))
        if not isinstance(found, torch.Tensor) or not self._side.is_fixed(node):
            raise _Unknown
        if found.dtype != torch.int64 or not is_own(found) or found.is_meta:
            raise _Unknown
        return found.detach().cpu()

    def _argument(self, given: Any) -> Any:
        """Return an argument of a move: the numbers of a tensor, or the one value of a size."""
        if isinstance(given, list | tuple):
            return [self._argument(each) for each in given]
        if isinstance(given, torch.fx.Node) and isinstance(self._side.value(given), torch.Tensor):
            found: Any = self.numbers(given)
        else:
            found = self._side.one_value(given)
        if found is None and given is not None:
            raise _Unknown
        return found

    def _keeps_its_size(self, node: torch.fx.Node) -> None:
        """Raise unless a resizing gives an image of its operand's sizes, by these sizes."""
        image, size, factors = node.args[0], node.args[1], node.args[-1]
        mine, other = self._side.value(node), self._side.value(image)  # type: ignore[arg-type]
        if size is None or factors is not None or mine.dtype not in {torch.float32, torch.float64}:
            raise _Unknown
        if not all(map(self._side.same, mine.shape, other.shape)):
            raise _Unknown

    def _is_in_order(self, node: torch.fx.Node) -> bool:
        """True if a node returns the elements of its operand in order and passes gradients on; its sizes may differ."""
        known = known_of(node.target)
        if node.target is DETACH or not (known.in_order or (known.alias_or_copy and not known.drops)):
            return False
        mine, other = self._side.value(node), self._side.value(node.args[0])  # type: ignore[arg-type]
        return isinstance(mine, torch.Tensor) and isinstance(other, torch.Tensor) and kind(mine) == kind(other)


def _is_plain(value: torch.Tensor) -> bool:
    """True if a tensor holds finite numbers, and no -0.0."""
    if not is_own(value) or value.is_meta or not value.is_floating_point():
        return False
    with torch.no_grad():
        return bool(torch.isfinite(value).all()) and not bool((torch.signbit(value) & (value == 0)).any())
