"""Run the eager model and an exported program on the same concrete inputs, and compare them.

Each run gets a deep copy of the model, so that no run sees another run's state.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.materialize import fill
from shapeproof.export.explore.beside_eager.forms import Form, copied, forms_of
from shapeproof.export.explore.beside_eager.runner import (
    Relation,
    Replay,
    compared,
    differ_faintly,
    map_integers,
    outcome,
    run_apart,
    unequal,
    unequal_leaf,
)
from shapeproof.export.graph.aliasing import observes_aliasing
from shapeproof.export.limits import CHEAP_ELEMENTS, LARGE_ELEMENTS
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.modules import elements_held, error_on_meta, without_data
from shapeproof.export.shim.process.each_call import in_place_of_each_call
from shapeproof.export.shim.process.idle_work import few_threads
from shapeproof.export.shim.process.modes import fills_memory
from shapeproof.export.shim.storages import holds_data
from shapeproof.export.shim.trees import graph_modules, leaves, map_tensors
from shapeproof.export.source.errors import is_stated, led_to, raised_alike, raised_by_sizes, raised_by_user
from shapeproof.export.trace.python.whether_traced import asked
from shapeproof.plain import Saving, saves_time
from shapeproof.wording import with_kind

if TYPE_CHECKING:
    from shapeproof.export.explore.beside_eager.dataflow import Dataflow


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
    flows: list[Dataflow] = field(default_factory=list, repr=False, compare=False)
    made: dict[Any, tuple[int, Replay]] = field(default_factory=dict, repr=False, compare=False)
    """The replays so far, each with its calls. It would be the same again: every run begins with the same copies and
    random numbers. A key holds what a replay depends on: the programs, the demands on data, the point."""
    failed: dict[Any, _Failure] = field(default_factory=dict, repr=False, compare=False)
    """What eager raised so far; it would be the same again."""
    rejected: dict[Any, Rejection | None] = field(default_factory=dict, repr=False, compare=False)
    """What the model raised so far on tensors without data, by the point."""

    missing: str | None = field(init=False)
    """Why the model, or an input, has no data, in a few words: nothing is compared by values then."""
    without_data: set[Any] = field(default_factory=set, repr=False, compare=False)
    """The points at which a large model was compared by dataflow; `with_data`: those at which that did not tell."""
    with_data: set[Any] = field(default_factory=set, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", without_data(self.mod, self.inputs.args, self.inputs.kwargs))

    @property
    def dataflow(self) -> Dataflow:
        """Compares programs with the model without data; only for a large model is it imported."""
        from shapeproof.export.explore.beside_eager.dataflow import Dataflow

        if not self.flows:
            self.flows.append(Dataflow(self.mod, plainly))
        return self.flows[0]

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
        key = (seed, *self.inputs.demands, *_key(point))
        if key not in self.failed:
            error = self.error(point, seed)
            self.failed[key] = _Failure(None, None) if error is None else _Failure(with_kind(error), led_to(error))
        return self.failed[key]

    def error_on(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
        """Return what eager raises on given inputs, or None; without data, only what their sizes make it raise."""
        if not self.missing:
            return outcome(copied(self.mod), args, kwargs)[1]
        error = self.dataflow.error(args, kwargs)
        return error if raised_by_sizes(error) and not self._asks_device(error, args, kwargs) else None

    def _asks_device(self, error: Exception | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """True if code of a model without data raises where hollow tensors lie, on the CPU, and not on its own device.

        Of an operator nothing is concluded: without data, it may accept what its kernel refuses.
        """
        return error is not None and is_stated(error) and outcome(copied(self.mod), args, kwargs)[1] is None

    def rejection(self, point: Mapping[str, int]) -> Rejection | None:
        """Return what the model raises at a point on tensors without data, where its sizes are the reason; or None."""
        key = _key(point)
        if key not in self.rejected:
            self.rejected[key] = None if self._too_large(point) else self._rejection(point)
        return self.rejected[key]

    def _rejection(self, point: Mapping[str, int]) -> Rejection | None:
        """Return what the model raises without data; it runs on the device `meta` first, which takes less.

        Where a run on `meta` and a run of eager raise alike, data are not the reason, since the one had none, and a
        device is not, since the other was eager's.
        """
        args, kwargs = self.inputs.at(point, filled=False)
        if self.missing:
            error = self.error_on(args, kwargs)
            return None if error is None else Rejection(type(error), raised_by_user(error))
        on_meta = error_on_meta(copied(self.mod), args, kwargs)
        if on_meta is None:
            return None
        if self.is_quick(point):
            eager = self.error(point)
            if eager is not None and raised_alike(eager, on_meta):
                return Rejection(type(eager), by_model=raised_by_user(eager) and is_stated(eager))
        error = self.dataflow.error(args, kwargs)
        return Rejection(type(error), raised_by_user(error)) if error is not None and raised_by_sizes(error) else None

    def is_quick(self, point: Mapping[str, int]) -> bool:
        """True if a run at a point reads few elements of the inputs and of the model."""
        return max(self.inputs.elements(point), elements_held(self.mod)) <= CHEAP_ELEMENTS

    def _runs_quickly(self, form: Form, point: Mapping[str, int]) -> bool:
        """True if values cost less than dataflow, in which an operator costs as much as so many multiplications."""
        if self.is_quick(point) or form.module is None:
            return self.is_quick(point)
        small = self.inputs.elements(point) <= CHEAP_ELEMENTS
        return small and 0 < form.work(point) <= CHEAP_ELEMENTS * len(form.module.graph.nodes)

    def error(self, point: Mapping[str, int], seed: int | None = 0) -> Exception | None:
        """Return the exception of eager at a point, or None."""
        return None if self._too_large(point) else self.error_on(*self.inputs.at(point, filled=True, seed=seed))

    def _too_large(self, point: Mapping[str, int]) -> bool:
        return point != self.inputs.example and self.inputs.elements(point) > LARGE_ELEMENTS

    def compare(
        self, programs: Sequence[Form], point: Mapping[str, int], *, calls: int = 1, by_values: bool = False
    ) -> Replay:
        """Run eager and each form of the program at a point, and return the first disagreement.

        If both raise because of the chosen data, integers of 0 and of 1 are tried too. The second of two calls shows
        what a first call leaves in the model.

        Of a large model, dataflow tells, unless the model asks whether it is traced: what eager does then may not show
        in a run that is watched. `by_values`: the first form is compared by its values nevertheless.
        """
        if self._too_large(point):
            return Replay(Relation.NOT_RUN)
        key = (*programs, *self.inputs.demands, *_key(point), by_values)
        made, result = self.made.get(key, (0, None))
        if result is None or (made != calls and (made < calls or result.relation is not Relation.SAME)):
            result = self._compare(programs, point, calls, by_values=by_values)
            self.made[key] = calls, result
        return result

    def _compare(self, programs: Sequence[Form], point: Mapping[str, int], calls: int, *, by_values: bool) -> Replay:
        args, kwargs = self.inputs.at(point, filled=True)
        if self.missing:
            told = self._without_data(programs, point, *_with_integers(args, kwargs), calls)
            raised = self.dataflow.error(args, kwargs) if told.relation is Relation.EAGER_RAISES else None
            if self._asks_device(raised, args, kwargs):
                told = Replay(Relation.NOT_RUN)
            return replace(told, relation=Relation.MAY_DIFFER, text=_ASKS) if _is_open(told) else told
        found, follows = Replay(Relation.SAME), saves_time(Saving.DATAFLOW) and not asked()
        for form in programs:
            followed = follows and not ((by_values and form is programs[0]) or self._runs_quickly(form, point))
            if followed and self._without_data([form], point, args, kwargs, calls).relation is Relation.SAME:
                continue
            found = self._with_data(form, point, args, kwargs, calls)
            if found.is_faint or not found.agrees:
                break
        return found

    def _with_data(
        self, form: Form, point: Mapping[str, int], args: tuple[Any, ...], kwargs: dict[str, Any], calls: int
    ) -> Replay:
        large = not self.is_quick(point)
        self.with_data.update({_key(point)} if large else ())
        with few_threads(form.work(point) if large else 0):
            found = compare_on(self.mod, form, args, kwargs, calls)
        for made in (torch.zeros_like, torch.ones_like):  # `x[i]`, `x[length - 1]`
            if found.relation is Relation.BOTH_RAISE:
                found = compare_on(self.mod, form, *map_integers(args, kwargs, made), calls)
        return found

    def point_with_data(self, points: Sequence[Mapping[str, int]]) -> Mapping[str, int] | None:
        """Return the point at which values are compared: the smallest without a size of 0; None if some have been.

        A run without data is told of all operators by a dispatch mode, and a model may see that one is active.
        """
        telling = [each for each in points if all(each.values())] or points[:1]
        done = any(self.is_quick(each) or _key(each) in self.with_data for each in telling)
        point = min(telling, key=self.inputs.elements)
        return None if done or self.missing or self._too_large(point) else point

    def _without_data(
        self,
        programs: Sequence[Form],
        point: Mapping[str, int],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        calls: int,
    ) -> Replay:
        """Return what dataflow tells of programs: that each does the same, or what it tells of the first other."""
        told, same = (self.dataflow.replay(form, args, kwargs, calls) for form in programs), Replay(Relation.SAME)
        found = next((each for each in told if each != same), same)
        self.without_data.update({_key(point)} if found == same else ())
        return found

    def notes(self) -> list[str]:
        """Say of a large model at how many points it was compared without data, and at how many with data."""
        if not self.without_data:
            return []
        found = f"compared with eager by dataflow, without data: points: {len(self.without_data)}"
        if self.dataflow.pieces:
            found += f", pieces that differ, run with random operands: {self.dataflow.pieces}"
        return [found if self.missing else f"{found}; with data: points: {len(self.with_data)}"]

    def is_determined(self, form: Form, point: Mapping[str, int]) -> bool:
        """True if what a program gives at a point does not depend on what uninitialized memory happens to hold."""
        if self.missing or self._too_large(point) or not any(map(_is_uninitialized, _called(form.module))):
            return True
        inputs, runs = self.inputs.at(point, filled=True), []
        for numbers in (1, 2):
            with in_place_of_each_call(functools.partial(plainly, numbers=numbers)):
                runs.append(run_apart(form.fresh(), *inputs))
        one, other = ((run.result, run.given, run.error) for run in runs)
        return unequal(one, other) is None

    def agrees_apart(self, program: torch.export.ExportedProgram, point: Mapping[str, int]) -> bool:
        """True if the decomposed program agrees with eager at a point, or cannot differ from the program."""
        return not observes_aliasing(program.graph) or self.compare(forms_of(program), point).agrees


def _key(point: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the point as a key: the order of its names does not matter."""
    return tuple(sorted(point.items()))


