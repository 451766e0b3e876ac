"""Operators of one's own: what is stated of them, and what their fake kernels say, held against their real kernels.

calling.py  a model that only calls an operator
check.py    `check_operator`: the fake explored alone, real runs, torch.library.opcheck, the verdict
proof.py    a real kernel in Python, traced and proved equal to the fake
report.py   what was found

Rules are stated with `promise` and `contents`, over a `Call` of the operator: `Shape`s with sizes that are terms, and
`Span`s of integers. `le`, `ge`, `eq`... make formulas of terms.
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
    from shapeproof.export.declare.inputs import TensorSpec as TensorSpec
    from shapeproof.export.ops.call import Call as Call
    from shapeproof.export.ops.call import Shape as Shape
    from shapeproof.export.ops.call import Span as Span
    from shapeproof.export.ops.call import span as span
    from shapeproof.export.ops.stated import contents as contents
    from shapeproof.export.ops.stated import promise as promise
    from shapeproof.operators.check import check_operator as check_operator
    from shapeproof.operators.report import OperatorReport as OperatorReport

_HOMES = {
    **dict.fromkeys(("divides", "eq", "ge", "gt", "implies", "le", "lt", "ne"), "shapeproof.constraints.formulas"),
    **dict.fromkeys(("maximum", "minimum"), "shapeproof.constraints.terms"),
    **dict.fromkeys(("Call", "Shape", "Span", "span"), "shapeproof.export.ops.call"),
    **dict.fromkeys(("contents", "promise"), "shapeproof.export.ops.stated"),
    "OperatorReport": "shapeproof.operators.report",
    "TensorSpec": "shapeproof.export.declare.inputs",
    "check_operator": "shapeproof.operators.check",
}

__all__ = [
    "Call",
    "OperatorReport",
    "Shape",
    "Span",
    "TensorSpec",
    "check_operator",
    "contents",
    "divides",
    "eq",
    "ge",
    "gt",
    "implies",
    "le",
    "lt",
    "maximum",
    "minimum",
    "ne",
    "promise",
    "span",
]

__getattr__ = imported(__name__, _HOMES)
