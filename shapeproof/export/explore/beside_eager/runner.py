"""Run a callable once on a copy of its inputs, and compare what two such runs did.

Also the comparison of two results. How a model or program is copied, and where it is run, is replay.py's job.
"""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

import torch

from shapeproof.export.explore.beside_eager.forms import Form
from shapeproof.export.explore.beside_eager.laid_out import has_elements, laid_otherwise
from shapeproof.export.shim.inputs.containers import held
from shapeproof.export.shim.process.modes import generators_restored
from shapeproof.export.shim.process.transforms import transforms_ended
from shapeproof.export.shim.storages import storage_of, writes
from shapeproof.export.shim.trees import flattened, leaves, map_tensors, sizes_as_tuples
from shapeproof.export.trace.rebinding import Left
from shapeproof.wording import with_kind

SEED = 20_011
"""The random seed of both runs. A seed that users set themselves might also be the trace's."""


Unlike = Callable[[Any, Any], str | None]
"""Returns the reason why two leaves of results differ, or None."""


class Relation(Enum):
    """The relation between a program and the eager model on one input."""

    SAME = "same"
    BOTH_RAISE = "both raise"
    EAGER_RAISES = "eager raises, the program does not"
    PROGRAM_RAISES = "the program raises, eager does not"
    DIFFERENT = "results differ"
    MAY_DIFFER = "results are not known to be the same"
    NOT_RUN = "the inputs have no data, or are too large to be made"


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay at one point."""

    relation: Relation
    text: str = ""
    form: str = ""
    is_faint: bool = False
    """True if results that count as the same differ as far as such small numbers can."""

    @property
    def agrees(self) -> bool:
        """True if the program did what eager did, up to inputs that were not run."""
        return self.relation in {Relation.SAME, Relation.BOTH_RAISE, Relation.NOT_RUN}

    @property
    def sentence(self) -> str:
        """Describe the result in words."""
        return f"{'' if self.agrees else self.form}{self.relation.value}: {self.text}"


@dataclass(frozen=True, slots=True)
class Run:
    """A run on a copy of the inputs.

    Attributes:
        inputs: the copy, as the run left it.
        given: the leaves of the copy before the run, as the run left each.
        state: the parameters and buffers of the module that ran, by their names; empty for any other callable.
        changed: the names of those that were written into or replaced.
        result: the result, None if the run raised.
        error: what it raised, in words.
    """

    inputs: tuple[tuple[Any, ...], dict[str, Any]]
    given: Sequence[Any]
    state: dict[str, torch.Tensor]
    changed: set[str]
    result: Any
    error: str | None


def run_apart(
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    known: Mapping[Any, Any] = MappingProxyType({}),
) -> Run:
    """Run a callable on a copy of the inputs; `known`: the copies to take, by the ids of what they are copies of."""
    memo: dict[Any, Any] = {**known, "torch": dict(known.get("torch", {}))}
    inputs = copy.deepcopy((args, kwargs), memo)
    given = leaves(inputs)
    before = {name: (each, writes(each), storage_of(each)) for name, each in _state(call).items()}
    result, error = outcome(call, *inputs)
    state = _state(call)
    changed = {name for name, each in state.items() if name not in before or not _is_as_it_was(each, *before[name])}
    return Run(inputs, given, state, changed, result, None if error is None else with_kind(error))


def _state(call: Callable[..., Any]) -> dict[str, torch.Tensor]:
    return {**dict(call.named_parameters()), **dict(call.named_buffers())} if isinstance(call, torch.nn.Module) else {}


def _is_as_it_was(now: torch.Tensor, before: torch.Tensor, written: int | None, storage: object) -> bool:
    """True if a tensor was neither replaced nor written into, nor its `data`; inference mode counts no writes."""
    return now is before and written is not None and writes(now) == written and storage_of(now) == storage


@torch.no_grad()  # an operator with gradients refuses a view made without, if its base is written into since
def compared(eager: torch.nn.Module, want: Run, got: Run, form: Form, unlike: Unlike) -> Replay:
    """Compare a run of the model with a run of the program; `eager` is as its run left it.

    `unlike` returns the reason why two leaves differ, or None.
    """
    if want.error is not None or got.error is not None:
        return _failures(want.error, got.error)
    results = leaves(got.result)
    reason = unequal((want.result, want.given), (got.result, got.given), unlike)
    reason = reason or _left_otherwise(eager, (want.inputs, got.inputs), results, form.left, unlike)
    reason = reason or _written_otherwise(want, got, unlike)
    if reason is None and not form.relaid:
        reason = laid_otherwise(want.given, leaves(want.result), got.given, results)
    return Replay(Relation.SAME) if reason is None else Replay(Relation.DIFFERENT, reason)


def _written_otherwise(want: Run, got: Run, unlike: Unlike) -> str | None:
    """Describe how the state differs once both have run, if either has changed any of it."""
    for name in want.changed | got.changed:
        both = name in want.state and name in got.state
        reason = unlike(want.state[name], got.state[name]) if both else None
        if reason is not None:
            return f"{reason}, in `{name}` once it has run"
    return None


def _left_otherwise(
    eager: torch.nn.Module,
    inputs: tuple[Any, Any],
    got: Sequence[Any],
    left: Left,
    unlike: Unlike,
) -> str | None:
    """Describe how the contents of containers differ after eager has run.

    A container that the trace rebound too is reported elsewhere. If the program returns its new content, that output is
    compared with eager's content.
    """
    want, had = (held(eager, *each).leaves for each in inputs)
    expected = {each.leaf for each in left.rebound if not each.copied}
    for name in want | had:
        if name in expected:
            output = min(left.outputs.get(name, ()), default=None)
            reason = None if output is None or name not in want else unlike(want[name], got[output])
        elif name in want and name in had:
            reason = unlike(want[name], had[name])
        else:
            reason = "eager adds it" if name in want else "eager takes it away"
        if reason is not None:
            return f"{reason}, in `{name}` once it has run"
    return None


def _failures(eager: str | None, program: str | None) -> Replay:
    if eager is None:
        return Replay(Relation.PROGRAM_RAISES, program or "")
    if program is None:
        return Replay(Relation.EAGER_RAISES, eager)
    return Replay(Relation.BOTH_RAISE, eager)


def outcome(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Exception | None]:
    """Return the result of a call, or its error; every run uses the same random numbers."""
    try:
        # torch.fx prints the graph's line that raised; a graph that raises inside torch.vmap leaves vmap active
        with contextlib.redirect_stderr(io.StringIO()), transforms_ended(), generators_restored():
            _seed()
            return call(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001 - whatever the model raises is the answer
        return None, error


def _seed() -> None:
    """Seed the generators of all devices. Without an accelerator, skip torch's queues for them, which format stacks."""
    seed = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed
    seed(SEED)


