"""The facts about torch's operators: one record per overload, or per operator if its overloads do not differ.

A trace, a comparison and a replay read what they need here. A field that a record does not give says nothing, and an
operator without a record is left to torch. The rules of a record are small functions of output_sizes.py,
value_ranges.py and shape_functions.py.

Law: each field holds for every call on which eager does not raise. One property test holds the whole table against
eager. The tables of a single mechanism stay with the mechanism: operators that keep rows apart (row_by_row.py), are
continuous (graph/rounding.py), or never fail on data (trace/checks/failures.py), and forms to write (build/).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term
from shapeproof.export.ops import output_sizes as sizes
from shapeproof.export.ops import value_ranges as values
from shapeproof.export.ops.call import Call, Shape, Span
from shapeproof.export.ops.shapes import dtypes
from shapeproof.export.ops.shapes import shape_functions as shapes
from shapeproof.export.ops.shapes.dtypes import of_floats
from shapeproof.export.ops.shapes.shape_functions import Layout, Order, ShapeFunction


@dataclass(frozen=True, slots=True)
class Index:
    """The arguments of an operator that indexes along a dim and rejects an index below 0.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html
    """

    source: str = "self"
    index: str = "index"
    dim: str | None = "dim"
    """None: the first dim."""


@dataclass(frozen=True, slots=True)
class Copies:
    """An operator that copies its operand if all numbers of an argument have one value; without argument, always."""

    argument: str | None = None
    value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What is known of an operator.

    Attributes:
        sizes: facts about the sizes, or the number, that its result takes from data.
        is_number: its result is a number taken from data.
        counts: its result has a row for each nonzero element of this operand.
        counts_nonzero: its result counts the nonzero elements of its operand.
        counts_true: its result counts the true elements of a bool operand.
        stored: its result has one "row" or one "column" for each element that its operand, a sparse tensor, stores.
        coalesced: it raises for an uncoalesced sparse tensor, which may store an element twice.
        values: bounds of the integers in its results.
        view: the meanings of the symbols that torch makes for a view.
        as_asked: the argument with the sizes of its result, a view or a copy; one of them may be -1.
        order: the operand's dimension for each dimension of its result, a view of the whole operand.
        copies_view: the viewing operator whose result it copies; torch computes its sizes from an example.
        shape: the sizes of its result where its operands are contiguous.
        elementwise: its result has the layout and dtype of its one operand of floats; it refuses no number beside it.
        steps: for a recurrent operator, the number of its states, and of its gates.
        index: how it indexes along a dim.
        by_position: it takes one index per dim; an index may count from the end.
        selects: it takes the row at an index that is a number.
        offsets: its operand whose first size bounds its offsets, and the offsets, which are at least 0.
        lengths: its operand, the lengths that add up to a size of the operand, and the dim.
        needs_element: "dim" or "all": eager raises without an element there, and the fake kernel does not check.
        reduces_all: the method that reduces a tensor to the same number, if no more arguments are given.
        copies: it returns a copy of its operand.
        alias_or_copy: it returns its operand, a view of it or a copy, depending on sizes and types.
        drops: it is a dropout: without effect, eager returns the operand itself.
        in_order: its result has the elements of its operand, in order.
        unchanged: its result has the sizes, strides and elements of its operand.
        moves: each element of its result is one of its operands', their position, a number that it is given, or 0.
        resizes_image: its result has the elements of its operand, an image, if the sizes asked for are the image's.
        rounds_once: it rounds each element of its result once, so the layout of an operand makes no difference to it.
        broadcasts: the position of an operand that is broadcast to the operand that is mutated.
        rejects_itself: eager raises if it reads the very memory that it writes, too.
        statistics: the argument that turns on that it updates running statistics, which its schema does not say.
        resizes: it may change the size of a storage.
        reads_beyond: it reads elements of the storage outside of its operand.
        reads_layout: it acts on strides or an offset that reach no element: those of a tensor without elements, too.
        states_range: it states the user's range of a number.
        divides_by: its kernel divides by these sizes of its operands unchecked: where one is 0, the process ends. None
            stands for each size of its first operand.
        least_rank: its kernel reads memory beyond the sizes of a tensor with fewer dims.
        wrong_when_empty: what torch has wrong where there are no elements, as a sentence about `{}`.
    """

    sizes: sizes.Rule | None = None
    is_number: bool = False
    counts: str | None = None
    counts_nonzero: bool = False
    counts_true: bool = False
    stored: str | None = None
    coalesced: bool = False
    values: values.Rule | None = None
    view: Callable[[Call], list[Term]] | None = None
    as_asked: str | None = None
    order: Order | None = None
    copies_view: str | None = None
    shape: ShapeFunction | None = None
    elementwise: bool = False
    steps: tuple[int, int] | None = None
    index: Index | None = None
    by_position: bool = False
    selects: bool = False
    offsets: tuple[str, str] | None = None
    lengths: tuple[str, str, str] | None = None
    needs_element: str | None = None
    reduces_all: str | None = None
    copies: Copies | None = None
    alias_or_copy: bool = False
    drops: bool = False
    in_order: bool = False
    unchanged: bool = False
    moves: bool = False
    resizes_image: bool = False
    rounds_once: bool = False
    broadcasts: int | None = None
    rejects_itself: bool = False
    statistics: str | None = None
    resizes: bool = False
    reads_beyond: bool = False
    reads_layout: bool = False
    states_range: bool = False
    divides_by: tuple[int, ...] | None = ()
    least_rank: int | None = None
    wrong_when_empty: str | None = None


