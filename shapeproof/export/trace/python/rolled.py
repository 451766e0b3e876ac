"""Records one step of a loop for all of them: `scan` of torch's graphs.

A loop over a symbolic size is recorded as one operator, whose body is one step. Law (induction over the steps): the
first step is given what the loop is given, each later one what the step before it carries on, and the body is that of
an arbitrary step. A body depends on its step only through rows: `x[:, i]` of a tensor that the loop leaves as it is.
Whatever else would depend on it raises, and then the loop is written into the program as often as it runs.

A body runs twice while it is recorded, and not once a step. So neither it nor what it calls may leave anything behind
in Python: no attribute, no element, no global name. What they do is observed, by their code and by the methods of
containers that they call.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from shapeproof.export.shim.bodies import Body, Index, NotOneBody, is_recording
from shapeproof.export.source.abstract import is_a
from shapeproof.export.source.instructions import adds_in_place, leaves_something
from shapeproof.export.trace.python.plain_numbers import Range
from shapeproof.export.trace.python.plain_objects import FOREIGN

_Step = Callable[..., tuple[tuple[Any, ...], tuple[Any, ...]]]


class Rows(Sequence[Any]):
    """A list to which each step appended a tensor: it is stacked or concatenated, and nothing else."""

    def __init__(self, stacked: torch.Tensor) -> None:
        self.stacked = stacked

    def _refuse(self, *_: object) -> Any:
        raise NotOneBody("the rows of the loop are more than joined")

    __len__ = __getitem__ = __iter__ = __bool__ = _refuse


class Filled:
    """A tensor of which each step writes a row."""

    def __init__(self, tensor: torch.Tensor, dim: int) -> None:
        self.tensor = tensor
        self._dim = dim

    def row(self, row: Any) -> torch.Tensor:
        """Return what is written of a row: its elements in the tensor's type, as often as they are written."""
        shape = [*self.tensor.shape]
        del shape[self._dim]
        row = row if isinstance(row, torch.Tensor) else torch.full((), row, device=self.tensor.device)
        return row.to(self.tensor.dtype).expand(shape)

    def take(self, start: int, stacked: torch.Tensor) -> None:
        """Write all rows, from a number on."""
        dim = self._dim % self.tensor.dim()
        self.tensor.narrow(dim, start, stacked.shape[0]).copy_(stacked.movedim(0, dim))


def can_roll(steps: object) -> bool:
    """True for the numbers from a plain one on, of which there is a symbolic number, while a program is recorded."""
    if type(steps) is not Range or type(steps.length) is not torch.SymInt or not is_recording(steps.length):
        return False
    return type(steps.start) is int and steps.start >= 0 and type(steps.step) is int and steps.step == 1


def roll(steps: Range, step: _Step, carried: tuple[Any, ...], sinks: tuple[Any, ...]) -> tuple[Any, Any]:
    """Record a loop: `step` takes the number of the step and what is carried; it returns what is carried on, and rows.

    The rows are for the sinks: lists, and tensors that are filled. Return what is carried on at last, and the rows. The
    first step is recorded apart if the loop begins with a plain number or None.
    """
    start, count, first = steps.start, steps.length, None
    peeled = not all(isinstance(each, torch.Tensor) for each in carried)
    filled = [each for each in sinks if type(each) is Filled]
    if peeled or len(filled) < len(sinks):
        if count == 0:
            return carried, sinks
        if peeled and filled:
            raise NotOneBody("a loop that fills a tensor begins with something else than tensors")
        if peeled:
            carried, first = step(start, *carried)
            start, count = start + 1, count - 1
    carried, rows = _recorded(step, sinks, Body(carried, start, count, [each.tensor for each in filled]))
    if first is not None:
        rows = [torch.cat([one.unsqueeze(0), others]) for one, others in zip(first, rows, strict=True)]
    for sink, stacked in zip(sinks, rows, strict=True):
        if type(sink) is Filled:
            sink.take(start, stacked)
    return carried, tuple(map(Rows, rows))


def _recorded(step: _Step, sinks: Sequence[Any], body: Body) -> tuple[tuple[Any, ...], Sequence[torch.Tensor]]:
    ways = iter((_leaving_nothing(step),))

    def run(*values: Any) -> tuple[Any, list[Any]]:
        with next(ways, contextlib.nullcontext()):  # the second time, it runs as it ran the first time
            carried, rows = step(Index(0), *values)
        pairs = zip(sinks, rows, strict=True)
        return carried, [sink.row(row) if type(sink) is Filled else row for sink, row in pairs]

    return body.record(run)


def join(function: Callable[..., Any], rows: Any, *args: Any, **kwargs: Any) -> Any:
    """Call torch.stack or torch.cat on the rows of a loop; any other call is left as it is."""
    if type(rows) is not Rows:
        return function(rows, *args, **kwargs)
    dim = args[0] if args else kwargs.get("dim", 0)
    known = function in {torch.stack, torch.cat, torch.concat} and type(dim) is int and kwargs.keys() <= {"dim"}
    if not known or len(args) > 1:
        raise NotOneBody("the rows of the loop are more than joined")
    stacked = rows.stacked
    if function is torch.stack:
        return stacked.movedim(0, dim).contiguous()
    dim %= stacked.dim() - 1
    return stacked.movedim(0, dim).flatten(dim, dim + 1).contiguous()


_CHANGING = frozenset(
    {"append", "appendleft", "add", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove"}
    | {"reverse", "send", "setdefault", "sort", "update", "__setitem__", "__delitem__", "__next__", "__iadd__"}
    | {"setitem", "delitem", "iadd", "iconcat", "heappush", "heappop"}
)
_CALLED = frozenset({"next", "setattr", "delattr", "exec", "eval", "globals", "locals", "vars"})
"""Python's own methods and functions that change an object, or may."""
_TRACING = FOREIGN | {"sympy", "mpmath", "numpy", "None"}
"""The packages that trace; what a graph has generated has no name."""


@contextlib.contextmanager
def _leaving_nothing(step: Any) -> Iterator[None]:
    """Refuse a step that may leave something behind in Python, or whose functions may.

    What a step itself adds in place, it adds to a tensor (loops.py).
    """
    codes, called, models = dict[int, CodeType](), set[str](), dict[int, bool]()

    def observe(frame: FrameType, event: str, function: Any) -> None:
        code = frame.f_code
        if id(code) not in codes:
            codes[id(code)] = code
            models[id(code)] = str(frame.f_globals.get("__name__")).partition(".")[0] not in _TRACING
        if event == "c_call" and models[id(code)]:
            owner = getattr(function, "__self__", None)
            changing = _CALLED if owner is builtins else _CHANGING
            if function.__name__ in changing and not is_a(owner, torch.Tensor):
                called.add(function.__name__)

    before = sys.getprofile()
    sys.setprofile(observe)
    try:
        yield
    finally:
        sys.setprofile(before)
    run = [code for key, code in codes.items() if models[key]]
    if called or any(leaves_something(code) or (adds_in_place(code) and code is not step.__code__) for code in run):
        raise NotOneBody("a step of the loop may leave something behind")
