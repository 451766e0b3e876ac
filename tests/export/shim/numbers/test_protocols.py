"""What Python asks a number by itself is answered as eager answers it, or refused: of sizes, and of data."""

from __future__ import annotations

import decimal
import enum
import fractions
import gc
import itertools
import linecache
import math
import textwrap
import types

import numpy as np
import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from shapeproof.export.trace.python.rewriting import rewritten
from tests.agreement import agree

NUMBERS = itertools.count()
EXAMPLE = torch.tensor([1.0, 2.0, 3.0])
NAN = float("nan")
SPECIAL = [[NAN], [NAN, 1.0], [-1.0], [-2.0, 1.0], [0.0], [-0.0], [2.0, 5.0], [7.0], [6.5], [0.5, -1.0, 4.0]]
POINTS = [torch.linspace(-1.0, 2.0, n) for n in (1, 2, 3, 5, 8)] + [torch.tensor(values) for values in SPECIAL]

SIZE, COUNT = "n = x.shape[0]", "k = (x > 0).sum().item()"
FLAG, FLAGS = "b = (x > 0).any().item()", "b = (x > 0).any().item(); c = (x < 3).any().item()"
FLOAT = "v = x.sum().item()"


class Kind(enum.IntEnum):
    LARGE = 7


class Half(float):
    pass


def model_of(*lines, scope=()):
    text = "\n    ".join(["def forward(self, x):", *"\n".join(lines).splitlines()]) + "\n"
    file = f"protocol_{next(NUMBERS)}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {"torch": torch, "math": math, "np": np, "Kind": Kind, "Half": Half, **dict(scope)}
    exec(compile(text, file, "exec"), scope)  # noqa: S102
    return type("Model", (torch.nn.Module,), {"forward": scope["forward"]})()


def judged(*lines, scope=()):
    """The verdict, once all that runs does what eager does."""
    model = model_of(*lines, scope=scope)
    try:
        report = check(model, (EXAMPLE,), dynamic_shapes={"x": {0: Dim("n", min=1, max=8)}})
    except UsageError as error:
        return str(error)
    run = report.program.module() if report.program is not None else None
    for x in POINTS if report.status == "proved" else ():
        assert agree(model, run, (x,)), (x, str(report))
    return report.status


PROVED = [
    (SIZE, "return x + (1 if isinstance(n, int) else 2)"),
    (SIZE, "return x + (1 if type(n) is int else 2)"),
    (SIZE, "assert isinstance(n, int) and not isinstance(n, float)", "return x"),
    (SIZE, "import numbers", "return x + isinstance(n, numbers.Integral)"),
    (SIZE, "return x + n + Kind.LARGE + (Kind.LARGE - n) + np.int64(3) * n"),
    (FLOAT, "return x + (1 if isinstance(v, float) else 2)"),
    (COUNT, "return x + (1 if type(k) == int else 2)"),
    (FLAG, "assert isinstance(b, bool)", "return x"),
    (FLAG, "assert b != 0", "return x"),
    (FLAG, "assert b == torch.tensor(True)", "return x"),
    (FLAGS, "assert b and c", "return x"),
    ("assert (x > 0).all()", "assert x.sum() < 9, 'too large'", "return x"),
    ("assert x.isfinite().all() and x.max() < 9", "return x"),
    (FLOAT, "assert not v > 0", "return x"),
    (FLOAT, "return x * torch.tensor([v, 1.0]).sum()"),
    (FLOAT, "assert (v > 0) == True", "return x"),
    (FLOAT, "ok = v > 0 and v < 3", "assert ok", "return x"),
    (FLOAT, "torch._check(pow(v, n := x.shape[0]) >= 0)", "return x + n"),
]
"""The program does what eager does for every data."""

REFUSED = [
    (SIZE, "return x + (1 if n is 5 else 2)"),
    (SIZE, "return x + (1 if (n == 7) is True else 2)"),
    (SIZE, "return x + ((n == 7) == 1)"),
    (SIZE, "return x + (1 if (n == 7) in (1,) else 2)"),
    (SIZE, "return x + (1 if str(n == 7) == 'True' else 2)"),
    (SIZE, "return x + (1, 2)[n == 7]"),
    (SIZE, "return x + (1 if n == Kind.LARGE else 2)"),
    (SIZE, "return x + (1 if n / 2 == Half(3.5) else 2)"),
    (COUNT, "return x + (1 if k is 0 else 2)"),
    (COUNT, "if k > 1:\n    torch._check(k < 3)", "return x"),
    (FLAG, "return x + 1 if b is False else x"),
    (FLAG, "return x + [1, 2][b]"),
    (FLAG, "return x + {True: 1, False: 2}[b]"),
    (FLAG, "return x + (b ^ True) + float(b) + (b < 1) + (~b)"),
    (FLAG, "return x + (2 if f'{b}' == 'True' else 1)"),
    (FLAGS, "assert b or c", "return x"),
    (FLAGS, "assert not b or c", "return x"),
    (FLAGS, "if b:\n    assert c", "return x"),
    (FLAGS, "if b:\n    torch._check(c)", "return x"),
    (FLOAT, "torch._check(str(v) != 'nan')", "return x"),
    (FLOAT, "torch._check(v in (6.5, 6.0))", "return x"),
    (FLOAT, "torch._check(math.fmod(v, 2) == 0)", "return x"),
    (FLOAT, "if v > 0:\n    assert v < 5\nelse:\n    assert v > -5", "return x"),
]
"""One program does not: what is asked is a branch, on data or on a size that no corner has."""


