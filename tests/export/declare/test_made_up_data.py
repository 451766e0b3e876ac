"""Inputs made up for a replay meet what the model demands of them; a failure that is shown is the one that is named."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.export import TensorSpec, check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.declare.materialize import like_example
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.beside_eager.runner import Relation, unequal
from shapeproof.export.explore.explorer import Explorer
from shapeproof.export.trace import tracer
from shapeproof.solver.facts import Facts


class Calls(torch.nn.Module):
    """A model of tables and a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.bag = torch.nn.EmbeddingBag(10, 4, mode="sum")
        self.ends = torch.nn.EmbeddingBag(10, 4, mode="sum", include_last_offset=True)
        self.table = torch.nn.Embedding(10, 4)

    def forward(self, *args):
        return self.function(self, *args)


def cumulative(_, x, ends):
    first, last = ends[0].item(), ends[-1].item()
    torch._check(first == 0)
    torch._check(last == x.shape[0])
    return x[:last].sum(0)


def second_is_at_least_a_third(_, x, bounds):
    start, stop = bounds.tolist()
    torch._check(start >= 0)
    torch._check(stop >= start + 2)
    torch._check(stop <= x.shape[0])
    return x[start:stop].sum(0)


def padded(_, x, lengths):
    torch._check((lengths.max() <= x.shape[1]).item())
    longest = lengths.max().item()
    torch._check(longest >= 1)
    torch._check(longest <= x.shape[1])
    return x[:, :longest].sum(1)


def split(_, x, lengths):
    parts = lengths.tolist()
    for part in parts:
        torch._check(part >= 0)
    torch._check(sum(parts) == x.shape[0])
    return torch.stack([each.sum(0) for each in torch.split(x, parts)])


def written(_, x, i, v):
    y = x.clone()
    y[i] = v
    return y


N, M = {0: Dim("n", min=2, max=12)}, {0: Dim("m", min=2, max=12)}
NM = {0: N[0], 1: M[0]}
IDS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
MODELS = {
    "offsets": (lambda s, i, o: s.bag(i, o), (IDS, torch.tensor([0, 4])), (N, M)),
    "offsets and the end": (lambda s, i, o: s.ends(i, o), (IDS, torch.tensor([0, 4, 8])), (N, M)),
    "cumulative lengths": (cumulative, (torch.randn(6, 3), torch.tensor([0, 2, 6])), (N, M)),
    "bounds": (second_is_at_least_a_third, (torch.randn(6, 3), torch.tensor([1, 5])), (N, None)),
    "longest": (padded, (torch.randn(2, 6), torch.tensor([2, 6])), (NM, N)),
    "lengths that add up": (split, (torch.randn(6, 3), torch.tensor([2, 4])), (N, None)),
    "segments": (
        lambda _, x, n: torch.segment_reduce(x, "sum", lengths=n),
        (torch.randn(6), torch.tensor([2, 4])),
        (N, M),
    ),
    "gather": (
        lambda _, x, i: x.gather(1, i),
        (torch.randn(3, 5), torch.tensor([[4, 0], [1, 2], [3, 4]])),
        (NM, {0: N[0]}),
    ),
    "index_select": (
        lambda _, x, i: x.index_select(0, i),
        (torch.randn(9, 3), torch.tensor([8, 0, 2])),
        (N, M),
    ),
    "index_put": (written, (torch.randn(9, 3), torch.tensor([8, 0, 2]), torch.randn(3, 3)), (N, M, M)),
    "scatter": (
        lambda _, x, i, v: x.scatter_add(0, i, v),
        (torch.randn(9, 3), torch.tensor([[8, 0, 2], [1, 1, 1]]), torch.randn(2, 3)),
        (N, M, M),
    ),
    "searchsorted": (
        lambda _, x, v: x[torch.searchsorted(x, v).clamp(max=x.shape[0] - 1)],
        (torch.arange(5.0), torch.rand(3)),
        (N, M),
    ),
    "embedding": (lambda s, i: s.table(i) + s.table(i[:, :1]), (torch.tensor([[1, 9, 3], [4, 5, 6]]),), (NM,)),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_replay_fails_for_want_of_data_that_the_model_takes(name):
    function, args, shapes = MODELS[name]
    mod = Calls(function)
    inputs = declare(mod, args, None, (shapes,))
    explorer = Explorer(Eager(mod, inputs), functools.partial(tracer.trace, mod, inputs), lambda _: None)
    found = explorer.run(Facts(inputs.domain.formulas))
    assert not found.findings
    names = sorted(inputs.domain.symbols)
    for sizes in itertools.product((2, 3, 7, 12), repeat=len(names)):
        point = dict(zip(names, sizes, strict=True))
        result = Eager(mod, inputs).compare(found.forms, point)
        assert result.relation is Relation.SAME, (point, result.text)
    assert check(mod, args, dynamic_shapes=(shapes,)).status == "proved"


def at_least_one(_, x, mask):
    kept = mask.sum().item()
    torch._check(kept >= 1)
    torch._check(kept <= x.shape[0])
    return x[kept - 1]


@pytest.mark.quick
@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int64])
def test_a_sum_that_must_be_positive_is_made_in_the_dtype_of_the_input(dtype):
    mod = Calls(at_least_one)
    report = check(mod, (torch.randn(5), torch.zeros(5, dtype=dtype)), dynamic_shapes=((N, N),))
    assert report.status == "proved"


