"""Compare two exported programs: where they are proved to be the same, and the smallest input on which they differ.

Both programs are traced again, in the same symbols, over the sizes that both take; explore/compare/ compares the two
traces. Decisions of the traces, and of the comparison, cut that domain into regions, which are compared in turn. Where
the traces differ, both programs are run on the same inputs, the smallest first, as a model is run beside its program.

Law: what is called the same gives equal results for every input that both programs take there and that lies in memory
as the first program's example does: values, dtypes, strides, what results share with inputs, what is written into
inputs and buffers, random numbers, and the inputs that either check rejects. What is called a difference was seen in a
run. The rest is undecided.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point, holds_at
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.records.domain import Declaration, Domain, Origin, Variable
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import Term, constant, symbol
from shapeproof.contract.sizes import readings
from shapeproof.export.build.accepted.guards import Memory, guard_of
from shapeproof.export.build.program import ReportedProgram
from shapeproof.export.declare.inputs import Inputs, declare
from shapeproof.export.explore.attempts import Attempts
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.beside_eager.forms import Form, copied, memory_shared, module_of
from shapeproof.export.explore.beside_eager.runner import Relation, Replay
from shapeproof.export.explore.compare import equivalence
from shapeproof.export.explore.findings import Traced
from shapeproof.export.graph import nodes
from shapeproof.export.limits import RUNS, TRIES
from shapeproof.export.shim.autograd import noting_lines
from shapeproof.export.shim.modules import module_around
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.process.idle_work import few_threads, quiet
from shapeproof.export.shim.process.modes import generators_restored, without_fake_mode
from shapeproof.export.shim.process.one_thread import one_thread
from shapeproof.export.trace import tracer
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Untranslatable
from shapeproof.solver.answers.simplify import in_few_words
from shapeproof.solver.answers.witness import ascending, find
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.reduction import substitute
from shapeproof.wording import first_line, line_text, values_text, with_kind


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two programs compare.

    Attributes:
        status: "same" for all inputs; "differs", at a witness; or "undecided".
        same_where: the requirements on the sizes under which they are proved to be the same; None if nowhere.
        witness: the sizes of the smallest input on which a run showed a difference; None without one.
        difference: the first difference in words: what the runs did, else what the programs do; None if all is proved.
        where: the user's line of the first operation that differs, if one was found.
    """

    status: Literal["same", "differs", "undecided"]
    same_where: tuple[str, ...] | None
    witness: Mapping[str, int] | None = None
    difference: str | None = None
    where: SourceLocation | None = None

    def __str__(self) -> str:
        lines = []
        if self.same_where is not None:
            sizes = f" with {', '.join(self.same_where)}" if self.same_where else " that both take"
            lines.append(f"the same, proved, for every input{sizes}")
        if self.status != "same":
            place = f" at {values_text(self.witness)}" if self.witness else ""
            line = f"   first at {line_text(self.where)}   {self.where.text.strip()}" if self.where else ""
            lines.append(f"{self.status}{place}: {self.difference}{line}")
        return "\n".join(lines)


def compare(
    one: torch.export.ExportedProgram, other: torch.export.ExportedProgram, *, budget: Budget | None = None
) -> Comparison:
    """Compare two exported programs of the same inputs, ours or torch's: where are they the same, where do they differ?

    A difference in the sizes that they take counts. Parameters, buffers and constants are compared by name and value.
    Inputs lie in memory as the first program's example does.

    Args:
        one: a program; its example is what inputs for runs are like.
        other: another program.
        budget: the limit for one question to the solver.

    Raises:
        UsageError: the programs take inputs of other structures or kinds, or the first has no example inputs.

    >>> from shapeproof.export import Dim, export
    >>> class Model(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x * 2 if x.shape[0] <= 30 else x - 1
    >>> class Doubling(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x * 2
    >>> args, shapes = (torch.ones(5),), {"x": {0: Dim("n", min=0, max=100)}}
    >>> regions = export(Model(), args, dynamic_shapes=shapes, branches="split")
    >>> doubling = export(Doubling(), args, dynamic_shapes=shapes)
    >>> compare(regions.programs[0], doubling).same_where
    ('x.shape[0] <= 30',)
    >>> print(compare(doubling, export(Doubling(), args, dynamic_shapes=shapes)))
    the same, proved, for every input with x.shape[0] <= 100
    """
    for each in (one, other):
        if not isinstance(each, torch.export.ExportedProgram):
            raise UsageError(f"compare takes two exported programs, not a {type(each).__name__}")
    with one_thread, without_fake_mode(), memory_shared(), few_threads(), generators_restored():
        return _Pair.of(one, other, budget or Budget()).compared()


