"""Why no program served a call, as data and in a line: the size, what a program serves, the line that makes it so.

The reason is the first requirement of a program that does not hold of the call. The line is that of the first question
that the trace asked and that the call answers otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import torch

from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.records.decisions import Decision
from shapeproof.contract.sizes import plainly, readings
from shapeproof.export.shim.inputs.binding import name_leaves
from shapeproof.seen import Seen
from shapeproof.seen.calls import Call, size_names
from shapeproof.serve.attempts import spans
from shapeproof.serve.calling.calls import Request
from shapeproof.serve.calling.state import MODES
from shapeproof.serve.programs import Program
from shapeproof.wording import values_text


@dataclass(frozen=True)
class Reason:
    """Why one program does not serve a call.

    Attributes:
        program: the number of the program.
        given: what the call has: `x.shape[0] = 20`.
        served: what the program serves: `x.shape[0] == 10`.
        about_sizes: whether it is about sizes, and not about dtypes, ranks, modes or memory.
        because: where that comes from: a line of the model, `declared`, or that no other size was seen.
        file: the file of the line; None where there is none.
        line: its number.
    """

    program: int
    given: str
    served: str
    about_sizes: bool
    because: str = ""
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        because = f", {self.because}" if self.because else ""
        return f"{self.given}; program {self.program} serves {self.served}{because}"


@dataclass(frozen=True)
class Miss:
    """A call that no program served.

    Attributes:
        sizes: the sizes of the call, by the user's names.
        reasons: for each program, why it did not.
        outcome: "traced", "eager" or "raised".
        said: why nothing was traced, where that was tried.
        declare: what would have made one program of it, as the argument to pass; None where nothing would.
        call: how many calls had come by then, itself counted.
    """

    sizes: Mapping[str, int]
    reasons: tuple[Reason, ...]
    outcome: str
    said: str = ""
    declare: str | None = None
    call: int = 0

    @property
    def about_sizes(self) -> bool:
        """True if some program differs from the call in sizes alone."""
        return any(reason.about_sizes for reason in self.reasons)

    @property
    def nearest(self) -> Reason | None:
        """The reason of the program that is nearest to the call: the newest that differs in sizes, else the newest."""
        about = [reason for reason in self.reasons if reason.about_sizes] or self.reasons
        return about[-1] if about else None

    def __str__(self) -> str:
        sizes = values_text(self.sizes)
        line = str(self.nearest) if self.nearest else f"{sizes or 'the call'}; there is no program"
        return f"{line}; {self.said}" if self.said else line


def explained(  # noqa: PLR0913, PLR0917 - what is known of a call
    model: torch.nn.Module, request: Request, call: Call, seen: Seen, programs: Sequence[Program], said: str
) -> Miss:
    """The miss of a call that none of these programs serves."""
    named = [(name, value) for _, name, value in name_leaves(model, request.args, request.kwargs)]
    sizes = dict(zip(size_names(call.kind), call.point, strict=True))
    reasons = tuple(_reason(each, request, [name for name, _ in named]) for each in programs)
    miss = Miss(sizes, reasons, "traced", said)
    if not miss.about_sizes:
        return miss
    ranks = [(name, value.dim() if isinstance(value, torch.Tensor) else -1) for name, value in named]
    branches = any(reason.line is not None for reason in reasons)
    return replace(miss, declare=declaration(ranks, spans(seen), branches=branches))


def _reason(program: Program, request: Request, names: Sequence[str]) -> Reason:
    """Why a program does not serve a call."""
    for said, now, then in zip(MODES, request.key.modes, program.key.modes, strict=True):
        if now != then:
            return Reason(program.number, f"{said}: {_short(now)}", _short(then), about_sizes=False)
    mine, own = request.key.form, program.key.form
    if mine.structure != own.structure:
        return Reason(program.number, "another structure of inputs", "its own", about_sizes=False)
    for name, now, then in zip(names, mine.inputs, own.inputs, strict=True):
        if now != then:
            return Reason(program.number, *_differing(name, now, then), about_sizes=False)
    return _of_sizes(program, request.sizes, request.inputs)


def _short(value: Any) -> str:
    """A mode in a word: of a tuple that is alike throughout, its value."""
    if isinstance(value, tuple):
        values = dict.fromkeys(map(str, value))
        return next(iter(values)) if len(values) == 1 else f"{len(values)} kinds" if values else "none"
    return str(value) or "none"


def _differing(name: str, now: Any, then: Any) -> tuple[str, str]:
    """Return the first property in which an input differs from what a program takes, with both values."""
    if _is_tensor(now) and _is_tensor(then):
        for what, mine, other in zip(("dtype", "device", "layout", "dim()", "requires_grad"), now, then, strict=True):
            if mine != other:
                return f"{name}.{what} = {mine}", f"{name}.{what} == {other}"
    return f"{name} = {_worded(now)}", f"{name} == {_worded(then)}"


def _is_tensor(kind: Any) -> bool:
    return isinstance(kind, tuple) and isinstance(kind[0], torch.dtype)


def _worded(kind: Any) -> str:
    if _is_tensor(kind):
        return f"a tensor of {kind[0]}"
    return "an int" if kind is int else str(kind[1])


def _of_sizes(program: Program, sizes: Sequence[int], inputs: Sequence[Any]) -> Reason:
    flat, number = program.flat, program.number
    point = flat.point(sizes)
    for formula in flat.formulas:
        if true_at(formula, point) is not True:
            given = values_text({each: point[each] for each in point if each in formula.symbols}, flat.names)
            because, file, line = _because(program, inputs)
            return Reason(number, given, flat.said(formula), about_sizes=True, because=because, file=file, line=line)
    changed = program.changed()
    if changed is not None:
        return Reason(number, str(changed), changed.formula, about_sizes=False)
    misfit = program.misfit(inputs)
    return Reason(number, str(misfit or "the call"), "how its example lay in memory", about_sizes=False)


def _because(program: Program, inputs: Sequence[Any]) -> tuple[str, str | None, int | None]:
    """Where a program's domain comes from, for the part that this call shows."""
    where = next((each.where for each in _otherwise(program, inputs) if each.where is not None), None)
    if where is not None:
        return f"because of {PurePath(where.file).name}:{where.line}", where.file, where.line
    if program.declared:
        return "as declared", None, None
    return ("the only one seen before" if program.is_static else ""), None, None


