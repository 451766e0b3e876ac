"""Analyses a program's nodes for row_by_row.py: which vary with some sizes, and which keep rows apart.

Numbers are tracked, too: a number computed from a size that varies must not reach an element. A view may put a dim that
varies behind another: `[5, n]` as `[5*n]`. The valid rows of `[5*n]` are no longer its first ones. Such a dim therefore
gets a new symbol, distinct from all other sizes, until a view takes it apart again.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import torch

from shapeproof.constraints.terms import ONE, Term, constant, symbol
from shapeproof.export.ops.call import ANYTHING, Call, Shape, product
from shapeproof.export.ops.row_by_row import PLACED, Varying, rises, row_by_row, tensors
from shapeproof.export.ops.schemas import Operands
from shapeproof.export.ops.table import SIZE, kind_of, known_of
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Untranslatable

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)


class Rows:
    """Determines which nodes of a program vary; callers query the nodes in order.

    Args:
        program: the program.
        varying: the symbols that vary.
        declared: the symbols of the inputs' sizes; assertions on these symbols alone hold wherever the program is used.
    """

    def __init__(self, program: torch.export.ExportedProgram, varying: Varying, declared: Collection[str] = ()) -> None:
        self._declared = frozenset(declared)
        self._translator = translator_of(program)
        self._operands = Operands(self.term, lambda _: ANYTHING)
        self.varying = varying
        self._varies: dict[torch.fx.Node, bool] = {}
        self._inner: dict[torch.fx.Node, tuple[Term, ...]] = {}
        """The sizes of tensors that have a dim with a new symbol."""
        self._factors: dict[Term, tuple[Term, ...]] = {}
        """The factors of the dims with new symbols, the outermost first."""

    def term(self, size: Any) -> Term:
        """Return the term of a size."""
        return self._translator.size(size)

    def sizes(self, tensor: torch.Tensor) -> tuple[Term, ...]:
        """Return the terms of a tensor's sizes."""
        return tuple(map(self.term, tensor.shape))

    def first(self, node: torch.fx.Node) -> bool:
        """True if the valid rows of a tensor are its first ones."""
        return node not in self._inner

    def call(self, node: torch.fx.Node) -> Call:
        """Return the call of a node: tensors as shapes, sizes as terms."""
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self._operand)
        return self._operands.call(node.target, args, kwargs, listed(node.meta.get("val")))

    def _operand(self, node: torch.fx.Node) -> Any:
        value: Any = node.meta.get("val")
        return Shape(self._inner[node], str(value.dtype)) if node in self._inner else value

    def varies(self, node: torch.fx.Node) -> bool:
        """True if the result of a node varies: a tensor by its sizes, a number by its operands."""
        if node not in self._varies:
            self._varies[node] = self._read(node)
        return self._varies[node]

    def _read(self, node: torch.fx.Node) -> bool:
        value = node.meta.get("val")
        try:
            if isinstance(value, torch.SymInt):
                return self.varying.term(self.term(value))
            shapes = [Shape(self.sizes(each)) for each in listed(value) if isinstance(each, torch.Tensor)]
        except Untranslatable:
            return True
        if isinstance(value, _NUMBERS):
            return any(map(self.varies, node.all_input_nodes))
        return any(self.varying.dims(each) for each in shapes)

    def apart(self, node: torch.fx.Node) -> bool:
        """True if a node keeps rows apart: none of its operands vary, or a rule says so."""
        if node.op != "call_function" or node.target is operator.getitem:
            return True
        if node.target is symbols.ASSERTION or known_of(node.target).states_range:
            return not any(map(self.varies, node.all_input_nodes)) or all(map(self._is_declared, node.all_input_nodes))
        if _is_number(node):
            return True
        if not self.varies(node) and not any(map(self.varies, node.all_input_nodes)):
            return True
        try:
            call = self.call(node)
        except (Untranslatable, AttributeError):
            return False
        real = any(
            isinstance(each.meta.get("val"), torch.SymFloat | torch.SymBool) and self.varies(each)
            for each in node.all_input_nodes
        )
        results = [size for each in tensors(call.results) for size in each.sizes]
        if real or not all(rises(size, self.varying) for size in results):
            return False
        if not any(each in self._inner for each in node.all_input_nodes) and row_by_row(call, self.varying):
            return True
        return self._regrouped(node, call) if kind_of(node.target) == "regrouped" else self._renamed(node, call)

    def _is_declared(self, node: torch.fx.Node) -> bool:
        """True if a number is computed from the inputs' sizes only."""
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            return self.term(value).symbols <= self._declared
        return isinstance(value, _NUMBERS) and all(map(self._is_declared, node.all_input_nodes))

    # ------------------------------------------------------------------ dims behind others

    def _regrouped(self, node: torch.fx.Node, call: Call) -> bool:
        """Analyse a view that merges whole dims or splits a merged dim; true if it does just that."""
        shape, result = call.tensor("self"), call.result()
        groups = None if shape is None or result is None else _groups(list(self._parts(shape)), result.sizes)
        if groups is None or result is None:
            return False
        sizes = tuple(self._named(parts, size) for parts, size in zip(groups, result.sizes, strict=True))
        if sizes != result.sizes:
            self._inner[node] = sizes
        return True

    def _parts(self, shape: Shape) -> Iterator[Term]:
        for size in shape.sizes:
            yield from self._factors.get(size, (size,))

    def _named(self, parts: list[Term], size: Term) -> Term:
        """Return the size of a dim with these factors; a new symbol if a factor precedes one that varies."""
        place = next((index for index, part in enumerate(parts) if self.varying.term(part)), 0)
        if place == 0 and not any(map(self.varying.term, parts[1:])):
            return size
        name = symbol(f"[{'|'.join(map(str, parts))}]")
        self._factors[name] = tuple(parts)
        self.varying = Varying(self.varying.symbols | name.symbols, self.varying.nonnegative)
        return name

    def _renamed(self, node: torch.fx.Node, call: Call) -> bool:
        """Analyse an operator that keeps its operands' dims: dims of one size share one symbol, in the result, too."""
        if kind_of(node.target) in PLACED or isinstance(node.meta["val"], tuple | list):
            return False
        names: dict[Term, set[Term]] = {}
        for operand in node.all_input_nodes:
            value = operand.meta.get("val")
            if isinstance(value, torch.Tensor):
                own = self.sizes(value)
                for size, name in zip(own, self._inner.get(operand, own), strict=True):
                    names.setdefault(size, set()).add(name)
        (result,) = call.results
        if any(len(each) > 1 for size, each in names.items() if self.varying.term(size)) or not isinstance(
            result, Shape
        ):
            return False
        sizes = tuple(next(iter(names.get(size, {size}))) for size in result.sizes)
        if row_by_row(Call(call.name, call.arguments, [Shape(sizes, result.dtype)]), self.varying):
            if sizes != result.sizes:
                self._inner[node] = sizes
            return True
        return False


def _groups(parts: list[Term], sizes: Iterable[Term]) -> list[list[Term]] | None:
    """Split `parts` into the factors of each size, in order; a constant part may be cut. None if impossible."""
    found: list[list[Term]] = []
    left = [part for part in parts if part is not ONE]
    for size in sizes:
        group: list[Term] = []
        while product(group) is not size:
            if not left:
                return None
            part = left.pop(0)
            so_far, rest = product(group), constant(1)
            if size.is_constant and so_far.is_constant and part.is_constant and so_far.constant_value:
                whole = size.constant_value // so_far.constant_value
                if whole and part.constant_value > whole and part.constant_value % whole == 0:
                    part, rest = constant(whole), constant(part.constant_value // whole)
            group.append(part)
            if rest is not ONE:
                left.insert(0, rest)
        found.append(group)
    return found if not left else None


def _is_number(node: torch.fx.Node) -> bool:
    """True if a node computes with numbers only, or reads a size: then its term says how it varies."""
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    return node.target is SIZE or all(isinstance(value, _NUMBERS) for value in values)


def listed(value: Any) -> Sequence[Any]:
    """Return the results of a node, in order."""
    return value if isinstance(value, tuple | list) else (value,)
