"""What output_sizes.py says of an operator's results holds of what eager returns, and denies what it cannot return."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.terms import Term, constant, symbol
from shapeproof.export.ops.call import ANYTHING, Call, Shape, span
from shapeproof.export.ops.table import OPERATORS, meanings, promises
from tests.export import calls
from tests.export.calls import flags, of_elements, of_its_dtype, small, tensors, with_dim

numbers = tensors()


def operands(*parts):
    return st.tuples(*parts)


@st.composite
def masked(draw):
    """A tensor and a mask that broadcast."""
    source = draw(tensors())
    shape = [draw(st.sampled_from((size, size, 1))) for size in source.shape][draw(st.integers(0, 1)) :]
    mask = draw(tensors(shapes=st.just(shape), dtypes=(torch.bool,)))
    return draw(st.permutations((source, mask))) if source.dtype == torch.bool else (source, mask)


@st.composite
def runs(draw):
    """A tensor, flags, and maybe a dimension along which whole slices are compared."""
    source, dim = draw(with_dim(numbers, none=True))
    return source, draw(flags), draw(flags), dim if source.dim() else None


@st.composite
def jagged(draw):
    """A padded batch, and offsets into what it is without the padding."""
    lengths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    return torch.ones(len(lengths), 3, 1), [offsets]


guesses = st.integers(-8, 30)
vectors = st.lists(small, min_size=1, max_size=1)
counts = tensors(shapes=vectors, dtypes=(torch.int64, torch.int32), low=0, high=4)
scalars = tensors(shapes=st.sampled_from(([], [1], [1, 1])))
ARGUMENTS = {
    "aten.nonzero.default": operands(numbers),
    "aten.masked_select.default": masked(),
    "aten._unique2.default": operands(numbers, flags, flags, flags),
    "aten.unique_dim.default": with_dim(numbers, flags, flags, flags),
    "aten.unique_consecutive.default": runs(),
    "aten.repeat_interleave.Tensor": operands(counts),
    "aten.bincount.default": operands(counts, st.none(), small),
    "aten._local_scalar_dense.default": operands(scalars),
    "aten.item.default": operands(scalars),
    "aten._padded_dense_to_jagged_forward.default": jagged(),
}
"""For each operator that promises something: the arguments that it is given, by position."""


def test_every_promising_operator_is_tested():
    assert set(ARGUMENTS) == {name for name, known in OPERATORS.items() if known.sizes}


def with_fresh_rows(call):
    """The call as it is traced: the rows of its first result are not known and have a name. And how many they are."""
    first, *rest = call.results
    if not isinstance(first, Shape):
        return call, {}
    if not first.sizes:
        return call, {}
    dim = call.arguments["dim"].constant_value if call.arguments.get("dim") is not None else 0
    sizes = list(first.sizes)
    rows, sizes[dim] = sizes[dim].constant_value, symbol("rows")
    return Call(call.name, call.arguments, (Shape(tuple(sizes), first.dtype, first.content), *rest)), {"rows": rows}


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
@given(data=st.data())
def test_a_promise_is_kept_by_eager(name, data):
    args = data.draw(ARGUMENTS[name])
    operator, results = calls.call_operator(name, args, {})
    content = data.draw(st.sampled_from((of_elements, of_its_dtype)))
    call, point = with_fresh_rows(calls.call_of(operator, args, {}, results, content))
    assert [promise for promise in promises(call) if not holds(promise, point)] == []


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


@pytest.mark.parametrize("name", ["aten._local_scalar_dense.default", "aten.item.default"])
@given(b=guesses, u=guesses)
def test_an_item_lies_where_the_elements_do(name, b, u):
    call = Call(name, {"self": VECTOR}, (symbol("u"),))
    assert admitted(call, a=1, b=b, u=u) is (0 <= u <= b)


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
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
