"""Small random programs that branch on their sizes, against brute force over the whole box.

Proved: the program does what eager does at every point. Refuted: at each witness eager raises, or does something else
than it does at the example. Undecided: the program does what eager does at the example; elsewhere it may refuse.
"""

from __future__ import annotations

import itertools
import linecache
import sys
import zlib

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, note, settings
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import RAISES, agree, outcome

NAMES = ("a", "b")
BOX = range(5)

atoms = st.sampled_from([*NAMES, *NAMES, "1", "2", "3"])


def compound(terms):
    """A term over smaller ones; divisors may be zero, at the ends of the ranges and between them."""
    divisors = st.sampled_from(["2", "3", "a", "b", "(b - 2)"])
    return st.one_of(
        st.builds("({} {} {})".format, terms, st.sampled_from(["+", "-", "*"]), terms),
        st.builds("({} {} {})".format, terms, st.sampled_from(["//", "%"]), divisors),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), terms, terms),
    )


terms = st.recursive(atoms, compound, max_leaves=4)
comparisons = st.builds("{} {} {}".format, terms, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), terms)
conditions = st.one_of(
    comparisons,
    st.builds("{} and {}".format, comparisons, comparisons),
    st.builds("{} or {}".format, comparisons, comparisons),
    st.builds("not ({})".format, comparisons),
)
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


def indented(lines):
    return ["    " + line for line in lines]


def nested(blocks):
    """An if whose sides are smaller blocks; one side may fall through."""
    both = st.builds(
        lambda condition, then, other: [f"if {condition}:", *indented(then), "else:", *indented(other)],
        conditions,
        blocks,
        blocks,
    )
    changed = st.builds(
        lambda condition, term, rest: [f"if {condition}:", f"    x = x * ({term})", *rest], conditions, terms, blocks
    )
    checked = st.builds(lambda condition, rest: [f"torch._check({condition})", *rest], comparisons, blocks)
    used = st.builds(lambda term, rest: [f"unused = {term}", *rest], terms, blocks)
    return st.one_of(both, both, changed, checked, used)


blocks = st.recursive(values.map(lambda value: [f"return {value}"]), nested, max_leaves=4)
bounds = st.tuples(st.integers(0, 2), st.integers(3, BOX[-1]))


@st.composite
def programs(draw):
    """The source of a model, the bounds of its sizes and an example inside them."""
    body = draw(nested(blocks))
    source = "\n".join(
        [
            "class Model(torch.nn.Module):",
            "    def forward(self, x):",
            "        a, b = x.shape",
            *indented(indented(body)),
        ]
    )
    ranges = [range(low, high + 1) for low, high in (draw(bounds), draw(bounds))]
    mod = built(source)
    working = [sizes for sizes in itertools.product(*ranges) if outcome(mod, at(sizes)) != RAISES]
    assume(working)
    return source, ranges, draw(st.sampled_from(working))


