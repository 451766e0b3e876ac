"""Runs operators, and holds each call against the fake kernel and the decomposition that torch has for it.

Compared are kind and number of the results, sizes, dtype, device, strides, offset, and which tensors share storage.
Static sizes: the fake is given the very sizes of the call. Sizes that are symbols are in symbolic.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from benchmarks.operators.calls import Call, NotTextError, quietly
from shapeproof.export.ops.shapes.layouts import sharing
from shapeproof.export.shim.storages import storage_of
from shapeproof.export.shim.trees import leaves, map_tensors

REFUSALS = (
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    DynamicOutputShapeException,
    DataDependentOutputException,
)
"""What a fake raises that does not know its result: an export says so, and gives no program."""


@dataclass(frozen=True)
class Disagreement:
    """A call of which torch says something else than it does.

    Attributes:
        call: the call.
        source: "fake" or "decomposition".
        kind: "raises": only the kernel raises. "refuses": only the other raises. Otherwise what differs: "results",
            "sizes", "dtype", "strides", "idle strides" (those that reach no element), "offset", "sharing", "bits" (of
            conjugation and negation), "values".
        kernel: what the kernel gives.
        said: what the other gives.
        how: the sample.
    """

    call: Call
    source: str
    kind: str
    kernel: str
    said: str
    how: str = ""

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Disagreement:
        """As it was written."""
        return cls(**{**data, "call": Call(**data["call"])})


class Watching(TorchDispatchMode):
    """While this is active, every call of an operator is held against what torch says of it.

    Args:
        found: takes a disagreement.
        decompositions: those that `run_decompositions` applies.
    """

    def __init__(self, found: Callable[[Disagreement], None], decompositions: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found, self._decompositions = found, decompositions
        self.seen: dict[str, Call] = {}
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            call = Call.of(str(func), args, kwargs)
        except NotTextError:
            return func(*args, **kwargs)
        self.calls += 1
        fake, faked, error = of_fake(func, args, kwargs)
        apart = self._decompositions.get(func)
        copies = map_tensors((args, kwargs), _copy) if apart is not None else None
        state = torch.get_rng_state()
        result, raised = quietly(func, args, kwargs)
        for kind, kernel, said in differences((args, kwargs), result, raised, faked, fake, error):
            self._found(Disagreement(call, "fake", kind, kernel, said))
        self._keep(call, raised)
        if apart is not None and copies is not None:
            torch.set_rng_state(state)
            self._taken_apart(call, apart, copies, (args, kwargs), result, raised)
        if raised is not None:
            raise raised
        return result

    def _keep(self, call: Call, raised: Exception | None) -> None:
        """One call of each operator for symbolic.py: of those that run, the one with most different sizes."""
        kept = self.seen.get(call.op)
        if raised is None and call.elements <= _FEW and (kept is None or _variety(call) > _variety(kept)):
            self.seen[call.op] = call

    def _taken_apart(  # noqa: PLR0913, PLR0917 - a call, twice
        self, call: Call, apart: Any, copies: Any, given: Any, result: Any, raised: Any
    ) -> None:
        had, error = quietly(apart, *copies)
        if had is NotImplemented:
            return
        seeded = torch.Tag.nondeterministic_seeded in _tags(call.op)
        for kind, kernel, said in differences(given, result, raised, copies, had, error):
            self._found(Disagreement(call, "decomposition", kind, kernel, said))
        if raised is None and error is None and not seeded:
            told = unequal(result, had)
            if told is not None:
                self._found(Disagreement(call, "decomposition", "values", *told))


_FEW = 4096


def _tags(op: str) -> Any:
    from benchmarks.operators.calls import resolve

    return getattr(resolve(op), "tags", ())


def _variety(call: Call) -> tuple[int, int]:
    sizes = {size for each in call.tensors for size in each["sizes"] if size > 1}
    return len(sizes), -call.elements


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided:
        return tensor.clone()
    return (
        torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor)
        if _is_dense(tensor)
        else (_spread_copy(tensor))
    )


def _is_dense(tensor: torch.Tensor) -> bool:
    return bool(torch.ops.aten.is_non_overlapping_and_dense.default(tensor)) and not tensor.storage_offset()


def _spread_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with gaps or overlaps, on a copy of its whole storage."""
    flat = tensor.detach().as_strided((tensor.untyped_storage().nbytes() // tensor.itemsize,), (1,), 0).clone()
    copied = flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return copied.conj() if tensor.is_conj() else copied


def of_fake(func: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Exception | None]:
    """What the fake kernel gives, the fake arguments after it, and what it raises."""
    with _disable_current_modes(), FakeTensorMode() as mode:
        faked = map_tensors((args, kwargs), lambda each: mode.from_tensor(each, static_shapes=True))
        with enable_python_dispatcher():
            result, error = quietly(func, *faked)
    return result, faked, error


def differences(  # noqa: PLR0913, PLR0917 - a call, twice
    given: Any, result: Any, raised: Exception | None, other: Any, said: Any, error: Exception | None
) -> Iterator[tuple[str, str, str]]:
    """How what the kernel does, and what is said of it, differ; operands after the call are compared, too."""
    if isinstance(error, REFUSALS):
        return
    if raised is not None or error is not None:
        if raised is None:
            yield "refuses", _text(result), _raised(error)
        elif error is None:
            yield "raises", _raised(raised), _text(said)
        return
    mine, theirs = leaves(result), leaves(said)
    if len(mine) != len(theirs) or any(
        isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor) for a, b in zip(mine, theirs, strict=True)
    ):
        yield "results", _text(result), _text(said)
        return
    operands = list(itertools.chain(leaves(given))), list(leaves(other))
    kinds = dict.fromkeys(
        kind for a, b in zip([*mine, *operands[0]], [*theirs, *operands[1]], strict=True) for kind in _unlike(a, b)
    )
    for kind in kinds:
        yield kind, _text(result), _text(said)
    if not kinds.keys() & {"sizes", "dtype"}:
        pairs = zip([*operands[0], *mine], [*operands[1], *theirs], strict=True)
        shared = [(a, b) for a, b in pairs if _lies(a) and _lies(b)]
        ours, others = sharing([a for a, _ in shared]), sharing([b for _, b in shared])
        if ours != others:
            yield "sharing", str(ours), str(others)


def _lies(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and storage_of(value) is not None
        and bool(value.numel())
    )


def _unlike(a: Any, b: Any) -> Iterator[str]:
    if not isinstance(a, torch.Tensor):
        if not (a is b or a == b or a != a):  # noqa: PLR0124 - NaN
            yield "values"
        return
    if a.shape != b.shape:
        yield "sizes"
    if (a.dtype, a.device, a.layout) != (b.dtype, b.device, b.layout):
        yield "dtype"
    if a.shape != b.shape or a.layout != torch.strided or b.layout != torch.strided:
        return
    steps = [size for size, x, y in zip(a.shape, a.stride(), b.stride(), strict=True) if x != y]
    if steps:
        yield "strides" if a.numel() and max(steps) > 1 else "idle strides"
    if a.storage_offset() != b.storage_offset():
        yield "offset"
    if (a.is_conj(), a.is_neg()) != (b.is_conj(), b.is_neg()):
        yield "bits"


def unequal(want: Any, got: Any) -> tuple[str, str] | None:
    """How results differ in their values, each in words."""
    for a, b in zip(leaves(want), leaves(got), strict=False):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape and a.dtype == b.dtype:
            loose = a.dtype in {torch.bfloat16, torch.float16}
            try:
                torch.testing.assert_close(
                    b, a, rtol=3e-2 if loose else 1e-3, atol=3e-2 if loose else 1e-4, equal_nan=True
                )
            except AssertionError:
                return _values(a), _values(b)
            except Exception:  # noqa: BLE001, S112 - what cannot be compared
                continue
    return None


def _values(tensor: torch.Tensor) -> str:
    return str(tensor.reshape(-1)[:6].tolist()) if tensor.layout == torch.strided else str(tensor.layout)


def _text(value: Any) -> str:
    def one(each: Any) -> str:
        if not isinstance(each, torch.Tensor):
            return repr(each)[:60]
        strides = f":{list(each.stride())}" if each.layout == torch.strided else str(each.layout)
        bits = "".join(name for name, has in (("*", each.is_conj()), ("-", each.is_neg())) if has)
        return f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}{strides}{bits}"

    return ", ".join(map(one, leaves(value)))[:400]


def _raised(error: Exception | None) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first[:160]}"
