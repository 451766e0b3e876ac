"""An operator that does nothing on a region does not count there: a mask of one token, a resizing to the own size."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.constraints.terms import constant
from shapeproof.export import check, export
from shapeproof.export.explore.compare.operations import Side
from shapeproof.export.explore.compare.uniform import Uniform, triangle
from shapeproof.export.trace.traced import translator_of
from shapeproof.solver.facts import Facts
from tests.agreement import agree

SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.5, -3e38, 1e-40])
LAYOUTS = {
    "row by row": lambda x: x,
    "transposed": lambda x: x.mT.contiguous().mT,
    "strided": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
    "expanded": lambda x: x[:1].expand(x.shape),
    "channels last": lambda x: x.to(memory_format=torch.channels_last) if x.dim() == 4 else x,
}
NOTHING = {
    "masked_fill": lambda x: x.masked_fill(torch.zeros(x.shape[-1:], dtype=torch.bool), 7),
    "nearest": lambda x: F.interpolate(x, x.shape[2:], mode="nearest"),
    "nearest-exact": lambda x: F.interpolate(x, x.shape[2:], mode="nearest-exact"),
}


def to_the_bit(x, y):
    """True if two tensors have the same elements, signs of zeros included; NaN is itself."""
    alike = (x == y) & (torch.signbit(x) == torch.signbit(y)) | (x.isnan() & y.isnan())
    return x.shape == y.shape and x.dtype == y.dtype and bool(alike.all())


@pytest.mark.parametrize("law", NOTHING)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_torch_returns_a_copy_to_the_bit(law, layout):
    """A canary for the table's `copies`. The copy shares no memory; the gradient goes through, as a sum if resized."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for shape in itertools.product((1, 2), (1, 3), (1, 2, 5), (1, 4)):
            of = SPECIAL[torch.randint(0, len(SPECIAL), shape)].to(dtype)
            x = LAYOUTS[layout](of).detach().requires_grad_()
            result = NOTHING[law](x)
            assert to_the_bit(x, result), (dtype, shape)
            assert result.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
            given = LAYOUTS[layout](SPECIAL[torch.randint(0, len(SPECIAL), shape)].to(dtype))
            (gradient,) = torch.autograd.grad(result, x, given)
            assert to_the_bit(gradient, given if law == "masked_fill" else given + 0), (dtype, shape)


def test_torch_keeps_all_or_nothing_of_a_triangle_where_the_formulas_say():
    for rows, columns, diagonal in itertools.product(range(1, 4), range(1, 5), range(-6, 7)):
        matrix = torch.full((rows, columns), float("nan"))
        for upper, kept in ((True, torch.triu), (False, torch.tril)):
            result = kept(matrix, diagonal).isnan()
            none, whole = triangle(*map(constant, (diagonal, rows, columns)), upper=upper)
            assert holds(none, {}) is not bool(result.any())
            assert holds(whole, {}) is bool(result.all())


def of_many_kinds(x):
    """Return tensors that are made in ways of which some are known."""
    n, m = x.shape
    squares = (
        torch.full((n, n), True),
        torch.ones(n, n),
        torch.zeros(n, n, dtype=torch.int64),
        torch.ones_like(x[:, :1]),
    )
    kept = [kind(each, by) for each in squares[:3] for kind in (torch.triu, torch.tril) for by in (-1, 1, n)]
    whole = torch.full((n, m), float("inf"))
    more = [whole.to(torch.int32), whole.bool(), whole * 2, whole > 3, (whole[:, :1] == n).expand(n, m), x > 3]
    full = [torch.full((n,), n), torch.arange(n) < 2, torch.rand(n, n) < 2, torch.ones(n, n).view(-1).long() + n]
    return *squares, *kept, *[~each for each in kept[:6]], *[each == 0 for each in kept[6:]], *more, *full


