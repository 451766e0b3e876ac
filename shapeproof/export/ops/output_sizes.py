"""Promises of operators about the sizes that they take from data.

If the result of an operator depends on data, torch gets a fresh symbol with constant bounds at best. This file states
the symbol's relation to the inputs, with its source. Law: each promise holds for every input on which eager does not
raise; a property test checks it against eager. An operator that is not listed promises nothing.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term, constant, maximum
from shapeproof.export.ops.call import Call, Shape, Span, both, product

Rule = Callable[[Call], list[Formula]]


def _rows(call: Call) -> Term | None:
    result = call.result()
    return result.sizes[0] if result is not None and result.sizes else None


def _at_most(rows: Term | None, most: Term | None) -> list[Formula]:
    return [] if rows is None or most is None else [f.ge(rows, 0), f.le(rows, most)]


def nonzero(call: Call) -> list[Formula]:
    """`nonzero`: at most one row per element.

    https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html
    """
    source = call.tensor("self")
    return _at_most(_rows(call), None if source is None else source.numel)


def masked_select(call: Call) -> list[Formula]:
    """`masked_select`: at most as many elements as the mask and the input, broadcast together, have.

    https://docs.pytorch.org/docs/stable/generated/torch.masked_select.html
    """
    source, mask = call.tensor("self"), call.tensor("mask")
    if source is None or mask is None:
        return []
    rank = max(len(source.sizes), len(mask.sizes))
    aligned = [(constant(1),) * (rank - len(shape.sizes)) + shape.sizes for shape in (source, mask)]
    return _at_most(_rows(call), product(maximum(*sizes) for sizes in zip(*aligned, strict=True)))


def unique(call: Call) -> list[Formula]:
    """`unique`: at most one value per element (or slice), and at least one where there is an element.

    https://docs.pytorch.org/docs/stable/generated/torch.unique.html
    """
    source, result, dim = call.tensor("self"), call.result(), call.arguments.get("dim")
    if source is None or result is None or not result.sizes:
        return []
    found, most = (result.sizes[0], source.numel) if dim is None else (result.size(dim), source.size(dim))
    if found is None or most is None:
        return []
    return [*_at_most(found, most), f.implies(f.ge(most, 1), f.ge(found, 1))]


def repeat_interleave(call: Call) -> list[Formula]:
    """`repeat_interleave`: the sum of the repeats, which are all at least 0.

    https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html
    """
    repeats, rows = call.tensor("repeats"), _rows(call)
    if repeats is None or rows is None:
        return []
    low, high = (both(operator.mul, end, repeats.numel) for end in (repeats.content.low, repeats.content.high))
    return [f.ge(rows, 0), *_within(rows, Span(low, high))]


def bincount(call: Call) -> list[Formula]:
    """`bincount`: one count for each value from 0 to the greatest, and at least `minlength`.

    https://docs.pytorch.org/docs/stable/generated/torch.bincount.html
    """
    source, rows, least = call.tensor("self"), _rows(call), call.integer("minlength")
    if source is None or rows is None or least is None:
        return []
    promised = [f.ge(rows, 0), f.ge(rows, least), f.implies(f.ge(source.numel, 1), f.ge(rows, 1))]
    if source.content.high is not None:
        promised.append(f.le(rows, maximum(least, source.content.high + 1, constant(0))))
    return promised


def sliced(call: Call) -> list[Term]:
    """`slice`: bounds below 0 count from the end, and both are clamped to the size.

    https://docs.python.org/3/reference/datamodel.html#slice.indices
    """
    source, dim, step = call.tensor("self"), call.integer("dim"), call.integer("step")
    size = None if source is None else source.size(dim)
    if source is None or dim is None or size is None or step is None or not step.is_constant:
        return []
    start, end = call.integer("start"), call.integer("end")
    first = constant(0) if start is None else _clamped(start, size)
    last = size if end is None else _clamped(end, size)
    length = maximum(0, t.floor_div(last - first + (step - 1), step))
    return [length, *_starting(source, dim.constant_value, first)]


def _clamped(index: Term, size: Term) -> Term:
    """Return a slice's bound after clamping."""
    return maximum(0, t.minimum(size, t.where(f.lt(index, 0), index + size, index)))


def selected(call: Call) -> list[Term]:
    """`select`: an index below 0 counts from the end; the view starts at or after the start of the tensor.

    https://docs.pytorch.org/docs/stable/generated/torch.select.html
    """
    source, dim, index = call.tensor("self"), call.integer("dim"), call.integer("index")
    size = None if source is None else source.size(dim)
    if source is None or dim is None or size is None or index is None:
        return []
    return _starting(source, dim.constant_value, maximum(0, t.where(f.lt(index, 0), index + size, index)))


def _starting(source: Shape, dim: int, first: Term) -> list[Term]:
    """Return the offset of a view that leaves out the first elements along a dimension."""
    return [] if source.offset is None else [source.offset + first * source.strides[dim]]


def number(call: Call) -> list[Formula]:
    """`item()`: a number within the bounds of the tensor's elements.

    https://docs.pytorch.org/docs/stable/generated/torch.Tensor.item.html
    """
    source, value = call.tensor("self"), call.results[0]
    return _within(value, source.content) if source is not None and isinstance(value, Term) else []


def ranged(value: Term, low: Any, high: Any) -> list[Formula]:
    """Return torch's bounds of a symbol as formulas; infinities, and the greatest possible size, give none."""
    least = [f.ge(value, int(low))] if low > -sys.maxsize else []
    return [*least, f.le(value, int(high))] if high < sys.maxsize - 1 else least


def _within(value: Term, found: Span) -> list[Formula]:
    low = [] if found.low is None else [f.ge(value, found.low)]
    return low if found.high is None else [*low, f.le(value, found.high)]


def unpadded(call: Call) -> list[Formula]:
    """`_padded_dense_to_jagged_forward`: the number of rows is the last offset.

    https://docs.pytorch.org/docs/stable/nested.html
    """
    offsets = call.arguments.get("offsets")
    only = offsets[0] if isinstance(offsets, tuple) and len(offsets) == 1 else None
    rows = _rows(call)
    if rows is None or not isinstance(only, Shape) or call.arguments.get("total_L") is not None:
        return []
    return [f.ge(rows, 0), *_within(rows, only.content)]
