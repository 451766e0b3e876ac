"""Models as users of torch.export report them, each for a fault of the exporter that it has shown."""

from __future__ import annotations

import dataclasses
import io

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, export
from tests.agreement import agree


class Mapped(torch.nn.Module):
    """Inside torch.vmap a tensor has no storage of its own."""

    def forward(self, x, y):
        return torch.vmap(torch.dot)(x, y)


class Gradient(torch.nn.Module):
    def forward(self, x):
        return torch.func.grad(lambda z: (z**3).sum())(x)


class Chosen(torch.nn.Module):
    """Both branches give fresh tensors, whose strides torch notes as products with `Max(1, t)` in them."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


def serves(mod, program, probes):
    return all(agree(mod, program.module(), probe) for probe in probes)


def test_tensors_without_a_storage_of_their_own_are_traced():
    b = Dim("b", min=1, max=8)
    program = export(Mapped(), (torch.randn(3, 4), torch.randn(3, 4)), dynamic_shapes=({0: b}, {0: b}))
    assert program.report.status == "proved"
    assert serves(Mapped(), program, [(torch.randn(n, 4), torch.randn(n, 4)) for n in (1, 2, 8)])


def test_a_gradient_that_torch_takes_for_a_constant_is_in_the_program():
    """torch.export gives a program that returns one number for every input."""
    program = export(Gradient(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("b", min=1, max=8)},))
    assert program.report.status == "proved"
    assert serves(Gradient(), program, [(torch.randn(n, 4),) for n in (1, 2, 8)])


@pytest.mark.thorough
@pytest.mark.parametrize("lowest", [1, 2])
def test_the_branches_of_cond_may_give_fresh_tensors(lowest):
    shapes = ({0: Dim("b", min=lowest), 1: Dim("t", min=lowest)},)
    program = export(Chosen(), (torch.randn(3, 5, 4),), dynamic_shapes=shapes)
    assert program.report.status == "proved"
    sizes = [(lowest, lowest), (3, lowest), (lowest, 7)]
    assert serves(Chosen(), program, [(sign * torch.ones(*each, 4),) for each in sizes for sign in (1, -1)])


@pytest.mark.thorough
def test_where_cond_cannot_be_traced_for_sizes_from_0_on_it_is_for_sizes_from_1_on():
    report = check(Chosen(), (torch.randn(3, 5, 4),), dynamic_shapes=({0: Dim("b"), 1: Dim("t")},))
    assert report.status == "proved"
    least = 0 if torch.__version__ >= "2.15" else 1  # from then on torch traces it for sizes from 0 on, too
    assert {f"x.shape[0] >= {least}", f"x.shape[1] >= {least}"} <= set(report.domain)
    sizes = [(least, least), (1, 1), (1, 4), (3, 1)]
    assert serves(Chosen(), report.program, [(torch.ones(*each, 4),) for each in sizes])


class PadsWhereNeeded(torch.nn.Module):
    """To rows of eight; where that adds nothing the operator is skipped."""

    def forward(self, x):
        missing = (8 - x.shape[0] % 8) % 8
        if missing > 0:
            x = torch.nn.functional.pad(x, (0, missing))
        return self.used(x)

    def used(self, x):
        return x.reshape(-1, 8).sum(1)


class PadsAndWrites(PadsWhereNeeded):
    """Where nothing is added it is the input that is written into."""

    def used(self, x):
        return x.add_(1).sum()


class PadsAndReturns(PadsWhereNeeded):
    """Where nothing is added it is the input that is returned."""

    def used(self, x):
        return x


def padded(model):
    return check(model, (torch.randn(12),), dynamic_shapes=({0: Dim("n", min=1, max=24)},))


def test_a_copy_that_adds_nothing_is_no_operation():
    report = padded(PadsWhereNeeded())
    assert report.status == "proved"
    assert serves(PadsWhereNeeded(), report.program, [(torch.randn(n),) for n in (1, 7, 8, 9, 24)])


@pytest.mark.parametrize("model", [PadsAndWrites, PadsAndReturns])
def test_a_copy_that_is_written_into_or_returned_is_one(model):
    assert padded(model()).status in {"refuted", "undecided"}


class Positions(torch.nn.Module):
    """A table of 32 rows, one for each position."""

    def __init__(self, most=None):
        super().__init__()
        self.table = torch.nn.Embedding(32, 4)
        self.most = most

    def forward(self, x):
        at = torch.arange(x.shape[0])
        return x + self.table(at if self.most is None else at.clamp(max=self.most))


class Offsets(torch.nn.Module):
    """Distances between positions from -7 to 7, looked up by an index that counts from the end where it is negative."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(15))

    def forward(self, x):
        at = torch.arange(x.shape[0])
        return x @ x.T + self.table[at[:, None] - at[None, :]]


class TakesTheFirstPositions(Positions):
    """Where the indices lie is known of the whole range, and only a part of it is used."""

    def forward(self, x):
        return x[:20].sum(0) + self.table(torch.arange(x.shape[0])[:20]).sum(0)


class Tokens(Positions):
    def forward(self, ids):
        return self.table(ids)


