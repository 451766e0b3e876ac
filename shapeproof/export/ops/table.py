"""The operators of torch: the family of each, and a record for an overload, or a packet whose overloads do not differ.

How elements of the result depend on elements of the operands makes a family. What holds of a whole family is said of
it: whether an operator may fail on data, is continuous, or goes by sizes (here), keeps rows apart (row_by_row.py), has
a masked form (forms/static/). A *kind* is the part of a family that has rules of its own. An operator that writes in
place has the kind of its namesake. Torch's tags name most of two families, `pointwise` and `reduction`: the table lists
those without the tag, those with a kind of their own, and `equal`, which has the first tag and compares whole tensors.

A record has the rest: its rules are small functions of output_sizes.py, value_ranges.py and shape_functions.py. A field
that a record does not give says nothing, and an operator without family and record is left to torch.

Law: each field holds for every call on which eager does not raise. One property test holds all records against eager.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import torch

from shapeproof.export.ops import output_sizes as sizes
from shapeproof.export.ops import value_ranges as values
from shapeproof.export.ops.call import Copies, Index, Operator
from shapeproof.export.ops.shapes import samples
from shapeproof.export.ops.shapes import shape_functions as shapes
from shapeproof.export.ops.shapes.samples import of_eager
from shapeproof.export.ops.shapes.shape_functions import Layout, ShapeFunction

_FAMILIES = """
    pointwise:
        sum of two = add
        difference of two = sub subtract
        smooth = absolute addcmul asinh atan celu clamp clamp_max clamp_min clip clone copy cosh deg2rad erfc exp2
            expm1 fill hypot lerp lift_fresh_copy log_sigmoid logaddexp masked_fill maximum minimum negative prelu
            rad2deg rsub sinc sinh square where.self where.Scalar where.ScalarOther
            where.ScalarSelf
        smooth unary = abs cos elu erf exp gelu hardsigmoid hardswish hardtanh leaky_relu mish neg relu relu6 selu
            sigmoid silu sin softplus tanh
        unary = hardshrink log sqrt rsqrt
        pointwise = __and__ __or__ __xor__ complex elu_backward fix greater greater_equal hardsigmoid_backward
            hardswish_backward hardtanh_backward isclose leaky_relu_backward less less_equal mish_backward
            native_dropout_backward not_equal ones_like softplus_backward softshrink_backward _to_copy zero zeros_like
        factor = mul multiply
        quotient = div divide true_divide
        rounded quotient = div.Tensor_mode div.Scalar_mode divide.Tensor_mode divide.Scalar_mode floor_divide fmod
            remainder
        power = pow
        dropout = dropout feature_dropout alpha_dropout
    view: expand, slice, select, unbind
        alias = alias broadcast_tensors contiguous detach expand_as lift.default to type_as
        reinterpreted = view.dtype
        regrouped = view reshape _unsafe_view flatten unflatten view_as reshape_as
        reordered = transpose permute t unsqueeze squeeze.dim squeeze.dims movedim swapaxes numpy_T mT matrix_H
        split = chunk tensor_split.sections split split_with_sizes unsafe_chunk unsafe_split unsafe_split_with_sizes
        narrowed = narrow.default squeeze.default
    reduction: mean, logsumexp, trace
        sum = sum nansum any
        count = count_nonzero
        product = prod all
        norm = norm linalg_vector_norm
        variance = var
        deviation = std
        extreme = max min amax amin
        extremes = aminmax
        place = argmax argmin
        equality = equal
    along a dim:
        softmax = softmax.int log_softmax.int _softmax _log_softmax
        gated = softmax log_softmax glu
        softmax gradient = _softmax_backward_data _log_softmax_backward_data
    scan: scan = cumsum cumprod logcumsumexp cummax cummin
    order: sort, argsort, msort
    choice: topk
        median = median.dim
    move: flip, roll, repeat
        moved = channel_shuffle diag diag_embed meshgrid rot90 tile
        triangle = tril triu
        padded = pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
            replication_pad2d replication_pad3d
    concatenation: cat, stack
        joined = concat concatenate hstack vstack dstack column_stack
    contraction: linear, matmul, addmm, baddbmm, mv, einsum
        mm = mm bmm
        contraction = addbmm addmv addr bilinear cross dot inner kron outer vdot
        attention = scaled_dot_product_attention
        flash attention = _scaled_dot_product_flash_attention_for_cpu
    window:
        convolution = conv1d conv2d conv3d convolution
        transposed convolution = conv_transpose1d conv_transpose2d conv_transpose3d
        pooling = max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
            adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d
        pooling with places = max_pool2d_with_indices
        pixel shuffle = pixel_shuffle
        resized = pixel_unshuffle upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
            upsample_nearest2d upsample_nearest3d upsample_trilinear3d
    window gradient: resized gradient = upsample_bicubic2d_backward upsample_bilinear2d_backward
            upsample_linear1d_backward upsample_nearest1d_backward upsample_nearest2d_backward
            upsample_nearest3d_backward upsample_trilinear3d_backward
    sample: grid = grid_sampler grid_sampler_2d grid_sampler_3d
    normalization:
        layer norm = layer_norm native_layer_norm
        rms norm = rms_norm
        group norm = group_norm native_group_norm
        batch norm = batch_norm native_batch_norm
        instance norm = instance_norm
        functional norm = _native_batch_norm_legit _native_batch_norm_legit_functional
            _native_batch_norm_legit_no_training
    recurrence: recurrence = gru lstm rnn_relu rnn_tanh
    gather: index, gather, embedding
        rows = index_select
    scatter:
        written = index_add index_copy scatter.src scatter_add
        scatter = scatter slice_scatter
        put = index_put
        masked scatter = masked_scatter
    loss: difference = mse_loss l1_loss smooth_l1_loss huber_loss
    loss of data:
        loss = soft_margin_loss margin_ranking_loss hinge_embedding_loss binary_cross_entropy
            binary_cross_entropy_with_logits kl_div poisson_nll_loss
        gradient = smooth_l1_loss_backward huber_loss_backward soft_margin_loss_backward
        gradient divided last = binary_cross_entropy_backward
        square gradient = mse_loss_backward
        classes = nll_loss_nd nll_loss nll_loss_forward nll_loss_backward nll_loss2d nll_loss2d_forward
            nll_loss2d_backward
        cross entropy = cross_entropy_loss
    factory: arange
        full = full full_like new_full
        constant = zeros ones new_zeros new_ones
        made = empty empty_like empty_permuted eye linspace new_empty new_empty_strided rand rand_like randn randn_like
            scalar_tensor
    counted by data: nonzero
        masked select = masked_select
        number = item _local_scalar_dense
    runs of data:
        unique = _unique2
        consecutive = unique_consecutive
        repeats = repeat_interleave.Tensor
        repeated rows = repeat_interleave.self_Tensor
    search: search = searchsorted bucketize isin
    similarity: similarity = cosine_similarity
    check: metadata = _assert_tensor_metadata