def _each(names: str, **fields: Any) -> dict[str, Operator]:
    """Return one record for several operators."""
    return dict.fromkeys(names.split(), Operator(**fields))


_FROM_DATA: Mapping[str, Operator] = {
    **_each("item.default _local_scalar_dense.default", sizes=sizes.number, is_number=True),
    "nonzero.default": Operator(sizes=sizes.nonzero, values=values.positions, counts="self", moves=True),
    "masked_select.default": Operator(sizes=sizes.masked_select, values=values.elements_of("self"), counts="mask"),
    **_each("_unique2.default unique_consecutive.default", sizes=sizes.unique, values=values.unique),
    "unique_dim.default": Operator(sizes=sizes.unique, values=values.elements_of("self")),
    "repeat_interleave.Tensor": Operator(sizes=sizes.repeat_interleave, values=values.below_size("repeats", 0)),
    "bincount.default": Operator(sizes=sizes.bincount, values=values.occurrences),
    "_padded_dense_to_jagged_forward.default": Operator(sizes=sizes.unpadded),
    **_each("values values_copy", stored="row", coalesced=True),
    **_each("_values _values_copy col_indices col_indices_copy row_indices row_indices_copy", stored="row"),
    **_each("indices indices_copy", stored="column", coalesced=True),
    **_each("_indices _indices_copy", stored="column"),
}
"""Operators that take a size or a number from data, each with its source."""