LONG = ({0: Dim("t", min=1, max=40)},)


@pytest.mark.parametrize(("model", "most"), [(Positions(), 32), (Offsets(), 15)])
def test_a_table_with_fewer_rows_than_there_are_positions_is_refuted_with_the_first_that_has_none(model, most):
    report = check(model, (torch.randn(10, 4),), dynamic_shapes=LONG)
    (found,) = report.diagnostics
    assert (found.id, found.witness) == ("bound", {"x.shape[0]": most + 1})
    assert f"x.shape[0] <= {most}" in found.message
    assert "self.table" in str(report)


def test_a_range_that_is_inferred_ends_where_the_table_does():
    report = check(Positions(), (torch.randn(10, 4),), dynamic_shapes=({0: Dim.AUTO},))
    assert report.status == "proved"
    assert any("x.shape[0] <= 32" in text for text in report.domain)


@pytest.mark.parametrize("model", [Positions(most=31), TakesTheFirstPositions()])
def test_indices_that_stay_in_the_table_ask_for_nothing(model):
    assert check(model, (torch.randn(10, 4),), dynamic_shapes=LONG).status == "proved"


def test_indices_that_are_data_are_left_to_run_time():
    assert check(Tokens(), (torch.tensor([1, 31]),), dynamic_shapes=LONG).status == "proved"


SLICES = {
    "cut to a maximum": lambda x: x[:20],
    "the last five": lambda x: x[-5:],
    "without the last three": lambda x: x[:-3],
    "a window": lambda x: x[2:10:3],
    "from where may be below 0": lambda x: x[x.shape[0] // 2 - 3 :],
    "between two ends that may cross": lambda x: x[x.shape[0] - 9 : 12],
}


class Sliced(torch.nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut = cut

    def forward(self, x):
        return self.cut(x) * 2


@pytest.mark.parametrize("cut", SLICES.values(), ids=SLICES)
def test_a_slice_is_one_program_on_either_side_of_its_bounds(cut):
    report = check(Sliced(cut), (torch.randn(10),), dynamic_shapes=({0: Dim("t", min=1, max=40)},))
    assert report.status == "proved"
    assert serves(Sliced(cut), report.program, [(torch.randn(n),) for n in range(1, 41)])


@dataclasses.dataclass
class Pair:
    """A class of the user's among the inputs; dynamic_shapes has a list for it."""

    left: torch.Tensor
    right: torch.Tensor


torch.export.register_dataclass(Pair, serialized_type_name="tests.reported.Pair")


class Crosses(torch.nn.Module):
    def forward(self, scale, pair):
        return Pair(pair.left * scale, pair.right.flip(0) + pair.left.sum(0))


def test_inputs_in_a_class_of_the_users_are_declared_in_a_list():
    left, right = Dim("left", min=1, max=4), Dim("right", min=1, max=4)
    shapes = {"scale": None, "pair": [{0: left}, {0: right}]}
    example = (torch.tensor(2.0), Pair(torch.randn(2, 3), torch.randn(3, 3)))
    program = export(Crosses(), example, dynamic_shapes=shapes)
    assert program.report.status == "proved"
    assert set(program.report.domain) >= {"pair.left.shape[0] <= 4", "pair.right.shape[0] <= 4"}
    for a, b in [(1, 1), (4, 1), (1, 4)]:
        probe = (torch.tensor(3.0), Pair(torch.randn(a, 3), torch.randn(b, 3)))
        assert agree(Crosses(), program.module(), probe)


class Means(torch.nn.Module):
    """Where there is one row, torch writes 1 into the branches."""

    def forward(self, x):
        def above(x):
            return x.sum(0) / x.shape[0] + x.shape[1]

        return torch.cond(x.sum() > 0, above, lambda x: x.mean(0), (x,))


class MeansOtherwiseOfOne(torch.nn.Module):
    def forward(self, x):
        def above(x):
            return x.sum(0) / (3 if x.shape[0] == 1 else x.shape[0])

        return torch.cond(x.sum() > 0, above, lambda x: x.mean(0), (x,))


SIGNED = [sign * torch.rand(n, m) for n in (1, 2, 8) for m in (1, 3) for sign in (1, -1)]
ROWS = ({0: Dim("n", min=1, max=8), 1: Dim("m", min=1, max=4)},)


@pytest.mark.thorough
def test_a_size_that_torch_writes_into_a_branch_where_it_has_one_value_makes_no_other_program():
    report = check(Means(), (torch.rand(5, 3),), dynamic_shapes=ROWS)
    assert report.status == "proved", str(report)
    assert all(agree(Means(), report.program.module(), (x,)) for x in SIGNED)


@pytest.mark.thorough
def test_another_number_in_a_branch_is_another_program():
    model = MeansOtherwiseOfOne()
    report = check(model, (torch.rand(5, 3),), dynamic_shapes=ROWS)
    assert report.status != "proved"
    if report.program is not None:
        assert all(agree(model, report.program.module(), (x,), may_refuse=True) for x in SIGNED)


class _Patches(torch.nn.Module):
    def forward(self, x):
        return x.unfold(2, 4, 4).unfold(3, 4, 4).reshape(x.shape[0], -1, 32)


def test_the_help_asks_for_no_more_where_the_example_has_sizes_that_are_equal_by_chance():
    """At 8 x 8 there are as many rows of patches as channels, which `reshape` takes for their sum."""
    shapes = ({2: Dim("h", min=1, max=400), 3: Dim("w", min=1, max=400)},)
    report = check(_Patches(), (torch.randn(1, 2, 8, 8),), dynamic_shapes=shapes)
    assert [found.witness for found in report.diagnostics] == [
        {"x.shape[2]": 1, "x.shape[3]": 1},
        {"x.shape[2]": 4, "x.shape[3]": 1},
    ]
    helps = [each.text for found in report.diagnostics for each in found.help]
    assert helps == ['h = Dim("h", min=4, max=400)', 'w = Dim("w", min=4, max=400)']


class _Shapes(torch.nn.Module):
    def forward(self, x):
        return {"whole": x.shape, "rest": [x * 2, (x.size(), 3)]}


def test_a_model_may_return_a_size():
    program = export(_Shapes(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=9)},))
    assert program.report.status == "proved"
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for run in (program.module(), torch.export.load(file).module()):
        got = run(torch.ones(5, 4))
        assert (got["whole"], got["rest"][1]) == ((5, 4), ((5, 4), 3))


