"""Find the one value that all elements of a tensor have on a region: a mask of one token masks nothing.

`ones(n, n).triu(1)` is zeros where `n == 1`. The value is computed by torch's own kernels, on tensors of one element.

Law: what is given here is the value of each element of the tensor wherever the region holds, to the bit. An operator
whose elements depend on their place, on other elements, on data or on random numbers gives None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term
from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import family_of, kind_of
from shapeproof.solver.prove import implied

if TYPE_CHECKING:
    from shapeproof.export.explore.compare.operations import Side

_FILLING = frozenset({"full", "constant"})
"""The kinds of operators that fill a new tensor with a number."""
_LIKE = frozenset({"aten.zeros_like.default", "aten.ones_like.default"})
"""The operators that go by the sizes and the dtype of their operand alone."""


class _Unknown(Exception):
    """The elements are not known to be one."""


class Uniform:
    """The values of a program's tensors whose elements are all one, on a region."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._found: dict[torch.fx.Node, torch.Tensor | None] = {}

    def number(self, node: torch.fx.Node) -> int | float | bool | complex | None:
        """Return the value that all elements of a tensor have; None if that is not known."""
        found = self._one(node)
        return None if found is None else found.item()

    def _one(self, node: torch.fx.Node) -> torch.Tensor | None:
        """Return a tensor of one element that stands for each element of a node's tensor, with as many dims."""
        if node not in self._found:
            try:
                self._found[node] = self._run(node)
            except (_Unknown, RuntimeError, TypeError, ArithmeticError):
                self._found[node] = None
        return self._found[node]

    def _run(self, node: torch.fx.Node) -> torch.Tensor:
        value, target = self._side.value(node), node.target
        plain = isinstance(value, torch.Tensor) and value.layout == torch.strided and self._side.is_fixed(node)
        if node.op != "call_function" or not plain or schemas.is_random(target):
            raise _Unknown
        family, kind = family_of(target), kind_of(target)
        if kind in _FILLING or str(target) in _LIKE:
            made = self._filled(node)
        elif family == "view" and kind != "reinterpreted" and isinstance(node.args[0], torch.fx.Node):
            made = self._converted(self._operand(node.args[0]), value.dtype)
        elif kind == "triangle" and not schemas.is_mutable(target):
            made = self._triangle(node)
        elif family == "pointwise" and not schemas.is_mutable(target):
            made = self._computed(node)
        else:
            raise _Unknown
        if made.dtype != value.dtype:
            raise _Unknown
        return made.reshape([1] * value.dim())

    def _computed(self, node: torch.fx.Node) -> torch.Tensor:
        """Return one element of what is computed element by element; of floats, kernels may round by the layout."""
        args, kwargs = nodes.operands(node, self._operand_or_size)
        made: torch.Tensor = node.target(*args, **kwargs)  # type: ignore[operator]
        if made.is_floating_point() or made.is_complex():
            raise _Unknown
        return made

    def _converted(self, operand: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return one element in another dtype; what an integer is made of an infinity is not defined."""
        if operand.is_floating_point() and not (dtype.is_floating_point or dtype == torch.bool):
            raise _Unknown
        return operand.to(dtype)

    def _operand(self, node: torch.fx.Node) -> torch.Tensor:
        found = self._one(node)
        if found is None:
            raise _Unknown
        return found

    def _operand_or_size(self, node: torch.fx.Node) -> Any:
        if isinstance(self._side.value(node), torch.Tensor):
            return self._operand(node)
        found = self._side.one_value(node)
        if found is None:
            raise _Unknown
        return found

    def _filled(self, node: torch.fx.Node) -> torch.Tensor:
        """Return one element of a new tensor filled with a number."""
        value, named = self._side.value(node), nodes.arguments(node)
        number = named.get("fill_value", "zeros" not in str(node.target))
        if not isinstance(number, bool | int | float):
            raise _Unknown
        return torch.full([1], number, dtype=value.dtype, device="cpu")

    def _triangle(self, node: torch.fx.Node) -> torch.Tensor:
        """Return one element of a triangle that keeps all elements of its operand, or none."""
        named, (rows, columns) = nodes.arguments(node), self._side.value(node).shape[-2:]
        diagonal, high, wide = (self._side.quantity(each) for each in (named["diagonal"], rows, columns))
        if not isinstance(diagonal, Term) or not isinstance(high, Term) or not isinstance(wide, Term):
            raise _Unknown
        none, whole = triangle(diagonal, high, wide, upper="triu" in str(node.target))
        if implied(none, self._side.region):
            return torch.zeros([1], dtype=self._side.value(node).dtype, device="cpu")
        if implied(whole, self._side.region):
            return self._operand(named["self"])
        raise _Unknown


def triangle(diagonal: Term, rows: Term, columns: Term, *, upper: bool) -> tuple[Formula, Formula]:
    """Return where a triangle of a matrix has no element of the matrix, and where it has all of them.

    `triu` keeps the element in row i and column j where `j - i >= diagonal`, and `tril` where `j - i <= diagonal`.
    """
    if upper:
        return f.ge(diagonal, columns), f.le(diagonal, 1 - rows)
    return f.le(diagonal, -rows), f.ge(diagonal, columns - 1)
