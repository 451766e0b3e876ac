"""Int inputs may be negative: what is inferred of them is said, enforced, and can be declared."""

from __future__ import annotations

import io
import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, export, load_regions
from tests.agreement import agree

MODELS = {
    "a branch": lambda x, k: x if k < 0 else x + 1,
    "a branch elsewhere": lambda x, k: x if k < -1 else x + k,
    "a check": lambda x, k: (torch._check(k <= -2), x * k)[1],
    "an equality": lambda x, k: x if k == -1 else x + 1,
    "members": lambda x, k: x if k in (-3, -1) else x * 2,
    "a size": lambda x, k: x.new_zeros(k + 5),
    "a slice": lambda x, k: x[k:],
    "a pad": lambda x, k: torch.nn.functional.pad(x, (k, 0)),
    "a narrow": lambda x, k: x.narrow(0, k, 1),
    "a shift": lambda x, k: torch.roll(x, k, 0) + k // 2 + k % 4,
    "a power": lambda x, k: x**k,
}
TAKEN = range(-6, 4)


@pytest.mark.parametrize("hint", [Dim.AUTO, Dim.DYNAMIC], ids=["auto", "dynamic"])
@pytest.mark.parametrize("example", [-3, -1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_an_int_may_be_negative(name, example, hint):
    """Law: the program does what eager does or refuses; it takes its example; a repair is proved."""
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x, k: MODELS[name](x, k)})()
    inputs = torch.arange(1.0, 13).reshape(4, 3)
    try:
        mod(inputs, example)
    except (RuntimeError, IndexError):
        return
    shapes = {"x": None, "k": hint}
    report = check(mod, (inputs, example), dynamic_shapes=shapes)
    if report.program is None:
        found = report.repair()
        report = check(mod, (inputs, example), dynamic_shapes=found.dynamic_shapes, constraints=found.constraints)
    assert report.status == "proved"
    run = report.program.module()
    assert agree(mod, run, (inputs, example))
    assert all(agree(mod, run, (inputs, k), may_refuse=True) for k in TAKEN)


def test_what_is_inferred_can_be_declared():
    """Torch's hints have no negative ends: what they cannot say is a constraint."""
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x, k: x if k < 0 else x + 1})()
    report = check(mod, (torch.ones(3), -3), dynamic_shapes={"x": None, "k": Dim.AUTO})
    assert report.domain == ("k <= -1",)
    again = check(mod, (torch.ones(3), -3), dynamic_shapes={"x": None, "k": Dim.AUTO}, constraints=report.domain)
    assert (again.status, again.domain) == ("proved", ("k <= -1",))
    assert report.repair().constraints == ("k <= -1",)


def test_a_program_that_takes_negative_ints_can_be_loaded():
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x, k: x * max(k, -2) + k // 2})()
    program = check(mod, (torch.ones(3), -3), dynamic_shapes={"x": None, "k": Dim.AUTO}).program
    saved = io.BytesIO()
    torch.export.save(program, saved)
    saved.seek(0)
    run = torch.export.load(saved).module()
    assert all(agree(mod, run, (torch.ones(3), k)) for k in TAKEN)


def test_an_int_may_be_declared_to_be_a_negative_number():
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x, k: x.narrow(0, k, 1)})()
    assert check(mod, (torch.ones(3), -1), dynamic_shapes={"x": None, "k": -1}).status == "proved"


def test_an_int_may_be_called_what_a_dim_is_called():
    """The fault: the two were one symbol, and only inputs with `n == x.shape[0]` were taken."""
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x, n: x[:n] * 2})()
    shapes = {"x": {0: Dim("n", min=1, max=9)}, "n": Dim.DYNAMIC}
    report = check(mod, (torch.ones(6), 3), dynamic_shapes=shapes)
    assert report.status == "proved"
    assert all(agree(mod, report.program.module(), (torch.ones(size), n)) for size in (1, 6, 9) for n in (0, 3, 9))


def test_the_regions_of_a_split_over_an_int_are_listed():
    """The fault: `2 regions`, and none of them shown, since no declaration restricts the int."""

    class Powers(torch.nn.Module):
        def forward(self, x, n: int):
            return x + 1 if n == 33 else x * n

    shapes = {"x": None, "n": Dim.DYNAMIC}
    report = check(Powers(), (torch.randn(2, 4), 33), dynamic_shapes=shapes, branches="split")
    assert [line for line in str(report).splitlines() if line.startswith("  region")] == [
        "  region 1   n == 33",
        "  region 2   n != 33",
    ]


NAMED = {
    "a size and an int": (({0: Dim("n", max=5)}, Dim("n", max=5)), 4, lambda t, k: t == k <= 5),
    "an int alone": (({0: Dim("t", max=6)}, Dim("k", min=-3, max=4)), 4, lambda t, k: t <= 6 and -3 <= k <= 4),
    "from 0 without a bound": (({0: Dim("t", max=6)}, Dim("k")), 4, lambda t, k: t <= 6 and k >= 0),
    "a multiple": (({0: Dim("t", max=6)}, 2 * Dim("t", max=6)), 8, lambda t, k: t <= 6 and k == 2 * t),
    "one less": (({0: Dim("t", max=6)}, Dim("t", max=6) - 1), 3, lambda t, k: t <= 6 and k == t - 1),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_named_dim_is_the_value_of_an_int(name):
    """Law: a size and an int of one Dim are equal; the program takes what is declared, and refuses the rest."""
    shapes, example, declared = NAMED[name]
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x, k: (x.repeat(2)[k:] * k, k - 1)})()
    report = check(mod, (torch.arange(4.0), example), dynamic_shapes=shapes)
    assert report.status == "proved"
    run = report.program.module()
    for size, value in itertools.product(range(8), range(-5, 15)):
        args = (torch.randn(size), value)
        assert bool(report.contract.accepts(*args)) == declared(size, value)
        assert agree(mod, run, args, may_refuse=not declared(size, value))


def test_a_refused_int_has_its_own_name():
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x, k: x * k})()
    shapes = ({0: Dim("k", max=5)}, Dim("k", max=5))
    program = check(mod, (torch.ones(4), 4), dynamic_shapes=shapes).program
    with pytest.raises(RuntimeError, match=r"^k = 3, x.shape\[0\] = 4, but k == x.shape\[0\] is declared$"):
        program.module()(torch.ones(4), 3)


def test_a_refused_size_of_regions_has_its_own_name(tmp_path):
    """The fault: the size was told by the name of its tensor, as if that were an int: `x = 7`."""
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x, k: x * 2 if x.shape[0] == 4 else x + k})()
    half = Dim("half", min=1, max=5)
    regions = export(mod, (torch.ones(6), 3), dynamic_shapes=({0: 2 * half}, half), branches="split")
    regions.save(tmp_path / "regions.pt2")
    for each in (regions, load_regions(tmp_path / "regions.pt2")):
        with pytest.raises(RuntimeError, match=r"^x.shape\[0\] = 7, k = 3, but x.shape\[0\] == 2\*k is declared"):
            each.module()(torch.ones(7), 3)
