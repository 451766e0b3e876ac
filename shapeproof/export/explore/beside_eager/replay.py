"""Run the eager model and an exported program on the same concrete inputs, and compare them.

Each run gets a deep copy of the model, so that no run sees another run's state.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import torch

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager.forms import Form, copied, forms_of
from shapeproof.export.explore.beside_eager.laid_out import has_elements, laid_otherwise
from shapeproof.export.explore.beside_eager.products import products_shared
from shapeproof.export.graph.aliasing import observes_aliasing
from shapeproof.export.limits import CHEAP_ELEMENTS, LARGE_ELEMENTS
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.inputs.containers import held
from shapeproof.export.shim.modules import elements_held, error_on_fakes, error_on_meta
from shapeproof.export.shim.process.each_call import in_place_of_each_call
from shapeproof.export.shim.process.transforms import transforms_ended
from shapeproof.export.shim.storages import storage_of, writes
from shapeproof.export.shim.trees import flattened, graph_modules, leaves, map_tensors, sizes_as_tuples
from shapeproof.export.source.errors import is_stated, led_to, raised_alike, raised_by_sizes, raised_by_user
from shapeproof.export.trace.rebinding import Left
from shapeproof.wording import with_kind

SEED = 20_011
"""The random seed of both runs. A seed that users set themselves might also be the trace's."""


class Relation(Enum):
    """The relation between a program and the eager model on one input."""

    SAME = "same"
    BOTH_RAISE = "both raise"
    EAGER_RAISES = "eager raises, the program does not"
    PROGRAM_RAISES = "the program raises, eager does not"
    DIFFERENT = "results differ"
    NOT_RUN = "the inputs are too large to be made"


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
        """True if the program did what eager did, up to inputs that are too large to run."""
        return self.relation in {Relation.SAME, Relation.BOTH_RAISE, Relation.NOT_RUN}

    @property
    def sentence(self) -> str:
        """Describe the result in words."""
        return f"{'' if self.agrees else self.form}{self.relation.value}: {self.text}"


@dataclass(frozen=True, slots=True)
class _Failure:
    """What a run of eager raised, in words and by its line; the error itself would hold the tensors of the run.

    Attributes:
        text: the error in words, None if the run raised nothing.
        line: the line that led to it, if known.
    """

    text: str | None
    line: SourceLocation | None

    def is_at(self, where: SourceLocation) -> bool:
        """True if a line led to the error."""
        return self.line is not None and (self.line.file, self.line.line) == (where.file, where.line)


@dataclass(frozen=True, slots=True)
class Rejection:
    """What the model raised because of its sizes: the class of the error, and whether its own code raised it."""

    error: type[Exception]
    by_model: bool