"""
"""The operators of each family, by packet or by overload, in kinds: `kind = names`, or a name that is its kind."""
KINDS = {
    name: (family.strip(), kind.strip() or name)
    for family, _, kinds in (text.partition(":") for text in re.split(r"\n {4}(?! )", _FAMILIES)[1:])
    for kind, _, names in (text.rpartition("=") for text in re.split(r",|\n {8}(?! )", kinds))
    for name in names.split()
}
"""The family and the kind of each of these operators ."""


def _each(names: str, **fields: Any) -> dict[str, Operator]:
    """Return one record for several operators."""
    return dict.fromkeys(names.split(), Operator(**fields))


_FILLED = ShapeFunction(shapes.asked, samples.filled, Layout.NONE)
_SUM, _DIFFERENCE = values.sum_of("self", "other"), values.sum_of("self", "other", -1)
_OF_BOTH = ShapeFunction(shapes.broadcast("self", "other"), of_eager)
_OF_ITSELF = ShapeFunction(dtype=of_eager)

_RECORDS: Mapping[str, Operator] = {
    # operators that take a size or a number from data, each with its source
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
    # views, copies, and operators that rearrange elements
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
    "sym_size": Operator(reads=torch.Tensor.size),
    "sym_numel": Operator(reads=torch.Tensor.numel),
    "sym_stride": Operator(reads=torch.Tensor.stride, reads_layout=True),
    "sym_storage_offset": Operator(reads=torch.Tensor.storage_offset, reads_layout=True),
    "unsqueeze.default": Operator(in_order=True, order=True),
    "transpose.int": Operator(order=True),
    "permute.default": Operator(order=True),
    **_each("squeeze.dim squeeze.dims squeeze.default", in_order=True),
    "slice_copy.Tensor": Operator(copies_view="aten.slice.Tensor"),
    "select_copy.int": Operator(copies_view="aten.select.int"),
    "slice.Tensor": Operator(view=sizes.sliced),
    "select.int": Operator(view=sizes.selected, selects=True),
    **_each(
        "to.dtype to.device to.dtype_layout",
        alias_or_copy=True,
        values=values.converted,
        shape=ShapeFunction(shapes.like, samples.converted),
        moves=True,
    ),
    **_each("reshape_as contiguous to.other flatten type_as view_as_real", alias_or_copy=True),
    **_each("ravel positive resolve_conj resolve_neg sum_to_size", alias_or_copy=True),
    **_each("feature_dropout alpha_dropout feature_alpha_dropout", alias_or_copy=True, drops=True),
    "dropout.default": Operator(alias_or_copy=True, drops=True, shape=ShapeFunction(shapes.dropped)),
    "repeat.default": Operator(values=values.elements_of("self"), copies=Copies("repeats", 1)),
    "constant_pad_nd.default": Operator(values=values.elements_of("self", "value"), copies=Copies("pad")),
    "pad": Operator(copies=Copies("pad")),
    **_each("reflection_pad1d reflection_pad2d reflection_pad3d", copies=Copies("padding")),
    **_each("replication_pad1d replication_pad2d replication_pad3d", copies=Copies("padding")),
    **_each("flip.default take.default", values=values.elements_of("self")),
    **_each("triu.default tril.default", moves=True),
    "all.default": Operator(values=values.every),
    "roll.default": Operator(values=values.elements_of("self"), shape=_OF_ITSELF),
    "masked_fill.Scalar": Operator(values=values.elements_of("self", "value"), copies=Copies("mask")),
    "masked_fill.Tensor": Operator(values=values.elements_of("self", "value")),
    "cat.default": Operator(
        values=values.elements_of("tensors"),
        shape=ShapeFunction(shapes.cat, layout=Layout.ONE),
        moves=True,
    ),
    "stack.default": Operator(values=values.elements_of("tensors")),
    **_each(
        "where.self where.ScalarOther",
        values=values.elements_of("self", "other"),
        shape=ShapeFunction(shapes.broadcast("condition", "self", "other"), of_eager),
    ),
    # operators that index
    "embedding.default": Operator(
        index=Index("weight", "indices", None), shape=ShapeFunction(shapes.embedding, of_eager, Layout.NONE)
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
        shape=ShapeFunction(shapes.gathered, of_eager, Layout.NONE),
        moves=True,
    ),
    "scatter.value": Operator(index=Index(), values=values.elements_of("self", "value")),
    "scatter.src": Operator(index=Index(), values=values.elements_of("self", "src")),
    **_each("scatter_add.default scatter_reduce.two index_add.default", index=Index()),
    "index.Tensor": Operator(
        by_position=True,
        values=values.elements_of("self"),
        shape=ShapeFunction(shapes.indexed, of_eager),
        moves=True,
    ),
    "index_put.default": Operator(by_position=True, broadcasts=2),
    "index_put_.default": Operator(by_position=True, broadcasts=2, rejects_itself=True),
    **_each("index_add_ index_copy_ put_ scatter_ scatter_add_ scatter_reduce_", rejects_itself=True),
    # operators that reduce, order or search
    "max.default": Operator(values=values.elements_of("self"), needs_element="all", reduces_all="max"),
    "min.default": Operator(values=values.elements_of("self"), needs_element="all", reduces_all="min"),
    "amax.default": Operator(values=values.elements_of("self"), reduces_all="max"),
    "amin.default": Operator(values=values.elements_of("self"), reduces_all="min"),
    **_each("max.dim min.dim median.dim mode.default", values=values.values_and_indices, needs_element="dim"),
    "nanmedian.dim": Operator(needs_element="dim"),
    **_each("kthvalue.default sort.default sort.stable topk.default", values=values.values_and_indices),
    **_each("cummax.default cummin.default", values=values.values_and_indices),
    **_each("argmax.default argmin.default argsort.default argsort.stable", values=values.index),
    "sum.default": Operator(values=values.summed, reduces_all="sum"),
    "sum.dim_IntList": Operator(values=values.summed, shape=_OF_ITSELF),
    **_each("mean.dim linalg_vector_norm.default softmax.int log_softmax.int pow.Tensor_Scalar", shape=_OF_ITSELF),
    **_each(
        "count_nonzero.default count_nonzero.dim_IntList",
        values=values.occurrences,
    ),
    "cumsum.default": Operator(values=values.cumsum),
    **_each("searchsorted.Tensor searchsorted.Scalar bucketize.Tensor bucketize.Scalar", values=values.insertion),
    # operators that make tensors
    "full.default": Operator(values=values.elements_of("fill_value"), moves=True),
    **_each("full_like.default new_full.default", values=values.elements_of("fill_value")),
    "scalar_tensor.default": Operator(values=values.elements_of("s")),
    **_each("zeros.default zeros_like.default", values=values.constantly(0)),
    **_each("ones.default ones_like.default", values=values.constantly(1)),
    "new_zeros.default": Operator(values=values.constantly(0), shape=_FILLED),
    "new_ones.default": Operator(values=values.constantly(1), shape=_FILLED),
    **_each(
        "arange.default arange.start arange.start_step",
        values=values.arange,
        shape=ShapeFunction(shapes.counted, samples.filled, Layout.MADE),
    ),
    **_each("randint.default randint.low", values=values.randint),
    "randperm.default": Operator(values=values.randperm),
    "multinomial.default": Operator(values=values.below_size("self", -1)),
    # operators that compute element by element
    **_each("clamp.default clamp_min.default", values=values.clamp, shape=_OF_ITSELF),
    **_each("clamp.Tensor clamp_min.Tensor clamp_max.default clamp_max.Tensor", values=values.clamp),
    **_each("minimum.default min.other", values=values.of_both(values.lesser), shape=_OF_BOTH),
    **_each("maximum.default max.other", values=values.of_both(values.greater), shape=_OF_BOTH),
    "add.Tensor": Operator(values=_SUM, shape=_OF_BOTH, rounds_once=True),
    "add.Scalar": Operator(values=_SUM),
    "sub.Tensor": Operator(values=_DIFFERENCE, shape=_OF_BOTH, rounds_once=True),
    "sub.Scalar": Operator(values=_DIFFERENCE),
    **_each("rsub.Tensor rsub.Scalar", values=values.sum_of("other", "self", -1)),
    "neg.default": Operator(values=values.neg, shape=_OF_ITSELF),
    "abs.default": Operator(values=values.magnitude, shape=_OF_ITSELF),
    "mul.Tensor": Operator(values=values.mul, shape=_OF_BOTH, rounds_once=True),
    "mul.Scalar": Operator(values=values.mul),
    **_each("floor_divide.default floor_divide.Scalar div.Tensor_mode div.Scalar_mode", values=values.floor_divide),
    **_each("remainder.Tensor remainder.Scalar", values=values.remainder),
    "bitwise_and.Scalar": Operator(values=values.bitwise_and),
    "ne.Scalar": Operator(values=values.is_nonzero, shape=_OF_BOTH),
    **_each(
        "div.Tensor eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor eq.Scalar lt.Scalar le.Scalar "
        "gt.Scalar ge.Scalar __and__.Tensor __or__.Tensor bitwise_and.Tensor bitwise_or.Tensor logical_and.default "
        "logical_or.default",
        shape=_OF_BOTH,
    ),
    **_each(
        "mse_loss_backward.default smooth_l1_loss_backward.default huber_loss_backward.default",
        shape=ShapeFunction(shapes.gradient_of_elements, layout=Layout.NONE),
    ),
    # operators of torch.nn; batch norm: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html
    "linear.default": Operator(shape=ShapeFunction(shapes.linear, layout=Layout.NONE)),
    "mm.default": Operator(shape=ShapeFunction(shapes.mm, layout=Layout.NONE)),
    "addmm.default": Operator(shape=ShapeFunction(shapes.addmm, layout=Layout.NONE)),
    "layer_norm.default": Operator(shape=ShapeFunction(shapes.layer_norm, layout=Layout.NONE)),
    "group_norm.default": Operator(shape=ShapeFunction(shapes.group_norm)),
    "batch_norm.default": Operator(shape=ShapeFunction(shapes.batch_norm), least_rank=2),
    **_each(
        "_batch_norm_impl_index native_batch_norm _batch_norm_with_update.default _native_batch_norm_legit.default",
        least_rank=2,
    ),
    "_scaled_dot_product_flash_attention_for_cpu.default": Operator(divides_by=(1, 2)),
    "_scaled_dot_product_flash_attention_for_cpu_backward.default": Operator(divides_by=(1, 2)),
    **_each("native_batch_norm_backward batch_norm_backward _adaptive_avg_pool2d_backward", divides_by=None),
    **_each("_weight_norm_interface _weight_norm_interface_backward", divides_by=(0,)),
    **_each(
        "conv1d.default conv2d.default conv3d.default",
        shape=ShapeFunction(shapes.convolution),
    ),
    **_each("max_pool2d.default avg_pool2d.default", shape=ShapeFunction(shapes.pooling)),
    "adaptive_avg_pool2d.default": Operator(shape=ShapeFunction(shapes.pooled_to)),
    **_each(
        "upsample_nearest1d.vec upsample_nearest2d.vec",
        shape=ShapeFunction(shapes.interpolated, layout=Layout.IMAGE),
        resizes_image=True,
        copies=Copies("output_size", None),
    ),
    **_each(
        "upsample_linear1d.vec upsample_bilinear2d.vec upsample_bicubic2d.vec",
        shape=ShapeFunction(shapes.interpolated, layout=Layout.IMAGE),
        resizes_image=True,
    ),
    "upsample_trilinear3d.vec": Operator(shape=ShapeFunction(shapes.interpolated, layout=Layout.IMAGE)),
    "upsample_nearest3d.vec": Operator(
        shape=ShapeFunction(shapes.interpolated, layout=Layout.IMAGE), copies=Copies("output_size", None)
    ),
    **_each(
        "_upsample_nearest_exact1d.vec _upsample_nearest_exact2d.vec",
        resizes_image=True,
        copies=Copies("output_size", None),
    ),
    **_each("_upsample_bilinear2d_aa.vec _upsample_bicubic2d_aa.vec", resizes_image=True),
    "affine_grid_generator.default": Operator(shape=ShapeFunction(shapes.grid, layout=Layout.NONE)),
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
    # operators called for their effect
    "copy_.default": Operator(broadcasts=1),
    **_each("resize_ resize_as_ resize_as_sparse_", resizes=True),
    "set_": Operator(resizes=True, reads_beyond=True, reads_layout=True),
    **_each("sym_constrain_range.default sym_constrain_range_for_size.default", states_range=True),
}
OPERATORS: Mapping[str, Operator] = {f"aten.{name}": record for name, record in _RECORDS.items()}
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


SIZE, SLICE = torch.ops.aten.sym_size.int, torch.ops.aten.slice.Tensor
"""The operators by which graphs read a size and take a part."""
DETACH = torch.ops.aten.detach.default
"""The view that counts as an operation: no gradient passes through it."""

_NONE = ("", "")
_FAILING = frozenset(
    {"", "choice", "window gradient", "sample", "recurrence", "gather", "scatter", "loss of data", "runs of data"}
)
"""The families that may fail on data, as for an index out of range, a sequence without a step."""
_CONTINUOUS = frozenset(
    {"along a dim", "scan", "move", "concatenation", "contraction", "window", "window gradient", "recurrence", "loss"}
)
"""The families that are continuous in their float operands."""
_ALSO_CONTINUOUS = frozenset(
    {"sum of two", "difference of two", "smooth", "smooth unary", "dropout"}
    | {"slice", "split", "unbind", "embedding", "written", "scatter"}
)
_BY_SIZES = frozenset({"pointwise", "reduction", "contraction", "move"})
"""The families that raise, and give sizes, by the sizes of their operands, however these lie in memory."""
_ALSO_BY_SIZES = frozenset({"alias", "expand", "reordered", "split", "unbind", "narrowed", "repeats", "repeated rows"})


@functools.lru_cache(4096)
def _known(name: str) -> tuple[str, str]:
    space, packet, overload = name.split(".") if name.count(".") == 2 else ("", "", "")
    names = (packet, packet.removesuffix("_")) if space == "aten" else ()
    named = (f"{each}.{overload}" for each in names)
    listed = next((KINDS[each] for each in (*named, *names) if each in KINDS), _NONE)
    tags = {tag for each in names for tag in _tags(each, overload)}
    tagged = torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags
    if tagged and listed[0] != "pointwise" and listed[1] != "equality":
        return "pointwise", "pointwise"
    return ("reduction", "reduction") if listed == _NONE and torch.Tag.reduction in tags else listed


def _tags(packet: str, overload: str) -> Any:
    return getattr(getattr(getattr(torch.ops.aten, packet, None), overload, None), "tags", ())


def may_fail_on_data(target: Any) -> bool:
    """True unless an operator's family raises nothing where sizes and dtypes are valid."""
    return family_of(target) in _FAILING


def is_continuous(target: Any) -> bool:
    """True if a small difference of the float operands makes only a small difference of the result."""
    return family_of(target) in _CONTINUOUS or kind_of(target) in _ALSO_CONTINUOUS


def is_unary(target: Any) -> bool:
    """True if each element is computed from one of the only operand; of floats, the result has its layout and dtype."""
    return kind_of(target) in {"unary", "smooth unary"}


def goes_by_sizes(target: Any) -> bool:
    """True if the sizes of an operator's operands determine if it raises, and the sizes of its results."""
    return family_of(target) in _BY_SIZES or kind_of(target) in _ALSO_BY_SIZES


def kind_of(target: Any) -> str:
    """Return the kind of an operator, given as torch's object or by name; nothing for an operator without one.

    >>> kind_of("aten.max.dim"), kind_of("aten.max.other"), kind_of("aten.add_.Tensor"), kind_of("sp.add.default")
    ('extreme', 'pointwise', 'sum of two', '')
    """
    return _known(str(target))[1]


def family_of(target: Any) -> str:
    """Return the family of an operator.

    >>> family_of(torch.ops.aten.digamma.default), family_of(torch.ops.aten.conv1d.default)
    ('pointwise', 'window')
    """
    return _known(str(target))[0]
