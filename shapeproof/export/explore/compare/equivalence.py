"""Prove that two traced programs are the same on a region, or return the first difference.

Two programs are the same if they run the same operators on the same operands in the same order, if every size that
either computes is proved equal to the other's, and if their checks are the same. A program's metadata from a trace
elsewhere proves nothing here, so the program is first run again on the region's fake inputs; the guards of that run
become part of the region.

operations.py says which nodes count as operators and how operands are read: views do not count.

The answer is a reason why the programs are not known to be the same, or None. No data is run, and an equality without a
proof counts as a difference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term
from shapeproof.export.explore.compare import rerun
from shapeproof.export.explore.compare.bodies import (
    AUTOCAST,
    Decided,
    Known,
    same_body,
    with_branches_taken,
    without_blocks,
)
from shapeproof.export.explore.compare.idle import has_none
from shapeproof.export.explore.compare.operations import (
    Difference,
    Side,
    aliasing_changed,
    at,
    calls,
    computes_size,
    label,
    stale,
    stale_metadata,
)
from shapeproof.export.graph import nodes
from shapeproof.export.graph.aliasing import tells_inputs_apart
from shapeproof.export.graph.constants import same_constant
from shapeproof.export.ops import schemas
from shapeproof.export.ops.properties import STRIDES
from shapeproof.export.ops.shapes.layouts import same_shape, same_strides, same_where_any
from shapeproof.export.ops.table import kind_of, known_of
from shapeproof.export.shim.custom_operators import OWN_NAMESPACES
from shapeproof.export.shim.storages import kind
from shapeproof.export.trace.traced import env_of, left_in, translator_of
from shapeproof.export.trace.translate import Translator, Untranslatable
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import equal, implied, truth
from shapeproof.wording import with_kind

_T = TypeVar("_T")


def same(program: torch.export.ExportedProgram, there: torch.export.ExportedProgram, trial: Trial) -> bool:
    """True if there is no difference; most programs with other operators are recognized without a comparison."""
    program, there = _where_decided(program, there, trial)
    alike = nodes.operators(program.graph) == nodes.operators(there.graph)
    may_be = alike or _may_skip(program.graph) or _may_skip(there.graph) or _returns_none(there, trial)
    return may_be and _difference(program, there, trial) is None


def _may_skip(graph: torch.fx.Graph) -> bool:
    """True if a resizing, a padding or a mask may be without effect on a region, so that other operators may do."""
    known = (known_of(node.target) for node in graph.nodes)
    joins = any(kind_of(node.target) == "cat" for node in graph.nodes)
    return joins or any(each.resizes_image or (each.copies and each.copies.argument) for each in known)


def _returns_none(there: torch.export.ExportedProgram, trial: Trial) -> bool:
    """True if a result has no elements on the region of its trace: how it was computed makes no difference there."""
    side = _as_traced(there, trial)
    return any(has_none(side.value(each), side) for each in there.graph.output_node().all_input_nodes)


def _as_traced(there: torch.export.ExportedProgram, trial: Trial) -> Side:
    """Return a program with its values on the region of its trace."""
    own = {node: node.meta.get("val") for node in there.graph.nodes}
    return Side(there, own, translator_of(there), trial.region)


def difference(
    program: torch.export.ExportedProgram, there: torch.export.ExportedProgram, trial: Trial
) -> Difference | None:
    """Return the first difference between a program and the one traced on a region, or None.

    The region is that of the trial that `there` was traced with, and may grow.
    """
    if program.constants.keys() != there.constants.keys():
        from shapeproof.export.explore.compare.literals import written_out  # few models write sizes into tensors

        program, there = map(written_out, (program, there))
    program, there = _where_decided(program, there, trial)
    found = _difference(program, there, trial)
    if found is None:
        return None
    own, other = map(without_blocks, (program, there))
    return found if own is program and other is there else _difference(own, other, trial)


def _where_decided(
    program: torch.export.ExportedProgram, there: torch.export.ExportedProgram, trial: Trial
) -> tuple[torch.export.ExportedProgram, torch.export.ExportedProgram]:
    """Return two programs, with the branches taken that are decided on a region."""
    own, others = _decided(program, there, trial)
    return with_branches_taken(program, own), with_branches_taken(there, others)


def _decided(
    program: torch.export.ExportedProgram, there: torch.export.ExportedProgram, trial: Trial
) -> tuple[Decided, Decided]:
    """Return, for each of two programs, a function that decides the program's conditions on a region."""
    own = functools.cache(lambda: _own_facts(program, trial))
    return _by_facts(translator_of(program), own), _by_facts(translator_of(there), lambda: trial.region)


