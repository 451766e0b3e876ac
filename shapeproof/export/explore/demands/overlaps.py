"""Read where an operator of a graph writes into memory that overlaps its operand, which eager rejects.

`z[:k] = z[-k:]` with k = 2 overlaps at three rows: eager and the program raise "some elements of the input tensor and
the written-to tensor refer to a single memory location". Torch's fake kernels do not check it, so the trace asks
nothing. The check is that of ATen/MemoryOverlap.cpp:

- Two tensors whose elements lie densely overlap partially where their ranges of memory intersect, unless both ranges
  and all strides are equal. Nothing is said of tensors with gaps. Which dim has the smallest stride may depend on
  sizes.
- A tensor that is written must not have several elements in one place: a stride of 0 with more than one element.

Some operators do not check (`fill_`, `cat`): preconditions.py and shared_failures.py run eager on each requirement.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.terms import ONE
from shapeproof.export.graph import nodes
from shapeproof.export.ops.call import product
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.storages import storage_of
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.export.trace.traced import env_of
from shapeproof.solver.prove import implied


def of_writes(program: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Formula]]:
    """Yield for each operator that writes into memory the condition on sizes under which nothing overlaps."""
    for node in (each for each in program.graph.nodes if each.op == "call_function"):
        for written in dict.fromkeys(nodes.changed_operands(node)):
            into = _placed(written, program)
            if into is None:
                continue
            yield node, into.is_written_apart()
            whole = known_of(node.target).rejects_itself
            read = (_placed(each, program) for each in node.all_input_nodes if each is not written)
            yield from ((node, f.negate(into.overlaps(other, whole=whole))) for other in read if other is not None)


def _placed(node: torch.fx.Node, program: torch.export.ExportedProgram) -> _Placed | None:
    """Return where the elements of a node's tensor lie; None if it is no strided tensor."""
    value, env = node.meta.get("val"), env_of(program)
    if env is None or not isinstance(value, torch.Tensor) or value.layout != torch.strided or storage_of(value) is None:
        return None
    return _Placed(value, env)


class _Placed:
    """The memory of a tensor: its storage, offset, sizes and strides."""

    def __init__(self, tensor: torch.Tensor, env: ProofShapeEnv) -> None:
        self._storage, self._bytes = storage_of(tensor), tensor.element_size()
        self._at = env.read(tensor.storage_offset()) * self._bytes
        self._sizes, self._strides = ([env.read(each) for each in every] for every in (tensor.shape, tensor.stride()))
        self._count = product(self._sizes)
        self._end = self._at + self._count * self._bytes
        self._facts, self._point = env.trial.facts, env.trial.point

    def is_written_apart(self) -> Formula:
        """Return the condition under which no two elements lie in one place because of a stride of 0."""
        dims = zip(self._sizes, self._strides, strict=True)
        several = (f.conjunction(f.ge(size, 2), f.eq(stride, 0)) for size, stride in dims)
        return f.disjunction(f.eq(self._count, 0), f.negate(f.disjunction(*several)))

    def overlaps(self, other: _Placed, *, whole: bool) -> Formula:
        """Return the condition under which eager says that two tensors overlap; if `whole`, also as a whole."""
        if self._storage != other._storage:
            return f.FALSE
        meet = (f.lt(self._at, other._end), f.lt(other._at, self._end))
        filled = (f.ge(self._count, 1), f.ge(other._count, 1), self._is_dense(), other._is_dense())
        return f.conjunction(*meet, *filled, f.TRUE if whole else f.negate(self._is_same_as(other)))

    def _is_same_as(self, other: _Placed) -> Formula:
        if len(self._strides) != len(other._strides):
            return f.FALSE
        same = (f.eq(one, two) for one, two in zip(self._strides, other._strides, strict=True))
        return f.conjunction(f.eq(self._at, other._at), f.eq(self._end, other._end), *same)

    def _is_dense(self) -> Formula:
        """Return the condition under which elements lie without gaps, in some order of the dims."""
        return f.disjunction(*map(self._is_dense_in, self._orders()))

    def _is_dense_in(self, order: tuple[int, ...]) -> Formula:
        dense = itertools.accumulate((self._sizes[dim] for dim in order), lambda one, two: one * two, initial=ONE)
        return f.conjunction(
            *(
                f.disjunction(f.eq(self._sizes[dim], 1), f.eq(self._strides[dim], wanted))
                for dim, wanted in zip(order, dense, strict=False)
            )
        )

    def _orders(self) -> Iterator[tuple[int, ...]]:
        """Yield the orders of the dims by stride, the smallest first, that some sizes of at least 1 may have."""
        order = sorted((dim for dim, size in enumerate(self._sizes) if size is not ONE), key=self._stride_there)
        facts = self._facts.assuming(*(f.ge(size, 1) for size in self._sizes))
        pairs = itertools.combinations(order, 2)
        reversed_ = {(two, one) for one, two in pairs if implied(f.le(self._strides[one], self._strides[two]), facts)}
        return (each for each in itertools.permutations(order) if reversed_.isdisjoint(itertools.combinations(each, 2)))

    def _stride_there(self, dim: int) -> tuple[int, int]:
        stride = self._strides[dim]
        known = stride.symbols <= self._point.keys()
        return (evaluate(stride, self._point) if known else 0, -dim)
