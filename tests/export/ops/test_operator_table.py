"""The table of operators is held against eager: every field of every record, on calls of that operator."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.terms import constant, symbol
from shapeproof.export.ops import schemas
from shapeproof.export.ops.call import ANYTHING, Call, Shape
from shapeproof.export.ops.schemas import Operands, contents, meanings, promises
from shapeproof.export.ops.shapes import recurrent
from shapeproof.export.ops.shapes.samples import dims_of
from shapeproof.export.ops.table import OPERATORS, is_unary, kind_of, known_of
from tests.export import calls
from tests.export.calls import bounds, of_elements, of_its_dtype
from tests.export.operator_samples import SAMPLES, UNSAMPLED
from tests.export.ops.test_shape_functions import known_result, lies, lying
from tests.thoroughness import examples


class Ran:
    """A call that eager made: the operands as they were before, and what came out."""

    def __init__(self, name, args, kwargs):
        self.func = functools.reduce(getattr, name.split("."), torch.ops)
        self.before = schemas.by_name(self.func, copied(args), copied(kwargs))
        self.named = schemas.by_name(self.func, args, kwargs)
        self.args, self.kwargs = args, kwargs
        self.result = self.func(*args, **kwargs)
        self.results = self.result if isinstance(self.result, tuple | list) else (self.result,)


def copied(value):
    return torch.utils._pytree.tree_map(lambda each: each.clone() if isinstance(each, torch.Tensor) else each, value)


def laid_otherwise(value):
    """The same elements, with the last two dimensions in the other order in memory."""
    turns = isinstance(value, torch.Tensor) and value.dim() > 1
    return value.mT.clone(memory_format=torch.contiguous_format).mT if turns else value


def with_fresh_rows(call):
    """The call as it is traced: the rows of its first result are not known and have a name. And how many they are."""
    first, *rest = call.results
    if not isinstance(first, Shape) or not first.sizes:
        return call, {}
    dim = call.arguments["dim"].constant_value if call.arguments.get("dim") is not None else 0
    sizes = list(first.sizes)
    rows, sizes[dim] = sizes[dim].constant_value, symbol("rows")
    return Call(call.name, call.arguments, (Shape(tuple(sizes), first.dtype, first.content), *rest)), {"rows": rows}


def facts_hold(ran):
    """What a call takes from data, and the integers in its results, lie where the table says."""
    for content in (of_elements, of_its_dtype):
        call = calls.call_of(ran.func, ran.args, ran.kwargs, ran.result, content)
        asked, point = with_fresh_rows(call) if promises(call) else (call, {})
        assert [promise for promise in promises(asked) if not holds(promise, point)] == []
        assert calls.contained(ran.result, contents(call, bounds)) == []


def counts(ran, known):
    if not (known.counts or kind_of(ran.func) in {"sum", "count"}):
        return
    operand = ran.named[known.counts or "self"]
    if known.counts and ran.named["self"].shape == operand.shape:
        assert len(ran.result) == int((operand != 0).sum())
    counting = kind_of(ran.func) == "count" or (kind_of(ran.func) == "sum" and operand.dtype == torch.bool)
    if counting and ran.result.dim() == 0 and ran.result.dtype == torch.int64:
        assert int(ran.result) == int((operand != 0).sum())


def stored(ran, known):
    if known.stored:
        assert ran.result.shape[["row", "column"].index(known.stored)] == ran.named["self"]._nnz()
    if known.coalesced:
        assert ran.named["self"].layout != torch.sparse_coo or ran.named["self"].is_coalesced()


def views(ran, known):
    if known.view:
        call = Operands(constant, lambda _: ANYTHING).call(ran.func, ran.args, ran.kwargs, ())
        *length, offset = (each.constant_value for each in meanings(call))
        assert offset == ran.result.storage_offset()
        assert not length or length == [ran.result.shape[ran.named["dim"]]]
    if known.as_asked:
        asked = ran.named[known.as_asked]
        assert all(given in {size, -1} for size, given in zip(ran.result.shape, asked, strict=True))
    if known.order:
        operand, order = ran.named["self"], dims_of(ran.func, ran.named)
        assert list(ran.result.shape) == [1 if at is None else operand.shape[at] for at in order]
        moved = zip(ran.result.stride(), order, strict=True)
        assert all(at is None or stride == operand.stride(at) for stride, at in moved)
        assert (ran.result.data_ptr(), len(order)) == (operand.data_ptr(), ran.result.dim())
    if known.copies_view:
        viewing = functools.reduce(getattr, known.copies_view.split("."), torch.ops)
        assert torch.equal(ran.result, viewing(*ran.args, **ran.kwargs))
        assert not torch._C._is_alias_of(ran.result, ran.named.get("self", ran.named.get("input")))


def shapes(ran, known):
    if known.shape and not ran.kwargs:
        found = known_result(ran.func, ran.args)
        assert found is None or found[:2] == (tuple(ran.result.shape), ran.result.dtype)
        assert found is None or lies(ran.result) == lies(lying(found))
    if is_unary(ran.func) and ran.named["self"].is_floating_point():
        like = torch.empty_like(ran.named["self"])
        assert (ran.result.shape, lies(ran.result), ran.result.dtype) == (like.shape, lies(like), like.dtype)
    if known.steps:
        found = recurrent.results(ran.func, ran.args, ran.kwargs, lambda a, b: a == b)
        assert [(each.shape, lies(each)) for each in found] == [(each.shape, lies(each)) for each in ran.results]


def requirements(ran, known):
    """What eager accepted meets what the table says eager requires."""
    if known.index:
        index, dim = ran.named[known.index.index], ran.named[known.index.dim] if known.index.dim else 0
        size = ran.named[known.index.source].shape[dim]
        assert index.numel() == 0 or (int(index.min()) >= 0 and int(index.max()) < size)
    if known.by_position:
        for size, index in zip(ran.named["self"].shape, ran.named["indices"], strict=False):
            assert (
                index is None or index.dtype == torch.bool or all(-size <= int(each) < size for each in index.flatten())
            )
    if known.offsets:
        indices, offsets = (ran.named[name] for name in known.offsets)
        assert all(0 <= int(each) <= len(indices) for each in offsets)
    if known.lengths:
        data, lengths, axis = (ran.named[name] for name in known.lengths)
        assert int(lengths.sum()) == data.shape[axis]
    if known.needs_element:
        operand = ran.named["self"]
        dims = operand.shape[ran.named["dim"] :][:1] if known.needs_element == "dim" else operand.shape
        assert all(dims)
    if known.reduces_all and len(ran.args) == 1 and not ran.kwargs:
        assert torch.equal(ran.result, getattr(ran.args[0], known.reduces_all)())


def elements(ran, known):
    """Copies, and what only moves elements."""
    operand = ran.before.get("self", ran.before.get("input"))
    if known.copies:
        given = ran.named[known.copies.argument] if known.copies.argument else []
        numbers = given.flatten().tolist() if isinstance(given, torch.Tensor) else given or []
        wanted = [known.copies.value] * len(numbers) if known.copies.value is not None else operand.shape[2:]
        if list(numbers) == list(wanted) and ran.result.shape == operand.shape:
            assert torch.equal(ran.result, operand)
            assert not torch._C._is_alias_of(ran.result, ran.named.get("self", ran.named.get("input")))
    if known.drops and not ran.named["train"]:
        assert ran.result is ran.named["input"]
    if known.in_order or (known.alias_or_copy and not known.drops and ran.result.numel() == operand.numel()):
        assert torch.equal(ran.result.flatten(), operand.flatten().to(ran.result.dtype))
    if known.unchanged:
        assert torch.equal(ran.result, operand)
    if known.moves:
        assert torch.equal(ran.func(*ran.args, **ran.kwargs), ran.result)
    if known.resizes_image and list(ran.named["output_size"] or ()) == list(operand.shape[2:]):
        assert torch.equal(ran.result, operand)
    if known.rounds_once:
        assert torch.equal(ran.func(*map(laid_otherwise, ran.args), **ran.kwargs), ran.result)


def effects(ran, known):
    if known.reads is not None:
        assert known.reads(*ran.args) == ran.result
    if known.broadcasts is not None:
        wide = [ran.before[each.name] for each in ran.func._schema.arguments][: len(ran.args)]
        operand = wide[known.broadcasts]
        while operand.dim() and operand.shape[0] == 1:
            operand = operand[0]
        wide[known.broadcasts] = operand
        assert torch.equal(ran.func(*wide), ran.result)
    if known.rejects_itself:
        own, places = ran.named["self"], torch.arange(len(ran.named["self"]))
        given = {"index": places, "indices": [places], **dict.fromkeys(("source", "src", "values"), own)}
        with pytest.raises(RuntimeError, match="single memory location"):
            ran.func(**ran.named | {name: value for name, value in given.items() if name in ran.named})
    if ran.named.get("running_mean") is not None:
        changed = not torch.equal(ran.named["running_mean"], ran.before["running_mean"])
        assert schemas.updates_statistics(ran.func, ran.args, ran.kwargs) or schemas.is_mutable(ran.func) or not changed
    if known.resizes:
        operand, storage = (each["self"].untyped_storage() for each in (ran.named, ran.before))
        assert operand.nbytes() > storage.nbytes()


def test_every_operator_is_sampled_and_every_name_is_one_of_torch():
    families = {name.rpartition(".")[0] for name in SAMPLES} | set(SAMPLES) | UNSAMPLED
    assert OPERATORS.keys() <= families, sorted(OPERATORS.keys() - families)
    assert all(known_of(name) in OPERATORS.values() or kind_of(name) for name in SAMPLES)
    for name in OPERATORS.keys() - UNSAMPLED:
        functools.reduce(getattr, name.split("."), torch.ops)


def test_every_operator_that_updates_statistics_says_so():
    for schema in torch._C._jit_get_all_schemas():
        names = {each.name for each in schema.arguments}
        updates = "running_mean" in names and names & {"training", "use_input_stats"}
        if schema.name.startswith("aten::") and updates and not schema.name.endswith(("_functional", "_legit")):
            packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"))
            func = getattr(packet, schema.overload_name or "default")
            given = {each.name: each.name in {"training", "use_input_stats"} for each in func._schema.arguments}
            assert schemas.updates_statistics(func, (), given), schema.name
            assert not schemas.updates_statistics(func, (), dict.fromkeys(given, False)), schema.name


def test_an_overload_has_one_record():
    assert not {name for name in OPERATORS if name.rpartition(".")[0] in OPERATORS}


ON_NONE = {
    "as_strided.default": lambda call, none: call(none, (2,), (1,), 0),
    "as_strided_.default": lambda call, none: call(none, (2,), (1,), 0),
    "as_strided_copy.default": lambda call, none: call(none, (2,), (1,), 0),
    "set_.source_Tensor_storage_offset": lambda call, none: call(torch.ones(1), none, 0, (2,), (1,)),
    "view.dtype": lambda call, none: call(none, torch.int16),
    "view_copy.dtype": lambda call, none: call(none, torch.int16),
    "view_as_complex.default": lambda call, none: call(none),
    "view_as_complex_copy.default": lambda call, none: call(none),
    "sym_stride.int": lambda call, none: call(none, 1),
    "sym_storage_offset.default": lambda call, none: call(none),
}
"""Calls on a tensor without elements, one for each operator that acts on how it lies."""
WITHOUT_ELEMENTS = {
    "": lambda: torch.zeros(5, 2)[:0],
    "another storage": lambda: torch.ones(5, 2)[:0],
    "another offset": lambda: torch.zeros(10)[1:1].view(0, 2),
    "other strides": lambda: torch.zeros(2, 5).t()[:0],
}


def called(call, none):
    try:
        result = call(none)
    except RuntimeError:
        return None
    return [torch.as_tensor(each).tolist() for each in (result, getattr(result, "shape", ()))]


@pytest.mark.quick
@pytest.mark.parametrize("name", sorted(ON_NONE))
def test_an_operator_that_acts_on_how_a_tensor_lies_does_so_without_elements(name):
    call = functools.partial(ON_NONE[name], functools.reduce(getattr, name.split("."), torch.ops.aten))
    plain, *others = (called(call, make()) for make in WITHOUT_ELEMENTS.values())
    assert known_of(f"aten.{name}").reads_layout
    assert plain is not None
    assert any(each != plain for each in others)


def test_every_operator_that_acts_on_how_a_tensor_lies_is_called_without_elements():
    # `_reshape_alias` is asked for strides, which are those of its trace.
    acting = {name for name, record in OPERATORS.items() if record.reads_layout and not record.alias_or_copy}
    assert acting == {name if (name := f"aten.{each}") in OPERATORS else name.rpartition(".")[0] for each in ON_NONE}


@pytest.mark.parametrize("name", sorted(SAMPLES))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data())
def test_what_the_table_says_of_an_operator_is_what_eager_does(name, data):
    args, kwargs = data.draw(SAMPLES[name])
    try:
        with torch.no_grad():
            ran = Ran(name, args, kwargs)
    except (IndexError, RuntimeError, NotImplementedError, ValueError):
        return  # no field is about a call on which eager raises
    known = known_of(name)
    facts_hold(ran)
    counts(ran, known)
    stored(ran, known)
    views(ran, known)
    shapes(ran, known)
    requirements(ran, known)
    elements(ran, known)
    effects(ran, known)
