"""What export/trace/tracer.py and reading.py rely on in torch's private parts before a trace and around it.

As in test_canaries.py: one small test for each fact, with the name of who relies on it.
"""

from __future__ import annotations

import copy
from collections import namedtuple

import pytest
import torch
import torch.utils._pytree as pytree
from torch._dynamo.exc import UserError, UserErrorType
from torch._export.non_strict_utils import _combine_args
from torch.export import Dim
from torch.export.dynamic_shapes import _DerivedDim, _Dim, _DimHint, _DimHintType, _tree_map_with_path
from torch.fx.experimental import dynamic_spec
from torch.fx.experimental.dynamic_spec import DictSpec, IntVar, ObjectSpec, SeqSpec, ShapesSpec, ShapeVar, TensorSpec
from torch.utils._sympy.numbers import int_oo


def module(forward):
    """A module with this forward, which takes no self."""
    return type("Model", (torch.nn.Module,), {"forward": staticmethod(forward)})()


# ---------------------------------------------------------------------- declarations


def test_a_dim_is_unbounded_unless_told():
    """dims._bounds relies on it: no min means 0, and no max means int_oo."""
    assert (Dim("b").min, Dim("b").max) == (0, int_oo)
    assert (Dim("b", min=2, max=9).min, Dim("b", min=2, max=9).max) == (2, 9)
    assert isinstance(Dim("b"), _Dim)
    assert Dim("b").__name__ == "b"


def test_a_spec_holds_what_it_is_made_of():
    """spec_language.read_spec relies on it: torch gives no other way to the parts."""
    b = ShapeVar("b", max=8)
    spec = ShapesSpec({"x": TensorSpec([b, None]), "*args": [None], "**kwargs": {"y": None}}, assumptions=[b % 2 == 0])
    params = spec._params
    assert (list(params._named_args), params._varargs, params._varkw) == (["x"], [None], {"y": None})
    assert list(params._named_args["x"]) == [b, None]
    assert SeqSpec([1])._entries == [1]
    assert dict(DictSpec({"k": 1}).items()) == dict(ObjectSpec({"k": 1}).items()) == {"k": 1}
    assert str(spec.assumptions[0].node.expr) == f"Eq(Mod({b.sympy_sym}, 2), 0)"


def test_an_expression_of_a_spec_is_over_symbols_with_the_names_of_its_variables():
    """spec_language._Names relies on it: a derived size knows its variables, and their ranges, by these."""
    b, n = ShapeVar("b", max=8), IntVar("n")
    (symbol,) = (2 * b + 1).node.expr.free_symbols
    assert symbol == b.sympy_sym
    assert str(symbol) == f"b#{b._uid}"
    known = (2 * b + n).node.shape_env.var_to_range
    assert (known[b.sympy_sym].lower, known[b.sympy_sym].upper) == (0, 8)
    assert (known[n.sympy_sym].lower, known[n.sympy_sym].upper) == (-int_oo, int_oo)


@pytest.mark.skipif(not hasattr(dynamic_spec, "dynamic_spec"), reason="torch 2.13 has no @dynamic_spec")
def test_a_decorator_sets_the_spec_on_the_function_and_torch_refuses_it_beside_other_sizes():
    """binding.spec_is_read relies on it."""

    class Decorated(torch.nn.Module):
        @dynamic_spec.dynamic_spec({"x": TensorSpec([ShapeVar("b")])})
        def forward(self, x):
            return x + 1

    assert isinstance(Decorated.forward._dynamic_spec, ShapesSpec)
    with pytest.raises(ValueError, match="Provide only one"):
        torch.export.export(Decorated(), (torch.ones(3),), dynamic_shapes={"x": None})


class Text(str):
    """Something that is no number and takes part in sums and products."""

    __slots__ = ()

    def __add__(self, other):
        return Text(f"({self}+{other})")

    def __sub__(self, other):
        return Text(f"({self}-{other})")

    def __mul__(self, other):
        return Text(f"({self}*{other})")

    __rmul__ = __mul__


def test_a_derived_dim_is_a_function_of_its_root():
    """reading.Reader._named relies on it: `fn` applies to whatever has + and *, a term of ours included."""
    derived = 2 * Dim("b", min=1, max=8) + 1
    assert isinstance(derived, _DerivedDim)
    assert derived.root.__name__ == "b"
    assert derived.fn(Text("b")) == "((b*2)+1)"
    assert (Dim("b") * 3 - 1).fn(Text("b")) == "((b*3)-1)"
    assert derived.fn(4) == 9