_SAME_ELEMENTS: Mapping[str, Operator] = {
    "clone.default": Operator(values=values.elements_of("self"), copies=Copies(), in_order=True, unchanged=True),
    **_each("detach.default alias.default", in_order=True, unchanged=True),
    "lift_fresh_copy.default": Operator(values=values.elements_of("self"), copies=Copies()),
    "_to_copy.default": Operator(values=values.converted, in_order=True, moves=True),
    "view.default": Operator(in_order=True, as_asked="size"),
    "_unsafe_view.default": Operator(as_asked="size"),
    "reshape": Operator(alias_or_copy=True, as_asked="shape"),
    **_each("as_strided as_strided_ as_strided_copy", reads_beyond=True, reads_layout=True),
    "as_strided_scatter": Operator(reads_beyond=True),
    **_each("view.dtype view_copy.dtype view_as_complex view_as_complex_copy", reads_layout=True),
    "_reshape_alias": Operator(alias_or_copy=True, reads_layout=True),
    **_each("sym_stride.int sym_storage_offset.default", reads_layout=True),
    "unsqueeze.default": Operator(in_order=True, order=shapes.unsqueezed),
    "transpose.int": Operator(order=shapes.transposed),
    "permute.default": Operator(order=shapes.permuted),
    **_each("squeeze.dim squeeze.dims squeeze.default", in_order=True),
    "slice_copy.Tensor": Operator(copies_view="aten.slice.Tensor"),
    "select_copy.int": Operator(copies_view="aten.select.int"),
    "slice.Tensor": Operator(view=sizes.sliced),
    "select.int": Operator(view=sizes.selected, selects=True),
    **_each(
        "to.dtype to.device to.dtype_layout",
        alias_or_copy=True,
        values=values.converted,
        shape=ShapeFunction(shapes.like("self"), dtypes.converted),
        moves=True,
    ),
    **_each("reshape_as contiguous to.other flatten type_as view_as_real", alias_or_copy=True),
    **_each("ravel positive resolve_conj resolve_neg sum_to_size", alias_or_copy=True),
    **_each("feature_dropout alpha_dropout feature_alpha_dropout", alias_or_copy=True, drops=True),
    "dropout.default": Operator(alias_or_copy=True, drops=True, shape=ShapeFunction(shapes.like("input"), dtypes.idle)),
    "repeat.default": Operator(values=values.elements_of("self"), copies=Copies("repeats", 1)),
    "constant_pad_nd.default": Operator(values=values.elements_of("self", "value"), copies=Copies("pad")),
    "pad": Operator(copies=Copies("pad")),
    **_each("reflection_pad1d reflection_pad2d reflection_pad3d", copies=Copies("padding")),
    **_each("replication_pad1d replication_pad2d replication_pad3d", copies=Copies("padding")),
    **_each("flip.default take.default", values=values.elements_of("self")),
    **_each("triu.default tril.default", moves=True),
    "all.default": Operator(values=values.every),
    "roll.default": Operator(values=values.elements_of("self"), shape=ShapeFunction(shapes.rolled, dtypes.of_operand)),
    **_each("masked_fill.Scalar masked_fill.Tensor", values=values.elements_of("self", "value")),
    "cat.default": Operator(
        values=values.elements_of("tensors"),
        shape=ShapeFunction(shapes.cat, of_floats("tensors"), Layout.ONE),
        moves=True,
    ),
    "stack.default": Operator(values=values.elements_of("tensors")),
    **_each(
        "where.self where.ScalarOther",
        values=values.elements_of("self", "other"),
        shape=ShapeFunction(shapes.chosen, dtypes.chosen),
    ),
}
"""Views, copies, and operators that rearrange elements."""

_INDEXING: Mapping[str, Operator] = {
    "embedding.default": Operator(
        index=Index("weight", "indices", None), shape=ShapeFunction(shapes.embedding, of_floats("weight"), Layout.NONE)
    ),
    **_each(
        "embedding_bag.default embedding_bag.padding_idx",
        index=Index("weight", "indices", None),
        offsets=("indices", "offsets"),
    ),
    "segment_reduce.default": Operator(lengths=("data", "lengths", "axis")),
    "index_select.default": Operator(index=Index(), values=values.elements_of("self"), moves=True),
    "gather.default": Operator(
        index=Index(),
        values=values.elements_of("self"),
        shape=ShapeFunction(shapes.gathered, dtypes.of_operand, Layout.NONE),
        moves=True,
    ),
    "scatter.value": Operator(index=Index(), values=values.elements_of("self", "value")),
    "scatter.src": Operator(index=Index(), values=values.elements_of("self", "src")),
    **_each("scatter_add.default scatter_reduce.two index_add.default", index=Index()),
    "index.Tensor": Operator(
        by_position=True,
        values=values.elements_of("self"),
        shape=ShapeFunction(shapes.indexed, dtypes.of_operand),
        moves=True,
    ),
    "index_put.default": Operator(by_position=True, broadcasts=2),
    "index_put_.default": Operator(by_position=True, broadcasts=2, rejects_itself=True),
    **_each("index_add_ index_copy_ put_ scatter_ scatter_add_ scatter_reduce_", rejects_itself=True),
}
"""Operators that index."""

