"""The static form of an operator that counts, looks up or writes rows does on valid rows what eager does."""

from __future__ import annotations

import pytest
import torch

from shapeproof.export.forms.static.masked_rows import ROWS
from shapeproof.export.forms.static.masked_values import VALUES
from shapeproof.export.forms.static.masking import Given, Operand, Refused
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import kind_of
from shapeproof.export.shim.trees import leaves
from tests.agreement import RAISES, outcome

BOUND, COLUMNS, MOST = 4, 3, 40
aten = torch.ops.aten


class Rows:
    """Draws tensors of `count` valid rows, and knows them again."""

    def __init__(self, count, seed):
        self.count, self.size, self.made = count, torch.tensor(count), []
        self.draw = torch.Generator().manual_seed(seed)

    def whole(self, low, high, *more):
        self.made.append(torch.randint(low, high, (self.count, *more), generator=self.draw))
        return self.made[-1]

    def floats(self, *more):
        self.made[-1] = self.whole(-2, 3, *more).float()
        return self.made[-1]

    def mask(self, *more):
        self.made[-1] = self.whole(0, 2, *more).bool()
        return self.made[-1]

    def operand(self, value):
        """At the bound, what is not valid holds anything: here true, a row that exists, or a large number."""
        if not any(value is each for each in self.made):
            return Operand(value)
        bound = torch.full((BOUND, *value.shape[1:]), 1e6 if value.is_floating_point() else 1).to(value.dtype)
        bound[: self.count] = value
        return Operand(bound, {0: self.size})


def at_bound(rows, operator, args, kwargs, most):
    """What the form gives, and what it counts."""

    def bounded(value):
        if isinstance(value, tuple | list):
            return [*map(bounded, value)]
        return rows.operand(value) if isinstance(value, torch.Tensor) else value

    counted = {}
    operands = {key: bounded(value) for key, value in schemas.by_name(operator, args, kwargs).items()}
    given = Given(operator, operands, [(most, most)], counted.__setitem__)
    return {**ROWS, **VALUES}[kind_of(operator)](given), counted


def held(rows, operator, *args, most=MOST, **kwargs):
    """The form gives what the operator gives on valid rows, and raises where it raises."""
    wanted = outcome(operator, args, kwargs)
    found = outcome(lambda: at_bound(rows, operator, args, kwargs, most), ())
    assert (wanted is RAISES) == (found is RAISES), (operator, args, kwargs, wanted, found)
    if wanted is RAISES:
        return
    results, counted = found[0]
    wanted = leaves(wanted[0])
    assert all(wanted[0].shape[dim] == count for dim, count in counted.items())
    for want, got in zip(wanted, leaves(results), strict=True):
        assert want.numel() == 0 or torch.equal(want, got[tuple(map(slice, want.shape))]), (args, want, got)


def every_count():
    return [Rows(count, seed) for count in range(BOUND + 1) for seed in range(3)]


def test_what_is_counted_is_counted_among_valid_elements():
    for rows in every_count():
        held(rows, aten.nonzero.default, rows.floats(COLUMNS))
        held(rows, aten.masked_select.default, rows.floats(COLUMNS), rows.mask(COLUMNS))
        held(rows, aten.masked_select.default, rows.floats(2), torch.tensor([True, False]))
        held(rows, aten.masked_select.default, torch.arange(2.0), rows.mask(1))


def test_values_are_distinct_among_valid_elements():
    for rows in every_count():
        for inverse, counts in ((True, True), (False, False)):
            told = {"return_inverse": inverse, "return_counts": counts}
            held(rows, aten._unique2.default, rows.whole(0, 3, 2), **told)
            held(rows, aten.unique_consecutive.default, rows.whole(0, 2), **told)
            held(rows, aten.unique_consecutive.default, torch.tensor([1, 1, 0, 1]), **told)


def test_rows_are_repeated_as_often_as_valid_elements_say():
    for rows in every_count():
        held(rows, aten.repeat_interleave.Tensor, rows.whole(0, 3))
        held(rows, aten.repeat_interleave.self_Tensor, rows.floats(2), rows.whole(0, 3), 0)
        held(rows, aten.repeat_interleave.Tensor, rows.whole(-1, 3))


def test_an_index_is_held_against_the_valid_rows():
    for rows in every_count():
        table, x = torch.arange(6.0).view(3, 2), rows.floats(2)
        held(rows, aten.index.Tensor, table, [rows.whole(-3, 4)])
        held(rows, aten.index.Tensor, table, [None, rows.whole(0, 2)])
        held(rows, aten.index.Tensor, x, [torch.tensor([0, 2, -1])])
        held(rows, aten.index.Tensor, x, [rows.mask()])
        held(rows, aten.index.Tensor, x, [rows.mask(2)])
        held(rows, aten.index_select.default, table, 0, rows.whole(0, 4))
        held(rows, aten.gather.default, x, 0, torch.tensor([[0, 1]]))
        held(rows, aten.embedding.default, table, rows.whole(0, 3, 2))
        held(rows, aten.select.int, x, 0, -1)
        held(rows, aten.select.int, x, 1, 1)
        held(rows, aten.flip.default, x, [0, 1])