def test_hints_say_what_they_are():
    """dims.read, .must_stay_dynamic and .declaration_text rely on it."""
    assert [hint.type for hint in (Dim.AUTO, Dim.DYNAMIC, Dim.STATIC)] == [
        _DimHintType.AUTO,
        _DimHintType.DYNAMIC,
        _DimHintType.STATIC,
    ]
    assert all(isinstance(hint, _DimHint) for hint in (Dim.AUTO, Dim.DYNAMIC(min=2), Dim.STATIC))
    assert (Dim.AUTO.min, Dim.AUTO.max) == (None, None)
    assert (Dim.AUTO(min=2, max=9).min, Dim.AUTO(min=2, max=9).max) == (2, 9)


def test_arguments_are_combined_by_parameter_name():
    """binding.bind relies on it: extra positions become a tuple, extra keywords a dict, defaults stay out."""
    model = module(lambda a, b=3, *rest, k=4, **more: (a, b, rest, k, more))
    assert _combine_args(model, (1, 2, 5, 6), {"k": 7, "q": 8}) == {
        "a": 1,
        "b": 2,
        "rest": (5, 6),
        "k": 7,
        "more": {"q": 8},
    }
    assert _combine_args(model, (1,), {}) == {"a": 1}
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        _combine_args(model, (), {})


def test_shapes_are_matched_with_inputs_by_path():
    """binding.map_shapes relies on it: an entry is met whole, whatever it is, at the path of its tensor."""
    met = {}
    tree = {"x": torch.ones(2), "y": [torch.ones(1), torch.ones(1)], "n": 3}
    shapes = {"x": {0: 1}, "y": [None, (1,)], "n": None}
    _tree_map_with_path(
        lambda path, leaf, entry: met.__setitem__(pytree.keystr(path), (type(leaf).__name__, entry)),
        tree,
        shapes,
        tree_name="inputs",
    )
    assert met == {
        "['x']": ("Tensor", {0: 1}),
        "['y'][0]": ("Tensor", None),
        "['y'][1]": ("Tensor", (1,)),
        "['n']": ("int", None),
    }


@pytest.mark.parametrize("shapes", [{"x": [None]}, {"x": {0: None, 1: None}}])
def test_shapes_that_do_not_match_raise_a_user_error_whose_first_line_says_where(shapes):
    """binding.map_shapes relies on it: the first line of the message is a sentence with the place."""
    with pytest.raises(UserError) as raised:
        _tree_map_with_path(lambda *_: None, {"x": [torch.ones(1), torch.ones(1)]}, shapes, tree_name="inputs")
    assert "`dynamic_shapes['x']`" in str(raised.value).splitlines()[0]


def test_paths_are_spelled_like_sources():
    """binding._source relies on it: a key path is spelled as torch spells the source of that input."""
    pair = namedtuple("pair", "u v")  # noqa: PYI024 - pytree knows these
    tree = {"a": [1, {"k": 2, 3: 4}], "p": pair(5, 6)}
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(tree)[0]]
    assert paths == ["['a'][0]", "['a'][1]['k']", "['a'][1][3]", "['p'].u", "['p'].v"]


# ---------------------------------------------------------------------- models and errors


def test_a_deep_copy_with_a_memo_shares_parameters_and_nothing_else():
    """conversions.fresh_copy relies on it: state of Python is copied, tensors in the memo are not."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    model.calls = []
    shared = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    twin = copy.deepcopy(model, shared)
    assert [id(t) for t in twin.state_dict(keep_vars=True).values()] == [
        id(t) for t in model.state_dict(keep_vars=True).values()
    ]
    assert twin[0] is not model[0]
    assert twin.calls is not model.calls


def test_a_user_error_takes_its_type_and_a_message():
    """report.ConstraintViolation relies on it: it is the class that torch.export raises, with the same constructor."""

    class Violation(UserError):
        pass

    error = Violation(UserErrorType.CONSTRAINT_VIOLATION, "b must be even")
    assert str(error).startswith("b must be even")
    with pytest.raises(UserError):
        torch.export.export(
            module(lambda x: x + 1 if x.shape[0] == 4 else x),
            (torch.ones(4),),
            dynamic_shapes={"x": {0: Dim("b", max=8)}},
        )