@pytest.mark.filterwarnings("ignore:.*is. with .*literal:SyntaxWarning")
@pytest.mark.parametrize("lines", PROVED, ids="; ".join)
def test_what_is_no_branch_is_proved(lines):
    assert judged(*lines) == "proved"


@pytest.mark.filterwarnings("ignore:.*is. with .*literal:SyntaxWarning")
@pytest.mark.parametrize("lines", REFUSED, ids="; ".join)
def test_a_branch_is_seen_whatever_asks(lines):
    assert judged(*lines) != "proved"


def test_a_power_that_may_be_complex_is_refused_and_one_that_is_real_is_proved():
    assert "complex" in judged(FLOAT, "torch._check(v ** 0.5 != 2)", "return x")
    assert judged(FLOAT, "torch._check(v >= 0)", "torch._check(v ** 0.5 != 2)", "return x") == "proved"


HUGE = [(FLOAT, f"if v > {bound}:\n    raise ValueError", "return x") for bound in (3, 1e300, 1.7e308)]


@pytest.mark.parametrize("lines", [*HUGE, (FLOAT, "if not math.isfinite(v):\n    raise ValueError", "return x")])
def test_a_side_that_raises_is_a_check_for_doubles_of_any_size(lines):
    model = model_of(*lines)
    report = check(model, (EXAMPLE.double() / 10,), dynamic_shapes={"x": {0: Dim("n", min=1, max=8)}})
    assert report.status == "proved", str(report)
    for value in (0.0, 2.0, 4.0, 1.5e300, 1.75e308, math.inf, -math.inf, math.nan):
        assert agree(model, report.program.module(), (torch.tensor([value], dtype=torch.float64),))


def test_a_check_that_the_program_cannot_be_seen_to_make_is_not_taken_for_made():
    class Many(torch.nn.Module):
        def forward(self, *xs):
            if xs[0].min() < 0:
                message = "negative"
                raise ValueError(message)
            return xs[0].sqrt()

    report = check(Many(), (EXAMPLE,), dynamic_shapes=(({0: Dim("n", min=1, max=8)},),))
    assert report.status != "proved" or agree(Many(), report.program.module(), (torch.tensor([-1.0]),))


def test_what_python_itself_would_catch_is_refused():
    class Held:
        def __init__(self, x):
            self.x = x

        @property
        def positive(self):
            torch._check_with(AttributeError, (self.x > 0).all().item(), lambda: "not positive")
            return 1

    model = type("Model", (torch.nn.Module,), {"forward": lambda _, x: x + getattr(Held(x), "positive", 5)})()
    with pytest.raises(UsageError, match="whether the check fails depends on data"):
        check(model, (EXAMPLE,), dynamic_shapes={"x": {0: Dim("n", min=1, max=8)}})


@pytest.mark.thorough
def test_a_model_that_cannot_be_traced_leaves_nothing_behind():
    """The fault: a frame that held itself kept a guard of torch's, which another collection of garbage let go."""
    shapes = {"x": {0: Dim("n", min=1, max=8)}}
    quantized = model_of("return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()")
    with pytest.raises(UsageError):
        check(quantized, (EXAMPLE,), dynamic_shapes=shapes)
    gc.collect()
    assert check(model_of("return x[x > 0]"), (EXAMPLE,), dynamic_shapes=shapes).status == "proved"


def test_a_comparison_that_a_jump_leads_to_is_left_as_it_is():
    def chosen(x, flag):
        return x is (True if flag else False)  # noqa: SIM210 - the point

    made = types.FunctionType(rewritten(chosen.__code__, "file", frozenset()), {})
    assert [made(True, True), made(True, False), made(False, False)] == [True, False, True]