@dataclass(frozen=True, slots=True)
class _Difference:
    """A part of the domain on which the two are not known to be the same, and why; the witness, if a run showed it."""

    text: str
    witness: Point | None = None
    where: SourceLocation | None = None

    @property
    def order(self) -> tuple[Any, ...]:
        """Return the place among differences: those that a run showed first, the smallest first."""
        sizes = () if self.witness is None else tuple(self.witness.values())
        return self.witness is None, max(map(abs, sizes), default=0), sum(map(abs, sizes)), sizes


_BOTH_REFUSE = _Difference("both refuse")
"""Stands for no difference, of sizes that neither takes."""
_OF_A_GUARD = "Guard failed: "
"""How torch's guards of a program begin what they raise."""


@dataclass(frozen=True)
class _Side:
    """A program, the formulas of the sizes that it takes, and what traces it in the symbols of both."""

    program: torch.export.ExportedProgram
    takes: Sequence[Formula]
    attempts: Attempts

    def refuses(self, traced: Traced) -> bool:
        """True if a check on sizes ended a trace: the program refuses every input of the trace's region."""
        if traced.program is not None or traced.trial.data_steps:
            return False
        said = first_line(traced.error)
        checks = nodes.calls_in(self.program.graph_module, symbols.ASSERTION)
        return said.startswith(_OF_A_GUARD) or said in {str(check.args[1]) for check in checks}

    @functools.cached_property
    def guarded(self) -> torch.nn.Module:
        """The program as a module that refuses inputs."""
        return self.program.module()


