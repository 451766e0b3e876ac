"""Sizes stay sizes where a model asks Python for plain numbers, and its code does what it did otherwise."""

from __future__ import annotations

import copy
import dis
import functools
import math
import types
from math import sqrt

import numpy as np
import pytest
import torch
from torch.export import Dim
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

from shapeproof.export import check, export
from shapeproof.export.trace.python.builtins import kept_symbolic
from tests.agreement import agree

calls = 0


def rows_of(windows, size):
    """As window attention is written: a number of rows by way of a float."""
    return int(windows.shape[0] / (4 / size))


def through(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def half_counted(n):
    global calls  # noqa: PLW0603 - that it writes a global name is the point
    calls += 1
    return int(n * 0.5)


class Scales(torch.nn.Module):
    def forward(self, x):
        return x[: int(x.shape[0] * 0.5)]


class Measures(torch.nn.Module):
    def forward(self, x):
        return torch.arange(len(x)) + x / float(x.shape[0])


class AsksAHelper(torch.nn.Module):
    def forward(self, x):
        return x[: rows_of(x, 2)]


class AsksInAComprehension(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x[: int(x.shape[0] / k)] for k in (1, 2)])


class AsksBehindADecorator(torch.nn.Module):
    @through
    def forward(self, x):
        return x[: int(x.shape[0] / 2)]


class AsksInAMethodOfItsBase(Scales):
    def forward(self, x):
        return self.half(x) * 2

    def half(self, x):
        return x[: int(x.shape[0] / 2)]


class TakesIntAsAType(torch.nn.Module):
    """The name is called in one place and is a type in the others."""

    def forward(self, x):
        n = int(x.shape[0] / 2)
        return x[:n].to(int) if isinstance(3, int) and int in {int: 0} else x


class TakesRoots(torch.nn.Module):
    """A square of patches, as vision models make it, in three spellings."""

    def forward(self, x):
        sides = int(math.sqrt(x.shape[0])), int(sqrt(x.shape[0])), int(np.sqrt(x.shape[0]))
        return [x[: side * side].view(side, side) for side in sides] + [math.sqrt(2.0), np.float32(3.0).item()]


class TakesWholeRoots(torch.nn.Module):
    def forward(self, x):
        side = math.isqrt(x.shape[0])
        return x[: side * side].view(side, side), math.isqrt(10)