_REDUCTIONS: Mapping[str, Operator] = {
    "max.default": Operator(values=values.elements_of("self"), needs_element="all", reduces_all="max"),
    "min.default": Operator(values=values.elements_of("self"), needs_element="all", reduces_all="min"),
    "amax.default": Operator(values=values.elements_of("self"), reduces_all="max"),
    "amin.default": Operator(values=values.elements_of("self"), reduces_all="min"),
    **_each("max.dim min.dim median.dim mode.default", values=values.values_and_indices, needs_element="dim"),
    "nanmedian.dim": Operator(needs_element="dim"),
    **_each("kthvalue.default sort.default sort.stable topk.default", values=values.values_and_indices),
    **_each("cummax.default cummin.default", values=values.values_and_indices),
    **_each("argmax.default argmin.default argsort.default argsort.stable", values=values.index),
    "sum.default": Operator(values=values.summed, reduces_all="sum", counts_true=True),
    "sum.dim_IntList": Operator(
        values=values.summed, shape=ShapeFunction(shapes.reduced, dtypes.summed), counts_true=True
    ),
    "mean.dim": Operator(shape=ShapeFunction(shapes.reduced, of_floats("self"))),
    "linalg_vector_norm.default": Operator(shape=ShapeFunction(shapes.vector_norm, of_floats("self"))),
    **_each(
        "count_nonzero.default count_nonzero.dim_IntList",
        values=values.occurrences,
        counts_nonzero=True,
    ),
    "cumsum.default": Operator(values=values.cumsum),
    **_each("searchsorted.Tensor searchsorted.Scalar bucketize.Tensor bucketize.Scalar", values=values.insertion),
}
"""Operators that reduce, order or search."""

_FILLED = ShapeFunction(shapes.asked, dtypes.filled, Layout.NONE)
_FACTORIES: Mapping[str, Operator] = {
    "full.default": Operator(values=values.filled_with("fill_value"), moves=True),
    **_each("full_like.default new_full.default", values=values.filled_with("fill_value")),
    "scalar_tensor.default": Operator(values=values.filled_with("s")),
    **_each("zeros.default zeros_like.default", values=values.constantly(0)),
    **_each("ones.default ones_like.default", values=values.constantly(1)),
    "new_zeros.default": Operator(values=values.constantly(0), shape=_FILLED),
    "new_ones.default": Operator(values=values.constantly(1), shape=_FILLED),
    **_each(
        "arange.default arange.start arange.start_step",
        values=values.arange,
        shape=ShapeFunction(shapes.counted, dtypes.counting, Layout.MADE),
    ),
    **_each("randint.default randint.low", values=values.randint),
    "randperm.default": Operator(values=values.randperm),
    "multinomial.default": Operator(values=values.below_size("self", -1)),
}
"""Operators that make tensors."""

_COMPARISON = ShapeFunction(shapes.broadcast, dtypes.answer)
_OF_BOOLS = ShapeFunction(shapes.broadcast, dtypes.of_bools)
_OF_BOTH = ShapeFunction(shapes.broadcast, dtypes.arithmetic)
_OF_INTEGERS = ShapeFunction(shapes.like("self"), dtypes.of_whole)
_ARITHMETIC: Mapping[str, Operator] = {
    "clamp.default": Operator(values=values.clamp, shape=ShapeFunction(shapes.like("self"), dtypes.kept)),
    "clamp_min.default": Operator(values=values.clamp, shape=ShapeFunction(shapes.like("self"), dtypes.kept)),
    **_each("clamp.Tensor clamp_min.Tensor clamp_max.default clamp_max.Tensor", values=values.clamp),
    **_each("minimum.default min.other", values=values.of_both(values.lesser), shape=_OF_BOTH),
    **_each("maximum.default max.other", values=values.of_both(values.greater), shape=_OF_BOTH),
    "add.Tensor": Operator(values=values.add, shape=_OF_BOTH, rounds_once=True),
    "add.Scalar": Operator(values=values.add),
    "sub.Tensor": Operator(
        values=values.sub, shape=ShapeFunction(shapes.broadcast, dtypes.subtracted), rounds_once=True
    ),
    "sub.Scalar": Operator(values=values.sub),
    **_each("rsub.Tensor rsub.Scalar", values=values.rsub),
    "neg.default": Operator(values=values.neg, elementwise=True, shape=_OF_INTEGERS),
    "abs.default": Operator(values=values.magnitude, elementwise=True, shape=_OF_INTEGERS),
    "mul.Tensor": Operator(values=values.mul, shape=_OF_BOTH, rounds_once=True),
    "mul.Scalar": Operator(values=values.mul),
    "div.Tensor": Operator(shape=ShapeFunction(shapes.broadcast, dtypes.promoted)),
    **_each("floor_divide.default floor_divide.Scalar div.Tensor_mode div.Scalar_mode", values=values.floor_divide),
    **_each("remainder.Tensor remainder.Scalar", values=values.remainder),
    "bitwise_and.Scalar": Operator(values=values.bitwise_and),
    **_each("__and__.Tensor __or__.Tensor bitwise_and.Tensor bitwise_or.Tensor", shape=_OF_BOOLS),
    **_each("logical_and.default logical_or.default", shape=_OF_BOOLS),
    "pow.Tensor_Scalar": Operator(shape=ShapeFunction(shapes.power, of_floats("self"))),
    **_each("eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor", shape=_COMPARISON),
    "ne.Scalar": Operator(values=values.is_nonzero, shape=_COMPARISON),
    **_each("eq.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar", shape=_COMPARISON),
    **_each("relu.default relu6.default silu.default gelu.default sigmoid.default tanh.default", elementwise=True),
    **_each("hardswish.default hardsigmoid.default leaky_relu.default elu.default mish.default", elementwise=True),
    **_each("hardtanh.default selu.default softplus.default hardshrink.default", elementwise=True),
    **_each("exp.default log.default sqrt.default rsqrt.default sin.default cos.default erf.default", elementwise=True),
    **_each(
        "mse_loss_backward.default smooth_l1_loss_backward.default huber_loss_backward.default",
        shape=ShapeFunction(shapes.gradient_of_elements, of_floats("self", "target", "grad_output"), Layout.NONE),
    ),
    **_each("softmax.int log_softmax.int", shape=ShapeFunction(shapes.normalized, of_floats("self"))),
}
"""Operators that compute element by element."""

