"""`if n % 4: x = pad(x, ...)` is one program: an amount is a remainder, and padding by 0 is compared as a copy."""

from __future__ import annotations

import itertools
import operator

import pytest
import torch
from torch.nn import functional as F

from shapeproof.contract.outside import OutsideDomain
from shapeproof.export import Dim, check
from tests.agreement import agree
from tests.calling import Calls

SHAPES = {"x": {0: Dim("b", min=1, max=3), 2: Dim("n", min=1, max=9)}}
FROM_NONE = {"x": {0: Dim("b", min=0, max=3), 2: Dim("n", min=0, max=9)}}
HEAD = torch.rand(5, 2)
STEP = torch.nn.Conv1d(2, 3, 4, 4).requires_grad_(False)


def padded(x):
    if x.shape[2] % 4:
        x = F.pad(x, (0, 4 - x.shape[2] % 4))
    return x


def cut_again(x):
    y = F.conv_transpose1d(STEP(padded(x)), STEP.weight, stride=4)
    return y[..., : x.shape[2]] * 2


def by_name(x):
    return STEP(F.pad(x, mode="constant", pad=[0, 4 - x.shape[2] % 4], value=0.0) if x.shape[2] % 4 else x)


def unless_it_fits(x):
    if not x.shape[2] % 4 == 0:  # noqa: SIM201 - as models write it
        x = F.pad(x, (0, 4 - (x.shape[2] % 4)))
    return x.reshape(x.shape[0], -1).sum(1)


def by_two_dims(x):
    if x.shape[0] % 3:
        x = F.pad(x, (0, 0, 0, 0, 0, 3 - x.shape[0] % 3))
    return padded(x) * 2


