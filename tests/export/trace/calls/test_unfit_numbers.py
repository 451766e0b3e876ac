"""Numbers that a dtype cannot hold: a trace raises what eager raises, and a symbolic number gets its bound."""

from __future__ import annotations

import pytest
import torch

from shapeproof.export import Dim, check
from shapeproof.export.trace.calls.operators import check_numbers
from tests.calling import Calls

BYTES, HALF = torch.arange(4, dtype=torch.int8), torch.ones(4, dtype=torch.float16)
CALLS = {
    "clamp": lambda x: x.clamp(0, 300),
    "clamp_": lambda x: x.clone().clamp_(0, 300),
    "pow": lambda x: x.pow(300),
    "add": lambda x: x.add(1, alpha=300),
    "fill_": lambda x: x.clone().fill_(-300),
    "full": lambda x: torch.full((x.shape[0],), 300, dtype=torch.int8),
    "masked_fill": lambda x: x.masked_fill(x > 0, 300),
    "where": lambda x: torch.where(x > 0, x, 300),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 1), value=300),
    "threshold": lambda x: torch.nn.functional.threshold(x, 300, 300),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=300),
    "a float32": lambda x: x.float().clamp(0, 1e300),
    "within": lambda x: x.clamp(-128, 127),
    "wrapped": lambda x: x + 300,
    "compared": lambda x: x > 300,
    "into a bool": lambda x: torch.full_like(x, 300, dtype=torch.bool),
    "infinity into a bool": lambda x: (x > 0).masked_fill(x > 1, float("-inf")),
    "no number into a bool": lambda x: torch.full_like(x, float("nan"), dtype=torch.bool),
    "infinity": lambda x: x.float().clamp(0, float("inf")),
    "wide": lambda x: x.long().clamp(0, 300),
}
HALVES = {
    "hardtanh": lambda x: torch.nn.functional.hardtanh(x, -1e6, 1e6),
    "masked": lambda x: x.masked_fill(x > 0, -1e9),
    "fill_": lambda x: x.clone().fill_(1e6),
    "multiplied": lambda x: x * 1e6,
    "infinite": lambda x: x.masked_fill(x > 0, float("-inf")),
}


def raised(run):
    try:
        result = run()
    except RuntimeError as error:
        return str(error)
    error = getattr(result, "raised", None)
    return getattr(result, "status", "proved") if error is None else str(error)


@pytest.mark.parametrize(
    ("call", "x"),
    [*((call, BYTES) for call in CALLS.values()), *((call, HALF) for call in HALVES.values())],
    ids=[*CALLS, *(f"half {name}" for name in HALVES)],
)
def test_a_trace_raises_what_eager_raises_of_a_number(call, x):
    shapes = ({0: Dim("n", min=2, max=8)},)
    assert raised(lambda: check(Calls(call), (x,), dynamic_shapes=shapes)) == raised(lambda: call(x))


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        (lambda x: x.clamp(0, x.shape[0]), torch.int8),
        (lambda x: x.clamp(-x.shape[0], 3), torch.int8),
        (lambda x: x.clamp(0, x.shape[0]), torch.uint8),
        (lambda x: torch.full((3,), x.shape[0], dtype=x.dtype), torch.int8),
        (lambda x: x.masked_fill(x > 0, x.shape[0]), torch.int8),
        (lambda x: x + x.shape[0], torch.int8),
        (lambda x: x.clamp(0, x.shape[0]), torch.int64),
    ],
    ids=["clamp", "negative", "unsigned", "full", "masked_fill", "wrapped", "wide"],
)
def test_a_symbolic_number_stays_within_what_eager_takes(call, dtype):
    """Releases of torch differ in where eager raises: it is asked at every size."""
    report = check(Calls(call), (torch.ones(4, dtype=dtype),), dynamic_shapes=({0: Dim("n", min=2, max=300)},))
    failing = [n for n in range(2, 301) if raised(lambda n=n: call(torch.ones(n, dtype=dtype))) != "proved"]
    assert report.status == ("refuted" if failing else "proved")
    assert [each.witness for each in report.diagnostics] == [{"x.shape[0]": n} for n in failing[:1]]


def test_an_arange_is_not_run_to_the_end_of_its_dtype():
    """It fails at no number, and would take 8 GB at the end of int32."""
    check_numbers(torch.ops.aten.arange.default, (2**50,), {"dtype": torch.int32}, int.__eq__)
    report = check(
        Calls(lambda x: x + torch.arange(x.shape[0], dtype=torch.int8)), (torch.ones(4),), dynamic_shapes=ANY
    )
    assert report.status == "proved"


ANY = ({0: Dim("n", min=1, max=300)},)
WRAPPED = {
    "remainder": (lambda x, k: x % (k + 1), torch.uint8),
    "floor_divide": (lambda x, k: x // (k + 1), torch.int8),
    "divisor in place": (lambda x, k: x.clone().fmod_(k + 1), torch.uint8),
    "arange": (lambda x, k: torch.arange(k, k + 3, dtype=x.dtype), torch.int8),
}


@pytest.mark.parametrize(("call", "dtype"), list(WRAPPED.values()), ids=list(WRAPPED))
def test_a_number_that_wraps_around_is_no_number_that_the_dtype_cannot_hold(call, dtype):
    """256 is 0 as a divisor of uint8, and raises; 257 is 1, and does not."""

    class Taken(torch.nn.Module):
        def forward(self, x, k):
            return call(x, k.item())

    report = check(Taken(), (torch.ones(3, dtype=dtype), torch.tensor(2)))
    assert report.status == "proved", report
    run = report.program.module()
    for k in (*range(120, 135), *range(250, 260), 300, 511, 512):
        x = torch.tensor([3, 0, 100], dtype=dtype)
        assert raised(lambda x=x, k=k: call(x, k)) == raised(lambda x=x, k=k: run(x, torch.tensor(k))), k


@pytest.mark.parametrize("most", [254, 300])
def test_a_size_that_wraps_around_to_a_divisor_of_0_is_refuted(most):
    call = Calls(lambda x: torch.ones(2, dtype=torch.uint8) % (x.shape[0] + 1))
    report = check(call, (torch.ones(4),), dynamic_shapes=({0: Dim("n", min=0, max=most)},))
    assert report.status == ("refuted" if most > 254 else "proved")
    assert [each.witness for each in report.diagnostics] == [{"x.shape[0]": 255}] * (most > 254)
