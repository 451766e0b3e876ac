"""Bounds of the integers in an operator's results.

An index from `argmax` is below the size of its dimension, the count of a mask is at most its number of elements, and a
clamped value lies between the limits. `item()` turns such a number into a size, and the size inherits the bounds.

Law: for every input on which eager does not raise, each element of each result lies in its span; a property test checks
this against eager. An operator that is not listed gives no span. The ends are terms over the operands' sizes.
Arithmetic that may overflow the dtype gives no span either, since it wraps around.

Mutation through in-place operators and aliases is handled elsewhere: shape_env.py forgets the bounds of mutated
tensors.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence

from shapeproof.constraints import terms as t
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.terms import Term, constant, maximum, minimum
from shapeproof.export.ops.call import ANYTHING, Call, Shape, Span, both, product, span

Bounds = Callable[[Term], Interval]
"""Returns bounds of a term that hold wherever the rule is asked."""
Rule = Callable[[Call, Bounds], Span | Sequence[Span]]

_RANGES: Mapping[str, tuple[int, int]] = {
    "torch.bool": (0, 1),
    **{f"torch.uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32)},
    **{f"torch.int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
}
"""The range of each integer dtype. https://docs.pytorch.org/docs/stable/tensor_attributes.html"""
INTEGRAL = frozenset(_RANGES)
"""The dtypes that have spans."""


# ---------------------------------------------------------------------- operands


def _operand(call: Call, name: str, bounds: Bounds) -> Span:
    """Return the bounds of an argument, a tensor or a number, after conversion to the result's dtype."""
    return _adopted(call, call.arguments.get(name), bounds)


def _adopted(call: Call, value: object, bounds: Bounds) -> Span:
    result = call.result()
    if isinstance(value, Shape):
        kept = result is not None and result.dtype in {value.dtype, "torch.int64"}
        found = value.content if value.dtype in INTEGRAL else ANYTHING
        return found if kept else _fitting(call, bounds, found)
    if isinstance(value, bool | float) and float(value).is_integer():
        value = constant(int(value))
    return _fitting(call, bounds, Span(value, value)) if isinstance(value, Term) else ANYTHING


def _number(call: Call, name: str, bounds: Bounds) -> int | None:
    """Return the value of an argument that is a constant, else None."""
    found = _operand(call, name, bounds).value
    return found.constant_value if found is not None and found.is_constant else None


def elements_of(*names: str) -> Rule:
    """Return a rule: each element of the first result is an element of one of these arguments."""

    def rule(call: Call, bounds: Bounds) -> Span:
        values = [call.arguments.get(name) for name in names]
        listed = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
        found = [_adopted(call, part, bounds) for part in listed]
        return functools.reduce(operator.or_, found) if found else ANYTHING

    return rule


def _fitting(call: Call, bounds: Bounds, found: Span) -> Span:
    """Return the span if its values all fit the result's dtype, else no span: arithmetic wraps around."""
    result = call.result()
    if result is None or found.low is None or found.high is None:
        return ANYTHING
    least, greatest = _RANGES.get(result.dtype, (0, -1))
    low, high = bounds(found.low).lower, bounds(found.high).upper
    return found if low is not None and high is not None and least <= low and high <= greatest else ANYTHING


# ---------------------------------------------------------------------- indices and counts


def _below(size: Term | None) -> Span:
    return ANYTHING if size is None else Span(constant(0), size - 1)


def index(call: Call, _: Bounds) -> Span:
    """`argmax`, `argsort`: a position along a dimension, or among all elements.

    https://docs.pytorch.org/docs/stable/generated/torch.argmax.html
    """
    source = call.tensor("self")
    if source is None:
        return ANYTHING
    if call.arguments.get("dim") is None:
        return _below(source.numel)
    return _below(source.size(call.arguments["dim"]) if source.sizes else constant(1))


def values_and_indices(call: Call, bounds: Bounds) -> tuple[Span, Span]:
    """`max`, `sort`, `topk` along a dimension: elements and their positions.

    https://docs.pytorch.org/docs/stable/generated/torch.sort.html
    """
    return _operand(call, "self", bounds), index(call, bounds)


def positions(call: Call, _: Bounds) -> Span:
    """`nonzero`: each column holds indices into its dimension.

    https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html
    """
    source = call.tensor("self")
    return _below(maximum(*source.sizes)) if source is not None and source.sizes else ANYTHING


def below_size(name: str, dim: int) -> Rule:
    """Return a rule: positions in a dim of an operand.

    https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html
    https://docs.pytorch.org/docs/stable/generated/torch.multinomial.html
    """

    def rule(call: Call, _: Bounds) -> Span:
        source = call.tensor(name)
        return _below(source.sizes[dim]) if source is not None and source.sizes else ANYTHING

    return rule


def insertion(call: Call, _: Bounds) -> Span:
    """`searchsorted`, `bucketize`: a place before, between or after the sorted values.

    https://docs.pytorch.org/docs/stable/generated/torch.searchsorted.html
    """
    values = call.tensor("sorted_sequence") or call.tensor("boundaries")
    return Span(constant(0), values.sizes[-1]) if values is not None and values.sizes else ANYTHING