@dataclass(frozen=True)
class _Pair:
    """The two programs, and the sizes of their inputs as symbols."""

    sides: tuple[_Side, _Side]
    inputs: Inputs
    unlike: str | None
    """What the two require of their inputs beside sizes, if that differs."""
    found: list[_Difference] = field(default_factory=list)

    @classmethod
    def of(cls, one: torch.export.ExportedProgram, other: torch.export.ExportedProgram, budget: Budget) -> _Pair:
        if one.call_spec.in_spec != other.call_spec.in_spec:
            raise UsageError("compare takes two programs of the same inputs: theirs are structured otherwise")
        programs = one, other
        noted = [[node.meta["val"] for node in _inputs_of(program)] for program in programs]
        inputs = _declared(_module(one), one, noted, budget)
        _check_kinds(inputs, *noted)
        sizes = [leaf.terms for leaf in inputs.leaves]
        sides = [
            _Side(program, _taken(program, its, sizes), _attempts(program, inputs))
            for program, its in zip(programs, noted, strict=True)
        ]
        return cls((sides[0], sides[1]), inputs, _unlike(one, other))

    def compared(self) -> Comparison:
        """Compare where both take the sizes, and find the sizes that only one takes."""
        declared = self.inputs.facts()
        one, other = ([*side.takes] for side in self.sides)
        same = self._regions(declared.assuming(*one, *other))
        for side, takes, refuses in zip(self.sides, (one, other), (other, one), strict=True):
            self._only_one(declared.assuming(*takes, f.negate(f.conjunction(*refuses))), side)
        if self.unlike is not None:
            self.found.append(_Difference(self.unlike))
        worst = min(self.found, key=lambda each: each.order, default=None)
        where = None if same is f.FALSE else self._worded(f.conjunction(*one, *other, same), declared)
        if worst is None:
            return Comparison("same", where)
        status: Literal["differs", "undecided"] = "undecided" if worst.witness is None else "differs"
        return Comparison(status, where, worst.witness, worst.text, worst.where)

    def _worded(self, formula: Formula, declared: Facts) -> tuple[str, ...]:
        short = in_few_words(formula, declared)
        return tuple(format_formula(part, rename=self.inputs.user_names) for part in short.conjuncts)

    def _regions(self, left: Facts) -> Formula:
        """Return the formula of the sizes, of those given, at which the two are proved to be the same."""
        same: list[Formula] = []
        before: Formula = f.TRUE
        for _ in range(RUNS):
            if find(f.TRUE, left) is None:
                break
            point = self.sides[0].attempts.sizes.generic(left)
            if point is None:
                self.found.append(_Difference("the solver's budget ran out"))
                break
            taken, difference = self._region(left, point)
            if difference is None:
                same.append(f.conjunction(before, taken))
            elif difference is not _BOTH_REFUSE:
                self.found.append(difference)
            if taken is f.TRUE:
                break
            before = f.conjunction(before, f.negate(taken))
            left = left.assuming(f.negate(taken))
        else:
            self.found.append(_Difference(f"more than {RUNS} regions would have to be compared"))
        return f.disjunction(*same)

    def _region(self, left: Facts, point: Point) -> tuple[Formula, _Difference | None]:
        """Compare the two on a region of the sizes that are left; return what makes the region, and the difference."""
        mine, other = (side.attempts for side in self.sides)
        first = mine.at(left, point)
        asked = [*_conditions(first), *_conditions(other.at(left, point))]
        if asked:
            left = left.assuming(*asked)
            first = mine.at(left, point)
        here = left.assuming(*_decided(first))
        second = other.at(here, point)
        why = self._difference(first, second)
        taken = f.conjunction(*asked, *_decided(first), *_decided(second))
        region = left.assuming(taken)
        if why is _BOTH_REFUSE:
            return taken, why
        seen = self._seen(itertools.islice(self._points(region), 1 if why is None else TRIES), why)
        return taken, seen or why

    def _difference(self, first: Traced, second: Traced) -> _Difference | None:
        """Return the first difference of two traces of a region, or why they do not tell; None if there is none."""
        if all(side.refuses(traced) for side, traced in zip(self.sides, (first, second), strict=True)):
            return _BOTH_REFUSE
        for number, traced in enumerate((first, second)):
            if traced.program is None:
                return _Difference(f"{_NAMES[number]} cannot be traced there: {with_kind(traced.error)}")
        found = equivalence.difference(first.program, second.program, second.trial)  # type: ignore[arg-type]
        if found is not None:
            where = nodes.line_in(found.stack or "")
            return _Difference(found.text, where=None if where is None or where.file.startswith("<") else where)
        if first.trial.data_steps or second.trial.data_steps:
            return _Difference("a question about data is open there")
        return None

    def _points(self, facts: Facts) -> Iterator[Point]:
        names = sorted(self.inputs.domain.symbols)
        return (self.sides[0].attempts.sizes.of(point) for point in ascending(facts, names))

    def _only_one(self, facts: Facts, side: _Side) -> None:
        """Note the smallest sizes that only one of the two takes, of those that only this one declares, if any."""
        for _ in range(RUNS):
            if find(f.TRUE, facts) is None:
                return
            point = side.attempts.sizes.generic(facts)
            traced = None if point is None else side.attempts.at(facts, point)
            if traced is None or not side.refuses(traced):
                break
            facts = facts.assuming(f.negate(f.conjunction(*_decided(traced))))
        open_ = _Difference(
            "only one of the two declares some sizes, and no run that was tried showed a difference there"
        )
        self.found.append(self._seen(itertools.islice(self._points(facts), TRIES), None) or open_)

    def _seen(self, points: Iterator[Point], why: _Difference | None) -> _Difference | None:
        """Return the difference that runs show at the first of these points; `why` has the line."""
        for point in points:
            result = self._replayed(point)
            if result.relation in _SHOWN:
                told = _in_words(result) if why is None else f"{_in_words(result)}; {why.text}"
                sizes = {self.inputs.user_names[name]: value for name, value in point.items()}
                return _Difference(told, sizes, None if why is None else why.where)
        return None

    def _replayed(self, point: Point) -> Replay:
        one, other = (side.guarded for side in self.sides)
        with quiet():
            return replay.Eager(one, self.inputs).compare([Form(lambda: copied(other))], point, calls=2)


