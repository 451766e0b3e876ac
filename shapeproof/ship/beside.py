"""Runs a file beside eager at given sizes, and compares results.

Sizes, dtypes, integers and truth values must be equal, floats within a tolerance of their dtype. What eager writes into
its inputs is compared like a result. Where eager writes into its state, a second call is compared, too, and the file is
loaded again for the next sizes. State that the file alone has shows in its next call: at the next sizes, or, where the
domain has one point, in a second call.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager.runner import Run, run_apart
from shapeproof.export.shim.trees import leaves
from shapeproof.ship.verdict import Verdict

Call = Callable[..., Any]

TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1e-5, 1e-5),
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (5e-2, 5e-2),
}
"""The relative tolerance, and the absolute one for numbers near 1; for other dtypes, those of float16.

Consumers add in another order than eager: a hundred additions of numbers near 1 round to 1e-5 in float32. Of larger
numbers the absolute tolerance is that of the median, up to 1000: masks put -1e9 beside numbers near 1.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What is found at a point: "same", "ran" (without eager), "raised" (by eager), "differs" or "refuses"."""

    status: str
    text: str
    left_state: bool = False
    """True if the calls may have changed what the file holds."""


@dataclass(frozen=True)
class Beside:
    """A file and what it is compared with.

    Attributes:
        inputs: makes the inputs.
        load: returns the callable of the file, in its first state.
        eager: returns the model, in its first state; None if there is none.
    """

    inputs: Inputs
    load: Callable[[], Call]
    eager: Callable[[], Call] | None

    def verdict(self, inside: Sequence[Point], outside: Sequence[Point], so_far: Verdict) -> Verdict:
        """Return the verdict, completed by what is found at these sizes; the first difference ends it."""
        counted = Counter[str]()
        call = self.load()
        for point in inside:
            found = self._compare(call, point, twice=len(inside) == 1)
            if found.status in {"differs", "refuses"}:
                names = self.inputs.user_names
                sizes = {names.get(name, name): value for name, value in sorted(point.items())}
                so_far = replace(so_far, ran=counted.total() + 1, compared=counted["same"])
                return replace(so_far, status=found.status, sizes=sizes, text=found.text)
            counted[found.status] += 1
            call = self.load() if found.left_state else call
        errors = [run_apart(call, *self.inputs.at(point, filled=True)).error for point in outside]
        return replace(
            so_far,
            status="same" if counted["same"] else "undecided",
            compared=counted["same"],
            ran=counted.total(),
            raised=counted["raised"],
            refused=sum(error is not None for error in errors),
            computed=errors.count(None),
        )

    def _compare(self, call: Call, point: Point, *, twice: bool) -> Found:
        """Call the file and eager at a point: twice if asked, and where eager writes into its state."""
        args, kwargs = self.inputs.at(point, filled=True)
        eager = None if self.eager is None else self.eager()
        left_state = False
        for again in ("", ", in the second call"):
            want = None if eager is None else run_apart(eager, args, kwargs)
            if want is not None and want.error is not None:
                return Found("raised", "", left_state)
            got = run_apart(call, args, kwargs)
            if got.error is not None:
                return Found("refuses", f"{got.error}{again}")
            reason = None if want is None else self._unlike(want, got)
            if reason is not None:
                return Found("differs", f"{reason}{again}")
            if want is None or not (want.changed or left_state or twice):
                break
            left_state = True
        return Found("ran" if eager is None else "same", "", left_state)

    def _unlike(self, want: Run, got: Run) -> str | None:
        """Describe the first difference of two runs: of results, then of inputs that eager writes into."""
        wanted, had = ([each for each in leaves(run.result) if each is not None] for run in (want, got))
        if len(wanted) != len(had):
            return f"expected {len(wanted)} results, got {len(had)}"
        results = ((f"result {index}", *pair) for index, pair in enumerate(zip(wanted, had, strict=True)))
        given = zip((f"{leaf.name} after the call" for leaf in self.inputs.leaves), want.given, got.given, strict=True)
        reasons = (f"{name}{reason}" for name, a, b in (*results, *given) if (reason := unlike(a, b)) is not None)
        return next(reasons, None)


def unlike(want: Any, got: Any) -> str | None:
    """Describe how a value differs from what eager gives, or return None; a number may be given as a tensor.

    >>> unlike(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    '[1]: expected 2.0, got 2.5'
    >>> unlike(torch.ones(2), torch.ones(3)), unlike(3, torch.tensor(3))
    (': expected float32 [2], got float32 [3]', None)
    """
    if not isinstance(want, torch.Tensor):
        number = got.item() if isinstance(got, torch.Tensor) and got.dim() == 0 else got
        same = not isinstance(number, torch.Tensor) and (number == want or _is_near(number, want))
        return None if same else f": expected {want!r}, got {_kind(number)}"
    if not isinstance(got, torch.Tensor) or (want.shape, want.dtype) != (got.shape, got.dtype):
        return f": expected {_kind(want)}, got {_kind(got)}"
    places = (~_close(want.detach(), got.detach())).nonzero()
    if not len(places):
        return None
    index = tuple(places[0].tolist())
    at = f"[{', '.join(map(str, index))}]" if index else ""
    return f"{at}: expected {want[index].item()}, got {got[index].item()}"


def _is_near(number: Any, want: Any) -> bool:
    """True of floats that are equal in 32 bits, or both NaN."""
    floats = isinstance(number, float) and isinstance(want, float)
    return floats and (math.isclose(number, want, rel_tol=1e-6) or (number != number and want != want))  # noqa: PLR0124


def _close(want: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """True where numbers are equal within the tolerance."""
    if not (want.is_floating_point() or want.is_complex()):
        return want == got
    relative, absolute = TOLERANCE.get(want.dtype, TOLERANCE[torch.float16])
    exact = torch.complex128 if want.is_complex() else torch.float64
    a, b = want.to(exact), got.to(exact)
    median = float(a.abs().median()) if a.numel() else 1.0
    return torch.isclose(b, a, rtol=relative, atol=absolute * min(max(1.0, median), 1e3), equal_nan=True)


def _kind(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