def cropped(x):
    rest = x.shape[2] % 4
    if rest != 0:
        x = x[:, :, :-rest]
    return x.reshape(x.shape[0], 2, x.shape[2] // 4, 4).sum(3)


def padded_and_cropped(x):
    missing = -x.shape[2] % 4
    if missing > 0:
        x = F.pad(x, (0, missing))
    y = x.unflatten(2, (-1, 4)).cumsum(3).flatten(2)
    return (y[..., :-missing] if missing > 0 else y) * 2


def joined(x):
    missing = -x.shape[2] % 4
    if missing:
        x = torch.cat([x, x.new_zeros(x.shape[0], 2, missing)], 2)
    return F.linear(x.transpose(1, 2), HEAD)


def joined_before(x):
    if x.shape[2] % 4:
        x = torch.cat((torch.zeros(x.shape[0], x.shape[1], -x.shape[2] % 4), x), dim=-1)
    return torch.cat([x + 1, x * 2], 1)


ONE = [
    *(lambda x: STEP(padded(x)), lambda x: padded(x) + 1, cut_again, by_name, unless_it_fits, by_two_dims),
    *(cropped, padded_and_cropped, joined, joined_before),
]


def detached(x):
    with torch.no_grad():
        y = padded(x)
    return y * 2


def written(x):
    y = padded(x * 1)
    return y.add_(1)


def written_apart(x):
    z = x * 1
    y = padded(z)
    return y.add_(1), z


def is_the_input(x):
    y = padded(x)
    return y if y is x else y + 1


def joined_returned(x):
    return torch.cat([x, x.new_zeros(x.shape[0], 2, -x.shape[2] % 4)], 2) if x.shape[2] % 4 else x


def joined_of_another_dtype(x):
    more = torch.zeros(x.shape[0], 2, -x.shape[2] % 4, dtype=torch.float64)
    return (torch.cat([x, more], 2) if x.shape[2] % 4 else x) * 2


def joined_with_what_learns(x):
    more = LEARNS.expand(x.shape[0], 2, -x.shape[2] % 4)
    return (torch.cat([x, more], 2) if x.shape[2] % 4 else x) * 2


def joined_where_it_lies_shows(x):
    return (torch.cat([x, x.new_zeros(x.shape[0], 2, -x.shape[2] % 4)], 2) if x.shape[2] % 4 else x) + 1


def joined_and_written(x):
    y = x * 1
    z = torch.cat([y, y.new_zeros(x.shape[0], 2, -x.shape[2] % 4)], 2) if x.shape[2] % 4 else y
    z.mul_(2)
    return y + 1, z


def cropped_and_written(x):
    y = x * 1
    z = y[..., : -(x.shape[2] % 4)] if x.shape[2] % 4 else y.clone()
    z.mul_(2)
    return y, z


def cropped_beyond(x):
    return x[..., : -(x.shape[2] % 4) - 3] * 2 if x.shape[2] % 4 else x * 2


def cropped_by_strides(x):
    y = x[..., : -(x.shape[2] % 4)] if x.shape[2] % 4 else x
    return y.contiguous().view(-1), y.is_contiguous()


LEARNS = torch.nn.Parameter(torch.zeros(1, 1, 1))
OTHERS = [
    *(
        joined_returned,
        joined_of_another_dtype,
        joined_with_what_learns,
        joined_where_it_lies_shows,
        joined_and_written,
    ),
    *(cropped_and_written, cropped_beyond, cropped_by_strides),
    padded,
    lambda x: F.dropout(padded(x), 0.5, training=False),
    lambda x: padded(x).view(x.shape[0], -1),
    lambda x: padded(x.transpose(0, 2).transpose(0, 2)).flatten(1) * 2,
    lambda x: padded(x) * padded(x).stride(0),
    lambda x: STEP(F.pad(x, (0, 5 - x.shape[2] % 4)) if x.shape[2] % 4 else x),
    *(detached, written, written_apart, is_the_input),
]


def layouts(x):
    yield x
    yield x.transpose(1, 2).contiguous().transpose(1, 2)
    yield x.repeat_interleave(2, 2)[..., ::2]
    yield x[:1].expand_as(x)


def seen(call, x):
    """What a caller sees of a call: values, strides, whether it learns, whether the result is the input's memory."""
    y = call(x)
    y = y[0] if isinstance(y, tuple) else y
    return y.stride(), y.requires_grad, y.data_ptr() == x.data_ptr()


def agrees(function, report):
    program, model = report.program.module(), Calls(function)
    for b, n, learns in itertools.product(range(1, 4), range(1, 10), (False, True)):
        for x in layouts(torch.rand(b, 2, n)):
            x.requires_grad_(learns)
            try:
                found = seen(program, x)
            except OutsideDomain:  # the model has read the layout, or whether the input learns
                if x.is_contiguous() and not learns:
                    return False
                continue
            if not agree(model, program, (x.detach(),)) or seen(model, x) != found:
                return False
    return True


@pytest.mark.thorough
@pytest.mark.parametrize("at", range(len(ONE)))
@pytest.mark.parametrize("length", [8, 7])
def test_a_padding_to_a_multiple_is_one_program(at, length):
    report = check(Calls(ONE[at]), (torch.rand(2, 2, length),), dynamic_shapes=SHAPES)
    assert report.status == "proved", str(report)
    assert agrees(ONE[at], report)


@pytest.mark.thorough
@pytest.mark.parametrize("at", range(len(OTHERS)))
@pytest.mark.parametrize("length", [8, 7])
def test_where_a_copy_shows_nothing_is_claimed_wrongly(at, length):
    """No padding returns the operand, and a padding by 0 a copy: of another layout, without the operand's memory."""
    report = check(Calls(OTHERS[at]), (torch.rand(2, 2, length),), dynamic_shapes=SHAPES)
    assert report.status != "proved" or agrees(OTHERS[at], report)


def test_a_padding_that_is_by_a_fact_of_the_domain_stays_as_it_is_written():
    half = Dim("half", min=1, max=9)
    report = check(Calls(padded), (torch.rand(2, 2, 3),), dynamic_shapes={"x": {2: 4 * half - 1}})
    assert report.status == "proved", str(report)
    padding = next(node for node in report.program.graph.nodes if node.target is torch.ops.aten.pad.default)
    assert [amount.target for amount in padding.args[1][1:]] == [operator.sub]


class Levels(torch.nn.Module):
    """Each level has a branch of its own: padding by remainders, all their sides would be one trace each."""

    def __init__(self, levels):
        super().__init__()
        self.levels = torch.nn.ModuleList(torch.nn.Conv1d(2, 2, 2, 2) for _ in range(levels))

    def forward(self, x):
        for level in self.levels:
            if x.shape[2] % 2:
                x = F.pad(x, (0, 2 - x.shape[2] % 2))
            x = level(x)
            x = x[:, :, :5] if x.shape[2] > 5 else x * 2
        return x


@pytest.mark.thorough
def test_branches_with_too_many_sides_are_told_in_a_few_traces():
    """The fault: Swin was undecided after 32 traces, each of which found that the program served."""
    report = check(Levels(4), (torch.rand(2, 2, 16),), dynamic_shapes={"x": {2: Dim("n", min=1, max=64)}})
    assert report.status == "refuted", str(report)


@pytest.mark.parametrize("function", [lambda x: padded(x) * 2, joined, padded_and_cropped])
def test_a_size_of_0_is_served_too(function):
    """The fault: padded by 0, a tensor without elements has other strides than one that is not padded."""
    report = check(Calls(function), (torch.rand(2, 2, 7),), dynamic_shapes=FROM_NONE)
    assert report.status == "proved", str(report)
    inputs = [torch.rand(b, 2, n) for b, n in itertools.product(range(4), range(10))]
    assert all(agree(Calls(function), report.program.module(), (x,)) for x in inputs)


def test_an_inferred_size_is_on_either_side():
    report = check(Calls(padded_and_cropped), (torch.rand(2, 2, 7),), dynamic_shapes={"x": {2: Dim.AUTO}})
    assert report.status == "proved", str(report)
    assert all(agree(Calls(padded_and_cropped), report.program.module(), (torch.rand(2, 2, n),)) for n in range(10))
