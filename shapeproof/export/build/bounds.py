"""Upper bounds of a program's tensors with sizes from data: least upper bounds over the whole domain, proved.

A target that plans memory ahead of time needs a number instead of a symbol: `nonzero` of a 5 by 5 tensor is
`[<=25, 2]`. The solver finds the greatest value that the facts allow. For a size without a bound, `missing` names what
would bound it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.syntax.text import format_term
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.findings import Exploration
from shapeproof.export.graph.nodes import tensors_of
from shapeproof.export.report.sizes import Bound, Bounds
from shapeproof.export.shim.storages import storages
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Untranslatable
from shapeproof.solver.answers.optimum import least_upper_bound

_ASSUMED = 2**16
"""A trial bound: if it bounds a size, the size lacks only upper bounds of declared sizes."""


class Bounding:
    """Bounds of the sizes of one program; its exploration has the facts."""

    def __init__(self, program: torch.export.ExportedProgram, found: Exploration, inputs: Inputs) -> None:
        self._program = program
        self._facts = found.main.trial.facts.resting_on(*(narrowing.requirement for narrowing in found.narrowings))
        self._inputs = inputs
        self._known: dict[Term, int | None] = {}
        self._term = translator_of(self._program).size

    def tensors(self) -> Bounds:
        """Return each tensor of the program that has a size from data, in program order."""
        return Bounds(
            self._bound(name, tensor)
            for node in self._program.graph.nodes
            for name, tensor in tensors_of(node)
            if any(not self._term(size).symbols <= self._inputs.domain.symbols.keys() for size in tensor.shape)
        )

    def _bound(self, name: str, tensor: torch.Tensor) -> Bound:
        terms = [self._term(size) for size in tensor.shape]
        limits = tuple(map(self._limit, terms))
        sizes = tuple(
            str(limit) if term.is_constant else "?" if limit is None else f"<={limit}"
            for term, limit in zip(terms, limits, strict=True)
        )
        open_ = [term for term, limit in zip(terms, limits, strict=True) if limit is None]
        return Bound(name, short_dtype(tensor.dtype), sizes, limits, self._missing(open_[0]) if open_ else "")

    def _limit(self, term: Term) -> int | None:
        """Return the least upper bound of a size; beyond the budget, the best proved bound; None if there is none."""
        if term not in self._known:
            found = least_upper_bound(term, self._facts)
            proved = self._facts.known.bounds(self._facts.reduce(term)).upper
            self._known[term] = found if isinstance(found, int) or found is None else proved
        return self._known[term]

    def _missing(self, term: Term) -> str:
        """Say what would bound a size: upper bounds of declared sizes, or else a torch._check on data."""
        names = self._inputs.user_names
        unbounded = [name for name in sorted(names) if self._facts.range_of(name).upper is None]
        if unbounded and self._bounded_by(term, unbounded):
            for name in list(unbounded):
                if len(unbounded) > 1 and self._bounded_by(term, [other for other in unbounded if other != name]):
                    unbounded.remove(name)
            return f"unbounded: needs an upper bound of {', '.join(names[name] for name in unbounded)}"
        return f"unbounded: needs a torch._check on {format_term(term, rename=names)}"

    def _bounded_by(self, term: Term, names: list[str]) -> bool:
        facts = self._facts.assuming(*(f.le(symbol(name), _ASSUMED) for name in names))
        return isinstance(least_upper_bound(term, facts), int)

    # ------------------------------------------------------------------ memory

    def peak_bytes(self) -> int | None:
        """Return an upper bound of the bytes that the program's tensors hold at once; None if some tensor is unbounded.

        The bound assumes that the program runs node by node and frees a storage after its last use. Inputs, parameters
        and buffers are held throughout. Temporary memory inside an operator is not counted.
        """
        try:
            sizes = {storage: self._bytes(tensor) for _, storage, tensor in self._storages()}
        except Untranslatable:
            return None
        if None in sizes.values():
            return None
        events = Counter[int]()
        for storage, (first, last) in self._lifetimes().items():
            events[first] += sizes[storage] or 0
            events[last + 1] -= sizes[storage] or 0
        return max(itertools.accumulate(events[moment] for moment in sorted(events)), default=0)

    def _storages(self) -> Iterator[tuple[torch.fx.Node, Any, torch.Tensor]]:
        for node in self._program.graph.nodes:
            for _, tensor in tensors_of(node):
                yield from ((node, storage, tensor) for storage in storages(tensor))

    def _bytes(self, tensor: torch.Tensor) -> int | None:
        term = self._term(tensor.untyped_storage().nbytes())
        return self._facts.known.bounds(self._facts.reduce(term)).upper

    def _lifetimes(self) -> Mapping[Any, tuple[int, int]]:
        """Map each storage to its first node and its last use; inputs live from start to end."""
        nodes = list(self._program.graph.nodes)
        place = {node: index for index, node in enumerate(nodes)}
        found: dict[Any, tuple[int, int]] = {}
        for node, storage, _ in self._storages():
            held = node.op in {"placeholder", "get_attr"}
            first = 0 if held else place[node]
            last = len(nodes) if held else max([first, *(place[user] for user in node.users)])
            before = found.get(storage, (first, last))
            found[storage] = (min(before[0], first), max(before[1], last))
        return found


def short_dtype(dtype: torch.dtype) -> str:
    """Return a dtype as graphs print it.

    >>> short_dtype(torch.float32), short_dtype(torch.int64), short_dtype(torch.bool)
    ('f32', 'i64', 'b8')
    """
    name = str(dtype).removeprefix("torch.").replace("bfloat", "bf")
    return "b8" if name == "bool" else re.sub(r"^(f|i|u|c)[a-z]+(\d+)", r"\1\2", name)