@dataclass(frozen=True, slots=True)
class Eager:
    """The model as eager runs it on the declared inputs. Programs are compared with it.

    Each run gets a copy of the model. Inputs that are too large are not made, and nothing is said of them.
    """

    mod: torch.nn.Module
    inputs: Inputs
    made: dict[Any, tuple[int, Replay]] = field(default_factory=dict, repr=False, compare=False)
    """The replays so far, each with its calls. It would be the same again: every run begins with the same copies and
    random numbers. A key holds what a replay depends on: the programs, the demands on data, the point."""
    failed: dict[Any, _Failure] = field(default_factory=dict, repr=False, compare=False)
    """What eager raised so far; it would be the same again."""
    rejected: dict[Any, Rejection | None] = field(default_factory=dict, repr=False, compare=False)
    """What the model raised so far on tensors without data, by the point."""

    def failure(self, point: Mapping[str, int], seed: int | None = 0) -> str | None:
        """Return what eager raises at a point, or None; `seed` selects the data."""
        return self._failure(point, seed).text

    def failure_at(self, point: Mapping[str, int], where: SourceLocation | None) -> str | None:
        """Return what eager raises at a point, preferring data that fail at the given line."""
        runs = (self._failure(point, seed) for seed in (0, None, 1))
        first = next(runs)
        if first.text is None or where is None or first.is_at(where):
            return first.text
        return next((run for run in runs if run.is_at(where)), first).text

    def _failure(self, point: Mapping[str, int], seed: int | None) -> _Failure:
        key = (seed, *self.inputs.demands, *sorted(point.items()))
        if key not in self.failed:
            error = self.error(point, seed)
            self.failed[key] = _Failure(None, None) if error is None else _Failure(with_kind(error), led_to(error))
        return self.failed[key]

    def error_on(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
        """Return what eager raises on given inputs, or None."""
        return outcome(copied(self.mod), args, kwargs)[1]

    def rejection(self, point: Mapping[str, int]) -> Rejection | None:
        """Return what the model raises at a point on tensors without data, where its sizes are the reason; or None."""
        key = tuple(sorted(point.items()))
        if key not in self.rejected:
            self.rejected[key] = None if self._too_large(point) else self._rejection(point)
        return self.rejected[key]

    def _rejection(self, point: Mapping[str, int]) -> Rejection | None:
        """Return what the model raises without data; on fake tensors only if quicker runs do not tell.

        Where a run without data and a run of eager raise alike, data are not the reason, since the one had none, and a
        device is not, since the other was eager's.
        """
        args, kwargs = self.inputs.at(point, filled=False)
        on_meta = error_on_meta(copied(self.mod), args, kwargs)
        if on_meta is None:
            return None
        eager = self.error(point) if self.is_quick(point) else None
        if eager is not None and raised_alike(eager, on_meta):
            return Rejection(type(eager), by_model=raised_by_user(eager) and is_stated(eager))
        fake = error_on_fakes(copied(self.mod), args, kwargs)
        return Rejection(type(fake), raised_by_user(fake)) if fake is not None and raised_by_sizes(fake) else None

    def is_quick(self, point: Mapping[str, int]) -> bool:
        """True if a run at a point reads few elements of the inputs and of the model."""
        return max(self.inputs.elements(point), elements_held(self.mod)) <= CHEAP_ELEMENTS

    def error(self, point: Mapping[str, int], seed: int | None = 0) -> Exception | None:
        """Return the exception of eager at a point, or None."""
        return None if self._too_large(point) else self.error_on(*self.inputs.at(point, filled=True, seed=seed))

    def _too_large(self, point: Mapping[str, int]) -> bool:
        return point != self.inputs.example and self.inputs.elements(point) > LARGE_ELEMENTS

    def compare(self, programs: Sequence[Form], point: Mapping[str, int], *, calls: int = 1) -> Replay:
        """Run eager and each form of the program at a point, and return the first disagreement.

        If both raise because of the chosen data, integers of 0 and of 1 are tried too. The second of two calls shows
        what a first call leaves in the model.
        """
        if self._too_large(point):
            return Replay(Relation.NOT_RUN)
        key = (*programs, *self.inputs.demands, *sorted(point.items()))
        made, result = self.made.get(key, (0, None))
        if result is None or (made != calls and (made < calls or result.relation is not Relation.SAME)):
            result = self._compare(programs, point, calls)
            self.made[key] = calls, result
        return result

    def _compare(self, programs: Sequence[Form], point: Mapping[str, int], calls: int) -> Replay:
        args, kwargs = self.inputs.at(point, filled=True)
        found = Replay(Relation.SAME)
        for form in programs:
            found = compare_on(self.mod, form, args, kwargs, calls)
            for made in (torch.zeros_like, torch.ones_like):  # `x[i]`, `x[length - 1]`
                if found.relation is Relation.BOTH_RAISE:
                    found = compare_on(self.mod, form, *map_integers(args, kwargs, made), calls)
            if found.is_faint or not found.agrees:
                break
        return found

    def is_determined(self, form: Form, point: Mapping[str, int]) -> bool:
        """True if what a program gives at a point does not depend on what uninitialized memory happens to hold."""
        if self._too_large(point) or not any(map(_is_uninitialized, _called(form.fresh()))):
            return True
        inputs, runs = self.inputs.at(point, filled=True), []
        for numbers in (1, 2):
            with in_place_of_each_call(functools.partial(_run_determined, numbers=numbers)):
                runs.append(_run_apart(form.fresh(), *inputs))
        return unequal(*((run.result, run.given, run.error) for run in runs)) is None

    def agrees_apart(self, program: torch.export.ExportedProgram, point: Mapping[str, int]) -> bool:
        """True if the decomposed program agrees with eager at a point, or cannot differ from the program."""
        return not observes_aliasing(program.graph) or self.compare(forms_of(program), point).agrees


def compare_on(mod: torch.nn.Module, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any], calls: int) -> Replay:
    """Run both on given inputs. Mutations of the inputs are compared as results.

    A program that is in its first state again gives its first results again: it is not called again.
    """
    eager, exported = copied(mod), form.fresh()
    found, got, shared = Replay(Relation.SAME), None, products_shared(mod, (args, kwargs))
    for _ in range(calls):
        with _determined(exported), shared:
            want = _run_apart(eager, args, kwargs)
            if got is None or form.fresh() is not exported:
                got = _run_apart(exported, args, kwargs)
        found = replace(_compared(eager, want, got, form), form=form.name)
        if found.relation is not Relation.SAME:
            break
    return found