_NAMES = "the first", "the second"
_SHOWN = {
    Relation.DIFFERENT: "{text}",
    Relation.EAGER_RAISES: "the first raises, the second does not: {text}",
    Relation.PROGRAM_RAISES: "the second raises, the first does not: {text}",
}
"""How a run shows a difference, in words."""


def _in_words(result: Replay) -> str:
    told = result.text
    if result.relation is Relation.DIFFERENT:
        told = told.replace("eager", _NAMES[0]).replace("the program", _NAMES[1])
    return _SHOWN[result.relation].format(text=told)


def _decided(traced: Traced) -> list[Formula]:
    """Return the decisions on sizes that a trace took."""
    return [step.decision.taken for step in traced.trial.size_steps]


def _conditions(traced: Traced) -> list[Formula]:
    """Return the conditions on sizes under which a trace takes a branch of torch.cond at its point, if open there."""
    if traced.program is None:
        return []
    calls = traced.program.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)
    asked = [nodes.metadata(call.args[0]) for call in calls]
    told = (translator_of(traced.program).formula(each.node.expr) for each in asked if isinstance(each, torch.SymBool))
    about_sizes = (each for each in told if not traced.trial.about_data(each))
    return [each if holds_at(each, traced.trial.point) else f.negate(each) for each in about_sizes]


# ---------------------------------------------------------------------- what the two take