def test_what_all_elements_are_said_to_be_they_are_at_every_size_of_the_region():
    program = export(model_of(of_many_kinds), (torch.randn(4, 5),), dynamic_shapes=({0: Dim("n", min=1), 1: Dim("m")},))
    values = {node: node.meta.get("val") for node in program.graph.nodes}
    known = set()
    for text, points in {"x.shape[0] == 1": [1], "x.shape[0] <= 3": [1, 2, 3], "x.shape[0] >= 2": [2, 5]}.items():
        region = Facts(
            [parse_formula(text.replace("x.shape[0]", "n")), parse_formula("n >= 1"), parse_formula("m >= 1")]
        )
        uniform = Uniform(Side(program, values, translator_of(program), region))
        said = {
            node.name: uniform.number(node) for node in program.graph.nodes if isinstance(values[node], torch.Tensor)
        }
        known |= {name for name, number in said.items() if number is not None}
        for point in points:
            seen = Seeing(program.module()).of(torch.randn(point, 2))
            for name, number in said.items():
                assert number is None or bool((seen[name] == number).all()), (text, point, name, number, seen[name])
    assert len(known) > 30


class Seeing(torch.fx.Interpreter):
    """Keeps the value of each node."""

    def of(self, *inputs):
        self.seen = {}
        self.run(*inputs)
        return self.seen

    def run_node(self, n):
        self.seen[n.name] = super().run_node(n)
        return self.seen[n.name]


def model_of(forward):
    return type("Model", (torch.nn.Module,), {"forward": staticmethod(forward)})()


def ones(n, m=None):
    return torch.ones((n, n if m is None else m), dtype=torch.bool)


def without_one(mask, fill=-1e9):
    """Return attention that leaves out the mask for one token."""

    def forward(q):
        n = q.shape[1]
        scores = q @ q.mT
        if n != 1:
            scores = scores.masked_fill(mask(n), fill)
        return scores.softmax(-1) @ q

    return forward


def in_place(q):
    scores = q @ q.mT
    if q.shape[1] != 1:
        scores.masked_fill_(ones(q.shape[1]).triu(1), 0.5)
    return scores * 2


def for_each_level(q):
    for level in range(3):
        q = q + without_one(lambda n, level=level: ones(n).triu(level + 1))(q)
    return q


def of_the_last_rows(q):
    n, scores = q.shape[1], q[:, -1:] @ q.mT
    if n != 1:
        scores = scores.masked_fill(ones(1, n).triu(n), 3.0)
    return scores.softmax(-1)


def resized(q):
    x = q[:, None] * 2
    if q.shape[1] != 4:
        x = F.interpolate(x, (4, 8), mode="nearest")
    return x.cumsum(1)


def filled_up(x, rows):
    """Return rows, padded where there are fewer than in `x`."""
    missing = x.shape[1] - rows.shape[1]
    return F.pad(rows, (0, 0, 0, missing)) if missing > 0 else rows


