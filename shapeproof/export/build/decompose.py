"""Checks that a decomposed program (by `run_decompositions`, or by a compiler) does the same as the whole program.

A decomposition of a whole operator may be valid for only one answer to a question about sizes: `pad_sequence` asks
which sequence is the longest. Both programs therefore run at the smallest points that answer each such question
differently. This is a test, not a proof: a refused decomposition is wrong; an accepted one was right at the tested
points. Random results are compared by shape. The program and the facts about it stay unchanged.

Also rewrites a program in core operators by operators that runtimes support at every size.

ExecuTorch's verifier admits Python's operators on numbers, and no torch functions. `torch.sym_float(n)` becomes
`n / 1`, which is the same double. The verifier also counts the rows of the first piece of a split, which specializes a
size; each piece becomes a separate slice instead. A minimum or maximum that is proved to be one of its operands becomes
that operand: metadata holds `min(128, past + step)` where `past + step <= 128` is enforced, so that memory planners see
the bound. One whose order is open is computed: with `t = (2*a + 1)//(a + b + 1)`, which is 1 where a >= b and else 0,
the minimum of two sizes is `a - t*(a - b)`; of numbers of at least -k, with `t = (2*a + 2*k + 1)//(a + b + 2*k + 1)`.
Operators that a runtime lacks altogether stay (`math.sqrt`).
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import ShapeproofError, UsageError
from shapeproof.constraints.records.decisions import Decision
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import Term
from shapeproof.export.build.divisions import write_divisions
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay, runner
from shapeproof.export.explore.beside_eager.corners import SEEDS, unchanged
from shapeproof.export.explore.beside_eager.forms import Form, asking, fresh_modules
from shapeproof.export.explore.points import Fitting
from shapeproof.export.graph import nodes
from shapeproof.export.limits import COSTLY_TRIES
from shapeproof.export.ops.shapes.recurrent import unrolled
from shapeproof.export.ops.table import SLICE, kind_of, known_of
from shapeproof.export.shim import trees
from shapeproof.export.shim.autograd import ATTENTION, OF_ATTENTION
from shapeproof.export.shim.modules import without_data
from shapeproof.export.shim.process.idle_work import quiet
from shapeproof.export.shim.process.one_thread import one_thread
from shapeproof.export.shim.trees import graph_modules, map_tensors
from shapeproof.export.trace.closed_trial import reopened
from shapeproof.export.trace.known.known_sizes import proved_bounds
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator, Untranslatable
from shapeproof.export.trace.trial import Step, Trial
from shapeproof.solver.answers.witness import ascending, generic
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied
from shapeproof.wording import short, values_text, with_kind

SMALL_INTEGERS = (-1, 0, 1, 2)
"""The values of integer inputs for questions about data."""

_DIFFERS = (
    "taken apart, {} serves sizes with {} alone: {} {}; keep the operator whole (`run_decompositions` with a table "
    "without it), or declare those sizes alone"
)
_CANNOT = (
    "torch cannot take the program apart for every declared size ({}): keep the operator whole (`run_decompositions` "
    "with a table without it), or declare fewer sizes"
)
_FORGOTTEN = (
    "torch takes a program apart as if its sparse tensors held no elements, and what is read of these would be lost: "
    "keep the program whole"
)
_OTHERWISE = (
    f"torch takes `{ATTENTION}` apart without the result that its gradient reads: keep the operator whole "
    "(`run_decompositions` with a table without it)"
)
_SEEN = {
    runner.Relation.PROGRAM_RAISES: "it raises {}",
    runner.Relation.EAGER_RAISES: "it does not raise {}",
    runner.Relation.DIFFERENT: "its results differ",
}
_Program = torch.export.ExportedProgram


class TakenApart:
    """Decomposes a program, and tests that the result does the same.

    Args:
        program: the whole program, after its trace.
        inputs: the declared inputs.
    """

    def __init__(self, program: _Program, inputs: Inputs) -> None:
        self._program = program
        self.inputs = inputs
        self._where: Facts | None = None

    @functools.cached_property
    def whole(self) -> set[Any]:
        """The operators that cannot be taken apart: an LSTM over a sequence whose length is no constant.

        And attention of whose results the gradient reads one that torch's decomposition does not give.
        """
        attention = {ATTENTION} if nodes.calls_of(self._program.graph, OF_ATTENTION) else set()
        return unrolled(self._program.graph) | attention

    def by(self, decompose: Callable[[], _Program]) -> _Program:
        """Return the decomposed program, in core operators, if it agrees with the whole one at all tested points.

        Raises:
            UsageError: the two differ; the message names the operator, the question and the sizes.
        """
        with one_thread:
            apart, trial = self._decomposed(decompose)
            if _reads_of_elements(apart) < _reads_of_elements(self._program):
                raise UsageError(_FORGOTTEN)
            if nodes.calls_of(apart.graph, OF_ATTENTION) and not nodes.calls_of(apart.graph, ATTENTION):
                raise UsageError(_OTHERWISE)
            write_core(apart, Facts(()) if trial is None else trial.facts)
            if trial is not None and trial.steps:
                self._run_beside(apart, trial)
        return apart

    def _decomposed(self, decompose: Callable[[], _Program]) -> tuple[_Program, Trial | None]:
        """Return the decomposed program and its trial.

        A decomposition may reject what torch's fallbacks say of a size: it asks if `min(1, n)` is 1, is told no, and
        then demands `n == min(1, n)`. Then the point of the trace answers; what follows is tested like any other side.

        Raises:
            UsageError: torch cannot take the program apart, whatever answers.
        """
        try:
            with asking(self._program, reopened) as trial:
                return decompose(), trial
        except ShapeproofError:
            raise
        except Exception as error:
            if trial is None:
                raise
            try:
                with asking(self._program, functools.partial(reopened, by_point=True)) as trial:
                    return decompose(), trial
            except Exception:  # noqa: BLE001 - the first error is told
                raise UsageError(_CANNOT.format(with_kind(error).splitlines()[0])) from error

    def where(self) -> Facts:
        """Return the facts about the inputs that a compiler's decomposition is valid for; tested once.

        The compiler is in the middle of its own trace when it asks. The work is done on another thread, without trace.
        """
        if self._where is None:
            # The lock is for the other thread, which must not take it: this thread may hold it already.
            with one_thread, ThreadPoolExecutor(1) as other:
                self._where = other.submit(self._tried).result()
        return self._where

    def _tried(self) -> Facts:
        with quiet():
            apart, trial = self._decomposed(lambda: trees.as_compiled(self._program, self.whole))
        if trial is None:
            return Facts(())
        self._run_beside(apart, trial)
        return trial.region

    def _run_beside(self, apart: _Program, trial: Trial) -> None:
        look = torch.zeros_like if nodes.is_random(self._program.graph) else unchanged
        whole, made = (_Run(fresh_modules(each), look) for each in (self._program, apart))
        if without_data(self._program.state_dict, self.inputs.args, self.inputs.kwargs):
            return  # the report, which the decomposed program carries, says that nothing is compared by values
        form = Form(lambda: made, relaid=True)
        for step, point in self._otherwise(trial):
            sizes = values_text(dict(sorted(point.items())), self.inputs.user_names)
            self._judge(replay.Eager(whole, self.inputs).compare([form], point), step.decision, f"at {sizes}")
        for step in trial.data_steps:
            for args, kwargs in self._data(trial.point):
                self._judge(replay.compare_on(whole, form, args, kwargs, 1), step.decision, "on other data")

    def _judge(self, found: runner.Replay, decision: Decision, where: str) -> None:
        if not found.agrees:
            asked = format_formula(decision.taken, rename=self.inputs.user_names)
            seen = _SEEN[found.relation].format(found.text)
            raise UsageError(_DIFFERS.format(_operator(decision), asked, where, seen))

    def _otherwise(self, trial: Trial) -> Iterator[tuple[Step, dict[str, int]]]:
        """Yield points that answer a question differently; first those that answer only that question differently."""
        steps = trial.size_steps
        for step in steps:
            others = (other.decision.taken if other is not step else step.flipped for other in steps)
            yield from ((step, point) for point in self._points(trial.known.assuming(*others), trial.point))
        for step in steps:
            yield from ((step, point) for point in self._points(step.beyond, trial.point))

    def _data(self, point: Mapping[str, int]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Yield inputs with other data; an answer about data cannot be chosen directly."""
        for seed in SEEDS:
            yield self.inputs.at(point, filled=True, seed=seed)
        args, kwargs = self.inputs.at(point, filled=True)
        for value in SMALL_INTEGERS:
            yield runner.map_integers(args, kwargs, functools.partial(torch.full_like, fill_value=value))

    def _points(self, cell: Facts, start: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Yield a generic point and the smallest points, if their inputs fit into memory."""
        fitting = Fitting(self.inputs, start)
        smallest = itertools.islice(ascending(cell, fitting.names), COSTLY_TRIES)
        return fitting.among((generic(cell, fitting.names), *smallest))


class _Run(torch.nn.Module):
    """Runs a program from fresh state at each call, so callers need not copy it; maps `look` over its results."""

    def __init__(self, fresh: Callable[[], torch.nn.Module], look: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._fresh, self._look = fresh, look

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the program's results; random tensors are replaced by zeros, so only their shapes are compared."""
        run = self._fresh()
        with replay.determined(run):
            return map_tensors(run(*args, **kwargs), self._look)

    def __deepcopy__(self, _: Any) -> _Run:
        return self


def _operator(decision: Decision) -> str:
    if decision.operator is not None:
        return f"`{decision.operator}`"
    return f"an operator ({short(decision.framework.file)})" if decision.framework else "an operator"


_COALESCE = torch.ops.aten.coalesce.default
_EXTREMES = (torch.sym_min, torch.sym_max)


def write_core(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Rewrite the operators of a decomposed program in place, by the facts that hold for all its inputs."""
    translator = translator_of(program)
    for module in graph_modules(program.graph_module):
        checking = nodes.checking(module.graph)  # the facts rest on it
        for node in nodes.calls_of(module.graph, *_EXTREMES):
            _settle(node, translator, facts, checking)
        for node in module.graph.find_nodes(op="call_function", target=torch.sym_float):
            _divide_by_one(node)
        for node in [each for each in module.graph.nodes if _is_core_split(each.target)]:
            _slice_each(node)
        module.recompile()
    write_divisions(program, facts)


def _settle(node: torch.fx.Node, translator: Translator, facts: Facts, kept: Container[torch.fx.Node]) -> None:
    """Replace a minimum or maximum of two sizes by the operand that it is proved to be, or else by arithmetic.

    The kept users are left unchanged.
    """
    first, *rest = node.args
    if len(rest) != 1:
        return
    (second,) = rest
    try:
        left, right = (_term(each, translator) for each in (first, second))
    except Untranslatable:
        return
    for least, greatest, ordered in ((first, second, f.le(left, right)), (second, first, f.le(right, left))):
        if implied(ordered, facts):
            _replace(node, least if node.target is torch.sym_min else greatest, kept)
            return
    ends = [end for each in (left, right) if (end := proved_bounds(each, facts).lower) is not None]
    if len(ends) == len(node.args):
        _replace(node, _computed(node, first, second, max(0, -min(ends))), kept)


def _computed(node: torch.fx.Node, one: Any, other: Any, below: int) -> Any:
    """Return the minimum or maximum of two numbers of at least `-below`, by operators that every runtime has."""
    call, more = functools.partial(nodes.call_beside, node), 2 * below + 1
    above = call(operator.add, call(operator.mul, one, 2), more)
    picked = call(operator.floordiv, above, call(operator.add, call(operator.add, one, other), more))
    step = call(operator.mul, picked, call(operator.sub, one, other))
    found = call(*((operator.sub, one) if node.target is torch.sym_min else (operator.add, other)), step)
    found.meta["val"] = node.meta["val"]
    return found


def _term(number: Any, translator: Translator) -> Term:
    """Return the term of an operand: of an integer, or of a node that gives one.

    Raises:
        Untranslatable: it is no integer that the solver knows.
    """
    value = nodes.metadata(number)
    if not isinstance(value, int | torch.SymInt):
        raise Untranslatable(str(value))
    return translator.size(value)


def _replace(node: torch.fx.Node, by: Any, kept: Container[torch.fx.Node]) -> None:
    """Replace a node by another one, or by a plain number, except as a result: the signature names results."""
    for user in [each for each in node.users if each.op != "output" and each not in kept]:
        user.args, user.kwargs = torch.fx.map_arg((user.args, user.kwargs), lambda arg: by if arg is node else arg)
    if not node.users:
        node.graph.erase_node(node)


def _divide_by_one(node: torch.fx.Node) -> None:
    """Rewrite `float(n)` of a size as `n / 1`."""
    number = node.args[0]
    if isinstance(nodes.metadata(number), torch.SymInt):
        node.target, node.args = operator.truediv, (number, 1)


def _reads_of_elements(program: _Program) -> int:
    """Return how many operators read which elements sparse tensors hold: rows of values or indices, or `coalesce`."""
    nodes_ = (node for module in trees.graph_modules(program.graph_module) for node in module.graph.nodes)
    return sum(known_of(node.target).stored is not None or node.target is _COALESCE for node in nodes_)


def _is_core_split(target: Any) -> bool:
    """True for the core operator of splits; a program that has another one was asked to keep it."""
    return kind_of(target) == "split" and torch.Tag.core in target.tags


def _slice_each(split: torch.fx.Node) -> None:
    """Rewrite a split as one slice per piece, if the lengths are constant and the first dimension is dynamic."""
    named = nodes.arguments(split)
    pieces, sizes = split.meta["val"], named["split_sizes"]
    users = list(split.users)
    if not all(isinstance(size, int) for size in sizes) or all(isinstance(each.shape[0], int) for each in pieces):
        return
    if any(user.target is not operator.getitem for user in users):
        return
    ends = list(itertools.accumulate(sizes))
    for user in users:
        index: Any = user.args[1]
        user.target = SLICE
        user.args = (named["self"], named["dim"], ends[index] - sizes[index], ends[index], 1)
    split.graph.erase_node(split)