def _otherwise(program: Program, inputs: Sequence[Any]) -> Iterator[Decision]:
    """The questions of a trace that this call answers otherwise, in order."""
    contract = program.exported.contract
    given = [each.shape if isinstance(each, torch.Tensor) else (each,) for each in inputs]
    point = {
        name: place.value(given[place.leaf][place.index], plainly) for name, place in readings(contract.sizes).items()
    }
    for decision in program.report.decisions:
        if decision.formula.symbols <= point.keys() and true_at(decision.taken, point) is False:
            yield decision


def declaration(
    names: Sequence[tuple[str, int]], varied: Mapping[str, tuple[int, int]], *, branches: bool
) -> str | None:
    """The argument that declares the sizes that varied; None where an input is inside a container.

    Args:
        names: for each flat input its name, and its rank; -1 for what is no tensor.
        varied: the sizes that varied, with the least and the greatest seen.
        branches: whether the model does other things at some of them, so that all have to be claimed.

    >>> declaration([("x", 2), ("n", -1)], {"x.shape[0]": (10, 20)}, branches=False)
    'dynamic_shapes={"x": {0: Dim.AUTO}, "n": None}'
    """
    if not varied or not all(name.isidentifier() for name, _ in names):
        return None
    entries = []
    for name, rank in names:
        own = {dim: varied[size] for dim in range(rank) if (size := f"{name}.shape[{dim}]") in varied}
        dims = ", ".join(f"{dim}: {_entry(f'{name}_{dim}', *ends, branches=branches)}" for dim, ends in own.items())
        alone = _entry(name, *varied[name], branches=branches) if rank == -1 and name in varied else "None"
        entries.append(f'"{name}": {f"{{{dims}}}" if own else alone}')
    return f"dynamic_shapes={{{', '.join(entries)}}}"


def _entry(name: str, low: int, high: int, *, branches: bool) -> str:
    return f'Dim("{name}", min={low}, max={high})' if branches else "Dim.AUTO"
