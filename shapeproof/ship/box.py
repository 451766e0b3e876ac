"""The range of each size that a contract accepts, for tools that build for ranges of sizes, as TensorRT's do."""

from __future__ import annotations

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.terms import Term
from shapeproof.contract import Contract
from shapeproof.contract.inputs import TensorInput
from shapeproof.ship.points import facts_of
from shapeproof.solver.answers.optimum import least_upper_bound
from shapeproof.solver.facts import Facts


def ranges(contract: Contract) -> dict[str, list[tuple[int, int]]]:
    """Return the least and the greatest value of each size of each tensor, by the name of the input in a graph.

    Each is taken at some accepted sizes; relations between sizes are not in ranges.

    Args:
        contract: what `shapeproof.contract.load` returned, or `report.contract`.

    Raises:
        UsageError: a size has no greatest value, or it could not be decided.

    >>> import torch
    >>> from shapeproof.export import Dim, export
    >>> half = Dim("half", min=1, max=8)
    >>> program = export(torch.nn.Linear(4, 2), (torch.ones(6, 4),), dynamic_shapes=({0: 2 * half},))
    >>> ranges(program.report.contract)
    {'input': [(2, 16), (4, 4)]}
    """
    facts = facts_of(contract)
    tensors = [each for each in contract.inputs if isinstance(each, TensorInput)]
    return {
        each.graph_name: [(-_most(-size, size, facts), _most(size, size, facts)) for size in each.sizes]
        for each in tensors
    }


def _most(term: Term, size: Term, facts: Facts) -> int:
    found = least_upper_bound(term, facts)
    if not isinstance(found, int):
        raise UsageError(f"expected a range of {size}, got none: {found or 'it has no greatest value'}")
    return found