_ASKS = "the model asks whether it is traced, and needs data to be compared"


def _is_open(found: Replay) -> bool:
    """True if nothing was compared, of a model that has asked whether it is traced."""
    return found.relation is Relation.NOT_RUN and asked()


def _with_integers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the inputs with integers and truth values, 0 and 1, where they have none: a model may ask for a mask's."""
    made: dict[int, torch.Tensor] = {}

    def visit(leaf: torch.Tensor) -> torch.Tensor:
        if leaf.is_floating_point() or leaf.is_complex() or holds_data(leaf):
            return leaf
        if id(leaf) not in made:
            own = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="cpu")
            made[id(leaf)] = fill(own, None, seed=0)
        return made[id(leaf)]

    return map_tensors((args, kwargs), visit)


def compare_on(mod: torch.nn.Module, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any], calls: int) -> Replay:
    """Run both on given inputs. Mutations of the inputs are compared as results.

    A program that is in its first state again gives its first results again: it is not called again.
    """
    eager, exported = copied(mod), form.fresh()
    found, got = Replay(Relation.SAME), None
    for call in range(calls):
        with determined(exported):
            want = run_apart(eager, args, kwargs)
            if got is None or form.fresh() is not exported:
                got = run_apart(exported, args, kwargs)
        found = replace(compared(eager, want, got, form, unequal_leaf), form=form.name)
        if found.relation is not Relation.SAME:
            found = replace(found, text=f"{found.text}, at the second of two calls") if call else found
            break
        found = replace(found, is_faint=differ_faintly(leaves(want.result), leaves(got.result)))
    return found


