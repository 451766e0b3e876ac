"""Operators with fakes that are right, and the same with a fault planted; test_operators.py holds what is found."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim

from shapeproof.operators import TensorSpec, ge, le, promise

ROWS = Dim("n", min=0, max=48)
COLUMNS = Dim("m", min=0, max=6)
MATRIX = (TensorSpec(torch.float32, (ROWS, 3)),)
VECTOR = (TensorSpec(torch.float32, (ROWS,)),)
FREE = (TensorSpec(torch.float32, (ROWS, COLUMNS)),)
PAIR = (TensorSpec(torch.float32, (ROWS, 3)), TensorSpec(torch.float32, (ROWS, 2)))
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Planted:
    """A kernel, a fake that is right, and fakes or kernels that are wrong."""

    kernel: Callable[..., Any]
    fake: Callable[..., Any]
    specs: tuple[Any, ...] = MATRIX
    writes: tuple[str, ...] = ()
    promised: Callable[..., Any] | None = None


def operator(planted):
    """The operator, under a name of its own."""
    name = f"shapeproof_planted::op{next(_NUMBERS)}"
    made = torch.library.custom_op(name, planted.kernel, mutates_args=planted.writes)
    made.register_fake(planted.fake)
    if planted.promised is not None:
        promise(name)(planted.promised)
    return made


def fresh():
    """A size from data."""
    return torch.library.get_ctx().new_dynamic_size()


def bounded(call):
    return [le(call.result().sizes[0], call.tensor("x").numel)]


# ---------------------------------------------------------------------- kernels


def half(x: Tensor) -> Tensor:
    return x[: (x.shape[0] + 1) // 2].clone()


def scaled(x: Tensor) -> Tensor:
    return x[: int(x.shape[0] * 0.5)].clone()


def odd(x: Tensor) -> Tensor:
    return x[: x.shape[0] - 1].clone() if x.shape[0] == 37 else x.clone()


def same(x: Tensor) -> Tensor:
    return x.clone()


def padded(x: Tensor) -> Tensor:
    return torch.nn.functional.pad(x, (0, 0, 0, -x.shape[0] % 8)).clone()


def wide(x: Tensor) -> Tensor:
    return torch.cat([x, x], 1)


def turned(x: Tensor) -> Tensor:
    return x.t().clone(memory_format=torch.contiguous_format)


def by_columns(x: Tensor) -> Tensor:
    return x.t().clone(memory_format=torch.contiguous_format).t()


def doubled(x: Tensor) -> Tensor:
    return x.double()


def counted(x: Tensor) -> Tensor:
    return x.argmax(1) if x.shape[1] else x.new_zeros(x.shape[0], dtype=torch.int64)


def masked(x: Tensor) -> Tensor:
    return x > 0


def added(x: Tensor) -> None:
    x.add_(1)


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[: x.shape[0] // 3].clone(), x[x.shape[0] // 3 :].clone()


def listed(x: Tensor) -> list[Tensor]:
    return [x.clone(), x.sum(0)]


def joined(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x, y], 1)


def outer(x: Tensor) -> Tensor:
    return x @ x.t()


def flat(x: Tensor) -> Tensor:
    return x.reshape(-1).clone()


def pooled(x: Tensor) -> Tensor:
    return x.sum(0, keepdim=True)


def strided(x: Tensor) -> Tensor:
    return x[::3].clone()


def squared(x: Tensor) -> Tensor:
    side = math.isqrt(x.shape[0])
    return x[: side * side].clone()


def branched(x: Tensor) -> Tensor:
    return x.new_ones(4, 3) if x.shape[0] < 4 else x.clone()


def capped(x: Tensor) -> Tensor:
    return x[:10].clone()


def positive(x: Tensor) -> Tensor:
    return x[x > 0].clone()


def places(x: Tensor) -> Tensor:
    return x.nonzero().clone(memory_format=torch.contiguous_format)


def windows(x: Tensor) -> Tensor:
    return x.unfold(0, 2, 1).clone(memory_format=torch.contiguous_format)


def size(x: Tensor) -> int:
    return x.shape[0] + 1


def writing(x: Tensor) -> Tensor:
    x.add_(1)
    return x.clone()


def writing_once(x: Tensor) -> Tensor:
    if x.shape[0] == 9:
        x.mul_(2)
    return x.clone()


def itself(x: Tensor) -> Tensor:
    return x


def twins(x: Tensor) -> tuple[Tensor, Tensor]:
    made = x.clone()
    return made, made


def by_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy()[: (x.shape[0] + 1) // 2] * 2)


def numpy_odd(x: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy()[: x.shape[0] - (x.shape[0] == 23)] * 2)


def rows(count: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
    """A fake with so many rows."""
    return lambda x: x.new_empty(count(x.shape[0]), *x.shape[1:])


RIGHT = {
    "half": Planted(half, rows(lambda n: (n + 1) // 2)),
    "half, as floats": Planted(scaled, rows(lambda n: int(n * 0.5))),
    "half, as floats against integers": Planted(scaled, rows(lambda n: n // 2)),
    "odd at 37": Planted(odd, lambda x: x.new_empty(x.shape[0] - (1 if x.shape[0] == 37 else 0), 3)),
    "same": Planted(same, torch.empty_like),
    "padded": Planted(padded, rows(lambda n: (n + 7) // 8 * 8)),
    "padded, written otherwise": Planted(padded, rows(lambda n: n + -n % 8)),
    "wide": Planted(wide, lambda x: x.new_empty(x.shape[0], 2 * x.shape[1]), FREE),
    "turned": Planted(turned, lambda x: x.new_empty(x.shape[1], x.shape[0]), FREE),
    "by columns": Planted(by_columns, lambda x: x.new_empty(x.shape[1], x.shape[0]).t()),
    "doubled": Planted(doubled, lambda x: torch.empty_like(x, dtype=torch.float64)),
    "counted": Planted(counted, lambda x: x.new_empty(x.shape[0], dtype=torch.int64)),
    "masked": Planted(masked, lambda x: torch.empty_like(x, dtype=torch.bool), FREE),
    "added": Planted(added, lambda x: None, writes=("x",)),  # noqa: ARG005
    "split": Planted(split, lambda x: (x.new_empty(x.shape[0] // 3, 3), x.new_empty(x.shape[0] - x.shape[0] // 3, 3))),
    "listed": Planted(listed, lambda x: [torch.empty_like(x), x.new_empty(x.shape[1])], FREE),
    "joined": Planted(joined, lambda x, y: x.new_empty(x.shape[0], x.shape[1] + y.shape[1]), PAIR),
    "outer": Planted(outer, lambda x: x.new_empty(x.shape[0], x.shape[0]), FREE),
    "flat": Planted(flat, lambda x: x.new_empty(x.numel()), FREE),
    "pooled": Planted(pooled, lambda x: x.new_empty(1, x.shape[1]), FREE),
    "every third": Planted(strided, rows(lambda n: (n + 2) // 3)),
    "branched": Planted(branched, rows(lambda n: max(n, 4))),
    "branched, as one": Planted(branched, rows(lambda n: torch.sym_max(n, 4))),
    "capped": Planted(capped, rows(lambda n: torch.sym_min(n, 10))),
    "from data, bounded": Planted(positive, lambda x: x.new_empty(fresh()), VECTOR, promised=bounded),
    "from data, at least 0": Planted(
        positive,
        lambda x: x.new_empty(fresh()),
        VECTOR,
        promised=lambda call: [*bounded(call), ge(call.result().sizes[0], 0)],
    ),
    "places": Planted(places, lambda x: x.new_empty(fresh(), 2, dtype=torch.int64), FREE, promised=bounded),
    "size": Planted(size, lambda x: x.shape[0] + 1),
    "a fake that asks": Planted(same, lambda x: torch.empty_like(x) if x.shape[0] > 5 else x.new_empty(x.shape), FREE),
    "no elements": Planted(same, lambda x: x.new_empty(x.shape), (TensorSpec(torch.float32, (ROWS, 0)),)),
}
"""Each with a kernel in Python, which is proved."""

OPAQUE = {
    "numpy": Planted(by_numpy, rows(lambda n: (n + 1) // 2)),
}
"""Right, and not to be traced."""

WRONG = {
    "one row too few": Planted(half, rows(lambda n: n // 2)),
    "one row too many": Planted(half, rows(lambda n: n // 2 + 1)),
    "one column too many": Planted(wide, lambda x: x.new_empty(x.shape[0], 2 * x.shape[1] + 1)),
    "wrong at 37": Planted(odd, torch.empty_like),
    "wrong at 0": Planted(same, rows(lambda n: torch.sym_max(n, 1))),
    "wrong from 41 on": Planted(same, rows(lambda n: torch.sym_min(n, 40))),
    "wrong far out": Planted(
        lambda x: x[:-1].clone() if x.shape[0] == 1000 else x.clone(),
        torch.empty_like,
        (TensorSpec(torch.float32, (Dim("far", min=0), 3)),),
    ),
    "rounded otherwise": Planted(padded, rows(lambda n: (n // 8 + 1) * 8)),
    "every third, rounded down": Planted(strided, rows(lambda n: n // 3)),
    "rows and columns": Planted(turned, torch.empty_like, FREE),
    "no rows left": Planted(split, lambda x: (x.new_empty(x.shape[0] // 3, 3), x.new_empty(x.shape[0] // 3 * 2, 3))),
    "not capped": Planted(capped, torch.empty_like),
    "a branch forgotten": Planted(branched, torch.empty_like),
    "a float's half, rounded up": Planted(scaled, rows(lambda n: math.ceil(n * 0.5))),
    "another rank": Planted(pooled, lambda x: x.new_empty(x.shape[1]), FREE),
    "another dtype": Planted(doubled, torch.empty_like),
    "a dtype of indices": Planted(counted, lambda x: x.new_empty(x.shape[0])),
    "a mask as numbers": Planted(masked, lambda x: torch.empty_like(x, dtype=torch.uint8), FREE),
    "another stride": Planted(by_columns, torch.empty_like),
    "a stride that is not": Planted(same, lambda x: x.new_empty(x.shape[1], x.shape[0]).t()),
    "an alias": Planted(itself, torch.empty_like),
    "an alias that the fake gives": Planted(same, lambda x: x),
    "two results that are one": Planted(twins, lambda x: (torch.empty_like(x), torch.empty_like(x))),
    "a write that is not said": Planted(writing, torch.empty_like),
    "a write at 9": Planted(writing_once, torch.empty_like),
    "a result too few": Planted(listed, lambda x: [torch.empty_like(x)], FREE),
    "from data without a bound": Planted(positive, lambda x: x.new_empty(fresh()), VECTOR),
    "a bound that is none": Planted(
        positive,
        lambda x: x.new_empty(fresh()),
        VECTOR,
        promised=lambda call: [le(2 * call.result().sizes[0], call.tensor("x").numel)],
    ),
    "a range that is too small": Planted(
        positive, lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size(max=5)), VECTOR
    ),
    "numpy, wrong at 23": Planted(numpy_odd, torch.empty_like),
    "a fake that refuses": Planted(same, lambda x: (torch._check(x.shape[0] != 5), torch.empty_like(x))[1]),
}


def _typed(function):
    """A lambda as a kernel: torch reads the schema off its annotations."""
    function.__annotations__ = {"x": Tensor, "return": Tensor}
    return function


_typed(WRONG["wrong far out"].kernel)
