"""Tries whether a disagreement can give a wrong "proved": a program uses the operator there, and is run beside eager.

The program takes contiguous tensors and lays them out as the call has them. Each size of the call is dynamic, and 0
and 1 are declared. A way of reading looks at what disagrees: a branch on it, or a number made of a stride.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim

from benchmarks.operators.calls import Call, contiguous, make_tensor, quietly, resolve
from shapeproof.export import check
from shapeproof.export.explore.beside_eager.laid_out import laid_otherwise
from shapeproof.export.explore.beside_eager.runner import unequal
from shapeproof.export.shim.process.idle_work import few_threads, quiet
from shapeproof.export.shim.trees import leaves

_GENERIC = 4
"""What a size of 0 or 1 is in the example, so that no example is the call itself."""
_POINTS = 10


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(values) if isinstance(leaf, torch.Tensor)]


def _numbers(result: Any, read: Callable[[torch.Tensor], Any]) -> Any:
    """The results, and what is read of each as a tensor."""
    results = _tensors([result])
    return [*results, *(torch.full((), read(each)) for each in results)]


READINGS: Mapping[str, Callable[[Any, list[torch.Tensor]], Any]] = {
    "value": lambda result, _: result,
    "contiguous": lambda result, _: _numbers(result, lambda each: 7 if each.is_contiguous() else 3),
    "stride": lambda result, _: _numbers(result, lambda each: sum((i + 2) * s for i, s in enumerate(each.stride()))),
    "offset": lambda result, _: _numbers(result, lambda each: each.storage_offset()),
    "size": lambda result, _: _numbers(result, lambda each: sum((i + 2) * s for i, s in enumerate(each.shape))),
    "branch": lambda result, _: [
        each.sin() if each.shape[:1].numel() > 2 else each.cos()
        for each in _tensors([result])
        if each.is_floating_point()
    ],
    "write": lambda result, given: [*(each.zero_() for each in _tensors([result])), *given],
}
OF_KIND = {
    "sizes": ("value", "size", "branch"),
    "dtype": ("value",),
    "strides": ("value", "contiguous", "stride"),
    "idle strides": ("contiguous", "stride"),
    "offset": ("offset",),
    "sharing": ("value", "write"),
    "bits": ("value",),
    "results": ("value",),
    "values": ("value",),
    "raises": ("value",),
    "refuses": ("value",),
}


@dataclass(frozen=True)
class Tried:
    """What became of a program.

    Attributes:
        reading: how it looks at what disagrees.
        status: of its report, or what was raised.
        wrong: how a program that is called proved differs from eager, and where; empty if it does not.
    """

    reading: str
    status: str
    wrong: str = ""


class Laid(torch.nn.Module):
    """Calls an operator on tensors that are laid out as in a call, and reads its results."""

    def __init__(self, call: Call, reading: str) -> None:
        super().__init__()
        self._call, self._reading = call, reading

    def forward(self, *given: torch.Tensor) -> Any:
        """As the reading has it."""
        parts = iter(given)
        laid: list[torch.Tensor] = []

        def tensor(text: Mapping[str, Any]) -> torch.Tensor:
            laid.append(lay(next(parts), text))
            return laid[-1]

        args, kwargs = self._call.make(tensor)
        if self._reading == "write" or self._call.op.endswith(("_.default", "!")):
            copies = iter([each.clone() for each in laid])
            args, kwargs = self._call.make(lambda _: next(copies))
        result = resolve(self._call.op)(*args, **kwargs)
        return READINGS[self._reading](result, _tensors([args, kwargs]))


def lay(tensor: torch.Tensor, text: Mapping[str, Any]) -> torch.Tensor:
    """A view of a contiguous tensor with the layout of another."""
    if _is_spread(text):
        return tensor[..., 1::2]
    zero = [index for index, stride in enumerate(text["strides"]) if stride == 0 and text["sizes"][index] > 1]
    if zero:
        return tensor.expand([-1 if index not in zero else text["sizes"][index] for index in range(tensor.dim())])
    order = _order(text)
    return tensor.permute([order.index(index) for index in range(len(order))])


def _is_spread(text: Mapping[str, Any]) -> bool:
    return bool(text["offset"]) and bool(text["sizes"])


def _order(text: Mapping[str, Any]) -> list[int]:
    """The dimensions, the outermost in memory first."""
    dims = range(len(text["sizes"]))
    if text["strides"] == contiguous(text["sizes"]):
        return list(dims)
    return sorted(dims, key=lambda dim: -text["strides"][dim])


def _given(text: Mapping[str, Any], value: Callable[[int], Any]) -> list[Any]:
    """The sizes of the contiguous tensor that a tensor is a view of."""
    sizes = [value(size) for size in text["sizes"]]
    if _is_spread(text):
        return [*sizes[:-1], 2 * sizes[-1] + 1]
    if any(stride == 0 and size > 1 for size, stride in zip(text["sizes"], text["strides"], strict=True)):
        return [
            1 if step == 0 and old > 1 else size
            for size, old, step in zip(sizes, text["sizes"], text["strides"], strict=True)
        ]
    return [sizes[dim] for dim in _order(text)]


def _filled(text: Mapping[str, Any], sizes: Sequence[int]) -> torch.Tensor:
    """A contiguous tensor with the values of another, again and again."""
    like = make_tensor({**text, "strides": contiguous(text["sizes"]), "offset": 0}).reshape(-1)
    count = torch.Size(sizes).numel()
    if not like.numel():
        whole = torch.rand(count) + 0.1 if like.is_floating_point() or like.is_complex() else torch.zeros(count)
        return whole.to(like.dtype).reshape(sizes)
    return like[torch.arange(count) % like.numel()].reshape(sizes)


def inputs_at(call: Call, values: Mapping[int, int]) -> tuple[torch.Tensor, ...]:
    """The inputs of a program where each size of the call is another."""
    return tuple(_filled(text, _given(text, lambda size: values.get(size, size))) for text in call.tensors)


def dynamic(call: Call, chosen: Sequence[int]) -> tuple[dict[int, Any], ...]:
    """dynamic_shapes of the program: the chosen sizes of the call."""
    dims = {size: Dim(f"d{size}", min=0, max=size + _GENERIC) for size in chosen}
    shapes: list[dict[int, Any]] = []
    for text in call.tensors:
        given = _given(text, lambda size: dims.get(size, size))
        shapes.append({index: each for index, each in enumerate(given) if not isinstance(each, int)})
    return tuple(shapes)


def probe(call: Call, kind: str) -> Iterator[Tried]:
    """The programs that look at a disagreement, and what becomes of them."""
    sizes = sorted({size for text in call.tensors for size in text["sizes"]})
    groups = dict.fromkeys([tuple(sizes), *((each,) for each in sizes)])
    for reading in OF_KIND[kind]:
        tried = Tried(reading, "no size to declare")
        for chosen in groups:
            tried = _try(call, reading, chosen)
            if tried.wrong or tried.status == "proved":
                break
        yield tried


def _try(call: Call, reading: str, chosen: Sequence[int]) -> Tried:
    if not chosen:
        return Tried(reading, "no size to declare")
    mod = Laid(call, reading)
    example = {size: _GENERIC if size < 2 else size for size in chosen}
    with warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        try:
            report = check(mod, inputs_at(call, example), dynamic_shapes=(dynamic(call, chosen),), narrow=True)
        except Exception as error:  # noqa: BLE001 - no program, whatever it says
            return Tried(reading, f"{type(error).__name__}: {str(error).strip()[:120]}")
        if report.program is None:
            return Tried(reading, report.status)
        return Tried(reading, report.status, _wrong(mod, report, call, chosen) if report.status == "proved" else "")


def _wrong(mod: Laid, report: Any, call: Call, chosen: Sequence[int]) -> str:
    run = report.program.module()
    try:
        apart = report.program.run_decompositions().module()
    except Exception:  # noqa: BLE001 - torch cannot, so no consumer gets it
        apart = None
    for point in _points(chosen):
        given = inputs_at(call, point)
        if not report.accepts(*given):
            continue
        mine, theirs, other = ([each.clone() for each in given] for _ in range(3))
        want, raised = _seeded(mod, mine)
        got, error = _seeded(run, theirs)
        if raised is not None or error is not None:
            if (raised is None) != (error is None):
                return f"{point}: eager {raised!r}, the program {error!r}"[:300]
            continue
        told = unequal((want, mine), (got, theirs)) or laid_otherwise(mine, leaves(want), theirs, leaves(got))
        if told is None and apart is not None:
            had, error = _seeded(apart, other)
            told = f"taken apart: {error!r}" if error is not None else unequal((want, mine), (had, other))
            told = told and f"taken apart: {told}"
        if told is not None:
            return f"{point}: {told}"
    return ""


def _seeded(run: Callable[..., Any], given: Any) -> tuple[Any, Exception | None]:
    """Run with one seed, and with memory that no kernel has written filled: `new_empty` has no values to compare.

    It runs on one thread: of two values that `max_unpool2d` puts in one place, the last one stays.
    """
    torch.manual_seed(0)
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(mode=True, warn_only=True)  # fills it
    try:
        with few_threads(sum(each.numel() for each in _tensors(given))):
            return quietly(run, given, {})
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _points(chosen: Sequence[int]) -> Iterator[dict[int, int]]:
    """The sizes of the call first, then small ones."""
    yield {size: size for size in chosen}
    values = itertools.product((0, 1, 2, 3), repeat=len(chosen))
    yield from (
        dict(zip(chosen, each, strict=True))
        for each in itertools.islice(values, 0, None, max(1, 4 ** len(chosen) // _POINTS))
    )