def determined(run: Any) -> contextlib.AbstractContextManager[Any]:
    """Inside this block, a kernel that would end the process raises, and uninitialized memory holds certain numbers.

    It costs nothing if the program calls no such operator.

    A program is also run where its own trace does not lead, at sizes that answer a decision otherwise: eager takes
    another kernel for attention over a sequence of length 0, and none for the gradients of a batch norm of no rows; the
    kernels of the program divide by these sizes.
    """
    changed = any(known_of(func).divides_by != () or _is_uninitialized(func) for func in _called(run))
    return in_place_of_each_call(plainly) if changed else contextlib.nullcontext()


def _called(run: Any) -> list[Any]:
    """Return what a program calls; nothing of any other callable."""
    graphs = [each.graph for each in graph_modules(run)] if isinstance(run, torch.nn.Module) else []
    return [node.target for graph in graphs for node in graph.nodes if node.op == "call_function"]


def _is_uninitialized(func: Any) -> bool:
    """True if the result of an operator holds what its memory happened to hold."""
    return re.fullmatch(r"aten\.(new_)?empty(_\w+)?\.\w+", str(func)) is not None


def plainly(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], numbers: int = 2) -> Any:
    """Run an operator, unless its kernel would divide by a size of its first operands that is 0.

    Uninitialized memory is filled with so many numbers, in turns.

    Raises:
        ZeroDivisionError: it would.

    >>> plainly(torch.ops.aten.relu.default, (torch.ones(0),), {})
    tensor([])
    >>> plainly(torch.ops.aten.empty.memory_format, ([3],), {})
    tensor([0., 1., 0.])
    """
    by, tensors = known_of(func).divides_by, [each for each in args[:3] if isinstance(each, torch.Tensor)]
    if 0 in (tensors[0].shape if by is None else [each.shape[dim] for dim in by for each in tensors]):
        raise ZeroDivisionError(f"the kernel of `{func}` divides by a size of 0")
    result = func(*args, **kwargs)
    if _is_uninitialized(func) and result.layout == torch.strided and not fills_memory():
        result.copy_(torch.arange(result.numel(), device=result.device).remainder(numbers).reshape(result.shape))
    return result