class FitsIntoABox(torch.nn.Module):
    """As images are scaled to fit: by the smaller of two ratios."""

    def forward(self, x):
        rows, width = x.shape[0], 6
        ratio = min(8 / rows, 8 / width)
        size = max(1, round(rows * ratio)), max(1, round(width * ratio))
        image = x[None, None, :, None].expand(1, 1, rows, width)
        scaled = torch.nn.functional.interpolate(image, size=size, mode="bilinear")
        return scaled * max(rows / 4, 1.0), torch.arange(3) * max(1, rows // 5), min([3, 1]), max(2, 7.5)


class Reduces(torch.nn.Module):
    """By the greatest common divisor of a size and a number: Euclid's turns are branches."""

    def forward(self, x):
        return x.view(math.gcd(x.shape[0], 4), -1), math.gcd(12, 18)


class Halves:
    """A helper that is no module, and one of its own."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, n):
        return self.of(n, self.scale)

    @staticmethod
    def of(n, scale=0.5):
        return int(n * scale)

    @classmethod
    def more(cls, n):
        return cls.of(n) + len(torch.zeros(n))

    @property
    def by(self):
        return lambda n: float(n) * self.scale


class AsksObjects(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.halves = Halves(0.5)

    def forward(self, x):
        n = x.shape[0]
        ends = [self.halves(n), Halves.of(n), Halves(0.25)(n), self.halves.more(n) - n]
        return [x[:end] for end in ends], x * self.halves.by(n)


class AsksItsBase(AsksObjects):
    """By super(), which looks the function up in the class."""

    def forward(self, x):
        halves, scaled = super().forward(x)
        return *halves, scaled + 1


class IsPatched(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.forward = types.MethodType(Scales.forward, self)


@functools.lru_cache
def triangle(n, k):
    return torch.ones(n, n).tril(int(k / 2))


@functools.cache
def made_once():
    return torch.rand(3)


class Remembers(torch.nn.Module):
    """A mask is made once for each size; a size of no value yet cannot be looked up."""

    def __init__(self):
        super().__init__()
        made_once()

    @functools.cache  # noqa: B019 - as it is written
    def falling(self, n):
        return torch.arange(n).flip(0)

    def forward(self, x):
        return triangle(x.shape[0], k=2) @ x + self.falling(len(x)) + made_once().sum()


class DividesWithRemainder(torch.nn.Module):
    def forward(self, x):
        rows, rest = divmod(x.shape[0], 3)
        return x[rest:].view(rows, 3), divmod(7, 3)


class AsksInABranchOnData(torch.nn.Module):
    """Dynamo reads the branches, and looks for the names that they use."""

    def forward(self, x):
        half = int(x.shape[0] / 2)

        def above(x):
            return x * int(2.5) + rows_of(x, 2) * math.sqrt(2.0)

        def below(x):
            return x + half + len(x) / math.pi

        return torch.cond(x.sum() > 0, above, below, (x,))


class TakesACount(torch.nn.Module):
    def forward(self, x, lengths):
        longest = int(lengths.max())
        torch._check(longest >= 0)
        torch._check(longest <= x.shape[0])
        return x[:longest]


class MapsPythonsFunctions(torch.nn.Module):
    def forward(self, x):
        kinds = set(map(type, x.shape))
        return (
            x * sum(map(int, x.shape)) + sum(map(len, [x, x])) + sum(map(float, x.shape)) + (1 if kinds == {int} else 2)
        )


MODELS = [
    Scales,
    Measures,
    AsksAHelper,
    AsksInAComprehension,
    AsksBehindADecorator,
    AsksInAMethodOfItsBase,
    TakesIntAsAType,
    TakesRoots,
    DividesWithRemainder,
    AsksObjects,
    AsksItsBase,
    IsPatched,
    TakesWholeRoots,
    Remembers,
    FitsIntoABox,
    MapsPythonsFunctions,
]


@pytest.mark.parametrize("model", MODELS)
def test_a_size_stays_a_size_where_python_is_asked_for_a_plain_number(model):
    program = export(model(), (torch.randn(6),), dynamic_shapes=({0: Dim("n", min=1, max=40)},))
    assert program.report.status == "proved"
    assert all(agree(model(), program.module(), (torch.randn(n),)) for n in (1, 2, 3, 39, 40))


@pytest.mark.thorough
def test_the_branches_of_a_condition_on_data_are_read_with_the_names_they_use():
    program = export(AsksInABranchOnData(), (torch.randn(6),), dynamic_shapes=({0: Dim("n", min=1, max=40)},))
    assert program.report.status == "proved"
    inputs = [sign * torch.ones(n) for n in (1, 2, 3, 40) for sign in (1, -1)]
    assert all(agree(AsksInABranchOnData(), program.module(), (x,)) for x in inputs)


class Attends(torch.nn.Module):
    """torch's parser of arguments takes no condition on sizes for a bool."""

    def forward(self, q):
        causal = q.shape[-2] > 1
        several = functional.scaled_dot_product_attention, scaled_dot_product_attention
        return [torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=causal)] + [
            attention(q, q, q, is_causal=causal and q.dim() == 4) for attention in several
        ]


def test_a_condition_that_an_operator_wants_as_a_bool_is_a_branch():
    model, example = Attends(), (torch.randn(1, 2, 5, 4),)
    longer = check(model, example, dynamic_shapes=({2: Dim("t", min=2, max=9)},))
    assert longer.status == "proved", str(longer)
    assert all(agree(model, longer.program.module(), (torch.randn(1, 2, t, 4),)) for t in (2, 9))
    several = check(model, example, dynamic_shapes=({2: Dim("t", min=1, max=9)},), branches="split")
    assert several.status == "proved", str(several)
    assert all(agree(model, several.program.module(), (torch.randn(1, 2, t, 4),)) for t in (1, 2, 9))