def few(part):
    """An export takes a second or so: a part of the examples, and none of the hundreds that shrinking would take."""
    return settings(
        max_examples=settings().max_examples // part,
        phases=[phase for phase in Phase if phase is not Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def built(source):
    """The model; its source can be shown, as that of a model in a file can."""
    file = f"generated_{zlib.crc32(source.encode())}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"torch": torch}
    exec(compile(source, file, "exec"), names)  # noqa: S102 - written above
    return names["Model"]()


def at(sizes):
    return (torch.arange(1.0, 1.0 + sizes[0] * sizes[1]).reshape(*sizes),)


def checked(mod, ranges, example, **options):
    """The report; the model runs at its example."""
    shapes = ({i: Dim(name, min=box[0], max=box[-1]) for i, (name, box) in enumerate(zip(NAMES, ranges, strict=True))},)
    return check(mod, at(example), dynamic_shapes=shapes, **options)


def disagreements(mod, run, ranges, *, may_refuse=False):
    """The points of the box at which a program does not do what eager does."""
    return [s for s in itertools.product(*ranges) if not agree(mod, run, at(s), may_refuse=may_refuse)]


DIVIDED = {
    "and another outcome": "return x + 1 if a // (b - 3) > 1 else x + 2",
    "and the same outcome": "return x + 1 if a // (b - 3) > 1 else x + 1",
    "within a divisor": "return x + 1 if 7 // (a // (b - 3)) > 1 else x + 1",
    "as a remainder": "return x * (1 if a % (b - 3) == 0 else 1)",
    "in one region only": "return x + b // (b - 3) if a > 2 else x",
    "where it is not asked": "return x if b == 3 else x + 1 if a // (b - 3) > 1 else x + 1",
}


@pytest.mark.parametrize("branches", ["error", "split"])
@pytest.mark.parametrize("name", DIVIDED)
def test_where_a_question_is_not_defined_is_not_passed_over(name, branches):
    """The divisor is zero inside the range: no corner shows it."""
    source = (
        f"class Model(torch.nn.Module):\n    def forward(self, x):\n        a, b = x.shape\n        {DIVIDED[name]}\n"
    )
    mod, ranges = built(source), [range(1, 9), range(9)]
    shapes = ({0: Dim("a", min=1, max=8), 1: Dim("b", min=0, max=8)},)
    report = check(mod, at((2, 5)), dynamic_shapes=shapes, branches=branches)
    raises = any(outcome(mod, at(sizes)) == RAISES for sizes in itertools.product(*ranges))
    assert report.status == ("proved" if branches == "split" and not raises else "refuted"), str(report)
    assert report.program is None or disagreements(mod, report.program.module(), ranges) == []


def test_what_is_undecided_at_one_size_does_not_hide_what_is_wrong_at_others():
    """Where there are no rows nothing differs, and no proof says so; one declaration would settle both."""
    body = ["a, b = x.shape", "return x + (1 if 1 <= a < 4 else 2 if a % 2 else 3)"]
    source = "\n".join(["class Model(torch.nn.Module):", "    def forward(self, x):", *indented(indented(body)), ""])
    mod, ranges = built(source), [range(7), range(3, 5)]
    report = checked(mod, ranges, (3, 4))
    assert report.status == "refuted", str(report)
    judge(mod, report, ranges, (3, 4))


@few(4)
@given(programs())
def test_a_verdict_is_true_at_every_point_of_the_box(program):
    source, ranges, example = program
    note(source)
    mod = built(source)
    report = checked(mod, ranges, example)
    note(str(report))
    judge(mod, report, ranges, example)


def judge(mod, report, ranges, example):
    """Hold a report against every point of the box."""
    if report.status == "proved":
        assert disagreements(mod, report.program.module(), ranges) == []
    elif report.status == "undecided":
        assert disagreements(mod, report.program.module(), ranges, may_refuse=True) == []
        assert agree(mod, report.program.module(), at(example))
    else:
        assert report.status == "refuted"
        errors = [diagnostic for diagnostic in report.diagnostics if diagnostic.severity == "error"]
        assert errors
        assert all(is_a_counterexample(mod, diagnostic.witness, ranges, example) for diagnostic in errors)


def is_a_counterexample(mod, witness, ranges, example):
    """Whether at a witness eager raises, takes another way through its source than at the example, or does otherwise.

    The last: something else than what it does at the example, recorded.
    """
    sizes = tuple(witness[f"x.shape[{i}]"] for i in range(len(NAMES)))
    assert all(size in box for size, box in zip(sizes, ranges, strict=True))
    if outcome(mod, at(sizes)) == RAISES or lines_run(mod, sizes) != lines_run(mod, example):
        return True
    if mod(*at(sizes)).dim() != mod(*at(example)).dim():  # a consumer compiles for the rank that is noted
        return True
    recorded = torch.fx.experimental.proxy_tensor.make_fx(mod, tracing_mode="real")(*at(example))
    return not agree(mod, recorded, at(sizes))


def lines_run(mod, sizes):
    """The numbers of the lines of forward that eager runs."""
    code, lines = type(mod).forward.__code__, []

    def trace(frame, event, _):
        if frame.f_code is code and event == "line":
            lines.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        mod(*at(sizes))
    finally:
        sys.settrace(before)
    return lines


class ScalesTallOnes(torch.nn.Module):
    """Found here: at (1, 0) other operators give the same nothing, which is undecided, and hid that (2, 1) differs."""

    def forward(self, x):
        a, b = x.shape
        if b < a:
            x = x * a
        return x + 1


def test_an_undecided_point_hides_no_refutation():
    ranges, example = (range(4), range(4)), (0, 0)
    mod = ScalesTallOnes()
    report = checked(mod, ranges, example)
    judge(mod, report, ranges, example)
    assert report.status == "refuted"
    (diagnostic,) = report.diagnostics
    assert dict(diagnostic.witness) == {"x.shape[0]": 2, "x.shape[1]": 1}
