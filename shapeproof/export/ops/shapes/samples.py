"""Dtypes and dims of results, as eager gives them for a small sample of the operands: the run is remembered.

Law: where a rule gives a dtype, eager on the CPU raises nothing about dtypes, and its result has this dtype. The dtype
depends on the dtypes and ranks of the operands and on the other arguments, never on a size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from shapeproof.export.shim.process.modes import eagerly

Named = Mapping[str, Any]
Dims = tuple[int | None, ...]
Kinds = tuple[tuple[str, tuple[Any, ...]], ...]
DtypeRule = Callable[[Any, Named, Sequence[torch.Tensor]], "torch.dtype | None"]
"""From an operator, its arguments by name, and the tensors among them."""

WHOLE = frozenset({torch.int32, torch.int64})
KNOWN = frozenset({*WHOLE, torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64})
_MOST_DIMS = 8
"""The most dims of a sample whose sizes are distinct: it has at most 9! elements."""
_PLAIN = frozenset({bool, int, float, type(None), torch.dtype})


def of_floats(_func: Any, _named: Named, operands: Sequence[torch.Tensor]) -> torch.dtype | None:
    """Return the operands' dtype, if all are floats of one."""
    dtypes = {each.dtype for each in operands}
    return dtypes.pop() if len(dtypes) == 1 and operands[0].is_floating_point() else None


def of_eager(func: Any, named: Named, _operands: Sequence[torch.Tensor] = ()) -> torch.dtype | None:
    """Return the dtype that eager gives; None where it raises, and for an argument that is no plain number.

    >>> of_eager(torch.ops.aten.add.Tensor, {"self": torch.ones(3, dtype=torch.int32), "other": 2.5})
    torch.float32
    """
    found = _sampled(func, named)
    return found[0] if found is not None and found[0] in KNOWN else None


def dims_of(func: Any, named: Named) -> Dims | None:
    """Return the dim of the one operand for each dim of the result, None for a dim of size 1; None if eager raises.

    Eager also runs on an operand without elements: what it refuses there is left to torch.

    >>> dims_of(torch.ops.aten.sum.dim_IntList, {"self": torch.ones(5, 6), "dim": [0], "keepdim": True})
    (None, 1)
    """
    found = _sampled(func, named)
    return None if found is None else found[1]


def _sampled(func: Any, named: Named) -> tuple[torch.dtype, Dims | None] | None:
    kinds = {name: _kind(value) for name, value in named.items()}
    return _run(func, torch.get_default_dtype(), tuple(kinds.items())) if all(map(_is_plain, kinds.values())) else None


def _kind(value: Any) -> tuple[Any, ...]:
    """Return what a dtype depends on: of a tensor, its dtype and rank. The numbers 1, 1.0 and True differ."""
    if isinstance(value, torch.Tensor):
        return torch.Tensor, value.dtype, value.dim()
    return type(value), tuple(map(_kind, value)) if isinstance(value, list | tuple) else value


def _is_plain(kind: tuple[Any, ...]) -> bool:
    cls, *rest = kind
    return cls in {torch.Tensor, *_PLAIN} or (cls in {list, tuple} and all(map(_is_plain, rest[0])))


@functools.lru_cache(4096)
def _run(func: Any, _default: torch.dtype, kinds: Kinds) -> tuple[torch.dtype, Dims | None] | None:
    ranks = [kind[2] for _, kind in kinds if kind[0] is torch.Tensor]
    alone = len(ranks) == 1 and ranks[0] <= _MOST_DIMS
    with eagerly():
        try:
            made, *_ = [
                func(**{name: _made(kind, size) for name, kind in kinds}) for size in ((2, 0) if alone else (1,))
            ]
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            return None
    return made.dtype, tuple(None if size == 1 else size - 2 for size in made.shape) if alone else None


def _made(kind: Any, size: int) -> Any:
    """Return an argument: of a tensor whose sizes start at 2, all are distinct."""
    cls, *rest = kind
    if cls is torch.Tensor:
        shape = [size + at if size > 1 else size for at in range(rest[1])]
        return torch.zeros(shape, dtype=rest[0], device="cpu")
    return [_made(each, size) for each in rest[0]] if cls in {list, tuple} else rest[0]


def converted(_func: Any, named: Named, _operands: Sequence[torch.Tensor]) -> torch.dtype | None:
    """Return the dtype that a tensor on the CPU is converted to."""
    own, memory = named["self"].dtype, named["memory_format"]
    dtype = named["dtype"] or own
    fresh = named["copy"] or dtype != own  # else eager may return the operand itself
    plain = fresh and _is_made_as_usual(named) and memory in {None, torch.preserve_format, torch.contiguous_format}
    return dtype if plain and {dtype, own} <= KNOWN else None


def filled(_func: Any, named: Named, _operands: Sequence[torch.Tensor]) -> torch.dtype | None:
    """Return the dtype of a tensor that is made like another, or of integers; eager counts no bools."""
    like = named.get("self")
    dtype = named["dtype"] or (torch.int64 if like is None else like.dtype)
    counts_bools = like is None and dtype == torch.bool
    return dtype if _is_made_as_usual(named) and dtype in KNOWN and not counts_bools else None


def _is_made_as_usual(named: Named) -> bool:
    """True if a tensor is to be made on the CPU, strided and not pinned."""
    device = named.get("device")
    on_cpu = device is None or torch.device(device).type == "cpu"
    return on_cpu and named.get("layout") in {None, torch.strided} and not named.get("pin_memory")


def is_real(number: Any) -> bool:
    """True for a plain number."""
    return type(number) in {bool, int, float}
