"""Check what users state of their operators (ops/stated.py) against real runs.

The rules receive the real sizes and integers as constants, so what they return is true or false.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from shapeproof.constraints.meaning.evaluate import evaluate, holds_at
from shapeproof.constraints.meaning.intervals import Bounds
from shapeproof.constraints.terms import Term, constant
from shapeproof.export.ops.call import ANYTHING, Span, span
from shapeproof.export.ops.reading import Operands
from shapeproof.export.ops.stated import is_stated, stated_contents, stated_promises
from shapeproof.export.ops.value_ranges import INTEGRAL


def broken_statement(func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> str | None:
    """Describe how a real run of an operator breaks what is stated of it; None if it complies."""
    if not is_stated(str(func)):
        return None
    results = result if isinstance(result, tuple | list) else (result,)
    call = Operands(constant, _span_of).call(func, args, kwargs, results)
    if not all(holds_at(each, {}) for each in stated_promises(call)):
        sizes = ", ".join(str(list(each.shape) if isinstance(each, torch.Tensor) else each) for each in results)
        return f"breaks its promise: it gives {sizes}"
    spans = stated_contents(call, Bounds({}).of)
    pairs = zip(results, spans, strict=False)
    return next((text for each, stated in pairs if (text := _outside(each, stated)) is not None), None)


def _span_of(tensor: torch.Tensor) -> Span:
    """Return the range of a real tensor's integers."""
    if str(tensor.dtype) not in INTEGRAL or tensor.layout != torch.strided or tensor.numel() == 0:
        return ANYTHING
    return span(int(tensor.min()), int(tensor.max()))


def _outside(result: Any, stated: Span) -> str | None:
    if not isinstance(result, torch.Tensor):
        return None
    found = _span_of(result)
    if found.low is not None and stated.low is not None and _value(found.low) < _value(stated.low):
        return f"gives {found.low} where its contents are stated to begin at {stated.low}"
    if found.high is not None and stated.high is not None and _value(found.high) > _value(stated.high):
        return f"gives {found.high} where its contents are stated to end at {stated.high}"
    return None


def _value(end: Term) -> int:
    return evaluate(end, {})
