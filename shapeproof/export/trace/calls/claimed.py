"""Treat the numbers that a user's own operator returns as data, even if its fake kernel computes them.

When the operator runs, torch compares the sizes of its results with the real sizes. A number that was believed would
leave no trace of the operator in the graph, and nothing to compare. The model may check what follows from the fake
kernel (`torch._check`).
"""

from __future__ import annotations

from typing import Any

import torch

from shapeproof.export.ops import schemas
from shapeproof.export.shim.numbers.sym_nodes import ExactShapeEnv
from shapeproof.export.shim.numbers.symbols import PLAIN, data_symbols
from shapeproof.export.shim.trees import map_all


def as_data(env: ExactShapeEnv, func: Any, result: Any) -> Any:
    """Return the result with an unbacked symbol in place of each number that the operator's fake kernel claims."""
    if isinstance(result, torch.Tensor) or result is NotImplemented or not schemas.is_foreign(func):
        return result
    fresh = set(env.pending_fresh_unbacked_symbols)
    return map_all(result, lambda value: value if _is_data(value, fresh) else _from_data(env, func, value))


def _is_data(value: Any, fresh: set[Any]) -> bool:
    if type(value) in PLAIN:
        return not fresh.isdisjoint(data_symbols(value))
    return not isinstance(value, int | float)


def _from_data(env: ExactShapeEnv, func: Any, value: Any) -> torch.SymInt:
    if isinstance(value, bool | float | torch.SymBool | torch.SymFloat):
        message = f"{func} gives a {'bool' if isinstance(value, bool | torch.SymBool) else 'float'}, which torch "
        message += "cannot keep symbolic: return a tensor instead"
        raise NotImplementedError(message)
    return env.create_unbacked_symint()