def pairs(x):
    return x[:, : x.shape[1] // 2 * 2]


PROVED = {
    "returned": lambda x: filled_up(x, (pairs(x) * 2).reshape(x.shape[0], -1, 2, 8).flatten(1, 2)),
    "upper": without_one(lambda n: ones(n).triu(1)),
    "far": without_one(lambda n: ones(n).triu(n)),
    "lower": without_one(lambda n: ones(n).tril(-1), float("-inf")),
    "not": without_one(lambda n: ~ones(n).tril()),
    "equal": without_one(lambda n: torch.tril(torch.ones(n, n)) == 0),
    "floats": without_one(lambda n: torch.triu(torch.ones(n, n), 1).bool()),
    "to": without_one(lambda n: torch.triu(torch.full((n, n), 5.0), 1).to(torch.bool)),
    "viewed": without_one(lambda n: ones(n).triu(1)[None].expand(1, n, n)),
    "both": without_one(lambda n: ones(n).triu(1) | ones(n).tril(-1)),
    "sliced": without_one(lambda n: ones(n, 2 * n).tril(-1)[:, :n]),
    "moved": without_one(lambda n: ones(n).triu(1).mT.contiguous()),
    "zeros": without_one(lambda n: torch.zeros(n, n, dtype=torch.bool)),
    "levels": for_each_level,
    "last": of_the_last_rows,
    "resized": resized,
}


@pytest.mark.parametrize("name", PROVED)
def test_what_does_nothing_on_a_region_needs_no_program_of_its_own(name):
    model, dims = model_of(PROVED[name]), ({0: Dim("b", min=1, max=4), 1: Dim("n", min=1, max=6)},)
    report = check(model, (torch.randn(2, 3, 8),), dynamic_shapes=dims)
    assert report.status == "proved", str(report)
    run = report.program.module()
    for b, n in itertools.product((1, 2, 4), range(1, 7)):
        for scale in (1, float("inf")):
            assert agree(model, run, (torch.randn(b, n, 8) * scale,))


def keeps_the_diagonal(q):
    return without_one(lambda n: ones(n).triu(0))(q)


def adds_zeros(q):
    """-0.0 becomes 0.0, and its inverse another infinity."""
    return 1 / (q if q.shape[1] == 1 else q + torch.triu(torch.ones(q.shape[1], q.shape[1]), 1)[:1, :1])


def returns_what_it_masks(q):
    scores = q @ q.mT
    masked = scores if q.shape[1] == 1 else scores.masked_fill(ones(q.shape[1]).triu(1), 0.0)
    return scores, masked


def writes_into_what_it_masks(q):
    scores = q @ q.mT
    masked = scores if q.shape[1] == 1 else scores.masked_fill(ones(q.shape[1]).triu(1), 0.0)
    masked.add_(1)
    return scores * 2, masked * 2


def writes_into_the_mask(q):
    mask = ones(q.shape[1]).triu(1)
    mask[0, 0] = True
    scores = q @ q.mT
    return (scores if q.shape[1] == 1 else scores.masked_fill(mask, 0.5)) * 2


def is_wider_than_its_operand(q):
    row = q.sum((0, 1))
    return (row if q.shape[1] == 1 else row.masked_fill(torch.zeros(q.shape[1], 8, dtype=torch.bool), 0.5)) * 2


def masks_by_data(q):
    return (q if q.shape[1] == 1 else q.masked_fill(q > 3, 0.5)) * 2


def resizes_smoothly(q):
    """An infinity times a weight of 0 is nan."""
    x = q[:, None] * 2
    return (x if q.shape[1] == 4 else F.interpolate(x, (4, 8), mode="bilinear")) * 2


def resizes_by_a_factor(q):
    """Torch divides by the factor: the second of ten elements is taken twice."""
    x = q.mT * 2
    return (x if q.shape[1] == 4 else F.interpolate(x, scale_factor=1.2, mode="nearest")[..., :4]) * 2


def returns_its_input_where_it_is_whole(x):
    return filled_up(x, pairs(x))


def returns_the_same_twice(x):
    rows = pairs(x) * 2
    return filled_up(x, rows), filled_up(x, rows)


def returns_it_beside_another_copy(x):
    rows = pairs(x) * 2
    return filled_up(x, rows), rows[:, :1]


def returns_a_part(x):
    """More is stored than the rows: `resize_` gives the rest."""
    return filled_up(x, pairs(torch.cat([x, x]) * 2)[: x.shape[0]])


NOT_PROVED = [
    returns_its_input_where_it_is_whole,
    returns_the_same_twice,
    returns_it_beside_another_copy,
    returns_a_part,
    keeps_the_diagonal,
    adds_zeros,
    returns_what_it_masks,
    writes_into_what_it_masks,
    writes_into_the_mask,
    is_wider_than_its_operand,
    masks_by_data,
    resizes_smoothly,
    resizes_by_a_factor,
]


@pytest.mark.parametrize("forward", NOT_PROVED)
def test_what_does_something_on_a_region_is_not_left_out(forward):
    dims = ({0: Dim("b", min=1, max=4), 1: Dim("n", min=1, max=6)},)
    report = check(model_of(forward), (torch.randn(2, 3, 8),), dynamic_shapes=dims)
    assert report.status in {"refuted", "undecided"}, str(report)
