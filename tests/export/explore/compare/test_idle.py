"""Early returns where there are no elements: the program computes nothing there, either."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree, is_true_of

N = Dim("n", min=0, max=6)


def model_of(forward):
    return type("Model", (torch.nn.Module,), {"forward": staticmethod(forward)})()


def returns_early(x):
    return x.new_zeros(0, 3) if x.shape[0] == 0 else torch.cat([x[:, 1:].relu().cumsum(0)])


def returns_its_input(x):
    return x if x.numel() == 0 else x.softmax(-1) * 2


def fills_nothing(x):
    out = x.new_zeros(x.shape[0], 4)
    if x.shape[0] > 0:
        out[:] = x.sigmoid()
    return out


def scales_by_a_bool(x):
    return x * bool(x.shape[0])


def makes_a_table_for_nothing(x):
    return x[:, :2] * 1 if x.shape[0] == 0 else x @ torch.eye(4)[:, :2]


def finds_the_largest_in_each_row(x):
    return x.new_zeros(0) if x.shape[0] == 0 else x.max(1).values


def lies_otherwise_for_nothing(x):
    none = x[6:]
    return none.view(2, -1).t().reshape(-1, 4) if x.shape[0] == 5 else none


PROVED = [
    lies_otherwise_for_nothing,
    returns_early,
    returns_its_input,
    fills_nothing,
    scales_by_a_bool,
    makes_a_table_for_nothing,
    finds_the_largest_in_each_row,
]


@pytest.mark.parametrize("forward", PROVED)
def test_a_branch_makes_no_difference_to_a_result_without_elements(forward):
    mod = model_of(forward)
    report = check(mod, (torch.randn(3, 4),), dynamic_shapes=({0: N},))
    assert report.status == "proved", str(report)
    program = report.program.module()
    assert all(agree(mod, program, (torch.randn(n, 4),)) for n in range(7))


def of_another_dtype(x):
    return x.new_zeros(0, 5, dtype=torch.int64) if x.shape[0] == 0 else x.new_ones(x.shape[0], 5)


def of_another_shape(x):
    return x.new_zeros(0, 6) if x.shape[0] == 0 else x.new_ones(x.shape[0], 5)


def draws_before_a_number_is_drawn(x):
    return torch.rand(2) if x.shape[0] == 0 else torch.rand(2 + torch.rand_like(x).shape[1] - 4)


def needs_an_element(x):
    return x.new_zeros(0) if x.shape[0] == 0 else x[:, : x.shape[0]].max(1).values


def has_an_element_in_the_end(x):
    return x.new_ones(()) if x.shape[0] == 0 else x.sum()


def counts_its_calls(x, seen=torch.zeros(())):  # noqa: B008 - a tensor that the model keeps
    if x.shape[0] > 0:
        seen.add_(1)
    return x * 2


DIFFERS = [
    of_another_dtype,
    of_another_shape,
    draws_before_a_number_is_drawn,
    needs_an_element,
    has_an_element_in_the_end,
    counts_its_calls,
]


@pytest.mark.parametrize("forward", DIFFERS)
def test_a_branch_with_an_effect_counts_though_a_result_has_no_elements(forward):
    report = check(model_of(forward), (torch.randn(3, 4),), dynamic_shapes=({0: N},))
    assert report.status in {"refuted", "undecided"}, str(report)


def test_a_number_has_an_element_along_its_dim():
    """The dim 0 of a tensor of one number, which has no sizes."""
    mod = model_of(lambda x: x.sum() if x.shape[0] == 0 else x.sum().max(0).values)
    report = check(mod, (torch.randn(3, 4),), dynamic_shapes=({0: N},))
    assert is_true_of(report, mod, [(torch.randn(n, 4),) for n in range(7)])


def resizes_an_image_without_pixels(x, w):
    """Eager raises where `x` has rows and `w` three; the program may not do so where `x` has none."""
    rows = (w.shape[0] - 3) * (w.shape[0] - 3) + x.shape[0]
    if x.shape[0] == 0:
        return x.new_zeros(0, 1, 3, 2)
    image = x[:, None, None, :].expand(x.shape[0], 1, rows, 4)
    return torch.nn.functional.interpolate(image, size=(3, 2), mode="bilinear")


def test_an_operator_whose_kernel_alone_asks_for_elements_counts():
    mod = model_of(resizes_an_image_without_pixels)
    report = check(mod, (torch.randn(2, 4), torch.randn(2)), dynamic_shapes=({0: N}, {0: Dim("m", min=1, max=6)}))
    assert report.status in {"refuted", "undecided"}, str(report)
    assert is_true_of(report, mod, [(torch.randn(n, 4), torch.randn(m)) for n in (0, 2) for m in (2, 3)])


class Experts(torch.nn.Module):
    """A mixture of experts, in which one without tokens is skipped."""

    def forward(self, x, chosen):
        found = torch.zeros_like(x)
        for expert in range(2):
            (rows,) = torch.where(chosen == expert)
            if rows.numel() == 0:
                continue
            found.index_add_(0, rows, x[rows] * (expert + 1))
        return found + 1


WRITERS = {
    "index_add_": lambda y, rows, x: y.index_add_(0, rows, x[rows]),
    "index_copy_": lambda y, rows, x: y.index_copy_(0, rows, x[rows]),
    "index_put_": lambda y, rows, x: y.index_put_((rows,), x[rows]),
    "scatter_add_": lambda y, rows, x: y.scatter_add_(0, rows[:, None].expand(-1, 4), x[rows]),
    "scatter_": lambda y, rows, x: y.scatter_(0, rows[:, None].expand(-1, 4), x[rows]),
    "an assignment": lambda y, rows, x: y.__setitem__(rows, x[rows] * 2),
}


@pytest.mark.parametrize("lowest", [0, 1])
def test_an_expert_without_tokens_may_be_skipped(lowest):
    """The fault: refuted, since the program depends on data."""
    n = Dim("n", min=lowest, max=6)
    report = check(Experts(), (torch.randn(4, 4), torch.tensor([0, 1, 1, 0])), dynamic_shapes=({0: n}, {0: n}))
    assert report.status == "proved", str(report)
    inputs = [(torch.randn(n, 4), torch.randint(0, high, (n,))) for n in range(lowest, 7) for high in (1, 2, 3)]
    assert all(agree(Experts(), report.program.module(), each) for each in inputs)


@pytest.mark.parametrize("name", WRITERS)
def test_what_writes_by_an_index_without_elements_writes_nothing(name):
    class Writes(torch.nn.Module):
        def forward(self, x, mask):
            y, (rows,) = x * 2, torch.where(mask)
            if rows.shape[0] > 0:
                WRITERS[name](y, rows, x)
            return y

    report = check(Writes(), (torch.randn(4, 4), torch.ones(4, dtype=torch.int64)), dynamic_shapes=({0: N}, {0: N}))
    assert report.status == "proved", str(report)
    inputs = [(torch.randn(n, 4), torch.randint(0, 2, (n,)) * on) for n in range(7) for on in (0, 1)]
    assert all(agree(Writes(), report.program.module(), each) for each in inputs)


def test_what_is_written_and_then_skipped_with_the_write_counts():
    class Skips(torch.nn.Module):
        def forward(self, x, mask):
            y, (rows,) = torch.zeros_like(x), torch.where(mask)
            return x * 3 if rows.shape[0] == 0 else y.index_add_(0, rows, x[rows])

    report = check(Skips(), (torch.randn(4, 4), torch.ones(4, dtype=torch.int64)), dynamic_shapes=({0: N}, {0: N}))
    assert report.status == "refuted", str(report)


def test_a_mask_beside_an_index_without_elements_may_not_fit_it():
    class Masks(torch.nn.Module):
        def forward(self, x, mask):
            y, (columns,) = x * 2, torch.where(x[0] > 0)
            if columns.shape[0] > 0:
                y[mask, columns] = 1.0
            return y

    report = check(Masks(), (torch.ones(4, 4), torch.ones(4) > 0), dynamic_shapes=({0: Dim("n", min=1)},) * 2)
    inputs = [(sign * torch.ones(n, 4), torch.ones(n) > 0) for n in (1, 2, 4) for sign in (1, -1)]
    assert is_true_of(report, Masks(), inputs)


@torch.library.custom_op("shapeproof_tests::behind", mutates_args=())
def behind(x: torch.Tensor) -> torch.Tensor:
    return x.as_strided((2,), (1,), 0).clone()


@behind.register_fake
def _(x):
    return x.new_empty(2)


def without_gradients(none):
    with torch.no_grad():
        return none.as_strided((2,), (1,), 0) * 2


def by_a_kernel(none):
    return behind(none)


READING_BEHIND = {
    "a view": lambda none: none.as_strided((2,), (1,), 0) * 2,
    "a copy": lambda none: torch.as_strided_copy(none, (2,), (1,), 0),
    "a view in a body": without_gradients,
    "another tensor over its storage": lambda none: torch.empty(2).set_(none, 0, (2,), (1,)) * 2,
    "an operator of the user's": by_a_kernel,
}


def reads_behind(read):
    """A model that reads what lies behind a slice without elements; it makes a difference at one size."""

    def forward(x, y):
        n = x.shape[0]
        none = y[:0] if n >= 17 else x[:0]
        return read(none) * (torch.full((), n) == 20)

    return model_of(forward)


@pytest.mark.parametrize("how", READING_BEHIND)
def test_what_lies_behind_a_tensor_without_elements_may_be_read(how):
    """The fault: slices without elements, of two inputs, were the same; proved, and wrong at 20."""
    mod = reads_behind(READING_BEHIND[how])
    dims = {0: Dim("n", min=2, max=99)}
    report = check(mod, (torch.randn(5, 2), torch.randn(5, 2)), dynamic_shapes=(dims, dims))
    assert report.status != "proved"
    if report.program is not None:
        inputs = torch.ones(20, 2), torch.full((20, 2), 5.0)
        assert agree(mod, report.program.module(), inputs, may_refuse=True)


def at_700(x):
    """1 for 700 rows, else 0."""
    return x.shape[0] // 700 - x.shape[0] // 701


def retyped_by_stride(x):
    by_columns, by_rows = x.new_ones(2, 1 + at_700(x)).t()[:0], x.new_ones(3, 2)[:0]
    return (by_rows if x.shape[0] >= 517 else by_columns).view(torch.int16)


def retyped_by_offset(x):
    rows = x.new_ones(16)
    later, at_two = rows[2 + at_700(x) :][:0], rows[2:][:0]
    return (at_two if x.shape[0] >= 517 else later).view(torch.float64)


@pytest.mark.parametrize("forward", [retyped_by_stride, retyped_by_offset])
def test_how_a_tensor_without_elements_lies_may_be_checked(forward):
    """The fault: proved, and the program raised at 700: another dtype refuses some strides and offsets."""
    report = check(model_of(forward), (torch.ones(5, 2),), dynamic_shapes=({0: Dim("n", min=2, max=999)},))
    assert report.status == "refuted"
    assert [each.witness for each in report.diagnostics] == [{"x.shape[0]": 700}]


def test_programs_that_differ_are_run_where_what_they_return_has_elements():
    """The fault: undecided, since the smallest sizes and the generic ones leave nothing to return."""

    def forward(x):
        rest = x[30:]
        return (rest.t() @ rest)[: rest.shape[0]] if x.shape[0] % 2 == 0 else rest

    report = check(model_of(forward), (torch.randn(5, 2),), dynamic_shapes=({0: Dim("n", min=0, max=40)},))
    (found,) = report.diagnostics
    assert (report.status, found.witness) == ("refuted", {"x.shape[0]": 32})


def test_a_program_without_elements_is_merged_into_one_that_serves_it():
    """The fault: two regions from an example of one row, and one region from others."""

    def forward(x):
        x = x * 3 if x.shape[0] > 1 else x
        return x[1:]

    dims = {0: Dim("n", min=1, max=6)}
    reports = [check(model_of(forward), (torch.ones(n, 2),), dynamic_shapes=(dims,), branches="split") for n in (1, 3)]
    assert [(report.status, len(report.regions)) for report in reports] == [("proved", 1)] * 2
