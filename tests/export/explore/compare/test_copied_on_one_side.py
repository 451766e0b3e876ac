"""A copy that only one of two programs makes: for inputs that lie otherwise than the example it may show.

Law: of any input, the program returns what eager does, strides and shared memory included, or refuses it by its layout.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional as F

from shapeproof.contract.outside import OutsideDomain
from shapeproof.export import Dim, check
from tests.calling import Calls

SHAPES = {"x": {0: Dim("b", min=1, max=3), 1: Dim("n", min=1, max=5)}}
HEAD = torch.rand(2, 3)


def odd(x):
    return x.shape[1] % 2 == 1


def contiguous(x):
    y = x * 2
    return y.contiguous() if odd(x) else y


def viewed(x):
    y = x * 2
    return (y.contiguous() if odd(x) else y).view(-1)


def of_a_view(x):
    y = x.reshape(x.shape[0], -1, 3)
    return y.contiguous() if odd(x) else y


def repeated(x):
    return (x.repeat(1, 1, 1) if odd(x) else x) + 1


def replicated(x):
    y = x.transpose(1, 2)
    n = x.shape[1]
    return (F.pad(y, (0, 2 - n % 2), mode="replicate") if n % 2 else y) * 2


def of_an_expanded(x):
    n = x.shape[1]
    y = F.pad(x, (0, 0, 0, 2 - n % 2)) if n % 2 else x
    return (y.mT + 1).mT.reshape(-1).view(-1) + (y.mT * 2).stride(1)


def padded_and_cropped(x):
    n = x.shape[1]
    y = (F.pad(x, (0, 0, 0, 2 - n % 2)) if n % 2 else x) * 2
    return y[:, :n].contiguous() if n % 2 else y


def carried(x):
    h = x[0] * 1
    for row in x:
        h = h + row
    return h


def carried_beside_rows(x):
    h, rows = x[:, 0] * 1, []
    for i in range(x.shape[1]):
        h = h + x[:, i]
        rows.append(h)
    rows = torch.stack(rows, 1)
    return rows, h


TELLING = [
    *(contiguous, viewed, of_a_view, repeated, replicated, of_an_expanded, padded_and_cropped),
    *(carried, carried_beside_rows),
]


def layouts(b, n):
    x = torch.rand(b, n, 3)
    yield x
    yield x.transpose(1, 2).contiguous().transpose(1, 2)
    yield x.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    yield torch.rand(b, 1, 3).expand(b, n, 3)
    yield torch.rand(b, 2 * n, 3)[:, ::2]


def seen(call, x):
    try:
        found = call(x)
    except OutsideDomain:
        return "refused"
    except RuntimeError:
        return "raises"
    results = found if isinstance(found, tuple) else (found,)
    return [(y.tolist(), _strides(y), y.data_ptr() == x.data_ptr()) for y in results]


def _strides(y):
    return [stride for size, stride in zip(y.shape, y.stride(), strict=True) if size > 1]


@pytest.mark.parametrize("function", TELLING)
def test_an_input_in_another_layout_is_served_as_eager_does_or_refused(function):
    report = check(Calls(function), (torch.rand(2, 3, 3),), dynamic_shapes=SHAPES)
    if report.status != "proved":
        return
    program = report.program.module()
    for b, n in itertools.product(range(1, 4), range(1, 6)):
        inputs = list(layouts(b, n))
        assert seen(program, inputs[0]) == seen(function, inputs[0])
        for x in inputs[1:]:
            assert seen(program, x) in ("refused", seen(function, x))


def test_most_of_these_are_proved():
    found = [check(Calls(each), (torch.rand(2, 3, 3),), dynamic_shapes=SHAPES).status for each in TELLING[:4]]
    assert found == ["proved"] * 4


def washed_out(x):
    y = x * 2
    return F.linear(y.contiguous() if odd(x) else y, HEAD)


def test_where_nothing_tells_how_a_copy_lies_any_layout_is_served():
    program = check(Calls(washed_out), (torch.rand(2, 3, 3),), dynamic_shapes=SHAPES).program.module()
    for x in layouts(2, 4):
        torch.testing.assert_close(program(x), washed_out(x))
