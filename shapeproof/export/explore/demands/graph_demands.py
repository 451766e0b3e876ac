"""Read what the operators of a graph require of sizes, where torch leaves the check to run time.

Indices are data: torch traces `x[[0, 3]]` or `x[arange(4)]` of fewer than four rows. An index made only from sizes and
constants is the same for all data, so eager raises for all data or for none.

Torch traces `x[n]`, and `x // n` of integers, for a size `n` without a look at `n`, too.

Torch traces a reduction that needs an element (`x.max(0)` of no rows) at any size; eager raises if there is no element.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term
from shapeproof.export.explore.demands.overlaps import of_writes
from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import known_of
from shapeproof.export.trace.checks.failures import size_that_divides
from shapeproof.export.trace.traced import span_of, translator_of


def requirements(program: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Formula]]:
    """Yield what sizes must meet: for each index, each divisor, each reduction, each write."""
    yield from _of_indices(program)
    yield from _of_selections(program)
    yield from _of_divisors(program)
    yield from _of_reductions(program)
    yield from of_writes(program)


def _of_indices(program: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Formula]]:
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


def _of_selections(program: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Formula]]:
    """Yield for each row that is selected by a size (`x[n]`) the condition under which the row exists."""
    read = translator_of(program).size
    for node in program.graph.nodes:
        if not known_of(node.target).selects:
            continue
        named = schemas.by_name(node.target, node.args, node.kwargs)
        index = nodes.metadata(named["index"])
        if isinstance(index, torch.SymInt):
            row, size = read(index), read(named["self"].meta["val"].shape[named["dim"]])
            yield node, f.conjunction(f.lt(row, size), f.ge(row, -size))


def _of_divisors(program: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Formula]]:
    """Yield for each division of integers by a size: it is not 0 in their dtype, or there is nothing to divide."""
    read = translator_of(program).size
    for node in program.graph.nodes:
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), nodes.metadata)
        divisor = size_that_divides(node.target, args, kwargs)
        if divisor is not None and isinstance(args[0], torch.Tensor):
            empty = (f.eq(read(size), 0) for size in args[0].shape)
            yield node, f.disjunction(f.ne(_wrapped(read(divisor), args[0].dtype), 0), *empty)


def _wrapped(number: Term, dtype: torch.dtype) -> Term:
    """Return a number as it is in arithmetic of integers of a dtype, up to the sign: 256 is 0 for 8 bits."""
    bits = 64 if dtype == torch.bool else torch.iinfo(dtype).bits
    return number if bits == 64 else number % 2**bits


def _of_reductions(program: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Formula]]:
    """Yield for each reduction the condition on sizes under which an element exists."""
    read = translator_of(program).read
    for node in program.graph.nodes:
        needed = known_of(node.target).needs_element
        if needed is not None:
            named = schemas.by_name(node.target, node.args, node.kwargs)
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
    named = schemas.by_name(node.target, node.args, node.kwargs)
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
