"""Which marks on a tensor torch.export honours, and beside which entries (shim/inputs/dims.py)."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo import mark_dynamic, mark_static, maybe_mark_dynamic
from torch._dynamo.decorators import mark_unbacked
from torch._dynamo.exc import UserError
from torch.export import AdditionalInputs, Dim, ShapesCollection

MARKS = {
    "none": (lambda _: None, False),
    "dynamic": (lambda x: mark_dynamic(x, 0), True),
    "dynamic within bounds": (lambda x: mark_dynamic(x, 0, min=3, max=8), True),
    "maybe": (lambda x: maybe_mark_dynamic(x, 0), True),
    "static": (lambda x: mark_static(x, 0), False),
    "unbacked": (lambda x: mark_unbacked(x, 0), False),
    "dynamic and static": (lambda x: (mark_dynamic(x, 0), mark_static(x, 0)), True),
    "dynamic and unbacked": (lambda x: (mark_dynamic(x, 0), mark_unbacked(x, 0)), True),
    "a dimension that there is not": (lambda x: mark_dynamic(x, [-2, 7]), False),
}
"""How a tensor of two dimensions is marked, and whether torch.export then has its first size dynamic."""
NO_ENTRIES = [None, {}, ()]
"""With these the marks count."""
ENTRIES = {
    "None for the input": ((None,), False),
    "no dimension": (({},), False),
    "another dimension": (({1: Dim.AUTO},), False),
    "Dim.STATIC": (({0: Dim.STATIC},), False),
    "Dim.AUTO": (({0: Dim.AUTO},), True),
    "Dim.DYNAMIC": (({0: Dim.DYNAMIC},), True),
    "a collection of nothing": (ShapesCollection(), False),
    "no additional inputs": (AdditionalInputs(), False),
}
"""With these the marks do not count; whether the first size is dynamic."""


class Twice(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Fixed(torch.nn.Module):
    def forward(self, x):
        return x.view(4, 3)


def marked(name):
    x = torch.randn(4, 3)
    MARKS[name][0](x)
    return x


def exported(mod, x, shapes):
    program = torch.export.export(mod, (x,), dynamic_shapes=shapes)
    (node,) = [node for node in program.graph.nodes if node.op == "placeholder"]
    return node.meta["val"]


@pytest.mark.parametrize("name", MARKS)
def test_marks_count_where_there_are_no_dynamic_shapes(name):
    for shapes in NO_ENTRIES:
        assert isinstance(exported(Twice(), marked(name), shapes).shape[0], torch.SymInt) == MARKS[name][1]


@pytest.mark.parametrize("entry", ENTRIES)
def test_any_entries_override_all_marks(entry):
    shapes, dynamic = ENTRIES[entry]
    for name in MARKS:
        assert isinstance(exported(Twice(), marked(name), shapes).shape[0], torch.SymInt) == dynamic, name


def test_a_dynamic_mark_refuses_a_constant_and_a_mark_that_may_be_takes_it():
    with pytest.raises(UserError, match="Constraints violated"):
        exported(Fixed(), marked("dynamic"), None)
    assert exported(Fixed(), marked("maybe"), None).shape == (4, 3)
    both = marked("maybe")
    mark_dynamic(both, 0)
    if torch.__version__ < "2.15":  # maybe_mark_dynamic comes first
        assert exported(Fixed(), both, None).shape == (4, 3)
    else:  # mark_dynamic takes it off
        with pytest.raises(UserError, match="Constraints violated"):
            exported(Fixed(), both, None)


def test_a_hint_is_kept_beside_any_entry():
    for shapes in (None, ({0: Dim.DYNAMIC},)):
        x = torch.randn(4, 3)
        mark_dynamic(x, 0, hint_override=64)
        value = exported(Twice(), x, shapes)
        assert value.fake_mode.shape_env.var_to_hint_override == {value.shape[0].node.expr: 64}


def test_where_marks_are_kept():
    x = torch.randn(4, 3)
    mark_dynamic(x, 0, min=2, max=9)
    mark_dynamic(x, 0, max=7)
    ranges = {(0, 2, 9), (0, None, 7)} if torch.__version__ < "2.15" else {(0, None, 7)}  # the last call counts
    assert {(each.dim, each.min, each.max) for each in x._dynamo_dynamic_range} == ranges
    mark_unbacked(x, 1, min=3, shape_id="b", specialize_on=[bool])
    assert (x._dynamo_unbacked_indices, x._dynamo_unbacked_bounds) == ({1}, {1: (3, None)})
    assert (x._dynamo_shape_ids, x._specialize_on) == ({1: "b"}, {1: [bool]})
    mark_unbacked(x, 0, strict=True)
    assert x._dynamo_strict_unbacked_indices == {0}


def test_additional_inputs_are_kept_as_pairs():
    """binding.read_shapes relies on it."""
    shapes = AdditionalInputs()
    shapes.add((1,), {"k": 2})
    shapes.add((3,))
    assert shapes._examples == [((1,), {"k": 2}), ((3,), None)]


def test_hints_and_dims_take_no_negative_end_and_a_dim_more_than_one_value():
    """redeclare.py relies on it."""
    for refused in (lambda: Dim.AUTO(min=-1), lambda: Dim.DYNAMIC(max=-1), lambda: Dim("n", min=4, max=4)):
        with pytest.raises((ValueError, AssertionError)):
            refused()
    assert (Dim.DYNAMIC(min=4, max=4).min, Dim.DYNAMIC(min=4, max=4).max) == (4, 4)
