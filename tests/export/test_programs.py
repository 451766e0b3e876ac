"""The programs that shapeproof was made for, and the faults that no export may share.

Those are refused or served, never silently wrong. Each fault of the second part has been seen in an exporter,
in torch's or in a draft of this one.
"""

from __future__ import annotations

import copy
import inspect

import pytest
import torch
from torch.export import Dim

from shapeproof.export import ConstraintViolation, check, export
from tests.agreement import agree, outcome

SERVING = {
    "module": lambda program: program.module(),
    "unflatten": torch.export.unflatten,
    "decomposed": lambda program: program.run_decompositions().module(),
}


def never_silently_wrong(mod, args, shapes, probes, **options):
    """The report; refuted with a program withheld, or a program that does what eager does at every probe of the domain.

    A program whose report says undecided may refuse a probe instead.
    """
    report = check(mod, args, dynamic_shapes=shapes, **options)
    if report.program is None:
        assert report.status == "refuted"
        return report
    assert report.status in {"proved", "undecided"}
    for form, serve in SERVING.items():
        run = serve(report.program)
        for probe in probes:
            assert agree(mod, run, probe, may_refuse=report.status == "undecided"), (form, probe)
    return report


def refuted_at(report, **sizes):
    """Whether some diagnostic of a refuted report has this witness."""
    witness = {f"{name}.shape[0]": size for name, size in sizes.items()}
    return report.status == "refuted" and any(d.witness == witness for d in report.diagnostics)


def line_of(mod, text):
    """The number of the one line of a model that contains a text."""
    lines, first = inspect.getsourcelines(type(mod))
    (found,) = (first + i for i, line in enumerate(lines) if text in line)
    return found


def rows(low, high, columns=4):
    return [(torch.randn(n, columns),) for n in range(low, high + 1)]


# ---------------------------------------------------------------------- the programs of the design


class A(torch.nn.Module):
    def forward(self, x):
        return x * 100 if x.shape[0] == 1 else x + 1


class B(torch.nn.Module):
    def forward(self, x, y):
        i = x.nonzero().squeeze(-1)
        return y[i] if i.shape[0] <= x.shape[0] else y


class Reshaping(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 4)


B_DIM = Dim("b", min=1, max=8)


def test_a_is_refuted_at_one_with_the_line_of_the_branch():
    with pytest.raises(ConstraintViolation) as raised:
        export(A(), (torch.randn(3, 4),), dynamic_shapes=({0: B_DIM},))
    report = raised.value.report
    (found,) = report.diagnostics
    assert report.status == "refuted"
    assert found.witness == {"x.shape[0]": 1}
    assert (found.file, found.line) == (__file__, line_of(A(), "x.shape[0] == 1"))
    assert str(raised.value).startswith(str(report))
    assert str(raised.value).endswith("shapeproof rule other-program")


@pytest.mark.parametrize("example", [1, 2, 3, 8])
def test_a_is_refuted_whatever_the_example(example):
    report = check(A(), (torch.randn(example, 4),), dynamic_shapes=({0: B_DIM},))
    assert report.status == "refuted"


def test_a_is_proved_without_the_size_that_differs():
    report = check(A(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("b", min=2, max=8)},))
    assert report.status == "proved"
    assert all(agree(A(), report.program.module(), probe) for probe in rows(2, 8))


def test_b_is_proved():
    n = Dim("n", min=1, max=8)
    program = export(B(), (torch.tensor([1.0, 0, 2]), torch.randn(3, 2)), dynamic_shapes=({0: n}, {0: n}))
    assert program.report.status == "proved"
    for size in range(1, 9):
        for x in (torch.zeros(size), torch.ones(size), torch.arange(size).float()):
            assert agree(B(), program.module(), (x, torch.randn(size, 2)))


def test_f1_a_view_in_rows_of_four_asks_for_a_multiple_of_four_and_nothing_else():
    """torch.export names three reasons, two of which follow from the first or are not true."""
    report = check(Reshaping(), (torch.randn(8),), dynamic_shapes=({0: Dim("n", min=2, max=64)},))
    (found,) = report.diagnostics
    assert report.status == "refuted"
    assert found.message == "`x.shape[0]` must be a multiple of 4"
    assert found.line == line_of(Reshaping(), "view")
    assert outcome(Reshaping(), (torch.randn(found.witness["x.shape[0]"]),)) == "raises"