def test_no_invalid_row_is_written():
    for rows in every_count():
        table, values = torch.arange(8.0).view(4, 2), rows.floats(2)
        if rows.count != 1:  # one row stands for each place in eager; a program has decided that it is not one
            held(rows, aten.index_put.default, table, [torch.tensor([3, 1, 0, 2])], values)
            held(rows, aten.index_put.default, table, [torch.tensor([True, False, True, False])], values)
        places = torch.tensor([2, 0, -1, 1])
        rows.made.append(places[: rows.count])
        held(rows, aten.index_put.default, table, [rows.made[-1]], values)
        held(rows, aten.index_put.default, table, [rows.made[-1]], torch.tensor(5.0))
        held(rows, aten.index_put.default, rows.floats(2), [torch.tensor([0, 1])], torch.ones(2, 2), True)
        held(rows, aten.index_put.default, table, [rows.made[-1] * 0, rows.whole(0, 2)], rows.floats(), True)
        held(rows, aten.index_put.default, rows.floats(2), [rows.mask()], torch.tensor(7.0))
        held(rows, aten.index_add.default, table, 0, rows.whole(0, 5), rows.floats(2))
        held(rows, aten.scatter_add.default, table, 0, rows.whole(0, 4, 2), rows.floats(2))
        held(rows, aten.masked_scatter.default, table, torch.tensor([[True], [False], [True], [False]]), rows.floats(2))


def test_operands_are_joined_and_chosen_from_at_their_valid_rows():
    for rows in every_count():
        x = rows.floats(2)
        held(rows, aten.cat.default, [x, rows.floats(2), torch.arange(2.0).view(1, 2)])
        held(rows, aten.topk.default, x[:, 0].add_(torch.arange(rows.count) / 8), 2, 0, most=2)
        held(rows, aten.mm.default, x, torch.ones(2, 1))


ROW, OTHER = Operand(torch.ones(BOUND), {0: torch.tensor(2)}), Operand(torch.ones(BOUND), {0: torch.tensor(2)})
GRID, PLAIN = Operand(torch.ones(BOUND, 2), {0: ROW.dims[0]}), Operand(torch.ones(BOUND, 2))
BEHIND = Operand(torch.ones(2, BOUND), {1: ROW.dims[0]})
PLACES, MASK = Operand(torch.ones(BOUND).long(), ROW.dims), Operand(torch.ones(BOUND).bool(), ROW.dims)
REFUSED = [
    (aten._unique2.default, {"self": ROW, "sorted": False}, "torch does not say in which order unsorted values are"),
    (aten.unique_consecutive.default, {"self": ROW, "dim": 0}, "it is along a dim"),
    (aten.unique_consecutive.default, {"self": BEHIND}, "its elements are not the first ones"),
    (aten.repeat_interleave.Tensor, {"repeats": GRID}, "its repeats are not one list"),
    (aten.repeat_interleave.Tensor, {"repeats": Operand(torch.ones(0).long())}, "there is nothing to repeat"),
    (aten.repeat_interleave.self_Tensor, {"self": GRID, "repeats": PLACES}, "its repeats are not one for each row"),
    (aten.index.Tensor, {"self": Operand(torch.ones(0, 2)), "indices": [PLACES]}, "where there may be none"),
    (aten.index.Tensor, {"self": GRID, "indices": [MASK, PLACES]}, "it is indexed by a mask and more"),
    (aten.index.Tensor, {"self": PLAIN, "indices": [MASK]}, "its mask is of other sizes"),
    (aten.embedding.default, {"weight": GRID, "indices": PLACES}, "its weight has a size from data"),
    (aten.select.int, {"self": GRID, "dim": 0, "index": torch.tensor(1)}, "its index comes of data"),
    (aten.index_put.default, {"self": PLAIN, "indices": [PLACES], "values": BEHIND}, "values do not lie row by row"),
    (aten.index_put.default, {"self": PLAIN, "indices": [PLACES], "values": ROW}, "its values are broadcast"),
    (aten.index_add.default, {"self": PLAIN, "dim": 0, "index": PLACES, "source": OTHER}, "source has another size"),
    (aten.masked_scatter.default, {"self": PLAIN, "mask": PLAIN, "source": BEHIND}, "its source are not the first"),
    (aten.linalg_vector_norm.default, {"self": ROW, "ord": 0}, "its order is not positive, or infinite"),
    (aten.var.correction, {"self": Operand(ROW.value + 0j, ROW.dims)}, "it is of complex numbers"),
    (aten.amax.default, {"self": Operand(torch.ones(0), ROW.dims), "dim": [0]}, "there is nothing to choose from"),
    (aten.argmax.default, {"self": GRID}, "it counts elements of all dims"),
    (aten.softmax.int, {"self": PLACES, "dim": 0}, "it is of integers"),
    (aten.cat.default, {"tensors": [GRID, PLAIN], "dim": 1}, "its operands have other sizes from data"),
    (aten.topk.default, {"self": ROW, "k": 9, "dim": 0}, "it may choose more than there are"),
    (aten.mm.default, {"self": BEHIND, "mat2": PLAIN}, "it sums over sizes from data that are not one"),
    (aten.bmm.default, {"self": Operand(torch.ones(1, 2, 2)), "mat2": Operand(torch.ones(1, 2, 2))}, "of a batch"),
    (aten._softmax_backward_data.default, {"grad_output": ROW, "output": OTHER}, "operands have several sizes from"),
    (aten._softmax_backward_data.default, {"grad_output": GRID, "output": PLAIN}, "an operand has another size than"),
]


def attention(**more):
    return dict.fromkeys(("query", "key", "value"), GRID) | more


REFUSED += [
    (aten.scaled_dot_product_attention.default, attention(query=PLAIN), "it looks from one set at another"),
    (aten.scaled_dot_product_attention.default, attention(is_causal=True), "it is causal, drops elements or groups"),
    (aten.scaled_dot_product_attention.default, attention(attn_mask=PLAIN), "it has a mask of its own"),
]


def test_a_call_without_a_static_form_is_refused_with_the_reason():
    for operator, arguments, reason in REFUSED:
        form = {**ROWS, **VALUES}.get(kind_of(operator))
        given = Given(operator, arguments, [(MOST, MOST)], lambda *_: None)
        with pytest.raises(Refused, match=reason):
            form(given)