class _Tuple(torch.nn.Module):
    def forward(self, x):
        return x * 2 if torch.compiler.is_exporting() else (x * 2,)


def test_another_container_is_a_difference_still():
    report = check(_Tuple(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=9)},))
    assert report.status == "refuted"


class _Decoding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerDecoderLayer(8, 2, 8, batch_first=True)
        self.decoder = torch.nn.TransformerDecoder(layer, 1)

    def forward(self, x, memory):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.decoder(x, memory, tgt_mask=mask)


def test_a_causal_mask_is_known_to_be_one():
    """The decoder makes the mask again, and asks whether the two are equal everywhere."""
    b = Dim("b", min=1, max=4)
    shapes = ({0: b, 1: Dim("t", min=1, max=8)}, {0: b, 1: Dim("s", min=1, max=8)})
    args = (torch.randn(2, 3, 8), torch.randn(2, 5, 8))
    assert check(_Decoding().eval(), args, dynamic_shapes=shapes).status == "proved"


_NAN = float("nan")


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (lambda n: torch.full((n, n), 2.5).triu(1), lambda n: torch.full((n, n), 2.5, dtype=torch.float32).triu(1), 1),
        (lambda n: torch.full((n,), 3), lambda n: torch.full((n,), 3), 1),
        (lambda n: torch.full((n, n), 2.5).triu(1), lambda n: torch.full((n, n), 2.5).triu(), 0),
        (lambda n: torch.full((n, n), 2.5), lambda n: torch.full((n, n), 2.5).double(), 0),
        (lambda n: torch.full((n,), _NAN), lambda n: torch.full((n,), _NAN), 0),
        (lambda n: torch.full((n, n), _NAN).tril(), lambda n: torch.full((n, n), _NAN).tril(), 0),
    ],
)
def test_equal_masks_are_known_as_such_if_no_element_is_nan(one, other, equal):
    class Asks(torch.nn.Module):
        def forward(self, x):
            return x * 2 if bool((one(x.shape[0]) == other(x.shape[0])).all()) else x

    report = check(Asks(), (torch.randn(5),), dynamic_shapes=({0: Dim("n", min=0, max=9)},))
    assert report.status == ("proved" if equal else "refuted")


def test_a_mask_that_is_written_into_is_another_one():
    class Asks(torch.nn.Module):
        def forward(self, x):
            one, other = (torch.full((x.shape[0], x.shape[0]), 1.0).triu() for _ in range(2))
            other[0] = x[0]
            return x * 2 if bool((one == other).all()) else x

    shapes = ({0: (n := Dim("n", min=1, max=9)), 1: n},)
    assert check(Asks(), (torch.randn(5, 5),), dynamic_shapes=shapes).status == "refuted"


class _Given(_Decoding):
    def forward(self, x, memory, mask):
        return self.decoder(x, memory, tgt_mask=mask)


@pytest.mark.thorough
def test_a_question_of_torchs_modules_about_data_is_shown_with_its_own_line():
    """Who knows that line knows the way out: the decoder asks only where `tgt_is_causal` is left out."""
    b, t = Dim("b", min=1, max=4), Dim("t", min=1, max=8)
    shapes = ({0: b, 1: t}, {0: b, 1: Dim("s", min=1, max=8)}, {0: t, 1: t})
    args = (torch.randn(2, 3, 8), torch.randn(2, 5, 8), torch.zeros(3, 3))
    (found,) = check(_Given().eval(), args, dynamic_shapes=shapes).diagnostics
    (note,) = (note for note in found.notes if "taken from data" in note.text)
    assert found.id == "data-dependent"
    assert "torch asks for it at torch/nn/modules/transformer.py" in note.text
    assert "causal" in note.text.rpartition("transformer.py")[2]
