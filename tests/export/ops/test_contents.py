"""What value_ranges.py says of the integers in a result is narrow, and nothing where they could wrap around."""

from __future__ import annotations

import pytest

from shapeproof.constraints.terms import constant
from shapeproof.export.ops.call import Call, Shape, Span, span
from shapeproof.export.ops.schemas import contents
from tests.export.calls import bounds


def one(name, results=1, dtype="torch.int64", **arguments):
    """What is said of a call with the arguments as they are written here."""
    return contents(Call(f"aten.{name}", arguments, (Shape((constant(3),), dtype),) * results), bounds)


NINE = Shape((constant(9),), "torch.int64", span(2, 5))
BELOW_ZERO = Shape((constant(9),), "torch.int64", span(-3, 5))


@pytest.mark.quick
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
        (one("div.Tensor_mode", self=NINE, other=constant(2), rounding_mode="trunc"), [span(1, 2)]),
        (one("div.Tensor_mode", self=BELOW_ZERO, other=constant(2), rounding_mode="trunc"), [Span()]),
        (one("arange.start", start=constant(2), end=constant(7)), [span(2, 6)]),
        (one("sort.default", 2, self=NINE, dim=constant(-1)), [span(2, 5), span(0, 8)]),
    ],
)
def test_spans_are_as_narrow_as_can_be(found, expected):
    assert found == expected


def test_what_could_wrap_around_is_not_spoken_about():
    assert one("add.Tensor", dtype="torch.int8", self=NINE, other=constant(125)) == [Span()]
    assert one("add.Tensor", dtype="torch.int8", self=NINE, other=constant(122)) == [span(124, 127)]
