"""The dtypes of operators' results, from their arguments and from the dtype that all float operands share, if any.

Law: where a rule gives a dtype, eager on the CPU raises nothing about dtypes, and its result has this dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

Named = Mapping[str, Any]
DtypeRule = Callable[[Named, "torch.dtype | None"], "torch.dtype | None"]

WHOLE = frozenset({torch.int32, torch.int64})
KNOWN = frozenset({*WHOLE, torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64})


def of_floats(*names: str) -> DtypeRule:
    """Return a rule: the operands' dtype, if all given operands are floats."""

    def dtype(named: Named, floats: torch.dtype | None) -> torch.dtype | None:
        given = [named[name] for name in names if named[name] is not None]
        tensors = [each for value in given for each in (value if isinstance(value, list | tuple) else [value])]
        return floats if all(each.dtype == floats for each in tensors) else None

    return dtype


def promoted(named: Named, floats: torch.dtype | None) -> torch.dtype | None:
    """Return the float dtype if a float tensor with dims decides the promotion; others are converted to it."""
    tensors = [each for each in (named["self"], named["other"]) if isinstance(each, torch.Tensor)]
    known = all(each.dtype in KNOWN for each in tensors)
    decides = all(each.dim() or each.dtype == floats for each in tensors)
    return floats if known and decides and any(each.dim() and each.dtype == floats for each in tensors) else None


def answer(named: Named, _: torch.dtype | None) -> torch.dtype | None:
    """Return the dtype of a comparison."""
    tensors = [each for each in (named["self"], named["other"]) if isinstance(each, torch.Tensor)]
    return torch.bool if all(each.dtype in KNOWN for each in tensors) else None


def of_bools(named: Named, _: torch.dtype | None) -> torch.dtype | None:
    """Return bool, if both operands are tensors of bools."""
    both = all(getattr(named[name], "dtype", None) == torch.bool for name in ("self", "other"))
    return torch.bool if both else None


def kept(named: Named, floats: torch.dtype | None) -> torch.dtype | None:
    """Return the operand's dtype, if the limits are numbers of its kind."""
    limits = [named[name] for name in ("min", "max") if named.get(name) is not None]
    if floats is not None:
        return floats if limits and all(map(is_real, limits)) else None
    whole = named["self"].dtype in WHOLE and all(type(limit) is int for limit in limits)
    return named["self"].dtype if whole and limits else None


def summed(named: Named, floats: torch.dtype | None) -> torch.dtype | None:
    """Return the dtype of a sum: bools and integers are summed as int64."""
    if named["dtype"] is not None or named["self"].dtype not in KNOWN:
        return None
    return floats or torch.int64


def arithmetic(named: Named, floats: torch.dtype | None) -> torch.dtype | None:
    """Return the dtype of a sum or a product: of integers, the one that all tensors share."""
    if floats is not None:
        return promoted(named, floats)
    operands = (named["self"], named["other"])
    dtypes = {each.dtype for each in operands if isinstance(each, torch.Tensor)}
    plain = all(type(each) in {int, bool} for each in operands if not isinstance(each, torch.Tensor))
    whole = len(dtypes) == 1 and dtypes <= WHOLE and type(named.get("alpha", 1)) is int
    return dtypes.pop() if plain and whole else None


def subtracted(named: Named, floats: torch.dtype | None) -> torch.dtype | None:
    """Return the dtype of a difference: that of a sum, except that eager subtracts no bools."""
    operands = (named["self"], named["other"])
    bools = any(each is True or each is False or getattr(each, "dtype", None) == torch.bool for each in operands)
    return None if bools else arithmetic(named, floats)


def chosen(named: Named, floats: torch.dtype | None) -> torch.dtype | None:
    """Return the dtype of `where`: that of a sum of its two sides."""
    return arithmetic(named, floats) if named["condition"].dtype == torch.bool else None


def of_whole(named: Named, _: torch.dtype | None) -> torch.dtype | None:
    """Return the operand's dtype, if it is an integer."""
    dtype: torch.dtype = named["self"].dtype
    return dtype if dtype in WHOLE else None


def of_operand(named: Named, _: torch.dtype | None) -> torch.dtype | None:
    """Return the operand's dtype."""
    dtype: torch.dtype = named["self"].dtype
    return dtype if dtype in KNOWN else None


def converted(named: Named, _: torch.dtype | None) -> torch.dtype | None:
    """Return the dtype that a tensor on the CPU is converted to."""
    own, memory = named["self"].dtype, named["memory_format"]
    dtype = named["dtype"] or own
    fresh = named["copy"] or dtype != own  # else eager may return the operand itself
    plain = fresh and _is_made_as_usual(named) and memory in {None, torch.preserve_format, torch.contiguous_format}
    return dtype if plain and {dtype, own} <= KNOWN else None


def counting(named: Named, _: torch.dtype | None) -> torch.dtype | None:
    """Return the dtype of `arange` of integers."""
    dtype = named["dtype"] or torch.int64
    return dtype if _is_made_as_usual(named) and dtype in KNOWN - {torch.bool} else None


def filled(named: Named, _: torch.dtype | None) -> torch.dtype | None:
    """Return the dtype of a tensor that is made like another, and filled."""
    dtype = named["dtype"] or named["self"].dtype
    return dtype if _is_made_as_usual(named) and dtype in KNOWN else None


def idle(named: Named, floats: torch.dtype | None) -> torch.dtype | None:
    """Return the operand's dtype, if a dropout drops nothing; a probability that torch rejects is left to torch."""
    p, train = named["p"], named["train"]
    return floats if type(p) in {int, float} and 0 <= p <= 1 and train is False else None


def _is_made_as_usual(named: Named) -> bool:
    """True if a tensor is to be made on the CPU, strided and not pinned."""
    device = named.get("device")
    on_cpu = device is None or torch.device(device).type == "cpu"
    return on_cpu and named.get("layout") in {None, torch.strided} and not named.get("pin_memory")


def is_real(number: Any) -> bool:
    """True for a plain number."""
    return type(number) in {bool, int, float}