def _inputs_of(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    return nodes.input_nodes(program.graph, program.call_spec.in_spec.num_leaves)


def _module(program: torch.export.ExportedProgram) -> torch.nn.Module:
    """Return a program as a module to be traced, which gives what it records the lines of the program's nodes.

    The graph of ours holds its domain; torch's guards hold what the bounds of torch's leave out.
    """
    module = module_of(program) if isinstance(program, ReportedProgram) else program.module()
    constants = {name: each for name, each in program.constants.items() if isinstance(each, torch.Tensor)}
    state = {**constants, **dict(module.named_parameters()), **dict(module.named_buffers())}
    taken = inspect.signature(module.forward).parameters.values()
    module.forward = noting_lines(module)
    return module_around(functools.partial(torch.func.functional_call, module), state, taken)


def _attempts(program: torch.export.ExportedProgram, inputs: Inputs) -> Attempts:
    module = _module(program)
    own = declare(module, inputs.args, inputs.kwargs, None)
    leaves = (replace(a, terms=b.terms, name=b.name) for a, b in zip(own.leaves, inputs.leaves, strict=True))
    own = replace(own, leaves=tuple(leaves), domain=inputs.domain, anchors=inputs.anchors, budget=inputs.budget)
    return Attempts(own, functools.partial(tracer.trace, module, own), lambda _: None)


def _declared(
    module: torch.nn.Module, program: torch.export.ExportedProgram, noted: Sequence[Sequence[Any]], budget: Budget
) -> Inputs:
    """Return the inputs of both programs, with a symbol for each size that either takes at more than one value."""
    args, kwargs = _example(program)
    inputs = declare(module, args, kwargs, None)
    variables: dict[str, Variable] = {}
    leaves, natural, example = [], [], {}
    for leaf, *values in zip(inputs.leaves, *noted, strict=True):
        terms = list(leaf.terms)
        for index, term in enumerate(leaf.terms):
            if any(isinstance(_size(value, index), torch.SymInt) for value in values):
                name = leaf.size_name(index)
                variables[name] = Variable(name, name, "size" if leaf.is_tensor else "int")
                example[name] = term.constant_value
                terms[index] = symbol(name)
                natural += [f.ge(terms[index], 0)] if leaf.is_tensor else []
        leaves.append(replace(leaf, terms=tuple(terms), marks=()))
    declarations = tuple(Declaration(each, Origin("a size")) for each in natural)
    domain = Domain(variables, declarations)
    return replace(inputs, leaves=tuple(leaves), domain=domain, anchors=(example,), budget=budget)


def _example(program: torch.export.ExportedProgram) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the example inputs of a program.

    Raises:
        UsageError: the program has none.
    """
    if program.example_inputs is None:
        raise UsageError("compare needs a first program with example inputs: this one was made or loaded without them")
    args, kwargs = program.example_inputs
    return args, kwargs


def _size(value: Any, index: int) -> Any:
    return value.shape[index] if isinstance(value, torch.Tensor) else value


def _check_kinds(inputs: Inputs, one: Sequence[Any], other: Sequence[Any]) -> None:
    """Check that the inputs of both have the same kinds: dtype, device, layout, rank, or the same constant."""
    for leaf, *values in zip(inputs.leaves, one, other, strict=True):
        if all(isinstance(value, int | torch.SymInt) and not isinstance(value, bool) for value in values):
            continue  # an int is a size
        mine, its = (guard_of(leaf.name, value) for value in values)
        unlike = type(mine) is not type(its) and torch.Tensor in set(map(type, values))
        for what in ("dtype", "device", "layout", "rank", "dense", "expected"):
            a, b = getattr(mine, what, None), getattr(its, what, None)
            if unlike or (type(a), repr(a)) != (type(b), repr(b)):
                message = f"compare takes two programs of the same inputs: `{leaf.name}`"
                raise UsageError(f"{message} has {what} {a} in one, {b} in the other")


def _taken(
    program: torch.export.ExportedProgram, noted: Sequence[Any], sizes: Sequence[Sequence[Term]]
) -> list[Formula]:
    """Return the requirements on the sizes of a program's inputs, in the symbols of both programs."""
    if isinstance(program, ReportedProgram):
        own, formulas = list(program.contract.sizes), list(program.contract.formulas)
    else:
        own, formulas = _sizes(program, noted), list(_ranges(program))
    solved: dict[str, Term] = {}
    for name, place in readings(own).items():
        shifted = sizes[place.leaf][place.index] - constant(place.offset)
        solved[name] = shifted if place.step == 1 else shifted // constant(place.step)
    pairs = [
        (size, term)
        for given, its in zip(sizes, own, strict=True)
        for size, term in zip(given, its, strict=True)
        if term.symbols <= solved.keys()
    ]
    found = [f.eq(size, substitute(term, solved)) for size, term in pairs]
    found += [substitute(each, solved) for each in formulas if each.symbols <= solved.keys()]
    return [each for each in found if each is not f.TRUE]


def _sizes(program: torch.export.ExportedProgram, noted: Sequence[Any]) -> list[tuple[Term, ...]]:
    read = translator_of(program).read

    def of(value: Any) -> tuple[Term, ...]:
        is_number = isinstance(value, int | torch.SymInt) and not isinstance(value, bool)
        return tuple(map(read, value.shape if isinstance(value, torch.Tensor) else [value] if is_number else []))

    return [of(value) for value in noted]


def _ranges(program: torch.export.ExportedProgram) -> Iterator[Formula]:
    """Yield the bounds that torch notes for a program, and checks: it takes 0 and 1 where it notes at least 2."""
    translator = translator_of(program)
    for expr, span in program.range_constraints.items():
        try:
            term = translator.term(expr)
        except Untranslatable:
            continue
        yield from [f.ge(term, int(span.lower))] if span.lower.is_Integer and span.lower > _UNCHECKED else []
        yield from [f.le(term, int(span.upper))] if span.upper.is_Integer else []


_UNCHECKED = 2
"""The largest lower bound that torch does not check."""


def _unlike(one: torch.export.ExportedProgram, other: torch.export.ExportedProgram) -> str | None:
    """Say in what two programs differ beside what they compute: state, and layouts of inputs that both rely on."""
    if _state(one) != _state(other):
        return "their state dicts have other names, or other tensors of them require gradients"
    if not (isinstance(one, ReportedProgram) and isinstance(other, ReportedProgram)):
        return None
    alike = _relied_on(one.contract.memory) == _relied_on(other.contract.memory)
    return None if alike else "they rely on other layouts of inputs in memory"


def _state(program: torch.export.ExportedProgram) -> dict[str, bool]:
    return {name: value.requires_grad for name, value in program.state_dict.items()}


def _relied_on(memory: Memory) -> tuple[Any, ...]:
    layouts = {index: (each.order, each.requires_grad) for index, each in memory.layouts.items() if memory.reads}
    return memory.reads, memory.writes, memory.state, layouts
