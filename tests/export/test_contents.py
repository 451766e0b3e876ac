"""What value_ranges.py says of the integers in an operator's results holds of what eager returns."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.terms import constant
from shapeproof.export.ops.call import Call, Shape, Span, span
from shapeproof.export.ops.table import OPERATORS, contents
from tests.export import calls
from tests.export.calls import WHOLE, bounds, flags, of_elements, of_its_dtype, small, tensors, with_dim
from tests.thoroughness import examples

whole = tensors(dtypes=WHOLE)
scalars = st.integers(-4, 300) | st.sampled_from((2**31, -(2**40)))
NONE = st.just({})


def given_as(*parts, **named):
    """Positional arguments, and keywords that may be left out."""
    return st.tuples(st.tuples(*parts), st.fixed_dictionaries({}, optional=named))


def along(*rest, none=False, **named):
    return st.tuples(with_dim(whole, *rest, none=none), st.fixed_dictionaries({}, optional=named))


@st.composite
def pairs(draw, **named):
    """Two tensors that broadcast, of dtypes that may differ."""
    left = draw(whole)
    right = draw(tensors(shapes=st.sampled_from((list(left.shape), [], [1])), dtypes=WHOLE))
    return (left, right), draw(st.fixed_dictionaries({}, optional=named))


@st.composite
def masked(draw, value):
    source = draw(whole)
    return (source, draw(tensors(shapes=st.just(list(source.shape)), dtypes=(torch.bool,))), draw(value)), {}


@st.composite
def chosen(draw):
    left, mask, _ = draw(masked(st.none()))[0]
    return (mask, left, draw(tensors(shapes=st.just(list(left.shape)), dtypes=WHOLE))), {}


@st.composite
def picked(draw, wrap=lambda index: index, *, with_dim=True):
    """A vector, and indices into it."""
    source = draw(tensors(shapes=st.lists(st.integers(1, 4), min_size=1, max_size=1), dtypes=WHOLE))
    index = draw(tensors(shapes=st.just([3]), dtypes=(torch.int64,), low=0, high=len(source) - 1))
    return ((source, 0, wrap(index)) if with_dim else (source, wrap(index))), {}


@st.composite
def scattered(draw, value):
    (source, dim, index), _ = draw(picked())
    found = draw(tensors(shapes=st.just([3]), dtypes=(source.dtype,))) if value is None else draw(value)
    return (source, dim, index, found), {}


@st.composite
def listed(draw):
    shape = draw(st.sampled_from(([0], [2], [2, 3])))
    return (draw(st.lists(tensors(shapes=st.just(shape), dtypes=WHOLE), min_size=1, max_size=3)),), {}


vectors = tensors(shapes=st.lists(st.integers(0, 4), min_size=1, max_size=1), dtypes=WHOLE)
ordered = vectors.map(lambda values: values.sort().values)
counts = tensors(shapes=st.lists(small, min_size=1, max_size=1), dtypes=(torch.int64, torch.int32), low=0, high=4)
weights = tensors(shapes=st.sampled_from(([3], [2, 3])), dtypes=(torch.float32,), low=0, high=2)
dtypes = st.sampled_from(WHOLE)
shapes = st.lists(small, max_size=2)
likes = given_as(whole, dtype=dtypes)
fillers = st.integers(-4, 300) | flags
ends = st.none() | scalars
divided = st.tuples(whole, st.integers(-3, 400))
ARGUMENTS = {
    "clone": given_as(whole),
    "lift_fresh_copy": given_as(whole),
    "index.Tensor": picked(lambda index: [index], with_dim=False),
    "index_select": picked(),
    "gather": picked(),
    "take": picked(with_dim=False),
    "masked_select": masked(st.none()).map(lambda found: (found[0][:2], {})),
    "flip": along().map(lambda found: ((found[0][0], [found[0][1]]), {})),
    "roll": given_as(whole, st.just([1])),
    "repeat": given_as(whole, st.just([2, 1, 2, 1])),
    "max": given_as(whole),
    "min": given_as(whole),
    "amax": given_as(whole),
    "amin": given_as(whole),
    "unique_dim": along(),
    "cat": listed(),
    "stack": listed(),
    "where.self": chosen(),
    "where.ScalarOther": masked(scalars).map(lambda found: ((found[0][1], found[0][0], found[0][2]), {})),
    "masked_fill.Scalar": masked(scalars),
    "masked_fill.Tensor": masked(tensors(shapes=st.just([]), dtypes=WHOLE)),
    "scatter.value": scattered(scalars),
    "scatter.src": scattered(None),
    "constant_pad_nd": given_as(vectors, st.just([1, 2]), value=scalars),
    "argmax": along(none=True, keepdim=flags),
    "argmin": along(none=True, keepdim=flags),
    "argsort": along(descending=flags),
    "argsort.stable": along().map(lambda found: ((found[0][0],), {"stable": True, "dim": found[0][1]})),
    "max.dim": along(keepdim=flags),
    "min.dim": along(keepdim=flags),
    "median.dim": along(keepdim=flags),
    "mode": along(keepdim=flags),
    "kthvalue": along().map(lambda found: ((found[0][0], 1, found[0][1]), {})),
    "sort": along(descending=flags),
    "sort.stable": along().map(lambda found: ((found[0][0],), {"stable": True, "dim": found[0][1]})),
    "topk": along().map(lambda found: ((found[0][0], 1, found[0][1]), {})),
    "cummax": along(),
    "cummin": along(),
    "nonzero": given_as(tensors()),
    "repeat_interleave.Tensor": given_as(counts),
    "searchsorted.Tensor": given_as(ordered, whole, right=flags),
    "searchsorted.Scalar": given_as(ordered, scalars, right=flags),
    "bucketize.Tensor": given_as(whole, ordered, right=flags),
    "bucketize.Scalar": given_as(scalars, ordered, right=flags),
    "_unique2": given_as(whole, flags, flags, flags),
    "unique_consecutive": along(none=True, return_inverse=flags, return_counts=flags).map(
        lambda found: ((found[0][0],), found[1] | {"dim": found[0][1]})
    ),
    "bincount": given_as(counts, minlength=small, weights=weights),
    "count_nonzero": along(none=True),
    "count_nonzero.dim_IntList": along().map(lambda found: ((found[0][0], [found[0][1]]), {})),
    "sum": given_as(whole, dtype=dtypes),
    "sum.dim_IntList": along(dtype=dtypes).map(lambda found: ((found[0][0], [found[0][1]]), found[1])),
    "cumsum": along(dtype=dtypes),
    "full": given_as(shapes, fillers, dtype=dtypes),
    "full_like": given_as(whole, fillers, dtype=dtypes),
    "new_full": given_as(whole, shapes, fillers, dtype=dtypes),
    "scalar_tensor": given_as(fillers, dtype=dtypes),
    "zeros": given_as(shapes, dtype=dtypes),
    "zeros_like": likes,
    "new_zeros": given_as(whole, shapes, dtype=dtypes),
    "ones": given_as(shapes, dtype=dtypes),
    "ones_like": likes,
    "new_ones": given_as(whole, shapes, dtype=dtypes),
    "arange": given_as(st.integers(-2, 300), dtype=dtypes),
    "arange.start": given_as(st.integers(-9, 300), st.integers(-9, 300), dtype=dtypes),
    "arange.start_step": given_as(st.integers(-9, 30), st.integers(-9, 30), st.integers(-3, 3), dtype=dtypes),
    "randint": given_as(st.integers(-2, 9), shapes, dtype=dtypes),
    "randint.low": given_as(st.integers(-9, 9), st.integers(-9, 9), shapes, dtype=dtypes),
    "randperm": given_as(small),
    "multinomial": given_as(weights, st.just(1)),
    "clamp": given_as(whole, ends, ends),
    "clamp.Tensor": pairs().map(lambda found: ((*found[0], found[0][1]), {})),
    "clamp_min": given_as(whole, scalars),
    "clamp_min.Tensor": pairs(),
    "clamp_max": given_as(whole, scalars),
    "clamp_max.Tensor": pairs(),
    "minimum": pairs(),
    "maximum": pairs(),
    "add.Tensor": pairs(alpha=st.integers(-3, 300)),
    "add.Scalar": given_as(whole, scalars, alpha=st.integers(-3, 300)),
    "sub.Tensor": pairs(alpha=st.integers(-3, 300)),
    "sub.Scalar": given_as(whole, scalars, alpha=st.integers(-3, 300)),
    "rsub.Tensor": pairs(alpha=st.integers(0, 2)),
    "rsub.Scalar": given_as(whole, scalars, alpha=st.integers(0, 2)),
    "neg": given_as(whole),
    "abs": given_as(whole),
    "mul.Tensor": pairs(),
    "mul.Scalar": given_as(whole, scalars),
    "floor_divide": pairs(),
    "floor_divide.Scalar": st.tuples(divided, NONE),
    "div.Tensor_mode": pairs().flatmap(
        lambda found: st.sampled_from(("floor", "trunc")).map(lambda mode: (found[0], {"rounding_mode": mode}))
    ),
    "div.Scalar_mode": divided.flatmap(
        lambda found: st.sampled_from(("floor", "trunc")).map(lambda mode: (found, {"rounding_mode": mode}))
    ),
    "remainder.Tensor": pairs(),
    "remainder.Scalar": st.tuples(divided, NONE),
    "bitwise_and.Scalar": given_as(whole, scalars),
    "_to_copy": likes,
}
"""For each operator that is spoken about, the arguments that it is given: positions and keywords."""


def full_name(name):
    return f"aten.{name}" if "." in name else f"aten.{name}.default"


def test_every_speaking_operator_is_tested():
    assert {full_name(name) for name in ARGUMENTS} == {name for name, known in OPERATORS.items() if known.values}


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
@settings(max_examples=examples(60))
@given(data=st.data())
def test_elements_lie_in_their_span(name, data):
    args, kwargs = data.draw(ARGUMENTS[name])
    operator, results = calls.call_operator(full_name(name), args, kwargs)
    content = data.draw(st.sampled_from((of_elements, of_its_dtype)))
    call = calls.call_of(operator, args, kwargs, results, content)
    assert calls.contained(results, contents(call, bounds)) == []


def one(name, results=1, dtype="torch.int64", **arguments):
    """What is said of a call with the arguments as they are written here."""
    return contents(Call(f"aten.{name}", arguments, (Shape((constant(3),), dtype),) * results), bounds)


NINE = Shape((constant(9),), "torch.int64", span(2, 5))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (one("argmax.default", self=NINE), [span(0, 8)]),
        (one("clamp.default", self=NINE, min=constant(3)), [span(3, 5)]),
        (one("clamp.default", self=NINE, max=constant(1)), [span(1, 1)]),
        (one("sum.default", self=NINE), [span(18, 45)]),
        (one("add.Tensor", self=NINE, other=constant(1)), [span(3, 6)]),
        (one("mul.Scalar", self=NINE, other=constant(-2)), [span(-10, -4)]),
        (one("remainder.Scalar", self=NINE, other=constant(4)), [span(0, 3)]),
        (one("floor_divide.default", self=NINE, other=constant(2)), [span(1, 2)]),
        (one("arange.start", start=constant(2), end=constant(7)), [span(2, 6)]),
        (one("sort.default", 2, self=NINE, dim=constant(-1)), [span(2, 5), span(0, 8)]),
    ],
)
def test_spans_are_as_narrow_as_can_be(found, expected):
    assert found == expected


def test_what_could_wrap_around_is_not_spoken_about():
    assert one("add.Tensor", dtype="torch.int8", self=NINE, other=constant(125)) == [Span()]
    assert one("add.Tensor", dtype="torch.int8", self=NINE, other=constant(122)) == [span(124, 127)]