@dataclass(frozen=True, slots=True)
class _Run:
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


def _run_apart(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Run:
    inputs = copy.deepcopy((args, kwargs))
    given = leaves(inputs)
    before = {name: (each, writes(each), storage_of(each)) for name, each in _state(call).items()}
    result, error = outcome(call, *inputs)
    state = _state(call)
    changed = {name for name, each in state.items() if name not in before or not _is_as_it_was(each, *before[name])}
    return _Run(inputs, given, state, changed, result, None if error is None else with_kind(error))


def _state(call: Callable[..., Any]) -> dict[str, torch.Tensor]:
    return {**dict(call.named_parameters()), **dict(call.named_buffers())} if isinstance(call, torch.nn.Module) else {}


def _is_as_it_was(now: torch.Tensor, before: torch.Tensor, written: int | None, storage: object) -> bool:
    """True if a tensor was neither replaced nor written into, nor its `data`; inference mode counts no writes."""
    return now is before and written is not None and writes(now) == written and storage_of(now) == storage


def _compared(eager: torch.nn.Module, want: _Run, got: _Run, form: Form) -> Replay:
    """Compare a run of the model with a run of the program; `eager` is as its run left it."""
    if want.error is not None or got.error is not None:
        return _failures(want.error, got.error)
    results = leaves(got.result)
    reason = unequal((want.result, want.given), (got.result, got.given))
    reason = reason or _left_otherwise(eager, want.inputs, got.inputs, results, form.left)
    reason = reason or _written_otherwise(want, got)
    if reason is None and not form.relaid:
        reason = laid_otherwise(want.given, leaves(want.result), got.given, results)
    if reason is not None:
        return Replay(Relation.DIFFERENT, reason)
    return Replay(Relation.SAME, is_faint=differ_faintly(leaves(want.result), results))


def _written_otherwise(want: _Run, got: _Run) -> str | None:
    """Describe how the state differs once both have run, if either has changed any of it."""
    for name in want.changed | got.changed:
        both = name in want.state and name in got.state
        reason = _unequal_leaf(want.state[name], got.state[name]) if both else None
        if reason is not None:
            return f"{reason}, in `{name}` once it has run"
    return None


def _left_otherwise(eager: torch.nn.Module, mine: Any, theirs: Any, got: Sequence[Any], left: Left) -> str | None:
    """Describe how the contents of containers differ after eager has run.

    A container that the trace rebound too is reported elsewhere. If the program returns its new content, that output is
    compared with eager's content.
    """
    want, had = held(eager, *mine).leaves, held(eager, *theirs).leaves
    expected = {each.leaf for each in left.rebound if not each.copied}
    for name in want | had:
        if name in expected:
            output = min(left.outputs.get(name, ()), default=None)
            reason = None if output is None or name not in want else _unequal_leaf(want[name], got[output])
        elif name in want and name in had:
            reason = _unequal_leaf(want[name], had[name])
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
        with contextlib.redirect_stderr(io.StringIO()), transforms_ended(), torch.random.fork_rng():
            _seed()
            return call(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001 - whatever the model raises is the answer
        return None, error


def _seed() -> None:
    """Seed the generators of all devices. Without an accelerator, skip torch's queues for them, which format stacks."""
    seed = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed
    seed(SEED)


def unequal(want: Any, got: Any) -> str | None:
    """Return the reason why two results differ, or None."""
    (wanted, containers), (had, others) = flattened(want), flattened(got)
    if len(wanted) != len(had):
        return f"eager returns {len(wanted)} values, the program {len(had)}"
    if containers != others and flattened(sizes_as_tuples(want))[1] != flattened(sizes_as_tuples(got))[1]:
        return "eager returns the values in other containers, or under other names"
    for a, b in zip(wanted, had, strict=True):
        reason = _unequal_leaf(a, b)
        if reason is not None:
            return reason
    return None


def _unequal_leaf(a: Any, b: Any) -> str | None:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        same = type(a) is type(b) and (a is b or a == b or a != a)  # noqa: PLR0124 - NaN
        return None if same else f"eager returns {a!r}, the program {b!r}"
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"eager returns {a.dtype} {list(a.shape)}, the program {b.dtype} {list(b.shape)}"
    is_bitwise = a.dtype.is_floating_point and a.dtype.itemsize == 1  # torch takes no tolerance for these
    try:
        torch.testing.assert_close(b, a, rtol=0 if is_bitwise else 1e-3, atol=0 if is_bitwise else 1e-4, equal_nan=True)
    except AssertionError:
        return "the values differ"
    return None


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


def _determined(run: Any) -> contextlib.AbstractContextManager[Any]:
    """Inside this block, a kernel that would end the process raises, and uninitialized memory holds certain numbers.

    It costs nothing if the program calls no such operator.

    A program is also run where its own trace does not lead, at sizes that answer a decision otherwise: eager takes
    another kernel for attention over a sequence of length 0, and none for the gradients of a batch norm of no rows; the
    kernels of the program divide by these sizes.
    """
    changed = any(known_of(func).divides_by != () or _is_uninitialized(func) for func in _called(run))
    return in_place_of_each_call(_run_determined) if changed else contextlib.nullcontext()


def _called(run: Any) -> list[Any]:
    """Return what a program calls; nothing of any other callable."""
    graphs = [each.graph for each in graph_modules(run)] if isinstance(run, torch.nn.Module) else []
    return [node.target for graph in graphs for node in graph.nodes if node.op == "call_function"]


def _is_uninitialized(func: Any) -> bool:
    """True if the result of an operator holds what its memory happened to hold."""
    return re.fullmatch(r"aten\.(new_)?empty(_\w+)?\.\w+", str(func)) is not None


def _run_determined(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], numbers: int = 2) -> Any:
    """Run an operator, unless its kernel would divide by a size of its first operands that is 0.

    Uninitialized memory is filled with so many numbers, in turns.

    Raises:
        ZeroDivisionError: it would.

    >>> _run_determined(torch.ops.aten.relu.default, (torch.ones(0),), {})
    tensor([])
    >>> _run_determined(torch.ops.aten.empty.memory_format, ([3],), {})
    tensor([0., 1., 0.])
    """
    by, tensors = known_of(func).divides_by, [each for each in args[:3] if isinstance(each, torch.Tensor)]
    if 0 in (tensors[0].shape if by is None else [each.shape[dim] for dim in by for each in tensors]):
        raise ZeroDivisionError(f"the kernel of `{func}` divides by a size of 0")
    result = func(*args, **kwargs)
    if _is_uninitialized(func) and result.layout == torch.strided:
        result.copy_(torch.arange(result.numel(), device=result.device).remainder(numbers).reshape(result.shape))
    return result