def unique(call: Call, bounds: Bounds) -> tuple[Span, Span, Span]:
    """`unique`: elements, the index of each element's value, and the count of each value.

    https://docs.pytorch.org/docs/stable/generated/torch.unique.html
    """
    source, values = call.tensor("self"), call.result()
    if source is None or values is None or not values.sizes or call.arguments.get("dim") is not None:
        return _operand(call, "self", bounds), ANYTHING, ANYTHING
    return _operand(call, "self", bounds), _below(values.sizes[0]), Span(constant(0), source.numel)


def occurrences(call: Call, _: Bounds) -> Span:
    """`bincount` without weights, `count_nonzero`: at most every element is counted.

    https://docs.pytorch.org/docs/stable/generated/torch.bincount.html
    """
    source = call.tensor("self")
    weighed = call.arguments.get("weights") is not None
    return ANYTHING if source is None or weighed else Span(constant(0), source.numel)


def summed(call: Call, bounds: Bounds) -> Span:
    """`sum`: with `count` addends, between `count * low` and `count * high`; an empty sum is 0.

    https://docs.pytorch.org/docs/stable/generated/torch.sum.html
    """
    source = call.tensor("self")
    count = None if source is None else _addends(source, call.arguments.get("dim"))
    return _added(call, bounds, source, count, fewest=count)


def cumsum(call: Call, bounds: Bounds) -> Span:
    """`cumsum`: a sum of at least one and at most all elements along the dimension.

    https://docs.pytorch.org/docs/stable/generated/torch.cumsum.html
    """
    source = call.tensor("self")
    count = source.size(call.arguments.get("dim")) if source is not None and source.sizes else None
    return _added(call, bounds, source, count, fewest=constant(1))


def _added(call: Call, bounds: Bounds, source: Shape | None, count: Term | None, *, fewest: Term | None) -> Span:
    """Return the bounds of a sum of at least `fewest` and at most `count` elements."""
    addend = ANYTHING if source is None or source.dtype not in INTEGRAL else source.content
    if addend.low is None or addend.high is None or count is None or fewest is None:
        return ANYTHING
    if addend == span(0, 1) and call.result() is not None:
        return Span(constant(0), count) if call.results[0].dtype == "torch.int64" else ANYTHING  # no more than elements
    low = minimum(fewest * addend.low, count * addend.low)
    high = maximum(fewest * addend.high, count * addend.high)
    return _fitting(call, bounds, Span(low, high))


def _addends(source: Shape, dims: object) -> Term | None:
    """Return the number of elements that are reduced to one."""
    if dims is None or dims == ():
        return source.numel
    sizes = [source.size(dim) for dim in (dims if isinstance(dims, tuple) else (dims,))]
    if not source.sizes:
        return constant(1)
    return None if None in sizes else product(size for size in sizes if size is not None)


# ---------------------------------------------------------------------- new tensors


def constantly(value: int) -> Rule:
    """`zeros`, `ones`."""
    return lambda _call, _bounds: span(value, value)


def every(call: Call, _: Bounds) -> Span:
    """`all` of bools: true where each is known to be, and where there is none."""
    source = call.tensor("self")
    return ANYTHING if source is None or source.dtype != "torch.bool" else Span(source.content.low, constant(1))


def is_nonzero(call: Call, bounds: Bounds) -> Span:
    """`x != 0`, which `bool(x)` asks: true where no element can be 0."""
    source = call.tensor("self")
    if source is None or source.dtype not in INTEGRAL or call.arguments.get("other") not in {constant(0), False}:
        return ANYTHING
    low, high = source.content.low, source.content.high
    least = None if low is None else bounds(low).lower
    greatest = None if high is None else bounds(high).upper
    return span(1, 1) if (least or 0) > 0 or (greatest or 0) < 0 else ANYTHING


def arange(call: Call, bounds: Bounds) -> Span:
    """`arange`: from the start up or down to the end, which is excluded.

    https://docs.pytorch.org/docs/stable/generated/torch.arange.html
    """
    start = call.integer("start") if "start" in call.arguments else constant(0)
    end, step = call.integer("end"), _number(call, "step", bounds) if "step" in call.arguments else 1
    if start is None or end is None or not step:
        return ANYTHING
    return _fitting(call, bounds, Span(start, end - 1) if step > 0 else Span(end + 1, start))


def randint(call: Call, bounds: Bounds) -> Span:
    """`randint`: from `low` (default 0) up to `high`, which is excluded.

    https://docs.pytorch.org/docs/stable/generated/torch.randint.html
    """
    low = call.integer("low") if "low" in call.arguments else constant(0)
    high = call.integer("high")
    return ANYTHING if low is None or high is None else _fitting(call, bounds, Span(low, high - 1))


def randperm(call: Call, _: Bounds) -> Span:
    """`randperm`: each number below n once.

    https://docs.pytorch.org/docs/stable/generated/torch.randperm.html
    """
    return _below(call.integer("n"))


# ---------------------------------------------------------------------- arithmetic


