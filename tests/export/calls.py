"""Calls of operators on concrete tensors, for the tests that hold their rules against eager."""

from __future__ import annotations

import functools

import torch
from hypothesis import assume
from hypothesis import strategies as st

from shapeproof.constraints.meaning import intervals
from shapeproof.constraints.terms import constant
from shapeproof.export.ops.call import ANYTHING, Call, Shape, span
from shapeproof.export.ops.value_ranges import INTEGRAL, of_dtype

WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
DTYPES = (*WHOLE, torch.float32)
flags = st.booleans()
small = st.integers(0, 4)
sizes = st.lists(st.sampled_from((0, 1, 2, 3, 2, 4)), max_size=3)


@st.composite
def tensors(draw, shapes=sizes, dtypes=DTYPES, low=-3, high=5):
    """A small tensor with many equal elements and many zeros; now and then one at the ends of its dtype."""
    shape = draw(shapes)
    count = torch.Size(shape).numel()
    dtype = draw(st.sampled_from(dtypes))
    ends = torch.iinfo(dtype) if dtype in WHOLE[1:] else None
    values = st.integers(max(low, 0 if dtype in {torch.bool, torch.uint8} else low), high)
    if ends is not None and high > 4:
        values |= st.sampled_from((ends.min, ends.max)) if draw(st.integers(0, 9)) == 0 else values
    found = draw(st.lists(values, min_size=count, max_size=count))
    return torch.tensor(found, dtype=torch.int64).reshape(shape).to(dtype)


@st.composite
def with_dim(draw, source, *rest, none=False):
    """A tensor, one of its dimensions (or none), and more."""
    tensor = draw(source)
    dims = st.sampled_from(range(-tensor.dim(), tensor.dim())) if tensor.dim() else st.sampled_from((0, -1))
    return (tensor, draw(dims | st.none() if none else dims), *(draw(each) for each in rest))


def call_operator(name, args, kwargs):
    """What eager returns; an input on which it raises is none that a rule is about."""
    operator = functools.reduce(getattr, name.split("."), torch.ops)
    try:
        return operator, operator(*args, **kwargs)
    except (IndexError, RuntimeError, NotImplementedError, ValueError):
        assume(condition=False)


def call_of(operator, args, kwargs, results, content):
    """As shape_env.py reads a call, with constants for all sizes and `content` for what is known of a tensor."""
    arguments = operator._schema.arguments
    named = {a.name: a.default_value for a in arguments if a.has_default_value()}
    named |= dict(zip((a.name for a in arguments), args, strict=False)) | kwargs
    listed = results if isinstance(results, tuple | list) else (results,)
    return Call(
        str(operator),
        {name: read(value, content) for name, value in named.items()},
        tuple(read(value, content) for value in listed),
    )


def read(value, content):
    if isinstance(value, torch.Tensor):
        return Shape(tuple(map(constant, value.shape)), str(value.dtype), content(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return constant(value)
    return tuple(read(each, content) for each in value) if isinstance(value, tuple | list) else value


def of_elements(tensor):
    """Exactly where the elements lie."""
    if str(tensor.dtype) not in INTEGRAL:
        return ANYTHING
    return span(int(tensor.min()), int(tensor.max())) if tensor.numel() else span(0, 0)


def of_its_dtype(tensor):
    return of_dtype(str(tensor.dtype))


def bounds(term):
    return intervals.Bounds({}).of(term)


def contained(results, spans):
    """The results that have an element outside the span given for it."""
    listed = results if isinstance(results, tuple | list) else (results,)
    return [
        (result, found)
        for result, found in zip(listed, spans, strict=False)
        if isinstance(result, torch.Tensor)
        and str(result.dtype) in INTEGRAL
        and result.numel()
        and not _within(result, found)
    ]


def _within(result, found):
    low, high = int(result.min()), int(result.max())
    return (found.low is None or found.low.constant_value <= low) and (
        found.high is None or high <= found.high.constant_value
    )
