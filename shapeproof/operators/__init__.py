"""Check a custom operator: compare its fake kernel and the user's statements with its real kernel.

calling.py  a model that only calls an operator
check.py    `check_operator`: explore the fake alone, run the real kernel, run torch.library.opcheck, decide the verdict
proof.py    trace a real kernel in Python and prove it equal to the fake
report.py   the report

Users state rules with `promise` and `contents`. A rule receives a `Call` of the operator, whose `Shape`s have terms for
sizes, and whose integers are `Span`s. `le`, `ge`, `eq` and others make formulas from terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.lazily import imported

if TYPE_CHECKING:
    from shapeproof.constraints.formulas import divides as divides
    from shapeproof.constraints.formulas import eq as eq
    from shapeproof.constraints.formulas import ge as ge
    from shapeproof.constraints.formulas import gt as gt
    from shapeproof.constraints.formulas import implies as implies
    from shapeproof.constraints.formulas import le as le
    from shapeproof.constraints.formulas import lt as lt
    from shapeproof.constraints.formulas import ne as ne
    from shapeproof.constraints.terms import maximum as maximum
    from shapeproof.constraints.terms import minimum as minimum
    from shapeproof.export.declare.reading import TensorSpec as TensorSpec
    from shapeproof.export.ops.call import Call as Call
    from shapeproof.export.ops.call import Shape as Shape
    from shapeproof.export.ops.call import Span as Span
    from shapeproof.export.ops.call import span as span
    from shapeproof.export.ops.stated import contents as contents
    from shapeproof.export.ops.stated import promise as promise
    from shapeproof.operators.check import check_operator as check_operator
    from shapeproof.operators.report import OperatorReport as OperatorReport

__all__, __getattr__ = imported(
    __name__,
    {
        "shapeproof.constraints.formulas": "divides eq ge gt implies le lt ne",
        "shapeproof.constraints.terms": "maximum minimum",
        "shapeproof.export.declare.reading": "TensorSpec",
        "shapeproof.export.ops.call": "Call Shape Span span",
        "shapeproof.export.ops.stated": "contents promise",
        ".check": "check_operator",
        ".report": "OperatorReport",
    },
)
