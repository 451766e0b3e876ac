"""Named tiny models, each of which shows one way of computing, with inputs and declared dims.

Each takes milliseconds to run and about a tenth of a second to trace. `TINY` has them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch.export import Dim


@dataclass(frozen=True)
class Tiny:
    """A model by its forward, `forward(self, n, *inputs)` with n the first size of the first input.

    Attributes:
        forward: what it computes.
        inputs: its inputs of a size.
        sizes: the declared sizes of dimension 0 of every input.
        state: its parameters and buffers.
    """

    forward: Callable[..., Any]
    inputs: Callable[[int], tuple[torch.Tensor, ...]]
    sizes: range = range(2, 5)
    state: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def model(self) -> torch.nn.Module:
        """The model; its parameters and buffers are shared between calls."""
        forward, arity = self.forward, len(self.inputs(1))
        mod = _of_arity[arity](forward)
        for name, value in self.state.items():
            if isinstance(value, torch.nn.Parameter):
                mod.register_parameter(name, value)
            else:
                mod.register_buffer(name, value)
        return mod

    def shapes(self) -> tuple[Any, ...]:
        """What dynamic_shapes is: one dim for all."""
        dim = Dim("n", min=self.sizes[0], max=self.sizes[-1])
        return tuple({0: dim} for _ in self.inputs(1))


class _One(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x.shape[0], x)


class _Two(_One):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:  # type: ignore[override]
        return self.function(self, x.shape[0], x, y)


_of_arity = {1: _One, 2: _Two}


def matrix(rows: int) -> tuple[torch.Tensor, ...]:
    """A matrix of numbers of either sign."""
    return (torch.arange(rows * 4.0).reshape(rows, 4).sin() * 3,)


def two(rows: int) -> tuple[torch.Tensor, ...]:
    """Two matrices."""
    return (*matrix(rows), torch.arange(rows * 4.0).reshape(rows, 4).cos() * 3)


def _arithmetic(_: Any, n: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.relu(x + y) * 2.5 - n, torch.maximum(x, y).amax(1, keepdim=True)


def _reductions(_: Any, n: Any, x: torch.Tensor) -> Any:
    low, high = torch.aminmax(x, dim=1)
    return high - low, x.sum(0), x.std(1) / (n + 1), x.argmax(1)


def _layouts(_: Any, n: Any, x: torch.Tensor) -> Any:
    turned = x.t().contiguous()
    return turned.view(n * 4), x.reshape(2, -1), x[:, 1:3].unsqueeze(0), torch.cat([x, x.flip(1)]).to(torch.float64)


def _written(mod: Any, _: Any, x: torch.Tensor) -> Any:
    rows = x.clone()
    rows[:, 0].add_(1)
    rows.mul_(mod.scale)
    mod.seen.add_(1)
    x.view(-1)[:0].zero_()
    return rows + x, mod.seen.clone()


def _weights(mod: Any, _: Any, x: torch.Tensor) -> Any:
    constant = torch.tensor([1.0, -2.0, 0.0, 4.0])
    return F.linear(x, mod.left, mod.bias) + F.linear(x, mod.right, mod.bias) * constant + mod.bias.detach()


def _kept_statistics(mod: Any, _: Any, x: torch.Tensor) -> Any:
    return F.batch_norm(x, mod.mean, mod.var, training=True) + x, mod.mean.reshape(2, 2)


def _complex(_: Any, __: Any, x: torch.Tensor) -> Any:
    turned = torch.complex(x, x + 1).conj()
    return torch.view_as_real(turned * 2), turned.imag


def _branch(_: Any, n: Any, x: torch.Tensor) -> Any:
    low, high = torch.cond(x.sum() > 1, lambda x: (x + 1, x * n), lambda x: (x - 1, x.exp()), (x,))
    return low - high, low


def _without_gradient(_: Any, __: Any, x: torch.Tensor) -> Any:
    twice = x * 2
    flat = twice.view(-1).clone()
    with torch.no_grad():
        flat.mul_(3)
    return twice + flat.view(-1, 4), flat


def _counted(_: Any, n: Any, x: torch.Tensor) -> Any:
    rows = (x[:, 0] > 0).nonzero().squeeze(1)
    limit = x.abs().sum().to(torch.int64).item()
    torch._check(limit >= 0)
    torch._check(limit <= 1000)
    return x[rows] * n, x.new_full((2,), limit)


def _indexed(_: Any, n: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    x[:, 1] = y[:, 2]
    x.index_put_((torch.arange(n),), y, accumulate=True)
    return torch.where(x > y, x, y), F.pad(x, (1, 0), value=2.0)


def _weight(*sizes: int) -> torch.nn.Parameter:
    count = torch.Size(sizes).numel()
    return torch.nn.Parameter((torch.arange(float(count)) - count / 2).reshape(sizes) / 4)


TINY: Mapping[str, Tiny] = {
    "arithmetic": Tiny(_arithmetic, two),
    "reductions": Tiny(_reductions, matrix),
    "layouts": Tiny(_layouts, matrix, range(5)),
    "written": Tiny(_written, matrix, state={"scale": _weight(4), "seen": torch.zeros(2)}),
    "weights": Tiny(_weights, matrix, state={"left": _weight(4, 4), "right": _weight(4, 4), "bias": _weight(4)}),
    "kept statistics": Tiny(_kept_statistics, matrix, state={"mean": torch.ones(4), "var": torch.ones(4)}),
    "complex": Tiny(_complex, matrix),
    "branch": Tiny(_branch, matrix),
    "without gradient": Tiny(_without_gradient, matrix),
    "counted": Tiny(_counted, matrix),
    "indexed": Tiny(_indexed, two),
}


class Hundredfold(torch.autograd.Function):
    """A function with a backward of its own, which is not its derivative."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 1

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 100


class Attends(torch.nn.Module):
    """Attends to itself, without weights."""

    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]
