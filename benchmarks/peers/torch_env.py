"""torch's own ShapeEnv: what torch.export knows about sizes while it traces.

The questions are asked inside the `forward` of a model that stock torch.export traces, one input for each symbol:
`statically_known_true` asks ShapeEnv for what it knows without a guard, and a branch (`if fact:`) makes it learn as
a traced program does. Nothing private is touched. When all is asked, an exception ends the export.
"""

from __future__ import annotations

import contextlib
import logging
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import statically_known_true

from benchmarks.peers.reading import Operations, read
from benchmarks.peers.worker import Peer, Session, serve


class Done(Exception):
    """All is asked; there is nothing to export."""


OPERATIONS: Operations = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "neg")},
    **{name: getattr(operator, name) for name in ("lt", "le", "eq", "ne", "ge", "gt")},
    "min": torch.sym_min,
    "max": torch.sym_max,
    "both": operator.and_,
    "either": operator.or_,
    "opposite": torch.sym_not,
}


class TorchEnv:
    """The sizes of the inputs that are being traced."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def read(self, text: str) -> Any:
        """The question as a symbolic bool."""
        return read(text, self._names, OPERATIONS)

    def ask(self, question: Any) -> str:
        """What is known without a guard."""
        if statically_known_true(question):
            return "always"
        return "never" if statically_known_true(torch.sym_not(question)) else "unknown"

    def learn(self, fact: Any) -> None:
        """Branch on it: the example decides, and a guard is kept."""
        bool(fact)


class Questioned(nn.Module):
    """A model whose `forward` asks."""

    def __init__(self, names: list[str], use: Callable[[Peer], None]) -> None:
        super().__init__()
        self._sizes = names
        self._use = use

    def forward(self, inputs: list[Tensor]) -> Tensor:
        """Ask everything, then leave."""
        self._use(TorchEnv(dict(zip(self._sizes, (each.shape[0] for each in inputs), strict=True))))
        raise Done


def meet(session: Session, use: Callable[[Peer], None]) -> None:
    """Be asked, while an export is under way."""
    logging.disable(logging.CRITICAL)
    dims = [{0: Dim(name, **_written(session.bounds.get(name, (None, None))))} for name in session.example]
    inputs = [torch.empty(size) for size in session.example.values()]
    with contextlib.suppress(Done), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.export(Questioned(list(session.example), use), (inputs,), dynamic_shapes=(dims,))


def _written(pair: tuple[int | None, int | None]) -> dict[str, int]:
    return {name: bound for name, bound in zip(("min", "max"), pair, strict=True) if bound is not None}


if __name__ == "__main__":
    serve(meet)
