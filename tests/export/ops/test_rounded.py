"""Functions that equal torch's up to rounding, ahead of operators that may show it: torch's function is kept."""

import io
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.reals import FromInt, RealConstant, real_call
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.export import check, export
from shapeproof.export.graph.rounding import jumps
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import equal
from tests.calling import CallsWithArgs

FUNCTIONS = torch.nn.functional


def steps(x, start=0, end=1, **options):
    return torch.linspace(start, end, x.shape[0], **options)


CONSUMERS = {
    "sort": lambda x: steps(x).sort().values,
    "topk": lambda x: steps(x).topk(2).values,
    "median": lambda x: steps(x).median(),
    "quantile": lambda x: steps(x).quantile(0.5),
    "log": lambda x: steps(x, 1, 2).log(),
    "log at 0": lambda x: steps(x).log(),
    "log1p": lambda x: steps(x).log1p(),
    "rsqrt": lambda x: steps(x, 1, 2).rsqrt(),
    "sqrt": lambda x: steps(x).sqrt(),
    "tan": lambda x: steps(x).tan(),
    "asin": lambda x: steps(x).asin(),
    "logit": lambda x: torch.logit(steps(x) / 2 + 0.25),
    "rfft": lambda x: torch.fft.rfft(steps(x)),
    "cdist": lambda x: torch.cdist(steps(x)[:, None], x[:, None]),
    "weights of a count": lambda x: torch.bincount(torch.arange(x.shape[0]), weights=steps(x), minlength=5),
    "a quotient": lambda x: x / (steps(x) + 1),
    "a reciprocal": lambda x: 1 / (steps(x) + 1),
    "a root": lambda x: (steps(x) + 1) ** 0.5,
    "a power": lambda x: 2 ** steps(x),
    "atan2": lambda x: torch.atan2(steps(x), x.abs() + 1),
    "scatter_reduce": lambda x: x.scatter_reduce(0, torch.arange(x.shape[0]), steps(x), "amax"),
    "embedding_bag": lambda x: FUNCTIONS.embedding_bag(
        torch.arange(x.shape[0])[None], x[:, None], per_sample_weights=steps(x)[None], mode="sum"
    ),
    "diff": lambda x: steps(x).diff(),
    "trapezoid": lambda x: torch.trapezoid(x, steps(x)),
    "cummax": lambda x: steps(x).cummax(0).values,
    "normalize": lambda x: FUNCTIONS.normalize(steps(x) + 1, dim=0),
    "norm": lambda x: torch.linalg.vector_norm(steps(x)),
    "cross_entropy": lambda x: FUNCTIONS.cross_entropy(steps(x), x.softmax(0)),
    "cosine": lambda x: FUNCTIONS.cosine_similarity(steps(x), x, dim=0),
    "polar": lambda x: torch.polar(x, steps(x)),
    "sin": lambda x: steps(x).sin(),
    "softmax": lambda x: steps(x).softmax(0),
    "cumsum": lambda x: steps(x).cumsum(0),
    "matmul": lambda x: x @ steps(x),
    "outer": lambda x: torch.outer(x, steps(x)),
    "lerp": lambda x: torch.lerp(x, x * 2, steps(x)),
    "where": lambda x: torch.where(x > 0, steps(x), x),
    "cat": lambda x: torch.cat([x, steps(x).flip(0)]),
    "a view": lambda x: steps(x)[None].expand(3, -1).t().reshape(-1),
    "clamp": lambda x: steps(x).clamp(0.2, 0.7),
    "std": lambda x: steps(x).std(),
    "meshgrid": lambda x: torch.meshgrid(steps(x), x, indexing="ij")[0] * 1,
    "searchsorted": lambda x: torch.searchsorted(steps(x), x),
    "argmax": lambda x: steps(x).argmax(),
    "places": lambda x: x[(steps(x) * (x.shape[0] - 1)).round().long()],
    "whole numbers": lambda x: steps(x, 0, 30, dtype=torch.int64),
    "small whole numbers": lambda x: torch.logspace(0, 2, x.shape[0], dtype=torch.int8),
    "complex numbers": lambda x: steps(x, dtype=torch.complex64),
    "a number of steps that is given twice": lambda x: steps(x).floor() + steps(x).ceil(),
    "keywords": lambda x: torch.linspace(start=0, end=3, steps=x.shape[0], out=None, requires_grad=False).floor(),
    "within torch.vmap": lambda x: torch.vmap(lambda each: (each * steps(x)).sign())(x.expand(3, -1)),
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_a_number_of_steps_that_is_a_size_is_proved(name):
    model = CallsWithArgs(CONSUMERS[name])
    report = check(model, (torch.rand(4),), dynamic_shapes=(({0: Dim("n", min=2, max=9)},),))
    assert report.status == "proved", str(report)
    run = report.program.module()
    for n in range(2, 10):
        x = torch.rand(n)
        mine, eagers = (leaves(each(x)) for each in (run, model))
        for a, b in zip(mine, eagers, strict=True):
            torch.testing.assert_close(a, b, equal_nan=True)
            assert not report.notes or torch.equal(a.nan_to_num(9), b.nan_to_num(9)), "torch's own is kept"


def kept():
    return export(
        CallsWithArgs(lambda x: x * steps(x, -1).sign()), (torch.rand(4),), dynamic_shapes=(({0: Dim("n", max=9)},),)
    )


def test_a_kept_function_survives_a_save():
    file = io.BytesIO()
    torch.export.save(kept(), file)
    file.seek(0)
    run = torch.export.load(file).module()
    for n in range(10):
        x = torch.rand(n)
        assert torch.equal(run(x), x * steps(x, -1).sign())


@pytest.mark.thorough
def test_no_form_of_a_program_takes_a_kept_function_for_the_traced_size():
    """Torch itself would take `linspace(-1, 1, n)` for `linspace(-1, 1, 4)`, and say nothing."""
    file = io.BytesIO()
    torch.export.save(kept(), file)
    file.seek(0)
    with pytest.raises(UsageError, match="cannot take the program apart"):
        kept().run_decompositions()
    with pytest.raises(RuntimeError, match="data-dependent"):
        torch.export.load(file).run_decompositions()


def test_torch_takes_a_size_for_the_plain_number_of_its_trace():
    model = CallsWithArgs(lambda x: x * torch.arange(x.shape[0], dtype=torch.float32))
    program = torch.export.export(model, (torch.rand(4),), dynamic_shapes=(({0: Dim("n", max=9)},),))
    (made,) = (node for node in program.graph.nodes if "arange" in str(node.target))
    made.target, made.args = torch.ops.aten.linspace.default, (0, 1, *made.args)
    apart = program.run_decompositions()
    (given,) = (node for node in apart.graph.nodes if node.op == "placeholder")
    assert [str(size) for size in given.meta["val"].shape] == ["4"]


def test_a_rounding_within_vmap_is_not_proved():
    model = CallsWithArgs(lambda x: torch.vmap(lambda each: FUNCTIONS.avg_pool1d(each[None], x.shape[1]).round())(x))
    with pytest.raises(UsageError, match="the rounding of `avg_pool1d` cannot be followed"):
        check(model, (torch.rand(3, 4),), dynamic_shapes=(({1: Dim("n", min=1, max=9)},),))


@pytest.mark.parametrize("after", [torch.neg, torch.sign])
def test_one_step_in_a_part_of_the_domain_is_proved(after):
    def model(x):
        high, wide = FUNCTIONS.conv2d(x, torch.ones(1, 1, 3, 3), stride=2, padding=1).shape[2:]
        return after(torch.linspace(0, 1, high)[:, None].expand(high, wide).reshape(-1))

    sides = {2: Dim("h", min=2, max=9), 3: Dim("w", min=2, max=9)}
    report = check(CallsWithArgs(model), (torch.ones(1, 1, 6, 5),), dynamic_shapes=((sides,),))
    assert report.status == "proved", str(report)
    for h, w in itertools.product(range(2, 10), (2, 3, 9)):
        x = torch.ones(1, 1, h, w)
        torch.testing.assert_close(report.program.module()(x), model(x))


def test_one_step_is_taken_apart():
    program = export(CallsWithArgs(lambda x: x + torch.linspace(3, 4, 1).round()), (torch.ones(4),))
    assert torch.equal(program.run_decompositions().module()(torch.ones(4)), torch.full((4,), 4.0))


@given(st.integers(-3, 9), st.integers(1, 9), st.integers(-3, 9))
def test_floats_that_sizes_fix_are_equal_if_python_says_so(above, below, other):
    number = real_call("truediv", FromInt(parse_term("n")), FromInt(parse_term("m")))
    here = Facts([parse_formula(f"n == {above}"), parse_formula(f"m == {below}")])
    value = above / below
    assert equal(number, RealConstant(value), here)
    assert equal(number, RealConstant(other), here) is (value == other)
    assert not equal(number, RealConstant(value), Facts([parse_formula(f"n == {above}"), parse_formula("m >= 1")]))


def test_floats_that_no_size_fixes_keep_their_form():
    zero = Facts([parse_formula("m == 0")])
    number = real_call("truediv", FromInt(parse_term("1")), FromInt(parse_term("m")))
    assert equal(number, number, zero)
    assert not equal(number, RealConstant(float("inf")), zero), "Python raises"
    assert not equal(RealConstant(0.0), RealConstant(-0.0), zero)


def pointwise():
    """Yield the operators of torch that map a tensor of floats element by element, and need nothing else."""
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            func = getattr(packet, overload)
            needed = [each for each in func._schema.arguments if not each.has_default_value()]
            if len(needed) == 1 and torch.Tag.pointwise in func.tags and not name.endswith("_"):
                yield func


def is_continuous(func):
    graph, x = torch.fx.Graph(), torch.rand(3)
    given = graph.placeholder("x")
    node = graph.call_function(func, (given,))
    given.meta["val"], node.meta["val"] = x, func(x)
    return not jumps(graph, set(storages(x)))


def test_an_operator_that_counts_as_continuous_keeps_a_small_difference_small():
    x, small, known = torch.linspace(-4, 4, 1601, dtype=torch.float64), 1e-9, []
    for func in pointwise():
        try:
            found = [func(each) for each in (x, x + small, x - small)]
        except (RuntimeError, NotImplementedError):
            continue  # it is of other dtypes
        if is_continuous(func):
            known.append(func)
            assert all(((each - found[0]).abs() <= 2.0**20 * small).all() for each in found), func
    assert len(known) > 30
    aten = torch.ops.aten
    assert not {aten.sign.default, aten.floor.default, aten.log.default, aten.rsqrt.default} & {*known}
