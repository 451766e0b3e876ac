"""What promises.py says of an operator's results holds of what eager returns, and denies what eager cannot return."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from shapeproof.constraints.evaluate import holds
from shapeproof.constraints.terms import constant, symbol
from shapeproof.export.promises import PROMISING, Shape, promises

DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.complex64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32)

sizes = st.lists(st.sampled_from((0, 1, 2, 3, 0, 4)), max_size=3)


@st.composite
def tensors(draw, shapes=sizes, dtypes=DTYPES):
    """A small tensor with many equal elements and many zeros."""
    shape = draw(shapes)
    count = torch.Size(shape).numel()
    values = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return torch.tensor(values, dtype=torch.int64).reshape(shape).to(draw(st.sampled_from(dtypes)))


@st.composite
def masked(draw):
    """A tensor and a mask; of the same sizes, or such that they broadcast."""
    source = draw(tensors())
    shape = [draw(st.sampled_from((size, size, 1))) for size in source.shape]
    mask = draw(tensors(shapes=st.just(shape), dtypes=(torch.bool,)))
    return draw(st.permutations((source, mask))) if source.dtype == torch.bool else (source, mask)


@st.composite
def scalars(draw):
    """A tensor of one element, at the ends of its dtype's range or within."""
    dtype = draw(st.sampled_from(DTYPES[:-1]))
    if dtype not in INTEGERS:
        return (draw(tensors(shapes=st.just([]), dtypes=(dtype,))),)
    ends = torch.iinfo(dtype)
    value = draw(st.sampled_from((ends.min, ends.max)) | st.integers(ends.min, ends.max))
    return (torch.tensor(value, dtype=dtype).reshape(draw(st.sampled_from(([], [1], [1, 1])))),)


@st.composite
def runs(draw):
    """A tensor, flags, and maybe a dimension along which whole slices are compared."""
    source = draw(numbers)
    dimensions = st.sampled_from(range(-source.dim(), source.dim())) if source.dim() else st.nothing()
    return source, draw(flags), draw(flags), draw(st.none() | dimensions)


flags = st.booleans()
numbers = tensors(dtypes=DTYPES[:-1])
ARGUMENTS = {
    "aten.nonzero.default": st.tuples(tensors()),
    "aten.masked_select.default": masked(),
    "aten._unique2.default": st.tuples(numbers, flags, flags, flags),
    "aten.unique_consecutive.default": runs(),
    "aten._local_scalar_dense.default": scalars(),
    "aten.item.default": scalars(),
}
"""For each operator that promises something: the arguments that it is given, by position."""


def run(name, args):
    """What eager returns; an input on which it raises is none that a promise is about."""
    operator = functools.reduce(getattr, name.split("."), torch.ops)
    try:
        return operator(*args)
    except (IndexError, RuntimeError):
        assume(condition=False)


def shapes(values):
    """As shape_env.py reads them: sizes and dtype of a tensor, the value of an int, and nothing of anything else."""
    return [shape(value) for value in (values if isinstance(values, tuple | list) else (values,))]


def shape(value):
    if isinstance(value, torch.Tensor):
        return Shape(sizes=tuple(map(constant, value.shape)), dtype=str(value.dtype))
    if isinstance(value, int) and not isinstance(value, bool):
        return Shape(value=constant(value))
    return None


def test_every_promising_operator_is_tested():
    assert set(ARGUMENTS) == PROMISING


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
@given(data=st.data())
def test_a_promise_is_kept_by_eager(name, data):
    args = data.draw(ARGUMENTS[name])
    results = run(name, args)
    broken = [promise for promise in promises(name, shapes(args), shapes(results)) if not holds(promise, {})]
    assert broken == []


ROWS = [name for name in sorted(ARGUMENTS) if "item" not in name and "scalar" not in name]
MATRIX = Shape(sizes=(symbol("a"), symbol("b")), dtype="torch.float32")
RESULT = Shape(sizes=(symbol("u"), constant(2)), dtype="torch.int64")


@pytest.mark.parametrize("name", ROWS)
@given(a=st.integers(0, 5), b=st.integers(0, 5), u=st.integers(-2, 30))
def test_rows_are_bounded_by_the_elements_and_by_nothing_else(name, a, b, u):
    """Tight: a count is denied where it is negative, above the elements or, of unique values, 0 of some elements."""
    promised = promises(name, [MATRIX, MATRIX], [RESULT, RESULT, RESULT])
    least = 1 if "unique" in name and a * b else 0
    assert all(holds(promise, {"a": a, "b": b, "u": u}) for promise in promised) is (least <= u <= a * b)


@pytest.mark.parametrize("name", ["aten._local_scalar_dense.default", "aten.item.default"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_an_item_is_bounded_by_its_dtype_and_by_nothing_else(name, dtype):
    promised = promises(name, [Shape(sizes=(), dtype=str(dtype))], [Shape(value=symbol("u"))])
    ends = torch.iinfo(dtype)
    at = {
        value: all(holds(p, {"u": value}) for p in promised)
        for value in (ends.min - 1, ends.min, ends.max, ends.max + 1)
    }
    assert list(at.values()) == [False, True, True, False]


@pytest.mark.parametrize("dtype", ["torch.int64", "torch.bool", "torch.float32"])
def test_an_item_of_another_dtype_is_promised_nothing(dtype):
    assert promises("aten.item.default", [Shape(sizes=(), dtype=dtype)], [Shape(value=symbol("u"))]) == []


def test_a_mask_that_broadcasts_is_promised_nothing():
    """The result may have more elements than the input: a column is selected from once for each column of the mask."""
    column = Shape(sizes=(symbol("a"), constant(1)))
    assert promises("aten.masked_select.default", [column, MATRIX], [RESULT]) == []


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_what_is_not_known_is_promised_nothing(name):
    """Sparse operands, results that are no tensors."""
    assert promises(name, [None, None], [RESULT, None, None]) == []
    assert promises(name, [MATRIX, MATRIX], [None, None, None]) == []


def test_an_operator_that_is_not_listed_promises_nothing():
    assert promises("aten.add.Tensor", [MATRIX, MATRIX], [MATRIX]) == []