@pytest.mark.parametrize("how", ["sum", "max", "element"])
def test_a_number_that_the_dtype_of_an_input_cannot_hold_is_not_written_into_it(how):
    def large(_, x, m):
        number = (m[0] if how == "element" else getattr(m, how)()).item()
        torch._check(number >= 500)
        return x * number

    report = check(Calls(large), (torch.randn(3), torch.zeros(3, dtype=torch.int8)), dynamic_shapes=None)
    assert [each.id for each in report.diagnostics] == ["contradiction"]


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize(
    "dtype", [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64]
)
def test_inputs_are_made_in_dtypes_that_torch_cannot_compare(dtype):
    function = Calls(lambda _, x, i: (x[i.long()], x + i.to(x.dtype), i.clone()))
    args = (torch.randn(5), torch.tensor([1, 1, 2, 4, 4]).to(dtype))
    assert check(function, args, dynamic_shapes=((N, N),)).status == "proved"


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_results_of_eight_bits_are_equal_to_eagers(dtype):
    function = Calls(lambda _, x: x.to(dtype))
    assert check(function, (torch.randn(5),), dynamic_shapes=((N,),)).status == "proved"
    one, other = torch.ones(3).to(dtype), torch.tensor([1.0, 1.0, 2.0]).to(dtype)
    assert unequal(one, one.clone()) is None
    assert unequal(one, other) == "the values differ"


def test_the_examples_own_data_stay_as_they_are():
    mod, args = Calls(lambda _, x, i: x.index_select(0, i)), (torch.randn(4, 3), torch.tensor([3, 0]))
    inputs = declare(mod, args, None, ((N, M),))
    inputs.demands.append(lambda _, values: values["L['args'][1]"].zero_())
    (_, index), _ = inputs.at(inputs.example, filled=True)
    assert index.tolist() == [3, 0]


class Positions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 4)

    def forward(self, x, i):
        rows = x[i]
        return rows.sum() + self.table(torch.arange(x.shape[1])).sum()


class Third(torch.nn.Module):
    def forward(self, x):
        kept = x[x[:, 0] > 0]
        return kept[torch.tensor([0, 2])]


def test_the_failure_that_is_shown_is_that_of_the_line_that_is_named():
    report = check(Positions(), (torch.randn(9, 3), torch.tensor([8, 7])), dynamic_shapes=(NM, {0: Dim("k")}))
    (found,) = report.diagnostics
    assert found.line == Positions.forward.__code__.co_firstlineno + 2
    (fails,) = (note.text for note in found.notes if note.label == "fails at")
    assert "index out of range in self" in fails
    assert found.witness == {"i.shape[0]": 0, "x.shape[0]": 2, "x.shape[1]": 11}


def test_what_is_demanded_of_data_bounds_sizes_with_the_line():
    report = check(Third(), (torch.rand(8, 4) + 1,), dynamic_shapes=({0: Dim("n", min=1)},))
    (found,) = report.diagnostics
    assert (found.id, found.line) == ("bound", Third.forward.__code__.co_firstlineno + 2)
    assert found.message == "`x.shape[0] >= 3` must hold"