def test_a_title_names_the_number_that_must_be_a_multiple():
    """The fault: "`x.shape[0] == min(x.shape[0], 4)` must be a multiple of 4"."""

    class BehindTheFirst(torch.nn.Module):
        def forward(self, x):
            return x[4:].view(-1, 4)

    (found,) = check(BehindTheFirst(), (torch.randn(8),), dynamic_shapes=({0: Dim("n", min=0, max=64)},)).diagnostics
    assert found.message == "`x.shape[0] - min(x.shape[0], 4)` must be a multiple of 4"


def test_f1_four_times_k_is_proved_from_k_one_on():
    """What torch suggests and then rejects at n = 4."""
    program = export(Reshaping(), (torch.randn(8),), dynamic_shapes=({0: 4 * Dim("k", min=1)},))
    assert program.report.status == "proved"
    for n in (4, 8, 12, 400):
        assert torch.equal(program.module()(torch.ones(n)), torch.ones(n // 4, 4))


# ---------------------------------------------------------------------- faults


class WritesAnAliasAtSizeOne(torch.nn.Module):
    """`contiguous` copies, but at size 1 it is x itself."""

    def forward(self, x):
        x = x.clone()
        y = x.t().contiguous()
        y.add_(1)
        return x


class SqueezesInPlace(torch.nn.Module):
    def forward(self, x):
        x = x.clone()
        x.squeeze_(0)
        return x


class LiftsAnotherConstant(torch.nn.Module):
    def forward(self, x):
        weights = torch.tensor([1.0, 2, 3]) if x.shape[0] == 1 else torch.tensor([4.0, 5, 6])
        return x * weights


class LiftsTheSameConstant(torch.nn.Module):
    def forward(self, x):
        weights = torch.tensor([1.0, 2, 3])
        if x.shape[0] == 1:
            weights = torch.tensor([1.0, 2, 3])
        return x * weights


class CountsDimensions(torch.nn.Module):
    """The size that squeezes away is not 0 or 1 of any declared dim: it is n = 2."""

    def forward(self, x):
        y = x.view(2, x.shape[0] // 2).squeeze(1)
        return y * y.dim()


class DividesInVain(torch.nn.Module):
    """The quotient is not used, and still raises where m = 0."""

    def forward(self, x, y):
        unused = x.shape[0] // y.shape[0]  # noqa: F841 - that it is unused is the point
        return x + 1


class AsksWhetherItIsTraced(torch.nn.Module):
    def forward(self, x):
        return x - 1 if torch.compiler.is_compiling() else x + 1


class CatchesACheck(torch.nn.Module):
    def forward(self, x):
        try:
            torch._check(x.shape[0] % 2 == 0)
        except RuntimeError:
            return x * 3
        return x * 2


class CountsCalls(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class RemembersASize(torch.nn.Module):
    """What one trace leaves behind must not reach the next."""

    def __init__(self):
        super().__init__()
        self.largest = 0

    def forward(self, x):
        if x.shape[0] > self.largest:
            self.largest = 5
            return x + 1
        return x - 1


class FillsABuffer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x.sum(0))
        return x + self.total


class LooksUp(torch.nn.Module):
    def forward(self, table, index):
        return table[index]


ALL_ROWS = ({0: B_DIM},)


class Halves(torch.nn.Module):
    """What fake tensors say of the operator asks for nothing where half of the height is 0."""

    def forward(self, x):
        return torch.nn.functional.interpolate(x, scale_factor=0.5)


class Factors(torch.nn.Module):
    """Made-up data are no positive definite matrices."""

    def forward(self, x):
        return torch.linalg.cholesky(x)


@pytest.mark.thorough
def test_sizes_at_which_program_and_eager_raise_whatever_the_data_are_refuted():
    example = torch.randn(1, 2, 5, 7)
    low = check(Halves(), (example,), dynamic_shapes=({2: Dim("h", min=1, max=6), 3: Dim("w", min=2, max=9)},))
    assert (low.status, low.diagnostics[0].id) == ("refuted", "replay")
    assert low.diagnostics[0].witness == {"x.shape[2]": 1, "x.shape[3]": 2}
    assert "eager raises, as the program does" in str(low)
    assert check(Halves(), (example,), dynamic_shapes=({2: Dim("h", min=2, max=6)},)).status == "proved"


class Draws(torch.nn.Module):
    """Made-up data leave the range of a probability, sooner or later."""

    def forward(self, x):
        return torch.bernoulli(x).sum() * 0


@pytest.mark.thorough
def test_data_that_both_refuse_refute_nothing():
    matrices, size = torch.eye(3).repeat(2, 1, 1), Dim("n", min=1, max=8)
    for shapes in ({0: size}, {1: size, 2: size}):
        assert check(Factors(), (matrices,), dynamic_shapes=(shapes,)).status == "proved"
    assert check(Draws(), (torch.linspace(0, 1, 4),), dynamic_shapes=({0: size},)).status == "proved"


def test_an_in_place_operator_on_an_alias_at_size_one():
    report = never_silently_wrong(WritesAnAliasAtSizeOne(), (torch.randn(3, 4),), ALL_ROWS, rows(1, 8))
    assert refuted_at(report, x=1)


@pytest.mark.slow
@pytest.mark.parametrize("low", [1, 2])
def test_an_in_place_operator_on_an_alias_at_size_one_in_aot_inductor(low, tmp_path):
    report = check(WritesAnAliasAtSizeOne(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("b", min=low, max=8)},))
    assert report.status == ("refuted" if low == 1 else "proved")
    if report.program is not None:
        path = torch._inductor.aoti_compile_and_package(report.program, package_path=str(tmp_path / "model.pt2"))
        run = torch._inductor.aoti_load_package(path)
        assert all(agree(WritesAnAliasAtSizeOne(), run, probe) for probe in rows(low, 8))


@pytest.mark.parametrize("example", [1, 3])
def test_a_squeeze_in_place(example):
    report = never_silently_wrong(SqueezesInPlace(), (torch.randn(example, 4),), ALL_ROWS, rows(1, 8))
    assert report.status == "refuted"
    assert report.diagnostics[0].line == line_of(SqueezesInPlace(), "squeeze_")


def test_a_lifted_constant_that_differs_between_regions():
    report = never_silently_wrong(LiftsAnotherConstant(), (torch.randn(2, 3),), ALL_ROWS, rows(1, 8, 3))
    assert refuted_at(report, x=1)


def test_a_lifted_constant_that_is_the_same_in_all_regions():
    report = never_silently_wrong(LiftsTheSameConstant(), (torch.randn(2, 3),), ALL_ROWS, rows(1, 8, 3))
    assert report.status == "proved"


def test_a_squeeze_where_half_the_size_is_one():
    probes = [(torch.randn(n),) for n in range(2, 17, 2)]
    report = never_silently_wrong(CountsDimensions(), (torch.randn(6),), ({0: 2 * Dim("k", min=1, max=8)},), probes)
    assert report.status == "refuted"
    assert report.diagnostics[0].witness == {"k": 1}


def test_a_division_by_zero_whose_result_is_unused():
    shapes = ({0: Dim("n", min=0, max=8)}, {0: Dim("m", min=0, max=8)})
    probes = [(torch.randn(n), torch.randn(m)) for n in (0, 1, 5) for m in (0, 1, 8)]
    report = never_silently_wrong(DividesInVain(), (torch.randn(4), torch.randn(3)), shapes, probes)
    assert report.status == "refuted"
    assert report.diagnostics[0].witness["y.shape[0]"] == 0


@pytest.mark.thorough
def test_a_division_that_never_divides_by_zero():
    shapes = ({0: Dim("n", min=0, max=8)}, {0: Dim("m", min=1, max=8)})
    probes = [(torch.randn(n), torch.randn(m)) for n in (0, 1, 5) for m in (1, 8)]
    report = never_silently_wrong(DividesInVain(), (torch.randn(4), torch.randn(3)), shapes, probes)
    assert report.status == "proved"


def test_code_that_notices_the_tracer():
    """No decision is recorded, so only a run beside eager can show it."""
    report = never_silently_wrong(AsksWhetherItIsTraced(), (torch.randn(3, 4),), ALL_ROWS, rows(1, 8))
    assert report.status == "refuted"
    assert report.diagnostics[0].id == "replay"


@pytest.mark.parametrize("example", [3, 4])
def test_a_check_that_the_model_catches(example):
    report = never_silently_wrong(CatchesACheck(), (torch.randn(example, 4),), ALL_ROWS, rows(1, 8))
    assert report.status == "refuted"


@pytest.mark.thorough
def test_a_check_that_the_model_catches_and_that_always_holds():
    probes = [(torch.randn(n, 4),) for n in range(2, 17, 2)]
    shapes = ({0: 2 * Dim("k", min=1, max=8)},)
    assert never_silently_wrong(CatchesACheck(), (torch.randn(4, 4),), shapes, probes).status == "proved"


@pytest.mark.thorough
def test_a_counter_that_forward_changes():
    """Eager answers the second call otherwise than the first; a program cannot."""
    mod = CountsCalls()
    report = never_silently_wrong(mod, (torch.randn(3, 4),), ALL_ROWS, rows(1, 8))
    assert mod.calls == 0
    assert report.status == "refuted"


def test_a_trace_leaves_nothing_behind_for_the_next():
    mod = RemembersASize()
    never_silently_wrong(mod, (torch.randn(3, 4),), ALL_ROWS, rows(1, 8))
    assert mod.largest == 0


def test_a_buffer_that_forward_changes_is_state_of_the_program():
    mod = FillsABuffer()  # as with torch.export, a program shares the state of the model that it was made of
    program = export(copy.deepcopy(mod), (torch.randn(3, 4),), dynamic_shapes=ALL_ROWS).module()
    for (x,) in rows(1, 8):
        torch.testing.assert_close(program(x), mod(x))


class Cursor:
    """A counter in a tensor that is no buffer, as a layer of a static cache of keys and values has one."""

    def __init__(self):
        self.count = torch.tensor(0)


class Advances(torch.nn.Module):
    """Writes the counter through what `to` returns: the same tensor, of which torch's fakes say another."""

    def __init__(self):
        super().__init__()
        self.cursor = Cursor()

    def forward(self, x):
        count = self.cursor.count.to("cpu", torch.int64)
        before = torch.arange(x.shape[0]) + count
        count.add_(x.shape[0])
        return before + self.cursor.count


class Bounded(torch.nn.Module):
    """Reads a number from its input, and bounds it."""

    def forward(self, x, lengths):
        longest = int(lengths.max().item())
        torch._check(longest >= 0)
        torch._check(longest <= x.shape[0])
        return x[:longest] * torch.arange(longest)[:, None]


def test_a_program_that_bounds_a_number_of_its_input_can_be_copied():
    """The fault: what makes inputs pass the model's checks held the trial, and with it torch's symbols."""
    program = export(Bounded(), (torch.randn(3, 4), torch.tensor([2])), dynamic_shapes=(ALL_ROWS[0], {}))
    x = torch.randn(5, 4)
    assert torch.equal(copy.deepcopy(program).module()(x, torch.tensor([3])), Bounded()(x, torch.tensor([3])))


class TakesInAPart(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Bounded()

    def forward(self, x, lengths):
        return self.part(x, lengths) * 2


@pytest.mark.parametrize("again", [export, torch.export.export])
def test_a_program_that_is_exported_again_can_be_unflattened(again):
    """The fault: its checks lay in a module that there was not, where torch had written a check of its own before."""
    args = (torch.randn(3, 4), torch.tensor([2]))
    first = export(TakesInAPart(), args, dynamic_shapes=(ALL_ROWS[0], {}))
    run = torch.export.unflatten(again(first.module(), args, dynamic_shapes=(ALL_ROWS[0], {})))
    assert agree(TakesInAPart(), run, (torch.randn(5, 4), torch.tensor([3])))


def test_a_program_starts_with_the_models_state_not_with_what_its_trace_wrote():
    mod = Advances()
    program = export(copy.deepcopy(mod), (torch.randn(3, 4),), dynamic_shapes=ALL_ROWS).module()
    assert all(torch.equal(program(x), mod(x)) for (x,) in rows(1, 8))


@pytest.mark.thorough
@pytest.mark.parametrize("low", [0, 1, 4])
def test_an_index_that_reaches_the_length_of_a_resized_table(low):
    """Where the table is too short eager raises, and so does the program: no reason to refuse the sizes."""
    shapes = ({0: Dim("n", min=low, max=8)}, {0: Dim("m", min=0, max=8)})
    args = (torch.randn(5, 2), torch.tensor([4, 0, 3]))
    index = torch.tensor([0, 3, 4, 7])
    probes = [(torch.randn(n, 2), index[:m]) for n in {low, 4, 5, 8} for m in range(5)]
    assert never_silently_wrong(LooksUp(), args, shapes, probes).status == "proved"
