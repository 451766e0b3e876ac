"""When two programs are the same (export/explore/compare/equivalence.py): arguments that say nothing, and defaults."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree


@pytest.mark.quick
@pytest.mark.parametrize(("queries", "keys"), list(itertools.product(range(4), range(4))))
def test_causal_or_not_is_all_one_for_one_key_alone(queries: int, keys: int) -> None:
    q, k, v = torch.randn(2, queries, 3), torch.randn(2, keys, 3), torch.randn(2, keys, 3)
    causal, full = (F.scaled_dot_product_attention(q, k, v, is_causal=each) for each in (True, False))
    same = torch.allclose(causal, full)
    assert same if keys <= 1 else same == (queries == 0 or queries >= keys > queries)


class Attention(torch.nn.Module):
    """Causal where there is more than one query, as models of language have it."""

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, k, is_causal=bool(q.shape[2] > 1))


@pytest.mark.thorough
def test_attention_of_a_sequence_to_itself_is_one_program() -> None:
    class ToItself(Attention):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            return super().forward(q, q)

    report = check(ToItself(), (torch.randn(2, 2, 4, 3),), dynamic_shapes=({2: Dim("t", min=1, max=6)},))
    assert report.status == "proved", str(report)
    for run in (report.program.module(), report.program.run_decompositions().module()):
        assert all(agree(ToItself(), run, (torch.randn(2, 2, t, 3),)) for t in range(1, 7))


def test_one_query_on_many_keys_is_another_program() -> None:
    shapes = ({2: Dim("t", min=1, max=6)}, {2: Dim("s", min=1, max=6)})
    report = check(Attention(), (torch.randn(2, 2, 4, 3), torch.randn(2, 2, 5, 3)), dynamic_shapes=shapes)
    assert report.status == "refuted", str(report)
    assert report.diagnostics[0].witness["q.shape[2]"] == 1
    assert report.diagnostics[0].witness["k.shape[2]"] > 1


OTHER_ZEROS = {
    "a number": lambda n: torch.full((n, 4), -0.0 if n == 7 else 0.0),
    "a constant": lambda n: torch.tensor(-0.0 if n == 7 else 0.0),
    "a complex constant": lambda n: torch.tensor(complex(0.0, -0.0 if n == 7 else 0.0)).imag,
}


@pytest.mark.parametrize("zero", OTHER_ZEROS.values(), ids=OTHER_ZEROS.keys())
def test_a_negative_zero_is_another_number(zero) -> None:
    """They are equal, and what is divided by them is not; the example's data do not show it."""
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x: torch.where(x > 9, 1 / zero(x.shape[0]), x)})()
    report = check(mod, (torch.ones(5, 4),), dynamic_shapes=({0: Dim("n", min=0, max=12)},))
    assert report.status != "proved"