@pytest.mark.thorough
def test_a_common_divisor_is_known_where_the_domain_settles_it_and_splits_it_where_not():
    multiples = check(Reduces(), (torch.randn(12),), dynamic_shapes=({0: 4 * Dim("k", min=1, max=9)},))
    assert multiples.status == "proved", str(multiples)
    every = check(Reduces(), (torch.randn(12),), dynamic_shapes=({0: Dim("n", min=1, max=36)},), branches="split")
    assert (every.status, len(every.program.programs)) == ("proved", 3), str(every)
    assert all(agree(Reduces(), every.program.module(), (torch.randn(n),)) for n in (1, 2, 4, 6, 35, 36))


def test_the_number_in_a_tensor_is_a_size_that_is_taken_from_data():
    shapes = ({0: Dim("n", min=1, max=40)}, None)
    program = export(TakesACount(), (torch.randn(6), torch.tensor([2, 5])), dynamic_shapes=shapes)
    assert program.report.status == "proved"
    assert all(agree(TakesACount(), program.module(), (torch.randn(7), torch.tensor([0, k]))) for k in (0, 1, 7))


def test_a_difference_at_a_plain_number_is_still_found():
    class Rounds(torch.nn.Module):
        def forward(self, x):
            return x * 2 if int(x.shape[0] * 0.29) == 28 else x

    report = check(Rounds(), (torch.randn(6),), dynamic_shapes=({0: Dim("n", min=1, max=120)},))
    assert report.status == "refuted"
    assert {d.witness["x.shape[0]"] for d in report.diagnostics} <= {97, 98, 99}


def test_the_model_its_class_and_its_module_are_left_as_they_are():
    model, names = AsksAHelper(), set(globals())
    before = dict(vars(model)), AsksAHelper.forward, rows_of, rows_of.__code__
    with kept_symbolic(copy.deepcopy(model)):
        assert rows_of is before[2]
        assert rows_of.__code__ is not before[3]
    assert (dict(vars(model)), AsksAHelper.forward, rows_of, rows_of.__code__) == before
    assert set(globals()) == names


def test_classes_are_as_they_were_after_a_trace_that_fails():
    written = AsksAHelper.forward
    with pytest.raises(KeyError), kept_symbolic(AsksAHelper()):
        raise KeyError
    assert AsksAHelper.forward is written


def test_a_helper_that_assigns_a_global_name_shares_it_with_all():
    class Counts(torch.nn.Module):
        def forward(self, x):
            before = calls
            return x[: half_counted(x.shape[0])] * (calls - before)

    program = export(Counts(), (torch.ones(6),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))
    assert program.report.status == "proved"
    for n in range(2, 9):
        assert agree(Counts(), program.module(), (torch.arange(float(n)),))


def plain(text, *more, base=10, **named):
    scale = 2

    def inner(value):
        return [int(value, base), len(text), *(len(each) * scale for each in more), float("1.5"), sorted(named)]

    roots = [math.sqrt(2), sqrt(3), np.sqrt([4.0, 9.0]).tolist(), math.floor(2.5), np.full(2, 7).tolist()]
    return [*inner(text), int(3.9), int("z", base=36), len({1, 2}), isinstance(int("1"), int), divmod(-7, 2), *roots]


class Plain(torch.nn.Module):
    def forward(self, *args, **kwargs):
        return plain(*args, **kwargs)


def test_what_is_no_size_is_converted_as_python_does():
    written, right = plain, Plain()("12", "ab", "c", base=8, k=1)
    with kept_symbolic(Plain()):
        assert plain is written
        assert Plain()("12", "ab", "c", base=8, k=1) == right
    for wrong in [("x",), (3,)]:
        with pytest.raises((TypeError, ValueError)) as theirs:
            Plain()(*wrong)
        said = str(theirs.value).replace("(", "\\(").replace(")", "\\)")
        with kept_symbolic(Plain()), pytest.raises(theirs.type, match=said):
            Plain()(*wrong)


def test_canary_the_last_bit_of_a_global_name_says_that_it_is_called():
    code = (lambda x: int(x) if isinstance(x, int) else int).__code__
    bits = [found.arg & 1 for found in dis.get_instructions(code) if found.argval == "int"]
    assert bits == [0, 1, 0]