def test_a_mask_that_masks_nothing_is_drawn_to_mask_places_but_no_whole_row():
    """The fault: all replays ran with the example's mask of zeros, where fused attention agrees with any other."""
    example = torch.zeros(2, 5, dtype=torch.bool)
    drawn = like_example(example, (40, 9), filled=True, seed=0)
    assert drawn.any()
    assert not drawn.all(-1).any()
    kept = like_example(~example, (40, 9), filled=True, seed=0)
    assert not kept.all()
    assert kept.any(-1).all()


class MasksRows(torch.nn.Module):
    """As a fused kernel: what is masked gives another value in eager."""

    def forward(self, x, mask):
        return x.masked_fill(mask, 1.0 if torch.compiler.is_compiling() else 0.0)


def test_a_difference_at_masked_places_is_found_though_the_example_masks_none():
    shapes = ({0: Dim("n", min=1, max=6)}, {0: Dim("n", min=1, max=6)})
    report = check(MasksRows(), (torch.randn(3, 4), torch.zeros(3, 4, dtype=torch.bool)), dynamic_shapes=shapes)
    assert report.status == "refuted"


# ---------------------------------------------------------------------- without an example


class Notices(Calls):
    """Gives something else where it is traced, so that only a run that does not raise tells."""

    def forward(self, *args):
        return super().forward(*args) + (1 if torch.compiler.is_compiling() else 0)


B, S = Dim("b", min=1, max=8), Dim("s", min=1, max=16)
INTS, ROWS = (lambda *dims: TensorSpec(torch.int64, dims)), TensorSpec(torch.float32, (B, S))
SPECIFIED = {
    "embedding": (lambda s, i: s.table(i), (INTS(B, S),)),
    "embedding of int32": (lambda s, i: s.table(i), (TensorSpec(torch.int32, (B, S)),)),
    "embedding of bytes": (lambda s, i: s.table(i.long()), (TensorSpec(torch.uint8, (B, S)),)),
    "bag": (lambda s, i, o: s.bag(i, o), (INTS(S), INTS(B))),
    "bag with the end": (lambda s, i, o: s.ends(i, o), (INTS(S), INTS(Dim("o", min=2, max=9)))),
    "x[i]": (lambda _, x, i: x[i], (ROWS, INTS(4))),
    "x[i] of a derived size": (lambda _, x, i: x[::2][i], (TensorSpec(torch.float32, (2 * B, 4)), INTS(S))),
    "x[:, i, j]": (lambda _, x, i, j: x[i, j], (ROWS, INTS(5), INTS(5))),
    "gather": (lambda _, x, i: x.gather(1, i), (ROWS, INTS(B, 3))),
    "gather the last": (lambda _, x, n: x.gather(1, n - 1), (ROWS, INTS(B, 1))),
    "a far offset": (lambda _, x, i: x.gather(1, i - 100), (ROWS, INTS(B, 1))),
    "an offset that is a size": (lambda _, x, i: x.gather(1, i + x.shape[1]), (ROWS, INTS(B, 1))),
    "take_along_dim": (lambda _, x, i: torch.take_along_dim(x, i, 1), (ROWS, INTS(B, 3))),
    "scatter": (lambda _, x, i: x.scatter(1, i, 0.0), (ROWS, INTS(B, 1))),
    "index_put": (lambda _, x, i: x.index_put((i,), torch.zeros(())), (ROWS, INTS(3))),
    "one_hot": (lambda _, i: torch.nn.functional.one_hot(i, 5), (INTS(B, S),)),
    "a mask": (lambda _, x, k: x.masked_fill(k, 0.0), (ROWS, TensorSpec(torch.bool, (B, S)))),
    "in a dict": (lambda s, d: s.table(d["ids"][0]), ({"ids": [INTS(B, S)], "more": None},)),
    "beside an example": (lambda s, i, j: s.table(i) + s.table(j), (IDS.reshape(2, 4), INTS(2, 4))),
}


@pytest.mark.parametrize("name", SPECIFIED)
def test_a_tensor_spec_of_integers_that_index_is_checked(name):
    """The fault: `'TensorSpec' object has no attribute 'is_floating_point'`."""
    function, args = SPECIFIED[name]
    assert check(Calls(function), args).status == "proved"


@pytest.mark.parametrize("name", SPECIFIED)
def test_integers_without_an_example_are_made_such_that_a_run_tells(name):
    """Law: of a model that notices that it is traced, some run does not raise, and refutes it."""
    function, args = SPECIFIED[name]
    report = check(Notices(function), args)
    assert [each.id for each in report.diagnostics] == ["replay"]
    assert "results differ" in " ".join(str(report).split())
