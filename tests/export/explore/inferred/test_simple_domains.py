"""What is inferred of a larger model, and what is proposed first, is what people would write; both are proved."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export import check
from shapeproof.export.ops.table import KINDS, is_unary
from shapeproof.solver.answers.repair import repaired
from shapeproof.solver.facts import Facts
from tests.agreement import agree


def module(forward):
    """A module made of one function."""
    return type("Model", (torch.nn.Module,), {"forward": staticmethod(forward)})()


def pyramid(x):
    """A U-Net of two levels without parameters."""
    half = functional.avg_pool2d(x, 2)
    quarter = functional.avg_pool2d(half, 2)
    half = half + functional.interpolate(quarter, scale_factor=2.0)
    return x + functional.interpolate(half, scale_factor=2.0)


@pytest.mark.thorough
def test_a_model_with_skips_is_traced_twice_under_auto():
    """The fault: each size that the example may owe to chance was traced, one after the other."""
    auto = ({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},)
    report = check(module(pyramid), (torch.randn(2, 3, 8, 12),), dynamic_shapes=auto)
    assert report.status == "proved", str(report)
    assert {"x.shape[2] % 4 == 0", "x.shape[3] % 4 == 0"} <= set(report.domain)
    run = report.program.module()
    for size in [(2, 3, 8, 12), (1, 3, 4, 4), (5, 3, 16, 20)]:
        assert agree(module(pyramid), run, (torch.randn(size),))
    with pytest.raises(RuntimeError):
        run(torch.randn(2, 3, 6, 8))


def grown(past, step):
    """Rows of a table behind those that are cached."""
    return torch.arange(128.0)[past.shape[0] : past.shape[0] + step.shape[0]] + step


H, W = Dim("height", min=8, max=64), Dim("width", min=8, max=64)
WRITTEN = {
    "both sides of an image": (
        lambda x: torch.pixel_unshuffle(x, 4),
        (torch.randn(1, 1, 16, 8),),
        ({2: H, 3: W},),
        ("height = 4*_height", "width = 4*_width"),
    ),
    "skips": (pyramid, (torch.randn(1, 1, 16, 8),), ({2: H, 3: W},), ("height = 4*_height", "width = 4*_width")),
    "windows": (
        lambda x: x.view(x.shape[0] // 7, 7, x.shape[1] // 7, 7),
        (torch.randn(14, 28),),
        ({0: H, 1: W},),
        ("height = 7*_height", "width = 7*_width"),
    ),
    "positions": (
        grown,
        (torch.randn(5), torch.randn(3)),
        ({0: Dim("past", min=0, max=128)}, {0: Dim("step", min=2, max=128)}),
        ('constraints=["past + step <= 128"]',),
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_said_first_is_what_people_write_and_proves(name):
    """The fault: `height*width == 16*(height//4)*(width//4)`, `min(past + step, 128) == past + step`."""
    forward, args, shapes, lines = WRITTEN[name]
    report = check(module(forward), args, dynamic_shapes=shapes)
    assert report.status == "refuted"
    said = "\n".join(help_.text for diagnostic in report.diagnostics for help_ in diagnostic.help)
    assert all(line in said for line in lines), said
    repair = report.repair()
    again = check(module(forward), args, dynamic_shapes=repair.dynamic_shapes, constraints=repair.constraints)
    assert again.status == "proved", str(again)
    sizes = {
        f"{key}.shape[{index}]": size
        for (key, _), arg in zip(again.inputs.items(), args, strict=True)
        for index, size in enumerate(arg.shape)
    }
    assert all(holds(parse_formula(text), sizes) for text in again.domain), "the documented recipe has every value"


@pytest.mark.parametrize(
    ("required", "anchor", "simple"),
    [
        ("-h % 8 <= 3", {"h": 64}, "h % 8 == 0"),
        ("h*w == 16*(h//4)*(w//4)", {"h": 8, "w": 12}, "h % 4 == 0 and w % 4 == 0"),
        ("min(p + s, 128) == p + s", {"p": 5, "s": 3}, "p + s <= 128"),
    ],
)
def test_a_simple_repair_implies_what_it_repairs(required, anchor, simple):
    facts = Facts([parse_formula(f"{name} >= 0") for name in anchor])
    (found,) = repaired([parse_formula(required)], facts, anchor, simple=True)
    parts = found.formula.args if hasattr(found.formula, "args") else (found.formula,)
    assert set(map(str, parts)) == set(simple.split(" and "))
    assert facts.assuming(found.formula, parse_formula(required).negation).contradictory


@pytest.mark.parametrize("name", sorted(f"aten.{name}.default" for name in KINDS if is_unary(f"aten.{name}.default")))
def test_what_treats_elements_one_by_one_lies_as_its_operand_does(name):
    """A canary: sizes of 0 and 1, and a tensor that lies row by row in channels_last, too."""
    func = getattr(torch.ops.aten, name.split(".")[1]).default
    for size in [(2, 3, 4, 5), (0, 3, 4, 5), (1, 3, 1, 1), (2, 1, 4, 5), (4,), ()]:
        x = torch.rand(size) + 0.5
        result = func(x)
        assert (result.shape, result.stride(), result.dtype) == (x.shape, x.stride(), x.dtype)
        assert not torch._C._is_alias_of(result, x)


@pytest.mark.parametrize("named", [False, True])
def test_what_a_reshape_infers_of_one_size_is_a_multiple(named):
    """The fault: `-1` divides by the batch, which may be 0 elsewhere, and Dim.AUTO left out a batch of 1."""
    mod = module(lambda x: x.reshape(x.shape[0], -1, 2, 4).sum(2))
    dims = {0: Dim("b"), 1: Dim("t")} if named else {0: Dim.AUTO, 1: Dim.AUTO}
    report = check(mod, (torch.randn(2, 6, 4),), dynamic_shapes=(dims,), narrow=named)
    assert report.status == "proved", str(report)
    assert set(report.domain) == {"x.shape[0] >= 1", "x.shape[1] >= 0", "x.shape[1] % 2 == 0"}
    assert all(agree(mod, report.program.module(), (torch.randn(b, t, 4),)) for b in range(4) for t in range(0, 7, 2))
