"""The programs of a served model as `Regions`, which are saved and loaded as one archive."""

from __future__ import annotations

from collections.abc import Sequence

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export import Regions
from shapeproof.export.build.accepted.contract import Requirements
from shapeproof.serve.domains import symbols
from shapeproof.serve.programs import Program


def regions_of(programs: Sequence[Program]) -> Regions:
    """The regions of programs that differ in sizes alone.

    Raises:
        UsageError: there is none, or they differ in more.
    """
    if not programs:
        raise UsageError("there is no program to save yet: call it first")
    first = programs[0]
    if any(each.key != first.key for each in programs):
        message = "the programs differ in dtypes, ranks, constants or modes, and an archive of regions differs in sizes"
        raise UsageError(f"{message}: save each of `programs` by itself")
    domain = f.disjunction(*(f.conjunction(*each.flat.formulas) for each in programs))
    contract = Requirements(
        first.exported.contract.inputs,
        _sizes(programs),
        (domain,),
        frozenset(),
        dict(zip(symbols(len(first.flat.names)), first.flat.names, strict=True)),
        first.exported.contract.with_memory_of(each.exported.contract for each in programs[1:]).memory,
    )
    return Regions(
        tuple(each.exported for each in programs),
        tuple(f.conjunction(*each.flat.formulas) for each in programs),
        contract,
    )


def _sizes(programs: Sequence[Program]) -> tuple[tuple[Term, ...], ...]:
    """The flat sizes by input, each its own symbol."""
    own = iter(map(symbol, symbols(len(programs[0].flat.names))))
    return tuple(tuple(next(own) for _ in range(length)) for length in programs[0].flat.lengths)