def unequal(want: Any, got: Any, unlike: Unlike | None = None) -> str | None:
    """Return the reason why two results differ, or None; `unlike` tells of two leaves, by their values if not given."""
    unlike = unlike or unequal_leaf
    (wanted, containers), (had, others) = flattened(want), flattened(got)
    if len(wanted) != len(had):
        return f"eager returns {len(wanted)} values, the program {len(had)}"
    if containers != others and flattened(sizes_as_tuples(want))[1] != flattened(sizes_as_tuples(got))[1]:
        return "eager returns the values in other containers, or under other names"
    for a, b in zip(wanted, had, strict=True):
        reason = unlike(a, b)
        if reason is not None:
            return reason
    return None


def unequal_leaf(a: Any, b: Any) -> str | None:
    """Return the reason why the values of two leaves differ, or None."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        same = type(a) is type(b) and (a is b or a == b or a != a)  # noqa: PLR0124 - NaN
        return None if same else f"eager returns {a!r}, the program {b!r}"
    reason = unequal_sizes(a, b)
    if reason is not None:
        return reason
    is_bitwise = a.dtype.is_floating_point and a.dtype.itemsize == 1  # torch takes no tolerance for these
    try:
        torch.testing.assert_close(b, a, rtol=0 if is_bitwise else 1e-3, atol=0 if is_bitwise else 1e-4, equal_nan=True)
    except AssertionError:
        return "the values differ"
    return None


def unequal_sizes(a: Any, b: Any) -> str | None:
    """Return the reason why two leaves differ in their sizes or dtypes, or None."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or (a.shape, a.dtype) == (b.shape, b.dtype):
        return None
    return f"eager returns {a.dtype} {list(a.shape)}, the program {b.dtype} {list(b.shape)}"


def map_integers(
    args: tuple[Any, ...], kwargs: dict[str, Any], change: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the inputs with every integer tensor changed."""

    def visit(leaf: torch.Tensor) -> torch.Tensor:
        return leaf if leaf.is_floating_point() or leaf.is_complex() or leaf.dtype == torch.bool else change(leaf)

    return map_tensors((args, kwargs), visit)


_FAINT = 2.0**-40
"""Far below the roundings of numbers near 1: a result as small as this is no remainder of their differences."""


def differ_faintly(want: Sequence[Any], got: Sequence[Any]) -> bool:
    """True if results that are equal within the tolerance are tiny and, for their size, not equal.

    Random weights may make all results 1e-30: the tolerance then hides every difference.

    >>> import torch
    >>> tiny = torch.tensor([2.0**-90, 0.0])
    >>> differ_faintly([tiny], [tiny * 2]), differ_faintly([tiny], [tiny * 1.0001])
    (True, False)
    >>> differ_faintly([tiny + 1], [tiny * 2 + 1])
    False
    """
    pairs = [(a.detach(), b.detach()) for a, b in zip(want, got, strict=True) if _has_size(a)]
    largest = max((float(a.abs().max()) for a, _ in pairs), default=0.0)
    if not 0.0 < largest < _FAINT:
        return False
    return any(float((a.double() - b.double()).abs().max()) > largest * 1e-3 for a, b in pairs)


def _has_size(result: Any) -> bool:
    known = has_elements(result) and result.device.type != "meta"
    return known and result.is_floating_point() and result.itemsize > 1