_MODULES: Mapping[str, Operator] = {
    "linear.default": Operator(shape=ShapeFunction(shapes.linear, of_floats("input", "weight", "bias"), Layout.NONE)),
    "mm.default": Operator(shape=ShapeFunction(shapes.product, of_floats("self", "mat2"), Layout.NONE)),
    "addmm.default": Operator(shape=ShapeFunction(shapes.product, of_floats("self", "mat1", "mat2"), Layout.NONE)),
    "layer_norm.default": Operator(
        shape=ShapeFunction(shapes.layer_norm, of_floats("input", "weight", "bias"), Layout.NONE)
    ),
    "group_norm.default": Operator(shape=ShapeFunction(shapes.group_norm, of_floats("input", "weight", "bias"))),
    "batch_norm.default": Operator(
        shape=ShapeFunction(shapes.batch_norm, of_floats("input", "weight", "bias", "running_mean", "running_var")),
        statistics="training",
        least_rank=2,
    ),
    **_each("_batch_norm_impl_index native_batch_norm", statistics="training", least_rank=2),
    **_each("cudnn_batch_norm miopen_batch_norm", statistics="training"),
    **_each("_batch_norm_with_update.default _native_batch_norm_legit.default", least_rank=2),
    "instance_norm.default": Operator(statistics="use_input_stats"),
    "_scaled_dot_product_flash_attention_for_cpu.default": Operator(divides_by=(1, 2)),
    "_scaled_dot_product_flash_attention_for_cpu_backward.default": Operator(divides_by=(1, 2)),
    **_each("native_batch_norm_backward batch_norm_backward _adaptive_avg_pool2d_backward", divides_by=None),
    **_each("_weight_norm_interface _weight_norm_interface_backward", divides_by=(0,)),
    **_each(
        "conv1d.default conv2d.default conv3d.default",
        shape=ShapeFunction(shapes.convolution, of_floats("input", "weight", "bias")),
    ),
    **_each("max_pool2d.default avg_pool2d.default", shape=ShapeFunction(shapes.pooling, of_floats("self"))),
    "adaptive_avg_pool2d.default": Operator(shape=ShapeFunction(shapes.pooled_to, of_floats("self"))),
    **_each(
        "upsample_nearest1d.vec upsample_nearest2d.vec upsample_linear1d.vec upsample_bilinear2d.vec "
        "upsample_bicubic2d.vec",
        shape=ShapeFunction(shapes.interpolated, of_floats("input"), Layout.IMAGE),
        resizes_image=True,
    ),
    **_each(
        "upsample_nearest3d.vec upsample_trilinear3d.vec",
        shape=ShapeFunction(shapes.interpolated, of_floats("input"), Layout.IMAGE),
    ),
    **_each(
        "_upsample_nearest_exact1d.vec _upsample_nearest_exact2d.vec _upsample_bilinear2d_aa.vec "
        "_upsample_bicubic2d_aa.vec",
        resizes_image=True,
    ),
    "affine_grid_generator.default": Operator(shape=ShapeFunction(shapes.grid, of_floats("theta"), Layout.NONE)),
    "lstm.input": Operator(steps=(2, 4)),
    "gru.input": Operator(steps=(1, 3)),
    **_each("rnn_tanh.input rnn_relu.input", steps=(1, 1)),
    "pixel_unshuffle.default": Operator(
        wrong_when_empty="torch's fake kernel of `{}` gives other sizes than its kernel where there are no elements: "
        "call torch.pixel_unshuffle, or declare sizes of at least 1"
    ),
    **_each(
        "multi_margin_loss.default multilabel_margin_loss.default multilabel_margin_loss_forward.default",
        wrong_when_empty="torch's kernel of `{}` returns arbitrary numbers where there are no elements",
    ),
}
"""Operators of torch.nn; batch norm: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html"""