def _own_facts(program: torch.export.ExportedProgram, trial: Trial) -> Facts:
    """Return what holds wherever a program is entered on the region of another trace.

    Data symbols of two traces do not correspond: of the region, only facts about sizes hold for the program.
    """
    region, env = trial.region.formulas, env_of(program)
    sizes = [fact for fact in region if not trial.about_data(fact)]
    if env is None or not set(region).issuperset(env.trial.known.formulas):
        return Facts(sizes)
    return env.trial.facts.assuming(*sizes)


def _by_facts(translator: Translator, facts: Callable[[], Facts]) -> Decided:
    def decided(condition: Any) -> bool | None:
        if isinstance(condition, torch.SymBool):
            return truth(translator.formula(condition.node.expr), facts()).always
        return condition if isinstance(condition, bool) else None

    return decided


def _difference(
    program: torch.export.ExportedProgram, there: torch.export.ExportedProgram, trial: Trial
) -> Difference | None:
    found = _signature(program, there) or _modes(program, there)
    if found is not None:
        return found
    translator = translator_of(there)
    right = _as_traced(there, trial)
    values = _in_step(program, right, _decided(program, there, trial), trial)
    if values is not None:
        left = Side(program, values, translator, trial.region)
        return stale_metadata(left) or (aliasing_changed(left) if nodes.mutates(program.graph) else None)
    trial.keep([*trial.layouts.forgotten])
    try:
        values = rerun.run_again(program, there)
    except rerun.TakenOtherwiseError as error:
        return Difference(str(error))
    except Exception as error:  # noqa: BLE001 - a program that does not even run there is not the same
        return Difference(f"the program does not run there: {with_kind(error)}")
    # The run asks questions, and may forget some of them: the two are compared on the region that it leaves.
    left, right = Side(program, values, translator, trial.region), _as_traced(there, trial)
    decided = _decided(program, there, trial)
    return stale_metadata(left) or aliasing_changed(left) or _Comparison(left, right, trial, decided).run()


def _in_step(
    program: torch.export.ExportedProgram, right: Side, decided: tuple[Decided, Decided], trial: Trial
) -> dict[torch.fx.Node, Any] | None:
    """Return each node's value on the region if the two graphs agree node by node, including views and sizes.

    The same operator on equal arguments gives equal results: a node's value there is the value of its twin, so no
    operator runs again. How a size is computed from sizes makes no difference, since sizes are read where they are
    used. None if the graphs are not in step, or if a mutating operator leaves a tensor with another layout.
    """
    graphs = program.graph, right.graph
    mine, others = ([node for node in graph.nodes if not computes_size(node, nodes.metadata(node))] for graph in graphs)
    if len(mine) != len(others) or not nodes.keeps_layouts(program.graph):
        return None
    twins = dict(zip(mine, others, strict=True))
    values = rerun.with_sizes(program, {node: right.value(twin) for node, twin in twins.items()})
    if values is None:
        return None
    left = Side(program, values, right.translator, trial.region)
    comparison = _Comparison(left, right, trial, decided)
    if any(comparison.node(node, twin) is not None for node, twin in twins.items()):
        return None
    return values if comparison.kept_calls() is None else None


def _signature(left: torch.export.ExportedProgram, right: torch.export.ExportedProgram) -> Difference | None:
    """Compare inputs, outputs, mutations and lifted constants."""
    if left.call_spec != right.call_spec:
        return Difference("the structure of the outputs differs")
    a, b = left.graph_signature, right.graph_signature
    inputs = [[(spec.kind, spec.target) for spec in s.input_specs] for s in (a, b)]
    outputs = [[(spec.kind, spec.target) for spec in s.output_specs] for s in (a, b)]
    if inputs[0] != inputs[1]:
        return Difference("the parameters, buffers or constants that are used differ")
    if outputs[0] != outputs[1]:
        return Difference("what is returned or mutated differs")
    if not left_in(left).serves(left_in(right)):
        return Difference("what the inputs hold in the end differs")
    kept = [[(name, call.in_spec, call.out_spec) for name, call in calls(program)] for program in (left, right)]
    if kept[0] != kept[1]:
        return Difference("what a submodule takes or returns, whose signature is preserved, differs in structure")
    for name, value in [*left.constants.items(), *left.state_dict.items()]:
        if not same_constant(value, right.constants.get(name, right.state_dict.get(name))):
            return Difference(f"the constant `{name}` differs")
    return None


