"""Read what the operators of a graph require of sizes, where torch leaves the check to run time.

Indices are data: torch traces `x[[0, 3]]` or `x[arange(4)]` of fewer than four rows. An index made only from sizes and
constants is the same for all data, so eager raises for all data or for none.

Torch traces `x[n]`, and `x // n` of integers, for a size `n` without a look at `n`, too.

Torch traces a reduction that needs an element (`x.max(0)` of no rows) at any size; eager raises if there is no element.

Torch traces `z[:k] = z[-k:]`, too, which overlaps with k = 2 at three rows: eager and the program raise "some elements
of the input tensor and the written-to tensor refer to a single memory location". The check is that of
ATen/MemoryOverlap.cpp:

- Two tensors whose elements lie densely overlap partially where their ranges of memory intersect, unless both ranges
  and all strides are equal. Nothing is said of tensors with gaps. Which dim has the smallest stride may depend on
  sizes.
- A tensor that is written must not have several elements in one place: a stride of 0 with more than one element.

Some operators do not check (`fill_`, `cat`): preconditions.py and shared_failures.py run eager on each requirement.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.terms import ONE, Term
from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.call import product
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.storages import storage_of
from shapeproof.export.trace.checks.failures import size_that_divides
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.export.trace.traced import env_of, span_of, translator_of
from shapeproof.solver.prove import implied

Demand = tuple[torch.fx.Node, Formula]
"""An operator, and what sizes must meet for it."""


def requirements(program: torch.export.ExportedProgram) -> Iterator[Demand]:
    """Yield what sizes must meet: for each index, each divisor, each reduction, each write."""
    yield from _of_indices(program)
    yield from _of_selections(program)
    yield from _of_divisors(program)
    yield from _of_reductions(program)
    yield from _of_writes(program)


def _of_indices(program: torch.export.ExportedProgram) -> Iterator[Demand]:
    """Yield what sizes must meet for each index that is made only from sizes and constants."""
    constants, read = _constants(program), translator_of(program).read
    for node in program.graph.nodes:
        for source, dim, index, lowest in indexed(node):
            if _from_sizes(index, constants):
                size, span = read(size_along(source, dim)), span_of(program, index.meta["val"])
                if span.high is not None:
                    yield node, f.lt(span.high, size)
                if span.low is not None:
                    yield node, f.ge(span.low, lowest * size)


def _of_selections(program: torch.export.ExportedProgram) -> Iterator[Demand]:
    """Yield for each row that is selected by a size (`x[n]`) the condition under which the row exists."""
    read = translator_of(program).size
    for node in program.graph.nodes:
        if not known_of(node.target).selects:
            continue
        named = nodes.arguments(node)
        index = nodes.metadata(named["index"])
        if isinstance(index, torch.SymInt):
            row, size = read(index), read(named["self"].meta["val"].shape[named["dim"]])
            yield node, f.conjunction(f.lt(row, size), f.ge(row, -size))


def _of_divisors(program: torch.export.ExportedProgram) -> Iterator[Demand]:
    """Yield for each division of integers by a size: it is not 0 in their dtype, or there is nothing to divide."""
    read = translator_of(program).size
    for node in program.graph.nodes:
        args, kwargs = nodes.operands(node, nodes.metadata)
        divisor = size_that_divides(node.target, args, kwargs)
        if divisor is not None and isinstance(args[0], torch.Tensor):
            empty = (f.eq(read(size), 0) for size in args[0].shape)
            yield node, f.disjunction(f.ne(_wrapped(read(divisor), args[0].dtype), 0), *empty)


def _wrapped(number: Term, dtype: torch.dtype) -> Term:
    """Return a number as it is in arithmetic of integers of a dtype, up to the sign: 256 is 0 for 8 bits."""
    bits = 64 if dtype == torch.bool else torch.iinfo(dtype).bits
    return number if bits == 64 else number % 2**bits


def _of_reductions(program: torch.export.ExportedProgram) -> Iterator[Demand]:
    """Yield for each reduction the condition on sizes under which an element exists."""
    read = translator_of(program).read
    for node in program.graph.nodes:
        needed = known_of(node.target).needs_element
        if needed is not None:
            named = nodes.arguments(node)
            shape = named["self"].meta["val"].shape
            sizes = shape if needed == "all" else shape[named["dim"] :][:1]
            yield node, f.conjunction(*(f.ge(read(size), 1) for size in sizes))


def size_along(source: torch.fx.Node, dim: int) -> int | torch.SymInt:
    """Return a size of an indexed tensor; torch counts a tensor without dimensions as one of size 1."""
    shape = source.meta["val"].shape
    return shape[dim] if shape else 1


def indexed(node: torch.fx.Node) -> Iterator[tuple[torch.fx.Node, int, torch.fx.Node, int]]:
    """Yield each indexed tensor, the dimension, the index, and the lowest index as a multiple of the size (0 or -1)."""
    known = known_of(node.target)
    if known.index is None and not known.by_position:
        return
    named = nodes.arguments(node)
    if known.index is not None:
        dim = named[known.index.dim] if known.index.dim else 0
        yield named[known.index.source], dim, named[known.index.index], 0
        return
    for position, index in enumerate(named["indices"]):
        if index is not None and index.meta["val"].dtype in {torch.bool, torch.uint8}:
            return  # a mask of k dimensions indexes k dimensions
        if index is not None:
            yield named["self"], position, index, -1


def _constants(program: torch.export.ExportedProgram) -> set[str]:
    """Return the names of graph inputs that are constant tensors of the model and that the graph does not mutate."""
    changed = {operand.name for node in program.graph.nodes for operand in nodes.changed_operands(node)}
    return set(program.graph_signature.inputs_to_lifted_tensor_constants) - changed


def _from_sizes(node: torch.fx.Node, constants: Container[str]) -> bool:
    """True if a tensor is computed only from sizes and constants, the same in every run."""
    rest, seen = [node], set()
    while rest:
        top = rest.pop()
        if top in seen or top.name in constants or isinstance(top.meta.get("val"), torch.SymInt | int):
            continue
        seen.add(top)
        if top.op != "call_function" or schemas.is_random(top.target) or top.meta.get("unbacked_bindings"):
            return False
        rest += top.all_input_nodes
    return True


def _of_writes(program: torch.export.ExportedProgram) -> Iterator[Demand]:
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