_EFFECTS: Mapping[str, Operator] = {
    "copy_.default": Operator(broadcasts=1),
    **_each("resize_ resize_as_ resize_as_sparse_", resizes=True),
    "set_": Operator(resizes=True, reads_beyond=True, reads_layout=True),
    **_each("sym_constrain_range.default sym_constrain_range_for_size.default", states_range=True),
}
"""Operators called for their effect."""

OPERATORS: Mapping[str, Operator] = {
    f"aten.{name}": record
    for group in (_FROM_DATA, _SAME_ELEMENTS, _INDEXING, _REDUCTIONS, _FACTORIES, _ARITHMETIC, _MODULES, _EFFECTS)
    for name, record in group.items()
}
"""The table: `aten.nonzero.default` is an overload, `aten.reshape` all overloads of an operator."""
_UNKNOWN = Operator()


def known_of(target: Any) -> Operator:
    """Return what is known of an operator, given as torch's object or by name; an empty record for anything else.

    >>> import torch
    >>> known_of(torch.ops.aten.reshape.default).alias_or_copy, known_of("aten.nonzero.default").counts
    (True, 'self')
    """
    if isinstance(target, str):
        return _named(target)
    return _of_operator(target) if hasattr(target, "_schema") else _UNKNOWN


@functools.lru_cache(4096)
def _of_operator(target: Any) -> Operator:
    return _named(str(target))


@functools.lru_cache(4096)
def _named(name: str) -> Operator:
    return OPERATORS.get(name) or OPERATORS.get(name.rpartition(".")[0], _UNKNOWN)


@functools.lru_cache(4096)
def is_elementwise_in_place(target: Any) -> bool:
    """True for the in-place form of an operator that computes element by element of its one operand.

    >>> import torch
    >>> is_elementwise_in_place(torch.ops.aten.relu_.default), is_elementwise_in_place(torch.ops.aten.relu.default)
    (True, False)
    """
    name, dot, overload = str(target).rpartition(".")
    return hasattr(target, "_schema") and name.endswith("_") and _named(f"{name[:-1]}{dot}{overload}").elementwise


def promises(call: Call) -> list[Formula]:
    """Return the facts about the sizes and numbers that a call takes from data."""
    rule = known_of(call.name).sizes
    return [] if rule is None else rule(call)


def contents(call: Call, bounds: values.Bounds) -> list[Span]:
    """Return a span for each result of a call, in order; further results without a span are unknown."""
    rule = known_of(call.name).values
    found = [] if rule is None else rule(call, bounds)
    return [found] if isinstance(found, Span) else list(found)


def meanings(call: Call) -> list[Term]:
    """Return the meanings of the symbols that torch makes for a view, in the order in which it makes them.

    Torch makes the symbols only where it does not know the sign of a bound; their meanings are known anyway.
    """
    rule = known_of(call.name).view
    return [] if rule is None else rule(call)


def counted(call: Call, fresh: Term) -> Call:
    """Return the call with a result that is known only in the first symbol, which is taken from data."""
    if known_of(call.name).is_number:
        return replace(call, results=(fresh,))
    source, dim = call.tensor("self"), call.integer("dim")
    if source is None or dim is None or source.size(dim) is None:
        return replace(call, results=(Shape((fresh,)),))
    index = dim.constant_value % len(source.sizes)
    return replace(call, results=(Shape((*source.sizes[:index], fresh, *source.sizes[index + 1 :])),))