def _modes(left: torch.export.ExportedProgram, right: torch.export.ExportedProgram) -> Difference | None:
    """Compare the modes of torch that the model switches, and its seeds: no graph shows them."""
    a, b = (env.operators.switches.seen if (env := env_of(each)) is not None else [] for each in (left, right))
    return None if a == b else Difference("the model switches other modes of torch, or seeds otherwise")


class _Comparison:
    """Compares two graphs side by side."""

    def __init__(self, left: Side, right: Side, trial: Trial, decided: tuple[Decided, Decided]) -> None:
        self.left = left
        self.right = right
        self.region = trial.region
        self._trial = trial
        self._sizes = right.sizes
        self._known = Known(decided, right.one_value, self._is_noted)
        self._pairs: dict[torch.fx.Node, torch.fx.Node] = {}

    def run(self) -> Difference | None:
        """Return the first difference."""
        a, b = self.left.operations(), self.right.operations()
        for mine, other in zip(a, b, strict=False):
            found = self.node(mine, other)
            if found is not None:
                return found
        if len(a) != len(b):
            longer = a if len(a) > len(b) else b
            return at(longer[min(len(a), len(b))], "one program does more than the other")
        found = self._checks() or self.kept_calls()
        if found is None and self._copies_otherwise():
            self._trial.layouts.reads.add(STRIDES)
        return found

    def _copies_otherwise(self) -> bool:
        """True if one program copies what the other does not, and for inputs in another layout that would show."""
        ours, theirs = ([node.target for node in side.copies] for side in (self.left, self.right))
        return ours != theirs and any(tells_inputs_apart(side.program, side.copies) for side in (self.left, self.right))

    def kept_calls(self) -> Difference | None:
        """Compare what submodules with preserved signatures take and return."""
        for (name, mine), (_, other) in zip(calls(self.left.program), calls(self.right.program), strict=True):
            given = (
                [side.argument(each) for each in [*call.inputs, *call.outputs]]
                for side, call in self._both(mine, other)
            )
            if not self._same(*given):
                return Difference(f"what the submodule `{name}` takes or returns differs")
        return None

    def node(self, mine: torch.fx.Node, other: torch.fx.Node) -> Difference | None:
        """Compare a node with its twin."""
        self._pairs[mine] = other
        if mine.op != other.op:
            return at(other, f"`{label(mine)}` in one program, `{label(other)}` in the other")
        if mine.op == "get_attr":
            return self._attribute(mine, other)
        if mine.op == "call_function" and mine.target != other.target:
            return at(other, f"`{label(mine)}` in one program, `{label(other)}` in the other")
        alike = self._same_arguments(mine, other) and self._same(mine.kwargs, other.kwargs)
        if not alike and not self._same_by_name(mine, other):
            return at(other, f"`{label(other)}` is given {self._given(mine, other)}")
        if not self._same_value(self.left.value(mine), self.right.value(other)):
            return at(other, f"`{label(other)}` gives another shape")
        if mine.meta.get(AUTOCAST) != other.meta.get(AUTOCAST):
            return at(other, f"`{label(other)}` runs where torch.autocast is off, in one program only")
        return None

    def _given(self, mine: torch.fx.Node, other: torch.fx.Node) -> str:
        """Name the arguments that differ: `2` in place of `100`; a tensor of the same name is another `input`."""
        if schemas.schema_of(mine.target) is None:
            return "other arguments"
        ours, theirs = map(nodes.arguments, (mine, other))
        pairs = {
            name: (_brief(theirs[name]), _brief(ours[name]))
            for name in ours
            if not self._same(ours[name], theirs[name])
        }
        return ", ".join(
            f"another `{name}`" if a == b else f"`{a}` in place of `{b}`" for name, (a, b) in pairs.items()
        )

    def _same_arguments(self, mine: torch.fx.Node, other: torch.fx.Node) -> bool:
        """True if the arguments are the same, except for leading dims of size 1 in an operand that is broadcast.

        Python's `x[mask] = values` drops those that it knows.
        """
        at = known_of(mine.target).broadcasts
        if at is None or len(mine.args) != len(other.args) or at >= len(mine.args):
            return self._same(mine.args, other.args) or self._same_sum(mine, other)
        rest = (args[:at] + args[at + 1 :] for args in (mine.args, other.args))
        values = mine.args[at], other.args[at]
        return self._same(*rest) and (
            self._same(*values) or self._same_broadcast(*values, self.left.rank_written(mine))
        )

    def _same_sum(self, mine: torch.fx.Node, other: torch.fx.Node) -> bool:
        """True if two sums or products of the same elements differ in the layout of an operand, but not of the result.

        Each element is rounded once, so the layout makes no difference to it.
        """
        results = self.left.value(mine), self.right.value(other)
        if (
            not known_of(mine.target).rounds_once
            or mine.kwargs
            or not all(isinstance(each, torch.Tensor) for each in results)
        ):
            return False
        return same_strides(*results, self._sizes) and all(map(self._same_operand, mine.args, other.args))

    def _same_operand(self, mine: Any, other: Any) -> bool:
        if self._same(mine, other):
            return True
        if not isinstance(mine, torch.fx.Node) or not isinstance(other, torch.fx.Node):
            return False
        return self._same_elements(mine, other) and self._same_value(self.left.value(mine), self.right.value(other))

    def _same_by_name(self, mine: torch.fx.Node, other: torch.fx.Node) -> bool:
        """True if the arguments with their defaults are the same, except for arguments without effect there."""
        if schemas.schema_of(mine.target) is None:
            return False
        ours, theirs = map(nodes.arguments, (mine, other))
        idle = self._idle(mine, ours)
        return all(name in idle or self._same(ours[name], theirs[name]) for name in ours)

    def _idle(self, node: torch.fx.Node, named: Mapping[str, Any]) -> frozenset[str]:
        """Return the arguments without effect: with one key and no mask, attention attends to it, causal or not."""
        if kind_of(node.target) != "attention" or named["attn_mask"] is not None:
            return frozenset()
        keys = self.left.quantity(self.left.value(named["key"]).shape[-2])
        one = isinstance(keys, Term) and implied(f.le(keys, 1), self.region)
        return frozenset({"is_causal"}) if one else frozenset()

    def _attribute(self, mine: torch.fx.Node, other: torch.fx.Node) -> Difference | None:
        a = getattr(self.left.program.graph_module, str(mine.target), None)
        b = getattr(self.right.program.graph_module, str(other.target), None)
        if isinstance(a, torch.fx.GraphModule) and isinstance(b, torch.fx.GraphModule):
            return None if same_body(a, b, self._known) else at(other, f"the code of `{mine.target}` differs")
        return None if same_constant(a, b) else at(other, f"the constant `{mine.target}` differs")

    def _is_noted(self, mine: torch.fx.Node, other: torch.fx.Node) -> bool:
        """True if a program's metadata of a node in a body holds on the region."""
        return stale(mine, other.meta.get("val"), translator_of(self.left.program), self.right) is None

    def _same(self, mine: Any, other: Any) -> bool:
        if isinstance(mine, torch.fx.Node) and isinstance(other, torch.fx.Node):
            found = self._same_tensor(mine, other)
            if found is not None:
                return found
        try:
            a, b = self.left.quantity(mine), self.right.quantity(other)
        except Untranslatable:
            return False
        if a is not None and b is not None:
            return equal(a, b, self.region)
        if isinstance(mine, tuple | list) and isinstance(other, tuple | list):
            return len(mine) == len(other) and all(map(self._same, mine, other))
        if isinstance(mine, dict) and isinstance(other, dict):
            return mine.keys() == other.keys() and all(self._same(mine[k], other[k]) for k in mine)
        if isinstance(mine, slice) and isinstance(other, slice):
            return self._same((mine.start, mine.stop, mine.step), (other.start, other.stop, other.step))
        return same_constant(mine, other)

    def _same_tensor(self, mine: torch.fx.Node, other: torch.fx.Node) -> bool | None:
        """True if two nodes are the same tensor, viewed the same way; None if they are not tensors."""
        if self._pairs.get(mine) is other:
            return True
        a, b = self.left.value(mine), self.right.value(other)
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            return None if mine not in self._pairs else False
        if self._have_none(mine, other):
            return self._same_value(a, b)
        alike = self._same_storage(mine, other) or self._same_elements(mine, other)
        return alike and self._same_value(a, b) and (same_strides(a, b, self._sizes) or self._same_where_any(a, b))

    def _same_where_any(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        """True if two tensors lie alike where they have elements, and nothing tells how one without elements lies."""
        return not (self.left.lays_bare or self.right.lays_bare) and same_where_any(a, b, self._sizes)

    def _same_elements(self, mine: torch.fx.Node, other: torch.fx.Node) -> bool:
        """True if two tensors hold the same elements of the state, and one is a table resized to its own size."""
        a, b = self.left.moved, self.right.moved
        if a is None or b is None or not (a.resized or b.resized):
            return False
        if not (self.left.is_inner(mine) and self.right.is_inner(other)):
            return False
        ours, theirs = a.numbers(mine), b.numbers(other)
        return ours is not None and theirs is not None and torch.equal(ours, theirs)

    def _have_none(self, mine: torch.fx.Node, other: torch.fx.Node) -> bool:
        """True if neither tensor has elements, and nothing tells how it lies: no operator resizes it, or reads that."""
        return all(
            has_none(side.value(node), side) and side.changed.isdisjoint(side.at(node)) and not side.lays_bare
            for side, node in self._both(mine, other)
        )

    def _same_storage(self, mine: torch.fx.Node, other: torch.fx.Node) -> bool:
        """True if two tensors have the same storage, offset and gradient."""
        a, b = self.left.root(mine), self.right.root(other)
        if a is None or b is None or a.place != b.place or self._pairs.get(a.node) is not b.node:
            return False
        cut, twin = self.left.cuts.get(mine), self.right.cuts.get(other)
        alike = cut is twin if cut is None else self._pairs.get(cut) is twin
        return alike and self._same(*(side.value(n).storage_offset() for side, n in self._both(mine, other)))

    def _both(self, mine: _T, other: _T) -> Iterator[tuple[Side, _T]]:
        yield from ((self.left, mine), (self.right, other))

    def _same_broadcast(self, mine: Any, other: Any, rank: int) -> bool:
        """True if two nodes are the same tensor, except that one begins with dimensions of size 1.

        `rank` is the rank of the broadcast's target: torch rejects a tensor of higher rank, with or without dropped
        dimensions.
        """
        if not isinstance(mine, torch.fx.Node) or not isinstance(other, torch.fx.Node):
            return False
        a, b = self.left.value(mine), self.right.value(other)
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or not self._same_storage(mine, other):
            return False
        more, kept = max(a, b, key=torch.Tensor.dim), min(a.dim(), b.dim())
        return (
            more.dim() <= rank
            and kind(a) == kind(b)
            and self._sizes.alike([1] * (more.dim() - kept), more.shape[: more.dim() - kept])
            and self._sizes.alike(a.shape[a.dim() - kept :], b.shape[b.dim() - kept :])
            and same_strides(a, b, self._sizes)
        )

    def _same_value(self, mine: Any, other: Any) -> bool:
        """True if two values have the same kind, rank and sizes."""
        if isinstance(mine, torch.Tensor) and isinstance(other, torch.Tensor):
            return same_shape(mine, other, self._sizes)
        if isinstance(mine, tuple | list) and isinstance(other, tuple | list):
            return len(mine) == len(other) and all(map(self._same_value, mine, other))
        if isinstance(mine, int | torch.SymInt) and isinstance(other, int | torch.SymInt):
            return self._same(mine, other)
        return type(mine) is type(other)

    def _checks(self) -> Difference | None:
        """Find a check that only one program makes and that does not follow from the other's checks.

        What torch's own operators check there, they check in both programs, as they are run.
        """
        left, right = self.left.checks, self.right.checks
        missing = [(check, self.region) for check in _missing(left, right)]
        if lacking := _missing(right, left):
            namespaces = ((check, str(check.place.operator).partition(".")[0]) for check in self._trial.learned.checks)
            checked = (check.formula for check, namespace in namespaces if namespace in OWN_NAMESPACES)
            without = self._trial.unchecked().assuming(*left, *checked)
            missing += [(check, without) for check in lacking]
        for check, known in missing:
            if not implied(check, known):
                return Difference(f"only one program checks `{check}`")
        return None


def _missing(ours: Iterable[Formula], theirs: Iterable[Formula]) -> list[Formula]:
    made = set(theirs)
    return [check for check in ours if check not in made]


def _brief(arg: Any) -> str:
    if isinstance(arg, torch.fx.Node):
        value = arg.meta.get("val")
        return str(value) if isinstance(value, torch.SymInt) else arg.name
    return f"[{', '.join(map(_brief, arg))}]" if isinstance(arg, tuple | list) else str(arg)
