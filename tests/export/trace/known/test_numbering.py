"""What is computed twice is known to be the same, and what only looks the same is not."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.terms import constant, symbol
from shapeproof.export import check
from shapeproof.export.ops.call import Running
from shapeproof.export.trace.known.value_numbering import Numbering
from tests.agreement import agree
from tests.calling import Calls
from tests.export.trace.known.test_data_sizes import INDEX, M, X
from tests.thoroughness import examples

aten = torch.ops.aten
UNARY = (aten.neg.default, aten.abs.default, aten.clone.default, aten.detach.default, aten.cumsum.default)
BINARY = (aten.add.Tensor, aten.gt.Tensor, aten.where.ScalarSelf, aten.cat.default)
VIEWS = (aten.select.int, aten.slice.Tensor, aten.view.default, aten.as_strided.default)
WRITING = (aten.add_.Scalar, aten.zero_.default, aten.copy_.default)
DRAWING = (aten.rand_like.default, aten.bernoulli.default)


@st.composite
def calls(draw, pool):
    """An operator, and its arguments out of the pool."""
    one = draw(st.sampled_from(pool))
    func = draw(st.sampled_from(UNARY + BINARY + VIEWS + WRITING + DRAWING))
    small = draw(st.integers(0, 1))
    rest = {
        aten.cumsum.default: (0,),
        aten.add.Tensor: (draw(st.sampled_from(pool)),),
        aten.gt.Tensor: (draw(st.sampled_from(pool)),),
        aten.select.int: (0, small),
        aten.slice.Tensor: (0, small, 2),
        aten.view.default: ([-1],),
        aten.as_strided.default: ([2], [1], small),
        aten.add_.Scalar: (small,),
        aten.copy_.default: (draw(st.sampled_from(pool)),),
    }
    if func is aten.cat.default:
        return func, ([one, draw(st.sampled_from(pool))],)
    if func is aten.where.ScalarSelf:
        return func, (one > 0, small, one)
    return func, (one, *rest.get(func, ()))


@pytest.mark.thorough
@given(data=st.data())
def test_tensors_with_one_number_are_equal(data):
    """Law: at any moment of any program."""
    torch.manual_seed(0)
    numbering = Numbering(constant)
    pool = [torch.tensor([1.0, -2.0, 3.0]), torch.tensor([1.0, -2.0, 3.0])]
    for _ in range(data.draw(st.integers(2, 8))):
        func, args = data.draw(calls(pool))
        try:
            result = func(*args)
        except (IndexError, RuntimeError):
            continue
        numbering.note(func, args, {}, (result,))
        pool.append(result)
        seen = {}
        for tensor in pool:
            other = seen.setdefault(numbering.of(tensor), tensor)
            assert other.dtype == tensor.dtype
            assert torch.equal(other, tensor)


def test_the_same_elements_in_another_layout_may_round_otherwise():
    numbering = Numbering(constant)
    rows = torch.rand(2, 3)
    columns = rows.t().contiguous().t()
    numbering.note(aten.clone.default, (rows,), {}, (columns,))
    assert numbering.of(columns) == numbering.of(rows)
    results = [each.exp() for each in (rows, rows, columns)]
    for each, result in zip((rows, rows, columns), results, strict=True):
        numbering.note(aten.exp.default, (each,), {}, (result,))
    assert numbering.of(results[0]) == numbering.of(results[1]) != numbering.of(results[2])


def numbered(*steps):
    """The numbers of what calls give, where each is made on the first tensor and the last result."""
    numbering, x = Numbering(constant), torch.tensor([1.0, -2.0, 3.0])
    found = []
    for func, *rest in steps:
        result = func(x, *rest)
        numbering.note(func, (x, *rest), {}, (result,))
        found.append(numbering.of(result))
    return found


def test_the_same_call_on_the_same_operands_gives_the_same():
    first, other, again = numbered((aten.gt.Scalar, 0), (aten.gt.Scalar, 1), (aten.gt.Scalar, 0))
    assert first == again != other
    first, written, again = numbered((aten.select.int, 0, 0), (aten.add_.Scalar, 1), (aten.select.int, 0, 0))
    assert len({first, written, again}) == 3


def test_each_number_that_one_run_of_an_operator_takes_is_its_own():
    numbering, x = Numbering(constant), torch.ones(3)
    names = iter("abcd")
    runs = [Running(aten._unique2.default, (x,), {}) for _ in range(2)]
    taken = [[numbering.taken(run, lambda: symbol(next(names))) for _ in range(2)] for run in runs]
    assert taken == [[symbol("a"), symbol("b")]] * 2


def taken(func, *args, **kwargs):
    """What is taken from a mask: how many rows it selects, and the number that an operator makes of it."""
    numbering, mask = Numbering(constant), args[0]
    rows = numbering.taken(Running(aten.nonzero.default, (mask,), {}), lambda: symbol("rows"))
    result = func(*args, **kwargs)
    numbering.note(func, args, kwargs, (result,))
    return rows, numbering.taken(Running(aten.item.default, (result,), {}), lambda: symbol("other"))


MASK, WHOLE = torch.tensor([[True, False], [True, True]]), torch.tensor([[2, 0], [1, 1]])


@pytest.mark.parametrize(
    "call",
    [
        (aten.sum.default, MASK),
        (aten.sum.dim_IntList, MASK, [0, 1]),
        (aten.count_nonzero.default, MASK),
        (aten.count_nonzero.default, WHOLE),
    ],
)
def test_a_mask_selects_as_many_rows_as_it_sums_up_to(call):
    assert taken(*call) == (symbol("rows"), symbol("rows"))
    assert aten.nonzero(call[1]).shape[0] == call[0](*call[1:]).item()


def test_another_sum_is_another_number():
    """Of numbers, of a part, or where it may wrap around."""
    assert taken(aten.sum.default, WHOLE)[1] == symbol("other")
    assert taken(aten.sum.dim_IntList, MASK[:1], [0])[1] == symbol("other")
    assert taken(aten.sum.default, MASK, dtype=torch.int8)[1] == symbol("other")


def masks_computed_anew(x, i):
    return torch.where(x[i > 0] > 0, x[i > 0], x[i > 0] * 2)


def a_mask_of_a_view(x, i):
    return x[i.view(-1) > 0] + i[i.clone().view(-1) > 0]


def an_item_taken_twice(x, i):
    torch._check(i[0].item() == 1)
    return x * 2 if i[0].item() == 1 else x


def a_loop_over_an_item(x, i):
    torch._check(i[0].item() == 1)
    count = 0
    while count < i[0].item():
        count, x = count + 1, x + 1
    return x


def distinct_values_taken_twice(x, i):
    return torch.unique(i) + torch.unique(i, return_counts=True)[1] + x.sum()


def a_sum_taken_twice(x, i):
    return x[: (i > 0).sum().item()] + x[: (i > 0).sum().item()]


def rows_and_their_count(x, i):
    count = (i > 0).sum().item()
    return x[i > 0].view(count) + torch.arange(count), x.masked_select(i > 0) + torch.zeros(count)


def a_number_computed_from_a_number(x, i):
    whole = i[0].clamp(-3, 9)
    count = whole.item()
    torch._check(count >= 0)
    return x.new_zeros((whole // 2 + 1).item()) + x.new_zeros(count // 2 + 1)


SAME = [
    a_number_computed_from_a_number,
    rows_and_their_count,
    masks_computed_anew,
    a_mask_of_a_view,
    an_item_taken_twice,
    a_loop_over_an_item,
    distinct_values_taken_twice,
    a_sum_taken_twice,
]
SHAPES = {"x": {0: M}, "i": {0: M}}


@pytest.mark.thorough
@pytest.mark.parametrize("function", SAME, ids=lambda function: function.__name__)
def test_what_is_computed_twice_is_known_to_be_the_same(function):
    model = Calls(function)
    report = check(model, (X, INDEX), dynamic_shapes=SHAPES)
    assert report.status == "proved", str(report)
    for run in (report.program.module(), report.program.run_decompositions().module()):
        for size in (1, 2, 5, 16):
            for low, high in ((0, 1), (-3, 9), (1, 3)):
                assert agree(model, run, (torch.randn(size), torch.randint(low, high, (size,))))


def written_in_between(x, i):
    i = i.clone()
    kept = x[i > 0]
    i.add_(1)
    return kept + x[i > 0]


def written_through_a_view(x, i):
    i = i.clone()
    kept = x[i > 0]
    i[:1] = 1
    return kept + x[i > 0]


def computed_after_a_write(x, i):
    whole = i[0].clamp(0, 9)
    kept = whole.item()
    whole.copy_(i[-1].clamp(0, 9))
    return x.new_zeros(kept) + x.new_zeros(whole.item())


def another_element(x, i):
    """A view of one element has the storage of all."""
    i = i.clamp(0, 9)
    return x.new_zeros(i[0].item()) + x.new_zeros((i[-1] + 0).item())


def another_mask(x, i):
    return x[i > 0] + x[i > 1]


def compared_by_where(x, i):
    """What the branch on a guess denies is checked later: torch itself gives up there."""
    return torch.where(x[i > 0] > 0, x[i > 1], x[i > 2])


DIFFERENT = [
    written_in_between,
    written_through_a_view,
    another_mask,
    compared_by_where,
    computed_after_a_write,
    another_element,
]


@pytest.mark.thorough
@pytest.mark.parametrize("function", DIFFERENT, ids=lambda function: function.__name__)
def test_what_only_looks_the_same_is_asked_for(function):
    """Sizes that may differ broadcast in eager where one of them is 1; the program checks that they are equal."""
    report = check(Calls(function), (X, INDEX), dynamic_shapes=SHAPES)
    assert (report.status, {found.id for found in report.diagnostics}) == ("refuted", {"data-dependent"})
    assert all(re.search(r"`(u0|kept(\.shape\[0\])?) == u[12]`$", found.message) for found in report.diagnostics)


class ByRows(torch.nn.Module):
    """The grids of a vision model: each row is read as tensors, whose quotients are sizes."""

    def forward(self, grid):
        return torch.cat([self.positions(h, w) for h, w in grid])

    def positions(self, h, w):
        rows = torch.arange(h).unsqueeze(1).expand(-1, w)
        return rows.reshape(h // 2, 2, w // 2, 2).permute(0, 2, 1, 3).flatten()


@pytest.mark.thorough
def test_half_of_a_number_from_data_is_known_as_half_of_it():
    """The fault: `h // 2` of a tensor was a number of its own, and each pair of such sizes had regions of its own."""
    report = check(ByRows(), (torch.tensor([[4, 6], [2, 4]]),), dynamic_shapes=(None,))
    assert report.status == "proved", str(report)
    program = report.program.module()
    grids = ([[a, b], [2, 4]] for a in range(-2, 5) for b in range(-2, 5))
    assert all(agree(ByRows(), program, (torch.tensor(grid),)) for grid in grids)


STEPS = {
    "half": lambda a, _: a // 2,
    "remainder": lambda a, _: a % 3,
    "next": lambda a, _: a + 1,
    "double": lambda a, _: a * 2,
    "negative": lambda a, _: -a,
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
}
EXTREMES = (0, 1, -1, 2, 5, -7, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63))


@pytest.mark.thorough
@settings(max_examples=examples(20))
@given(steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.booleans()), min_size=1, max_size=3))
def test_numbers_computed_from_numbers_wrap_around_as_in_eager(steps):
    """Law: tensors wrap around at 64 bits, Python's ints do not; the program finds them unequal where eager does."""

    def forward(g):
        tensors, numbers = list(g), g.tolist()
        for name, swapped in steps:
            at, other = (1, 0) if swapped else (0, 1)
            for values in (tensors, numbers):
                values[at] = STEPS[name](values[at], values[other])
        for tensor, number in zip(tensors, numbers, strict=True):
            torch._check(tensor.item() == number)
        return g + 1

    report = check(Calls(forward), (torch.tensor([4, 6]),), dynamic_shapes={"g": None})
    assert report.status == "proved", str(report)
    program = report.program.module()
    points = ((a, b) for a in EXTREMES for b in EXTREMES)
    assert all(agree(Calls(forward), program, (torch.tensor(point),)) for point in points)
