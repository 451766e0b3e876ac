"""The static forms of operators make no tensor on another device than their operands': the default one is another."""

from __future__ import annotations

import pytest
import torch

from shapeproof.export.forms.static.masked_rows import ROWS
from shapeproof.export.forms.static.masked_values import VALUES
from shapeproof.export.forms.static.masking import Given, Operand
from shapeproof.export.ops.table import kind_of

COUNT, ALL = torch.tensor(3), torch.tensor(6)


def operand(*sizes, dtype=torch.float32, count=COUNT):
    """An operand whose first dim varies, or none."""
    return Operand(torch.ones(*sizes).to(dtype), {} if count is None else {0: count})


def calls():
    """Name of an operator -> its arguments."""
    rows, all_rows = operand(6, 4), operand(6, 4, count=None)
    index, mask = operand(6, dtype=torch.int64), operand(6, 4, dtype=torch.bool, count=None)
    return {
        "sum.dim_IntList": {"self": rows, "dim": None, "keepdim": False, "dtype": None},
        "mean.dim": {"self": rows, "dim": [0, 1], "keepdim": False, "dtype": None},
        "argmax.default": {"self": rows, "dim": 0, "keepdim": False},
        "softmax.int": {"self": rows, "dim": 0, "dtype": None},
        "cat.default": {"tensors": [rows, all_rows], "dim": 0},
        "sort.default": {"self": rows, "dim": 0, "descending": True},
        "flip.default": {"self": all_rows, "dims": [0, 1]},
        "index_select.default": {"self": rows, "dim": 0, "index": index},
        "index_put.default": {"self": all_rows, "indices": [operand(6, dtype=torch.int64, count=None)],
                              "values": operand(6, 4, count=ALL), "accumulate": False},
        "index_add.default": {"self": all_rows, "dim": 0, "index": index, "source": rows, "alpha": 1},
        "masked_scatter.default": {"self": all_rows, "mask": mask, "source": all_rows},
    }  # fmt: skip


def operator_named(name):
    packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def found_devices(result):
    return {each.device.type for each in torch.utils._pytree.tree_leaves(result) if isinstance(each, torch.Tensor)}


@pytest.mark.quick
@pytest.mark.parametrize("name", calls())
def test_a_static_form_stays_on_the_device_of_its_operands(name):
    """The faults: a mean's count, `cat`'s masks and a `flip`'s ends lay on the default device."""
    operator = operator_named(name)
    given = Given(operator, calls()[name], [(12, 4)], lambda *_: None)
    with torch.device("meta"):
        assert found_devices({**VALUES, **ROWS}[kind_of(operator)](given)) == {"cpu"}
