"""Small random programs that branch on their sizes, as Hypothesis strategies, and verdicts held against brute force.

`programs` draws models of one matrix: terms and conditions of every kind, one value returned on each way.
`wide_programs` draws models of two matrices and a number, which are cut, joined, laid anew and written into between
nested branches.

`judge` holds a verdict against every point of the box. Proved: eager never raises there and the program does what eager
does; of several programs just one serves each point. Refuted: at each witness eager raises, or (where one program was
asked for) does something else than it does at the example; where a diagnostic says that eager raises, it does.
Undecided: as proved, but the program may refuse, except at the example, and where it cannot refuse there is none.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import torch
from hypothesis import HealthCheck, Phase, reject, settings
from torch.export import Dim
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from shapeproof.constraints.meaning.evaluate import holds_at, true_at
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export import check
from shapeproof.export.build.regions import ReportedRegions
from tests.agreement import RAISES, agree, outcome

# ---------------------------------------------------------------------- programs


@dataclass(frozen=True)
class Interface:
    """What a model takes.

    Attributes:
        parameters: of its forward.
        reading: the line that reads off its sizes.
        names: what a report calls its sizes.
        inputs: the inputs of given sizes.
        shapes: dynamic_shapes for given ranges of them.
    """

    parameters: str
    reading: str
    names: tuple[str, ...]
    inputs: Callable[..., tuple[Any, ...]]
    shapes: Callable[..., tuple[Any, ...]]


def filled(rows, columns):
    return torch.arange(1.0, 1.0 + rows * columns).reshape(rows, columns)


def declared(name, box):
    return Dim(name, min=box[0], max=box[-1])


MATRIX = Interface(
    "x",
    "a, b = x.shape",
    ("x.shape[0]", "x.shape[1]"),
    lambda a, b: (filled(a, b),),
    lambda a, b: ({0: declared("a", a), 1: declared("b", b)},),
)
PAIR = Interface(
    "x, y, k",
    "a, b = x.shape[0], y.shape[0]",
    ("x.shape[0]", "y.shape[0]", "k"),
    lambda a, b, k: (filled(a, 2), filled(b, 2) - 4, k),
    lambda a, b, k: ({0: declared("a", a)}, {0: declared("b", b)}, Dim.DYNAMIC(min=k[0], max=k[-1])),
)


def built(source):
    """The model of a source; it can be shown, as that of a model in a file can."""
    file = f"generated_{zlib.crc32(source.encode())}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"torch": torch}
    exec(compile(source, file, "exec"), names)  # noqa: S102 - written by a test
    return names["Model"]()


@dataclass(frozen=True)
class Program:
    """A model of an interface, by the lines of its forward; the bounds of its sizes, and an example inside them."""

    interface: Interface
    body: Sequence[str]
    ranges: Sequence[range]
    example: tuple[int, ...]

    def __str__(self) -> str:
        sizes = zip(self.interface.names, self.ranges, self.example, strict=True)
        notes = (f"# {name} in {box[0]}..{box[-1]}, {example} in the example" for name, box, example in sizes)
        return "\n".join([*notes, self.source])

    @property
    def source(self) -> str:
        forward = [f"def forward(self, {self.interface.parameters}):", *indented([self.interface.reading, *self.body])]
        return "\n".join(["class Model(torch.nn.Module):", *indented(forward), ""])

    @functools.cached_property
    def model(self):
        return built(self.source)

    @property
    def box(self):
        """Every point."""
        return list(itertools.product(*self.ranges))

    def inputs(self, sizes):
        return self.interface.inputs(*sizes)

    @functools.cached_property
    def raising(self):
        """The points at which eager raises."""
        return [sizes for sizes in self.box if outcome(self.model, self.inputs(sizes)) == RAISES]

    def disagreements(self, run, *, may_refuse=False):
        """The points at which a program does not do what eager does."""
        return [s for s in self.box if not agree(self.model, run, self.inputs(s), may_refuse=may_refuse)]

    def check(self, how=check, **options):
        """The report on it; every bound is a claim."""
        shapes = self.interface.shapes(*self.ranges)
        return how(self.model, self.inputs(self.example), dynamic_shapes=shapes, **options)


def few(part):
    """An export takes a second or so: a part of the examples, and none of the hundreds that shrinking would take."""
    return settings(
        max_examples=max(1, settings().max_examples // part),
        phases=[phase for phase in Phase if phase is not Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def indented(lines):
    return ["    " + line for line in lines]


# ---------------------------------------------------------------------- terms and conditions


def terms_over(names, divisors):
    """Terms; a divisor may be zero, at the ends of the ranges and between them."""

    def compound(terms):
        return st.one_of(
            st.builds("({} {} {})".format, terms, st.sampled_from(["+", "-", "*"]), terms),
            st.builds("({} {} {})".format, terms, st.sampled_from(["//", "%"]), st.sampled_from(divisors)),
            st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), terms, terms),
        )

    return st.recursive(st.sampled_from([*names, *names, "1", "2", "3"]), compound, max_leaves=4)


def comparisons_of(terms):
    return st.builds("{} {} {}".format, terms, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), terms)


def conditions_of(comparisons):
    return st.one_of(
        comparisons,
        st.builds("{} and {}".format, comparisons, comparisons),
        st.builds("{} or {}".format, comparisons, comparisons),
        st.builds("not ({})".format, comparisons),
    )


def branch(condition, then, other):
    """An if; without another side it falls through."""
    return [f"if {condition}:", *indented(then), *(["else:", *indented(other)] if other else [])]


@st.composite
def programs_of(draw, interface, bodies, bounds):
    """A model with such a body, and an example that eager takes: the first one from some point of the box on."""
    body, ranges = draw(bodies), [range(low, high + 1) for low, high in map(draw, bounds)]
    points = list(itertools.product(*ranges))
    start = draw(st.integers(0, len(points) - 1))
    for example in points[start:] + points[:start]:
        program = Program(interface, body, ranges, example)
        if outcome(program.model, program.inputs(example)) != RAISES:
            return program
    return reject()


# ---------------------------------------------------------------------- of one matrix

terms = terms_over(["a", "b"], ["2", "3", "a", "b", "(b - 2)"])
comparisons = comparisons_of(terms)
conditions = conditions_of(comparisons)
values = st.sampled_from(
    [
        "x + 1",
        "x * 2",
        "x + x",
        "x.t().contiguous()",
        "x.view(-1)",
        "x.view(2, -1)",
        "x.sum(0)",
        "x.squeeze(0)",
        "x[:2]",
        "x[1:]",
        "x + torch.ones(1, x.shape[1])",
        "torch.cat([x, x])",
        "x.expand(2, a, b).sum(0)",
        "x.new_zeros(a, b // 2)",
    ]
)


def nested(blocks):
    """An if whose sides are smaller blocks; one side may fall through."""
    both = st.builds(branch, conditions, blocks, blocks)
    scaled = st.builds(lambda condition, term: branch(condition, [f"x = x * ({term})"], None), conditions, terms)
    changed = st.builds(lambda first, rest: first + rest, scaled, blocks)
    checked = st.builds(lambda condition, rest: [f"torch._check({condition})", *rest], comparisons, blocks)
    used = st.builds(lambda term, rest: [f"unused = {term}", *rest], terms, blocks)
    return st.one_of(both, both, changed, checked, used)


blocks = st.recursive(values.map(lambda value: [f"return {value}"]), nested, max_leaves=4)
bounds = st.tuples(st.integers(0, 2), st.integers(3, 4))


def programs():
    """A model of one matrix."""
    return programs_of(MATRIX, nested(blocks), [bounds, bounds])


def small_programs():
    """A model of one matrix that branches or checks once: most take one trace or two."""
    returned = values.map(lambda value: [f"return {value}"])
    checked = st.builds(lambda condition, rest: [f"torch._check({condition})", *rest], comparisons, returned)
    either = st.builds(branch, comparisons, returned, returned)
    return programs_of(MATRIX, st.one_of(returned, checked, either), [bounds, bounds])


# ---------------------------------------------------------------------- of two matrices and a number

SERVING = [
    "x = x * {number} + 1",
    "x = x * k - y.sum()",
    "x = x * {term}",
    "x.add_({number})",
    "y[:{number}].mul_(2)",
    "y[k:] = 7.0",
    "x = x[:{number}]",
    "x = x[{number}:]",
    "x = x[:k]",
    "y = y[::2]",
    "x = torch.cat([x, y])",
    "y = torch.cat([y, x[:1]])",
    "x, y = y, x",
    "y = y.repeat(k, 1)",
    "x = x.roll(1, 0)",
    "y = y.flip(0).cumsum(0)",
    "x = torch.nn.functional.pad(x, (0, 0, 0, {number}))",
    "x = x.squeeze(0).reshape(-1, 2)",
    "x = x.t().reshape(2, -1).t()",
    "x = (x.t() @ x)[: x.shape[0]]",
    "z = x.t().contiguous(); z.add_(1); x = x + z.sum()",
    "z = x[:{number}].reshape(-1); z.mul_(2); x = x + z.sum()",
]
"""Lines that eager runs whatever the sizes are, divisors aside."""
RAISING = [
    "torch._check({comparison})",
    "assert {comparison}",
    "x = x + y",
    "x.mul_(y)",
    "x[:k].add_(y[:k])",
    "x = x.expand(b, 2)",
    "x = x.view(2, -1).t()",
    "x = x.narrow(0, 1, {number})",
    "x = x.unflatten(0, (2, -1)).flatten(0, 1)",
    "x = x.index_select(0, torch.tensor([{number}]))",
    "x = x.max(0).values + y",
]
"""Lines that it refuses at some sizes."""

PROBING = [
    "x = x + (1 if x.t().is_contiguous() else 2)",
    "x = x * (2 if x[:, ::2].is_contiguous() else 1)",
    "x = x * (1 + x.stride(0))",
    "x = x + x.t().contiguous().stride(0)",
    "x = x + x.expand(a, 2).reshape(-1, 2).stride(1)",
    "z = x.t().contiguous().t(); x = x + (z.stride(0) == 1)",
    "z = x.reshape(k, -1)",
    "z = y.reshape(a, -1); x = x + z.shape[0]",
    "x = x + y.reshape(x.shape[0], -1).sum()",
    "x.squeeze(0)",
    "z = x.squeeze(0).dim(); x = x + z",
    "x = torch.cond({comparison}, lambda x: x * 2, lambda x: x + 1, (x,))",
    "x = torch.cond(x.sum() > {number}, lambda x: x * 2, lambda x: x + 1, (x,))",
]
"""Lines that ask how tensors lie in memory, sizes that are left to torch, and branches that the program keeps."""

wide_terms = terms_over(["a", "b", "k", "x.shape[0]"], ["2", "3", "2", "3", "k", "(a - 1)"])
wide_comparisons = comparisons_of(wide_terms)
statements = st.builds(
    lambda line, number, term, comparison: line.format(number=number, term=term, comparison=comparison),
    st.sampled_from([*SERVING, *SERVING, *SERVING, *RAISING]),
    st.integers(0, 4),
    wide_terms,
    wide_comparisons,
)


probes = st.builds(
    lambda line, number, comparison: line.format(number=number, comparison=comparison),
    st.sampled_from(PROBING),
    st.integers(0, 4),
    wide_comparisons,
)


def wide_blocks(depth, statements=statements):
    """One or two lines; then, it may be, an if with such blocks on its sides, of which the first may return."""
    lines = st.lists(statements, min_size=1, max_size=2)
    if depth == 0:
        return lines
    sides = wide_blocks(depth - 1, statements)
    returning = st.builds(lambda side, end: side + end, sides, st.sampled_from([[], [], [], ["return x * 2, y"]]))
    branches = st.builds(branch, conditions_of(wide_comparisons), returning, st.none() | sides)
    return st.builds(lambda first, rest: first + rest, lines, branches | branches | st.just([]))


few_rows = st.tuples(st.integers(0, 2), st.integers(3, 4))
numbers = st.tuples(st.integers(0, 1), st.integers(2, 3))


def wide_programs():
    """A model of two matrices and a number: nested branches, and between them changes of sizes, layout and content."""
    bodies = wide_blocks(2).map(lambda block: [*block, "return x, y"])
    return programs_of(PAIR, bodies, [few_rows, few_rows, numbers])


def probing_programs():
    """A model of two matrices and a number that asks how they lie in memory, and keeps branches of its own."""
    bodies = wide_blocks(1, probes | probes | statements).map(lambda block: [*block, "return x, y"])
    return programs_of(PAIR, bodies, [few_rows, few_rows, numbers])


# ---------------------------------------------------------------------- verdicts


def judge(program, report, *, limited=False):
    """Hold a report, on one program or on several, against every point of the box; `limited`: an export cut short."""
    assert overclaimed(program, report) == []
    if report.status == "refuted":
        errors = [diagnostic for diagnostic in report.diagnostics if diagnostic.severity == "error"]
        assert errors
        several = bool(report.regions)
        assert all(is_a_counterexample(program, each, several=several) for each in errors)
        assert [each.message for each in errors if not names_its_condition(program, each)] == []
        return
    undecided = report.status == "undecided"
    assert undecided or (report.status == "proved" and program.raising == [])
    if undecided and report.program is None:
        assert report.diagnostics
        return
    run = report.program.module()
    assert program.disagreements(run, may_refuse=undecided) == []
    if isinstance(report.program, ReportedRegions):
        serving = {sizes: served(report.program, program, sizes) for sizes in program.box}
        assert all(count == 1 or (undecided and count == 0) for count in serving.values()), serving
        assert [sizes for sizes, count in serving.items() if count and not served_there(program, run, sizes)] == []
    else:
        assert limited or agree(program.model, run, program.inputs(program.example))


def overclaimed(program, report):
    """The questions that a report calls proved, and that fail at a point of the box."""
    points = [dict(zip(program.interface.names, sizes, strict=True)) for sizes in program.box]
    proved = [each.text for each in report.questions if each.settled == "proved"]
    return [text for text in proved if any(true_at(parse_formula(text), point) is False for point in points)]


def served_there(program, run, sizes):
    """Whether the program of a region does not refuse what goes there."""
    return outcome(run, program.inputs(sizes)) != RAISES or sizes in program.raising


REFUSALS = {"bound", "divides", "equal", "relation"}
"""The ids of diagnostics that say where eager raises."""


def names_its_condition(program, diagnostic):
    """Whether eager raises wherever what a diagnostic requires does not hold, if that is what it says."""
    if diagnostic.id not in REFUSALS or "at some sizes" in diagnostic.message:
        return True
    (text,) = (note.text for note in diagnostic.notes if note.label == "required")
    required = parse_formula(text.partition("   ")[0].partition(", and ")[0])
    named = ((sizes, dict(zip(program.interface.names, sizes, strict=True))) for sizes in program.box)
    return all(sizes in program.raising or true_at(required, point) is not False for sizes, point in named)


def served(regions, program, sizes):
    """How many regions a point lies in; it lies in none whose formula is not defined there."""
    by_name = dict(zip(program.interface.names, sizes, strict=True))
    point = {symbol: by_name[name] for symbol, name in regions.contract.names.items() if name in by_name}
    return sum(holds_at(formula, point) for formula in regions.holds)


def is_a_counterexample(program, diagnostic, *, several):
    """Whether at a witness eager raises, or one program, the one of the example, cannot serve.

    It cannot if eager takes another way through its source than at the example, has results of other ranks (a consumer
    compiles for those that are noted), or does otherwise than what it did at the example, recorded. An example without
    elements is served by programs recorded elsewhere, too.
    """
    if several and diagnostic.id == "many-programs":
        return True
    sizes = tuple(diagnostic.witness[name] for name in program.interface.names)
    assert sizes in program.box
    if several or sizes in program.raising:
        return sizes in program.raising
    example = program.inputs(program.example)
    is_empty = any(isinstance(each, torch.Tensor) and each.numel() == 0 for each in example)
    points = [each for each in program.box if each not in program.raising] if is_empty else [program.example]
    return any(is_not_served(program, sizes, at) for at in points)


def is_not_served(program, sizes, at):
    """Whether eager does otherwise than at another point of the box."""
    mod, there, elsewhere = program.model, program.inputs(sizes), program.inputs(at)
    if lines_run(mod, there) != lines_run(mod, elsewhere) or ranks(mod, there) != ranks(mod, elsewhere):
        return True
    recorded = torch.fx.experimental.proxy_tensor.make_fx(mod, tracing_mode="real")(*program.inputs(at))
    return not agree(mod, recorded, program.inputs(sizes))


class Ranks(TorchFunctionMode):
    """Notes the rank of each result, in order."""

    def __init__(self):
        super().__init__()
        self.noted = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.noted += [value.dim() for value in pytree.tree_leaves(result) if isinstance(value, torch.Tensor)]
        return result


def ranks(mod, inputs):
    with Ranks() as ranks:
        outcome(mod, inputs)
    return ranks.noted


def lines_run(mod, inputs):
    """The numbers of the lines of forward that eager runs."""
    code, lines = type(mod).forward.__code__, []

    def trace(frame, event, _):
        if frame.f_code is code and event == "line":
            lines.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        outcome(mod, inputs)
    finally:
        sys.settrace(before)
    return lines