def clamp(call: Call, bounds: Bounds) -> Span:
    """`clamp`: first at least the lower limit, then at most the upper limit, which takes precedence.

    https://docs.pytorch.org/docs/stable/generated/torch.clamp.html
    """
    found = _operand(call, "self", bounds)
    if call.arguments.get("min") is not None:
        found = greater(found, _operand(call, "min", bounds))
    if call.arguments.get("max") is not None:
        found = lesser(found, _operand(call, "max", bounds))
    return found


def greater(left: Span, right: Span) -> Span:
    """`maximum`: at least either operand."""
    return Span(_either(maximum, left.low, right.low), both(maximum, left.high, right.high))


def lesser(left: Span, right: Span) -> Span:
    """`minimum`: at most either operand."""
    return Span(both(minimum, left.low, right.low), _either(minimum, left.high, right.high))


def _either(combine: Callable[..., Term], left: Term | None, right: Term | None) -> Term | None:
    if left is None or right is None:
        return right if left is None else left
    return combine(left, right)


def of_both(combine: Callable[[Span, Span], Span]) -> Rule:
    """Return a rule: the spans of both operands, combined."""
    return lambda call, bounds: combine(_operand(call, "self", bounds), _operand(call, "other", bounds))


def sum_of(first: str, second: str, sign: int = 1) -> Rule:
    """Return the rule of `add`, `sub` and `rsub`: `first + sign*alpha*second`."""

    def rule(call: Call, bounds: Bounds) -> Span:
        one, other = _operand(call, first, bounds), _operand(call, second, bounds)
        alpha = _number(call, "alpha", bounds) if "alpha" in call.arguments else 1
        if alpha is None:
            return ANYTHING
        factor = sign * alpha
        low, high = (other.low, other.high) if factor >= 0 else (other.high, other.low)
        ends = ((end, both(operator.mul, by, constant(factor))) for end, by in ((one.low, low), (one.high, high)))
        return _fitting(call, bounds, Span(*(both(operator.add, *pair) for pair in ends)))

    return rule


def _negated(part: Span) -> Span:
    return Span(None if part.high is None else -part.high, None if part.low is None else -part.low)


def neg(call: Call, bounds: Bounds) -> Span:
    """`neg`: `-self`."""
    return _fitting(call, bounds, _negated(_operand(call, "self", bounds)))


def magnitude(call: Call, bounds: Bounds) -> Span:
    """`abs`: `max(self, -self)`."""
    found = _operand(call, "self", bounds)
    if found.low is None or found.high is None:
        return ANYTHING
    return _fitting(call, bounds, Span(maximum(found.low, -found.high, constant(0)), maximum(-found.low, found.high)))


def mul(call: Call, bounds: Bounds) -> Span:
    """`mul`: a product of two ends."""
    left, right = _operand(call, "self", bounds), _operand(call, "other", bounds)
    if left.low is None or left.high is None or right.low is None or right.high is None:
        return ANYTHING
    corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
    return _fitting(call, bounds, Span(minimum(*corners), maximum(*corners)))


def floor_divide(call: Call, bounds: Bounds) -> Span:
    """Division by a positive constant, rounded down; of numbers that are not negative also "trunc", which is the same.

    https://docs.pytorch.org/docs/stable/generated/torch.div.html
    """
    dividend, divisor = _operand(call, "self", bounds), _number(call, "other", bounds)
    mode = call.arguments.get("rounding_mode", "floor")
    natural = dividend.low is not None and bounds(dividend.low).is_nonnegative
    if divisor is None or divisor < 1 or not (mode == "floor" or (mode == "trunc" and natural)):
        return ANYTHING
    ends = (dividend.low, dividend.high)
    return Span(*(None if end is None else t.floor_div(end, constant(divisor)) for end in ends))


def remainder(call: Call, bounds: Bounds) -> Span:
    """`remainder`: for a positive divisor, `0 <= r < divisor`.

    https://docs.pytorch.org/docs/stable/generated/torch.remainder.html
    """
    divisor = _operand(call, "other", bounds)
    least = None if divisor.low is None else bounds(divisor.low).lower
    if least is None or least < 1 or divisor.high is None:
        return ANYTHING
    return _below(divisor.high)


def bitwise_and(call: Call, bounds: Bounds) -> Span:
    """`x & mask` for `mask >= 0`: between 0 and `mask`."""
    mask = _number(call, "other", bounds)
    return ANYTHING if mask is None or mask < 0 else span(0, mask)


def converted(call: Call, bounds: Bounds) -> Span:
    """`to(dtype)` between integers: the same number, if it fits the dtype. To bool: no span (nonzero becomes 1)."""
    result = call.result()
    if result is None or result.dtype == "torch.bool":
        return ANYTHING
    return _fitting(call, bounds, _operand(call, "self", bounds))


def of_dtype(dtype: str) -> Span:
    """Return the bounds of every tensor of a dtype; none for int64, whose range says nothing."""
    return span(*_RANGES[dtype]) if dtype in _RANGES and dtype != "torch.int64" else ANYTHING