def test_equal_code_of_two_files_keeps_its_file():
    """Python takes codes for equal that differ in their file alone; a diagnostic would name the other one's."""

    def forward(_, x):
        return x[: int(x.shape[0] / 2)]

    files = []
    for file in ("one.py", "two.py"):
        here = types.FunctionType(forward.__code__.replace(co_filename=file), globals())
        model = type("Model", (torch.nn.Module,), {"forward": here})
        with kept_symbolic(model()):
            files.append(model.forward.__code__.co_filename)
    assert files == ["one.py", "two.py"]


class GoesRoundTwice(torch.nn.Module):
    def forward(self, x):
        total = x.sum()
        for row in range(x.shape[0] - 2, x.shape[0]):
            total = total * 2 + x[row]
        return total


def test_a_loop_asks_how_often_it_goes_round():
    program = export(GoesRoundTwice(), (torch.randn(6),), dynamic_shapes=({0: Dim("n", min=2, max=40)},))
    assert program.report.status == "proved"
    assert all(agree(GoesRoundTwice(), program.module(), (torch.randn(n),)) for n in (2, 3, 40))


@pytest.mark.thorough
@pytest.mark.parametrize("step", [1, 3, -2])
def test_a_range_of_sizes_has_the_numbers_that_it_has_in_python(step):
    class Lists(torch.nn.Module):
        def forward(self, x, start, stop):
            return x, [*range(start, stop, step)], [*range(2, stop, step)]

    shapes = (None, *(torch.export.Dim.DYNAMIC(min=0, max=4) for _ in range(2)))
    report = check(Lists(), (torch.zeros(1), 3, 2), dynamic_shapes=shapes, branches="split")
    assert report.status == "proved", str(report)
    run = report.program.module()
    for start in range(5):
        for stop in range(5):
            assert agree(Lists(), run, (torch.zeros(1), start, stop))


def test_an_attribute_with_the_name_of_a_builtin_is_read_as_it_is():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x.to(dtype=torch.float) * float(x.shape[0])

    assert check(Model(), (torch.randn(3),), dynamic_shapes=({0: Dim("n")},)).status == "proved"


def to_the_power_of_twenty(x):
    """As a float, a number of more than 53 bits is rounded; as an integer it is not."""
    return x.new_ones(3) * (math.pow(x.shape[0], 20) % 7)


def of_plain_numbers(x):
    """8.0, where torch's exporter would give 8."""
    return x.new_full((2,), math.pow(2, 3) / 3 + math.sqrt(x.shape[0])), torch.full((2,), math.pow(2, 3))


@pytest.mark.parametrize("forward", [to_the_power_of_twenty, of_plain_numbers])
def test_a_power_of_math_is_one_of_floats(forward):
    mod = type("Model", (torch.nn.Module,), {"forward": staticmethod(forward)})()
    program = export(mod, (torch.randn(4, 2),), dynamic_shapes=({0: Dim("n", min=0, max=8)},))
    assert all(agree(mod, program.module(), (torch.randn(n, 2),)) for n in range(9))


@pytest.mark.parametrize(
    "forward",
    [
        lambda x, y: max(x.sum(), y.sum()),
        lambda x, y: min([x.sum(), y.sum(), x.mean()]),
        lambda x, y: max(each.sum() for each in (x, y)),
        lambda x, y: min(torch.stack([x.sum(), y.sum()])) * 2,
    ],
    ids=["max", "min of a list", "max of a generator", "min of a tensor"],
)
def test_the_larger_of_two_tensors_is_pythons(forward):
    """`max(8.0, nan)` is 8.0, and `max(nan, 8.0)` is nan: torch's exporter makes both nan."""
    mod = type("Model", (torch.nn.Module,), {"forward": staticmethod(forward)})()
    rows = {0: Dim("n", min=1, max=9)}
    run = export(mod, (torch.randn(3, 2), torch.randn(3, 2)), dynamic_shapes=(rows, {})).module()
    numbers = (1.0, -2.0, math.nan, math.inf)
    assert all(agree(mod, run, (torch.full((2, 2), a), torch.full((3, 2), b))) for a in numbers for b in numbers)


def test_the_larger_of_two_kinds_is_a_question_about_data():
    mod = type("Model", (torch.nn.Module,), {"forward": staticmethod(lambda x: max(x.sum(), 1.0))})()
    report = check(mod, (torch.ones(3, 2),), dynamic_shapes=({0: Dim("n", min=0, max=9)},))
    assert report.status == "refuted", str(report)
