"""Size-oblivious assumptions: which are proved harmless, and whether torch's own flag is right, held against torch."""

from __future__ import annotations

import pytest
import torch
import torch.fx.experimental._config as config
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.report.oblivious import Assumption, Oblivious
from tests.export.random_programs import built

RIGHT = {
    "a norm": "x / x.norm(dim=1, keepdim=True)",
    "joined": "torch.cat([x, x])",
    "flattened": "x.flatten() * 2",
    "softmax": "x.softmax(0)",
    "broadcast": "x.sum(1, keepdim=True) * x",
    "padded": "torch.nn.functional.pad(x, (1, 0))",
    "sliced": "x[:2]",
}
WRONG = {"squeezed": "x * 3 if x.squeeze(0).dim() == 1 else x + 1"}
UNKNOWN = {
    "a branch of the model": "x * 2 if x.shape[0] > 4 else x + x",
    "an answer against the fallback": "x.t().reshape(-1)",
    "refuted": "x.view(5, 4)",
}


def checked(body, low=0, **options):
    mod = built(f"class Model(torch.nn.Module):\n    def forward(self, x):\n        return {body}\n")
    return mod, check(mod, (torch.ones(5, 4),), dynamic_shapes=({0: Dim.DYNAMIC(min=low, max=9)},), **options)


def by_torch(mod, sizes):
    """Whether what torch.compile makes under the flag, of the first size, does at each size what eager does."""
    torch._dynamo.reset()
    with config.patch(backed_size_oblivious=True):
        run = torch.compile(mod, backend="aot_eager", dynamic=True)
        alike = []
        for size in sizes:
            x = torch.arange(4.0 * size).reshape(size, 4)
            want, got = mod(x), run(x)
            alike.append(want.shape == got.shape and torch.allclose(want, got, equal_nan=True))
    torch._dynamo.reset()
    return all(alike)


@pytest.mark.parametrize("name", RIGHT)
def test_where_all_are_proved_harmless_torch_is_right_under_its_flag(name):
    mod, report = checked(RIGHT[name])
    assert report.status == "proved"
    assert all(each.harmless for each in report.oblivious.assumptions)
    assert report.oblivious.advice.startswith("torch.compile: backed_size_oblivious=True makes this program")
    assert by_torch(mod, (5, 0, 1, 2, 9))


def test_an_assumption_that_does_harm_is_shown_with_sizes_at_which_torch_is_wrong():
    mod, report = checked(WRONG["squeezed"])
    (harmful,) = [each for each in report.oblivious.assumptions if each.harmless is False]
    assert (harmful.text, harmful.witness) == ("x.shape[0] != 1", {"x.shape[0]": 1})
    assert report.oblivious.advice == (
        "torch.compile: leave backed_size_oblivious=False: it assumes x.shape[0] != 1, which is wrong at x.shape[0] = 1"
    )
    assert not by_torch(mod, (5, 1))


def test_harmless_is_said_of_the_domain_alone():
    """The same model where the size that does harm is not declared."""
    mod, report = checked(WRONG["squeezed"], low=2)
    assert report.oblivious.advice.startswith("torch.compile: backed_size_oblivious=True makes this program")
    assert by_torch(mod, (5, 2, 9))


@pytest.mark.quick
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_not_said(name):
    _, report = checked(UNKNOWN[name])
    assert report.oblivious.advice == "torch.compile: it is not known whether backed_size_oblivious=True is right"


def test_each_of_several_programs_has_its_own():
    _, report = checked(WRONG["squeezed"], branches="split")
    assert report.status == "proved"
    assert report.oblivious == Oblivious()
    assert all(program.report.oblivious.one_path for program in report.program.programs)


def test_one_harmless_assumption_among_those_not_known_is_no_advice():
    few = (Assumption("n != 1", harmless=True), Assumption("n >= 2", harmless=None))
    assert "not known" in Oblivious(few, one_path=True).advice
    assert str(Oblivious(few[:1], one_path=True)).splitlines()[0] == "n != 1: harmless (proved)"
