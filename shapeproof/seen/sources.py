"""Advice for torch.compile from what was seen and what was proved: its list of dynamic sources, and marks.

Only sizes that one proved program serves with more than one value are named: of any other torch might make a constant,
which it then says is an error, or compile again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.terms import symbol
from shapeproof.seen.calls import Kind, user_name


def sources_served(program: Any) -> Iterator[str]:
    """The sizes and ints that a program of `export` serves with more than one value, as torch names them: `L['x']:0`.

    Raises:
        UsageError: it is not one program, or not proved.
    """
    if getattr(getattr(program, "report", None), "status", None) != "proved" or not hasattr(program, "graph_signature"):
        raise UsageError("expected one program that is proved: of anything else the list might be wrong")
    from shapeproof.solver.facts import Facts  # recording alone needs no solver

    contract = program.contract
    domain = Facts(contract.formulas)
    for name, terms in zip(contract.inputs, contract.sizes, strict=True):
        root = re.match(r"\w+", name)
        source = f"L[{root[0]!r}]{name[root.end() :]}" if root else name
        is_int = any(term is symbol(own) and contract.names[own] == name for term in terms for own in term.symbols)
        for index, term in enumerate(terms):
            ranges = [domain.range_of(own) for own in term.symbols]
            if any(each.lower is None or each.lower != each.upper for each in ranges):
                yield source if is_int else f"{source}:{index}"


def marks_of(sources: Iterable[str]) -> str:
    """Sources as calls of mark_dynamic, one a line; an int takes no mark.

    >>> print(marks_of(["L['x']:0", "L['cache'][1]:2", "L['n']"]))
    mark_dynamic(x, 0)
    mark_dynamic(cache[1], 2)
    """
    found = (re.fullmatch(r"(L\[.*\]):(\d+)", source) for source in sources)
    return "\n".join(f"mark_dynamic({user_name(each[1])}, {each[2]})" for each in found if each)


def varied(kind: Kind, varying: Iterable[bool]) -> Iterator[str]:
    """The sizes and ints of calls of a kind that varied, as torch names them; `varying` tells it for each number.

    >>> from shapeproof.seen.calls import Slot
    >>> list(varied((Slot("L['n']", "int"), Slot("L['x']", "tensor", "float32", 2)), (True, False, True)))
    ["L['n']", "L['x']:1"]
    """
    sources = [
        slot.source if slot.kind == "int" else f"{slot.source}:{index}"
        for slot in kind
        for index in range(len(slot.sizes))
    ]
    yield from (source for source, varies in zip(sources, varying, strict=True) if varies)
