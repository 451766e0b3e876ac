"""What output_sizes.py says of an operator's results denies all that eager cannot return, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.terms import Term, constant, symbol
from shapeproof.export.ops.call import ANYTHING, Call, Shape, span
from shapeproof.export.ops.schemas import meanings, promises
from shapeproof.export.ops.table import OPERATORS
from tests.export import calls
from tests.export.calls import small

guesses = st.integers(-8, 30)
PROMISING = sorted(name for name, known in OPERATORS.items() if known.sizes)
MATRIX = Shape(sizes=(symbol("a"), symbol("b")), dtype="torch.float32")
VECTOR = Shape(sizes=(symbol("a"),), dtype="torch.int64", content=span(0, symbol("b")))
RESULT = Shape(sizes=(symbol("u"), constant(2)), dtype="torch.int64")


def admitted(call, **values):
    """Whether nothing that is promised of a call denies these values."""
    return all(holds(promise, values) for promise in promises(call))


def called(name, **arguments):
    return Call(name, arguments, (RESULT, RESULT, RESULT))


ROWS = ["nonzero.default", "_unique2.default", "unique_consecutive.default"]
extents = st.integers(0, 5)


@pytest.mark.quick
@pytest.mark.parametrize("name", ROWS)
@given(a=extents, b=extents, u=guesses)
def test_rows_are_bounded_by_the_elements_and_by_nothing_else(name, a, b, u):
    """Tight: a count is denied where it is negative, above the elements or, of unique values, 0 of some elements."""
    least = 1 if "unique" in name and a * b else 0
    assert admitted(called(f"aten.{name}", self=MATRIX), a=a, b=b, u=u) is (least <= u <= a * b)


@given(a=extents, b=extents, u=guesses)
def test_a_mask_that_broadcasts_may_select_more_than_the_input_has(a, b, u):
    column = Shape(sizes=(symbol("a"), constant(1)))
    found = admitted(called("aten.masked_select.default", self=column, mask=MATRIX), a=a, b=b, u=u)
    assert found is (0 <= u <= a * max(b, 1))


@given(a=extents, b=extents, u=guesses)
def test_repeats_are_bounded_by_what_is_known_of_them(a, b, u):
    assert admitted(called("aten.repeat_interleave.Tensor", repeats=VECTOR), a=a, b=b, u=u) is (0 <= u <= a * b)


@given(a=extents, b=extents, u=guesses, least=extents)
def test_counts_reach_from_the_least_length_to_the_greatest_value(a, b, u, least):
    call = called("aten.bincount.default", self=VECTOR, minlength=constant(least))
    assert admitted(call, a=a, b=b, u=u) is (max(least, 1 if a else 0) <= u <= max(least, b + 1))


@pytest.mark.quick
@pytest.mark.parametrize("name", ["aten._local_scalar_dense.default", "aten.item.default"])
@given(b=guesses, u=guesses)
def test_an_item_lies_where_the_elements_do(name, b, u):
    call = Call(name, {"self": VECTOR}, (symbol("u"),))
    assert admitted(call, a=1, b=b, u=u) is (0 <= u <= b)


@pytest.mark.quick
@pytest.mark.parametrize("name", PROMISING)
def test_what_is_not_known_is_promised_nothing(name):
    """Sparse operands, results that are no tensors."""
    unread = object()
    names = ("self", "mask", "repeats", "offsets", "dim", "minlength", "start", "end", "step", "total_L")
    assert promises(Call(name, dict.fromkeys(names, unread), (RESULT, unread))) == []
    assert promises(Call(name, {"self": MATRIX, "repeats": VECTOR}, (unread,))) == []


@st.composite
def placed(draw):
    """A tensor with at least one dimension that begins somewhere in its storage, and one of its dimensions."""
    sizes = draw(st.lists(small, min_size=1, max_size=2))
    strides, offset = [draw(st.integers(0, 4)) for _ in sizes], draw(small)
    return torch.zeros(100).as_strided(sizes, strides, offset), draw(st.integers(0, len(sizes) - 1))


def meant(operator, *args):
    """What the symbols of a view mean, where the bounds are symbols themselves."""
    call = calls.call_of(operator, args, {}, (), lambda _: ANYTHING)
    source = args[0]
    shape = replace(
        call.arguments["self"],
        strides=tuple(map(constant, source.stride())),
        offset=constant(source.storage_offset()),
    )
    named = {name: symbol(name) for name in ("start", "end", "index") if isinstance(call.arguments.get(name), Term)}
    values = {name: call.arguments[name].constant_value for name in named}
    found = meanings(replace(call, arguments={**call.arguments, **named, "self": shape}))
    return [evaluate(term, values) for term in found]


@given(placed(), st.none() | guesses, st.none() | guesses, st.integers(1, 3))
def test_a_slice_is_as_long_and_begins_where_eager_says(source, start, end, step):
    tensor, dim = source
    view = torch.ops.aten.slice.Tensor(tensor, dim, start, end, step)
    assert meant(torch.ops.aten.slice.Tensor, tensor, dim, start, end, step) == [view.shape[dim], view.storage_offset()]


@given(placed(), guesses)
def test_a_selection_begins_where_eager_says(source, index):
    """An index that is out of range is none that a meaning is about."""
    tensor, dim = source
    assume(tensor.shape[dim] > 0)
    index = index % (2 * tensor.shape[dim]) - tensor.shape[dim]
    view = torch.ops.aten.select.int(tensor, dim, index)
    assert meant(torch.ops.aten.select.int, tensor, dim, index) == [view.storage_offset()]