SEES = {
    "the class of an input": "type(x) is torch.Tensor",
    "the class of a size": "n.__class__ is int",
    "a function in a dict": "TABLE[rows] == 1 and asked['whole'](n)",
    "a function with defaults": "whole(n)",
    "the class of a result": "type(x * 2) is torch.Tensor",
    "a class in a pattern": "matched(n)",
    "a class in a pattern, of a ratio": "matched(n / 2)",
    "what an integer is made of": "(n.real, n.numerator, n.conjugate(), n.imag, n.denominator) == (n, n, n, 0, 1)",
    "a function in a table": "rows in TABLE and TABLE[rows] == 1 and LISTED[0] is rows",
    "a number of numpy's": "n == np.int64(n + 0) if n < 0 else not n == np.int64(-7)",
}


def matched(number):
    match number:
        case int(whole):
            return whole == number
        case float(ratio):
            return ratio == number
    return False


def rows(x):
    return len(x)


def whole(n, is_whole=lambda n: isinstance(n, int)):
    return is_whole(n)


TABLE, LISTED = {rows: 1}, [rows]


class TwoPlaces(torch.nn.Module):
    """The activation is in two places: torch hands out each module in another class, made on the way."""

    def __init__(self):
        super().__init__()
        shared = torch.nn.ReLU()
        self.first, self.second = torch.nn.Sequential(shared), torch.nn.Sequential(shared)
        self.down = torch.nn.Identity()

    def forward(self, x):
        if type(self.down) is torch.nn.Identity and self.down.__class__ is torch.nn.Identity and x.shape[0] == 7:
            return x * 2
        return self.second(self.first(x))


DOUBLES_SEVENS = "return x * 2 if isinstance(n, int) and n == 7 else x"


def doubles_sevens(_, args, result):
    n = args[0].shape[0]
    return result * 2 if isinstance(n, int) and n == 7 else result


def hooked():
    model = torch.nn.ReLU()
    model.register_forward_hook(doubles_sevens)
    return model


@pytest.mark.parametrize("model", [TwoPlaces, hooked])
def test_what_hooks_and_shared_modules_see_is_what_eager_has(model):
    report = check(model(), (EXAMPLE,), dynamic_shapes=({0: Dim("n", min=1, max=8)},))
    assert report.status == "refuted"
    assert report.diagnostics[0].witness == {"input.shape[0]" if model is hooked else "x.shape[0]": 7}


@pytest.mark.thorough
def test_a_long_function_is_rewritten_too():
    """A number beyond a byte is written in two instructions."""
    many = "\n".join(f"a{k} = x.shape[0] + {k + 1000}" for k in range(300))
    names = "\n".join(f"x.attribute_{k}" for k in range(300))
    lines = (
        SIZE,
        many,
        f"if n < 0:\n{textwrap.indent(names, '    ')}",
        "return x * 2 if isinstance(n, int) and n == 7 else x",
    )
    assert judged(*lines) == "refuted"


def test_a_module_that_has_a_name_like_one_of_pythons_is_rewritten_but_for_that():
    scope = {"max": torch.max}
    assert (
        judged(SIZE, "v = max(x)", "return x * 2 if isinstance(n, int) and n == 7 else x + v", scope=scope) == "refuted"
    )


@pytest.mark.parametrize("sees", SEES)
def test_what_code_sees_of_a_number_or_a_tensor_is_what_eager_has(sees):
    """A trace that saw something else would never ask about the one size."""
    scope = {"matched": matched, "rows": rows, "TABLE": TABLE, "LISTED": LISTED, "whole": whole}
    scope["asked"] = {"whole": whole}
    lines = SIZE, f"g = {SEES[sees]}", "return x * 2 if g and n == 7 else x + rows(x)"
    assert judged(*lines, scope=scope) == "refuted"


REFUSED = {
    "hasattr(n, 'to_bytes')": "the model reads `to_bytes` of a size",
    "n == fractions.Fraction(7)": "torch cannot compare a size with a Fraction",
    "n != decimal.Decimal(7)": "torch cannot compare a size with a Decimal",
    "complex(7) == n": "torch cannot compare a size with a complex",
}


@pytest.mark.parametrize("asked", REFUSED)
def test_what_a_size_has_not_is_refused(asked):
    said = judged(
        SIZE, f"return x * 2 if {asked} and n == 7 else x", scope={"fractions": fractions, "decimal": decimal}
    )
    assert REFUSED[asked] in said


@pytest.mark.parametrize("line", ["{n: 1}; g = 1", "g = n.bit_count() > 0"])
def test_a_refusal_that_the_model_catches_is_said_all_the_same(line):
    text = f"try:\n    {line}\nexcept (TypeError, AttributeError):\n    g = 0"
    said = judged(SIZE, text, "return x * 2 if g and n == 7 else x")
    assert "a size" in said
    assert "protocol_" in said
