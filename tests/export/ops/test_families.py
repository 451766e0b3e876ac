"""What is said of a family of operators holds for each operator in it."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.terms import constant, symbol
from shapeproof.export.ops.call import ANYTHING, Call, Shape
from shapeproof.export.ops.row_by_row import Varying, pointwise, row_by_row
from shapeproof.export.ops.schemas import Operands
from shapeproof.export.ops.shapes.samples import dims_of, of_eager
from shapeproof.export.ops.table import KINDS, family_of, kind_of, known_of
from tests.export.trace.checks.test_failures import calls, overloads
from tests.thoroughness import examples

ATEN = torch.ops.aten
N = symbol("n")
SMALL, LARGE = 2, 4
"""The size of a dim that varies: of the rows that matter, and with other rows behind them."""


def test_every_name_is_an_operator_of_torch():
    assert [name for name in KINDS if not hasattr(ATEN, name.partition(".")[0])] == []
    assert all(hasattr(getattr(ATEN, packet), overload) for packet, overload in dotted())


def dotted():
    return [name.split(".") for name in KINDS if "." in name]


@pytest.mark.thorough
def test_other_rows_reach_no_element_of_a_pointwise_operator_and_make_it_fail_nowhere():
    checked = set()
    for operator in overloads():
        if family_of(operator) != "pointwise" or kind_of(operator) == "dropout":
            continue
        for tame, wild in calls(operator):
            both = [
                torch.cat(pair) if isinstance(pair[0], torch.Tensor) else pair[0]
                for pair in zip(tame, wild, strict=True)
            ]
            shapes = {each.name: value for each, value in zip(operator._schema.arguments, both, strict=False)}
            if not held_apart(operator, shapes):
                continue
            wanted, found = result(operator, tame), result(operator, both)
            if wanted is not None:
                assert found is not None, operator
                assert torch.allclose(found[: len(wanted)], wanted, equal_nan=True), operator
                checked.add(str(operator))
    assert len(checked) > 150


def held_apart(operator, named):
    """Whether a rule says so of a call whose first dim varies."""
    sizes = {
        name: (N, *map(constant, value.shape[1:])) for name, value in named.items() if isinstance(value, torch.Tensor)
    }
    shapes = {name: Shape(size, str(named[name].dtype)) for name, size in sizes.items()}
    made = Shape(next(iter(sizes.values())), next(iter(shapes.values())).dtype)
    call = Operands(constant, lambda _: ANYTHING).call(operator, (), dict.fromkeys(named), ())
    return pointwise(type(call)(call.name, shapes, (made,)), Varying(N.symbols))


def result(operator, args):
    try:
        found = operator(*[each.clone() if isinstance(each, torch.Tensor) else each for each in args])
    except (RuntimeError, NotImplementedError):
        return None
    return found.double() if isinstance(found, torch.Tensor) and not found.is_complex() else None


PRODUCTS = {
    ATEN.linear.default: ("input=abk weight=mk bias=m", "abm"),
    ATEN.mm.default: ("self=mk mat2=kn", "mn"),
    ATEN.bmm.default: ("self=bmk mat2=bkn", "bmn"),
    ATEN.mv.default: ("self=mk vec=k", "m"),
    ATEN.addmm.default: ("self=mn mat1=mk mat2=kn", "mn"),
    ATEN.baddbmm.default: ("self=bmn batch1=bmk batch2=bkn", "bmn"),
    ATEN.matmul.default: ("self=abmk other=bkn", "abmn"),
    ATEN.scaled_dot_product_attention.default: ("query=bhle key=bhse value=bhsv attn_mask=ls", "bhlv"),
}


@pytest.mark.quick
@pytest.mark.parametrize("operator", PRODUCTS, ids=str)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_other_rows_reach_no_row_of_a_product_that_is_said_to_keep_them_apart(operator, data):
    operands, kept = (part for part in PRODUCTS[operator])
    letters = sorted({letter for each in operands.split() for letter in each.partition("=")[2]})
    varying = data.draw(st.sampled_from(letters))
    sizes = {letter: data.draw(st.sampled_from((1, 3))) for letter in letters}
    given_ = dict(each.split("=") for each in operands.split())
    shapes = {
        name: Shape(tuple(N if letter == varying else constant(sizes[letter]) for letter in dims), "torch.float32")
        for name, dims in given_.items()
    }
    made = Shape(tuple(N if letter == varying else constant(sizes[letter]) for letter in kept), "torch.float32")
    call = Operands(constant, lambda _: ANYTHING).call(operator, (), shapes, ())
    rest = {name: value for name, value in call.arguments.items() if name not in shapes}
    apart = row_by_row(type(call)(str(operator), {**rest, **shapes}, (made,)), Varying(N.symbols))
    assert varying in kept or not apart
    if apart:
        alone, padded = {}, {}
        for name, dims in given_.items():
            alone[name] = torch.randn([SMALL if letter == varying else sizes[letter] for letter in dims])
            padded[name] = torch.full([LARGE if letter == varying else sizes[letter] for letter in dims], float("nan"))
            padded[name][tuple(slice(SMALL) if letter == varying else slice(None) for letter in dims)] = alone[name]
        first = tuple(slice(SMALL) if letter == varying else slice(None) for letter in kept)
        assert torch.allclose(operator(**padded)[first], operator(**alone), rtol=1e-4, atol=1e-5)


def test_rows_of_a_product_are_kept_apart():
    """What is refused everywhere would be sound, too."""
    for operator, (operands, kept) in PRODUCTS.items():
        shapes = {}
        for each in operands.split():
            name, dims = each.split("=")
            shapes[name] = Shape(tuple(N if letter == kept[0] else constant(3) for letter in dims), "torch.float32")
        made = Shape((N, *itertools.repeat(constant(3), len(kept) - 1)), "torch.float32")
        call = Operands(constant, lambda _: ANYTHING).call(operator, (), shapes, ())
        rest = {name: value for name, value in call.arguments.items() if name not in shapes}
        assert row_by_row(type(call)(str(operator), {**rest, **shapes}, (made,)), Varying(N.symbols)), operator


def grid(*sizes):
    """A tensor that is the beginning of each larger one."""
    places = torch.meshgrid(*map(torch.arange, sizes), indexing="ij")
    return sum(place * 7.0**index for index, place in enumerate(places))


def pair(*sizes):
    return [grid(*sizes), grid(*sizes)]


APART = {
    "cat": (ATEN.cat.default, lambda n: (pair(n, 3), 1)),
    "stack": (ATEN.stack.default, lambda n: (pair(n, 3), 1)),
    "index": (ATEN.index.Tensor, lambda n: (grid(n, 3), [None, torch.tensor([2, 0])])),
    "slice": (ATEN.slice.Tensor, lambda n: (grid(n, 3), 0, 2, n, 1)),
    "slice behind": (ATEN.slice.Tensor, lambda n: (grid(n, 3), 1, -2, 3, 1)),
    "view": (ATEN.view.default, lambda n: (grid(n, 4), [n, 2, 2])),
    "flattened": (ATEN.view.default, lambda n: (grid(n, 4), [4 * n])),
    "repeat": (ATEN.repeat.default, lambda n: (grid(n, 3), [1, 2])),
    "permute": (ATEN.permute.default, lambda n: (grid(n, 3), [1, 0])),
    "sum": (ATEN.sum.dim_IntList, lambda n: (grid(n, 3), [1])),
    "cumsum": (ATEN.cumsum.default, lambda n: (grid(n, 3), 0)),
    "einsum": (ATEN.einsum.default, lambda n: ("ni,ij->nj", [grid(n, 3), grid(3, 2)])),
    "pad": (ATEN.constant_pad_nd.default, lambda n: (grid(n, 3), [1, 1])),
}
MIXED = {
    "cat": (ATEN.cat.default, lambda n: ([grid(n, 3), grid(2, 3)], 0)),
    "index": (ATEN.index.Tensor, lambda n: (grid(n, 3), [torch.tensor([2, -1])])),
    "mask": (ATEN.index.Tensor, lambda n: (grid(n, 3), [None, torch.tensor([True, False, True])])),
    "slice": (ATEN.slice.Tensor, lambda n: (grid(n, 3), 0, -2, n, 1)),
    "view": (ATEN.view.default, lambda n: (grid(4, n), [4 * n])),
    "view of two": (ATEN.view.default, lambda n: (grid(n, n), [n * n])),
    "repeat": (ATEN.repeat.default, lambda n: (grid(n, 3), [2, 1])),
    "sum": (ATEN.sum.dim_IntList, lambda n: (grid(n, 3), [0])),
    "sum of all": (ATEN.sum.dim_IntList, lambda n: (grid(n, 3), None)),
    "einsum": (ATEN.einsum.default, lambda n: ("ni,nj->ij", [grid(n, 3), grid(n, 2)])),
    "pad": (ATEN.constant_pad_nd.default, lambda n: (grid(n, 3), [0, 0, 1, 0])),
    "flip": (ATEN.flip.default, lambda n: (grid(n, 3), [0])),
}


def keeps_apart(operator, made):
    """Whether the call is said to, when sizes of 5 and its multiples stand for sizes that vary."""

    def term(size):
        return constant(size // 5) * N if size and size % 5 == 0 else constant(size)

    def read(value):
        if isinstance(value, torch.Tensor):
            return Shape(tuple(map(term, value.shape)), str(value.dtype))
        return [*map(read, value)] if isinstance(value, list) else term(value) if type(value) is int else value

    args = made(5)
    call = Operands(constant, lambda _: ANYTHING).call(operator, tuple(map(read, args)), {}, ())
    return row_by_row(type(call)(call.name, call.arguments, (read(operator(*args)),)), Varying(N.symbols))


def test_first_rows_are_those_of_the_first_rows_where_rows_are_said_to_be_apart():
    for name, (operator, made) in APART.items():
        alone, padded = operator(*made(5)), operator(*made(15))
        assert keeps_apart(operator, made), name
        assert torch.equal(padded[tuple(map(slice, alone.shape))], alone), name
    for name, (operator, made) in MIXED.items():
        assert not keeps_apart(operator, made), name


def test_of_a_call_that_is_not_understood_no_rows_are_apart():
    """Views of the same sizes, and a sum of what comes before, are what they are whatever else is given."""
    x = Shape((N, constant(3)), "torch.float32")
    unheeded = {ATEN.view.default, ATEN.permute.default, ATEN.cumsum.default}
    for operator in {operator for operator, _ in APART.values()} - unheeded:
        for known in (each.name for each in operator._schema.arguments):
            arguments = {each.name: object() for each in operator._schema.arguments} | {known: x}
            assert not row_by_row(Call(str(operator), arguments, (x,)), Varying(N.symbols)), (operator, known)


def test_a_sample_is_run_outside_of_any_mode_and_answers_for_its_arguments_alone():
    x = torch.ones(3, 4, dtype=torch.int32)
    with torch._subclasses.FakeTensorMode(), torch.device("meta"):
        assert of_eager(ATEN.mul.Tensor, {"self": x, "other": 2}) == torch.int32
        assert of_eager(ATEN.mul.Tensor, {"self": x, "other": 2.0}) == torch.float32
        assert of_eager(ATEN.mul.Tensor, {"self": x, "other": True}) == torch.int32
        assert dims_of(ATEN.permute.default, {"self": x, "dims": [1, 0]}) == (1, 0)
    torch.set_default_dtype(torch.float64)
    try:
        assert of_eager(ATEN.mul.Tensor, {"self": x, "other": 2.0}) == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert of_eager(ATEN.sub.Tensor, {"self": x > 0, "other": x > 0}) is None
    assert dims_of(ATEN.amax.default, {"self": x, "dim": [0]}) is None  # eager refuses an empty operand


VIEWED = {
    **dict.fromkeys(["alias", "detach", "lift", "mT", "matrix_H", "numpy_T", "squeeze", "t", "unbind"], ()),
    **dict.fromkeys(["expand", "view", "_unsafe_view"], ([1, 3, 1],)),
    **dict.fromkeys(["movedim", "permute", "swapaxes", "transpose"], (0, 1)),
    **dict.fromkeys(["chunk", "split", "tensor_split", "unsafe_chunk", "unsafe_split"], (2,)),
    **dict.fromkeys(["split_with_sizes", "unsafe_split_with_sizes"], ([1, 2],)),
    **dict.fromkeys(["expand_as", "view_as"], (torch.ones(3, 1),)),
    "permute": ([1, 0],),
    **dict.fromkeys(["select", "slice", "unsqueeze"], (0, 1)),
    "unsqueeze": (1,),
    "squeeze.dim": (1,),
    "squeeze.dims": ([1],),
    "narrow": (0, 1, 2),
    "unflatten": (0, [1, 3]),
    "view.dtype": (torch.int32,),
}
"""The arguments, after the operand, of each operator that is said to return a view, for an operand of sizes [3, 1]."""


def of_views():
    """Return the operators of the family of views that never copy."""
    named = {name for name, (family, _) in KINDS.items() if family == "view" and not copies(name)}
    return {name.removesuffix(".default").removesuffix(".sections") for name in named} - {"broadcast_tensors"}


def copies(name):
    packet, _, overload = name.partition(".")
    each = [f"aten.{packet}.{one}" for one in ([overload] if overload else getattr(ATEN, packet).overloads())]
    return any(known_of(one).alias_or_copy for one in each)


def viewed(name, operand):
    packet, _, overload = name.partition(".")
    operator = getattr(ATEN, packet)
    found = (getattr(operator, overload) if overload else operator)(operand, *VIEWED[name])
    return found if isinstance(found, list | tuple) else [found]


def test_every_view_is_tried():
    assert of_views() == VIEWED.keys()


@pytest.mark.quick
@pytest.mark.parametrize("name", VIEWED)
def test_a_view_lies_in_its_operands_memory_and_has_its_elements(name):
    """hollow.py runs no view; padding.py follows elements through views; moved.py runs them on elements' numbers."""
    elements, numbers = torch.tensor([[2.0], [float("nan")], [0.0]]), torch.arange(3).reshape(3, 1)
    assert all(torch._C._is_alias_of(each, elements) for each in viewed(name, elements))
    assert not any(each.any() for each in viewed(name, torch.zeros(3, 1)))
    if name != "view.dtype":
        for found, places in zip(viewed(name, elements), viewed(name, numbers), strict=True):
            assert torch.equal(found.nan_to_num(7), elements.flatten()[places].nan_to_num(7))
