"""Calls of every operator in the table: its arguments, by position and by keyword, for the property test."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from tests.export.calls import WHOLE, flags, small, tensors, with_dim
from tests.export.ops.test_shape_functions import ARGUMENTS as SHAPED

whole = tensors(dtypes=WHOLE)
scalars = st.integers(-4, 300) | st.sampled_from((2**31, -(2**40)))
NONE = st.just({})


def given_as(*parts, **named):
    """Positional arguments, and keywords that may be left out."""
    return st.tuples(st.tuples(*parts), st.fixed_dictionaries({}, optional=named))


def along(*rest, none=False, **named):
    return st.tuples(with_dim(whole, *rest, none=none), st.fixed_dictionaries({}, optional=named))


@st.composite
def pairs(draw, **named):
    """Two tensors that broadcast, of dtypes that may differ."""
    left = draw(whole)
    right = draw(tensors(shapes=st.sampled_from((list(left.shape), [], [1])), dtypes=WHOLE))
    return (left, right), draw(st.fixed_dictionaries({}, optional=named))


@st.composite
def masked(draw, value):
    source = draw(whole)
    return (source, draw(tensors(shapes=st.just(list(source.shape)), dtypes=(torch.bool,))), draw(value)), {}


@st.composite
def chosen(draw):
    left, mask, _ = draw(masked(st.none()))[0]
    return (mask, left, draw(tensors(shapes=st.just(list(left.shape)), dtypes=WHOLE))), {}


@st.composite
def picked(draw, wrap=lambda index: index, *, with_dim=True):
    """A vector, and indices into it."""
    source = draw(tensors(shapes=st.lists(st.integers(1, 4), min_size=1, max_size=1), dtypes=WHOLE))
    index = draw(tensors(shapes=st.just([3]), dtypes=(torch.int64,), low=0, high=len(source) - 1))
    return ((source, 0, wrap(index)) if with_dim else (source, wrap(index))), {}


@st.composite
def scattered(draw, value):
    (source, dim, index), _ = draw(picked())
    found = draw(tensors(shapes=st.just([3]), dtypes=(source.dtype,))) if value is None else draw(value)
    return (source, dim, index, found), {}


@st.composite
def listed(draw):
    shape = draw(st.sampled_from(([0], [2], [2, 3])))
    return (draw(st.lists(tensors(shapes=st.just(shape), dtypes=WHOLE), min_size=1, max_size=3)),), {}


vectors = tensors(shapes=st.lists(st.integers(0, 4), min_size=1, max_size=1), dtypes=WHOLE)
ordered = vectors.map(lambda values: values.sort().values)
counts = tensors(shapes=st.lists(small, min_size=1, max_size=1), dtypes=(torch.int64, torch.int32), low=0, high=4)
weights = tensors(shapes=st.sampled_from(([3], [2, 3])), dtypes=(torch.float32,), low=0, high=2)
dtypes = st.sampled_from(WHOLE)
shapes = st.lists(small, max_size=2)
likes = given_as(whole, dtype=dtypes)
fillers = st.integers(-4, 300) | flags
ends = st.none() | scalars
divided = st.tuples(whole, st.integers(-3, 400))
_BY_NAME = {
    "clone": given_as(whole),
    "lift_fresh_copy": given_as(whole),
    "index.Tensor": picked(lambda index: [index], with_dim=False),
    "index_select": picked(),
    "gather": picked(),
    "take": picked(with_dim=False),
    "masked_select": masked(st.none()).map(lambda found: (found[0][:2], {})),
    "flip": along().map(lambda found: ((found[0][0], [found[0][1]]), {})),
    "roll": given_as(whole, st.just([1])),
    "repeat": given_as(whole, st.just([2, 1, 2, 1])),
    **dict.fromkeys(("triu", "tril"), given_as(tensors(shapes=st.sampled_from(([2, 3], [0, 2]))), st.integers(-1, 2))),
    "all": given_as(tensors(dtypes=(torch.bool, torch.int64), low=0, high=1)),
    "ne.Scalar": given_as(whole, st.sampled_from((0, False, 0.0, 1))),
    "max": given_as(whole),
    "min": given_as(whole),
    "amax": given_as(whole),
    "amin": given_as(whole),
    "unique_dim": along(),
    "cat": listed(),
    "stack": listed(),
    "where.self": chosen(),
    "where.ScalarOther": masked(scalars).map(lambda found: ((found[0][1], found[0][0], found[0][2]), {})),
    "masked_fill.Scalar": masked(scalars),
    "masked_fill.Tensor": masked(tensors(shapes=st.just([]), dtypes=WHOLE)),
    "scatter.value": scattered(scalars),
    "scatter.src": scattered(None),
    "constant_pad_nd": given_as(vectors, st.just([1, 2]), value=scalars),
    "argmax": along(none=True, keepdim=flags),
    "argmin": along(none=True, keepdim=flags),
    "argsort": along(descending=flags),
    "argsort.stable": along().map(lambda found: ((found[0][0],), {"stable": True, "dim": found[0][1]})),
    "max.dim": along(keepdim=flags),
    "min.dim": along(keepdim=flags),
    "median.dim": along(keepdim=flags),
    "mode": along(keepdim=flags),
    "kthvalue": along().map(lambda found: ((found[0][0], 1, found[0][1]), {})),
    "sort": along(descending=flags),
    "sort.stable": along().map(lambda found: ((found[0][0],), {"stable": True, "dim": found[0][1]})),
    "topk": along().map(lambda found: ((found[0][0], 1, found[0][1]), {})),
    "cummax": along(),
    "cummin": along(),
    "nonzero": given_as(tensors()),
    "repeat_interleave.Tensor": given_as(counts),
    "searchsorted.Tensor": given_as(ordered, whole, right=flags),
    "searchsorted.Scalar": given_as(ordered, scalars, right=flags),
    "bucketize.Tensor": given_as(whole, ordered, right=flags),
    "bucketize.Scalar": given_as(scalars, ordered, right=flags),
    "_unique2": given_as(whole, flags, flags, flags),
    "unique_consecutive": along(none=True, return_inverse=flags, return_counts=flags).map(
        lambda found: ((found[0][0],), found[1] | {"dim": found[0][1]})
    ),
    "bincount": given_as(counts, minlength=small, weights=weights),
    "count_nonzero": along(none=True),
    "count_nonzero.dim_IntList": along().map(lambda found: ((found[0][0], [found[0][1]]), {})),
    "sum": given_as(whole, dtype=dtypes),
    "sum.dim_IntList": along(dtype=dtypes).map(lambda found: ((found[0][0], [found[0][1]]), found[1])),
    "cumsum": along(dtype=dtypes),
    "full": given_as(shapes, fillers, dtype=dtypes),
    "full_like": given_as(whole, fillers, dtype=dtypes),
    "new_full": given_as(whole, shapes, fillers, dtype=dtypes),
    "scalar_tensor": given_as(fillers, dtype=dtypes),
    "zeros": given_as(shapes, dtype=dtypes),
    "zeros_like": likes,
    "new_zeros": given_as(whole, shapes, dtype=dtypes),
    "ones": given_as(shapes, dtype=dtypes),
    "ones_like": likes,
    "new_ones": given_as(whole, shapes, dtype=dtypes),
    "arange": given_as(st.integers(-2, 300), dtype=dtypes),
    "arange.start": given_as(st.integers(-9, 300), st.integers(-9, 300), dtype=dtypes),
    "arange.start_step": given_as(st.integers(-9, 30), st.integers(-9, 30), st.integers(-3, 3), dtype=dtypes),
    "randint": given_as(st.integers(-2, 9), shapes, dtype=dtypes),
    "randint.low": given_as(st.integers(-9, 9), st.integers(-9, 9), shapes, dtype=dtypes),
    "randperm": given_as(small),
    "multinomial": given_as(weights, st.just(1)),
    "clamp": given_as(whole, ends, ends),
    "clamp.Tensor": pairs().map(lambda found: ((*found[0], found[0][1]), {})),
    "clamp_min": given_as(whole, scalars),
    "clamp_min.Tensor": pairs(),
    "clamp_max": given_as(whole, scalars),
    "clamp_max.Tensor": pairs(),
    "minimum": pairs(),
    "maximum": pairs(),
    "add.Tensor": pairs(alpha=st.integers(-3, 300)),
    "add.Scalar": given_as(whole, scalars, alpha=st.integers(-3, 300)),
    "sub.Tensor": pairs(alpha=st.integers(-3, 300)),
    "sub.Scalar": given_as(whole, scalars, alpha=st.integers(-3, 300)),
    "rsub.Tensor": pairs(alpha=st.integers(0, 2)),
    "rsub.Scalar": given_as(whole, scalars, alpha=st.integers(0, 2)),
    "neg": given_as(whole),
    "abs": given_as(whole),
    "mul.Tensor": pairs(),
    "mul.Scalar": given_as(whole, scalars),
    "floor_divide": pairs(),
    "floor_divide.Scalar": st.tuples(divided, NONE),
    "div.Tensor_mode": pairs().flatmap(
        lambda found: st.sampled_from(("floor", "trunc")).map(lambda mode: (found[0], {"rounding_mode": mode}))
    ),
    "div.Scalar_mode": divided.flatmap(
        lambda found: st.sampled_from(("floor", "trunc")).map(lambda mode: (found, {"rounding_mode": mode}))
    ),
    "remainder.Tensor": pairs(),
    "remainder.Scalar": st.tuples(divided, NONE),
    "bitwise_and.Scalar": given_as(whole, scalars),
    "_to_copy": likes,
}


@st.composite
def broadcast_mask(draw):
    """A tensor and a mask that broadcast."""
    source = draw(tensors())
    shape = [draw(st.sampled_from((size, size, 1))) for size in source.shape][draw(st.integers(0, 1)) :]
    mask = draw(tensors(shapes=st.just(shape), dtypes=(torch.bool,)))
    return tuple(draw(st.permutations((source, mask))) if source.dtype == torch.bool else (source, mask)), {}


@st.composite
def runs(draw):
    """A tensor, flags, and maybe a dimension along which whole slices are compared."""
    source, dim = draw(with_dim(tensors(), none=True))
    return (source, draw(flags), draw(flags), dim if source.dim() else None), {}


@st.composite
def jagged(draw):
    """A padded batch, and offsets into what it is without the padding."""
    lengths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    return (torch.ones(len(lengths), 3, 1), [offsets]), {}


def doubled(tensor):
    """A sparse tensor that stores each element twice."""
    once = tensor.to_sparse()
    places, values = torch.cat([once.indices(), once.indices()], 1), torch.cat([once.values(), once.values()])
    return torch.sparse_coo_tensor(places, values, tensor.shape)


anything = tensors()
floats = tensors(dtypes=(torch.float32,))
pictures = tensors(shapes=st.just([1, 1, 3, 3]), dtypes=(torch.float32,))
matrices = tensors(shapes=st.just([2, 3]), dtypes=(torch.float32,))
sparse = matrices.map(torch.Tensor.to_sparse) | matrices.map(doubled)
images = tensors(shapes=st.just([2, 1, 3, 3]), dtypes=(torch.float32, torch.float64))


@st.composite
def looked_up(draw, first):
    """Rows, and indices to look up; `first`: also where each bag begins."""
    weight = draw(tensors(shapes=st.tuples(st.integers(1, 4), st.integers(1, 2)).map(list), dtypes=(torch.float32,)))
    indices = draw(tensors(shapes=st.just([3]), dtypes=(torch.int64,), low=-1, high=len(weight)))
    bags = torch.tensor(sorted(draw(st.lists(st.integers(-1, 4), min_size=1, max_size=3))))
    return ((weight, indices, bags) if first else (weight, indices)), {}


@st.composite
def indexed_along(draw, *rest):
    """A vector, indices that may lie outside, and values for them."""
    source = draw(tensors(shapes=st.just([3]), dtypes=(torch.float32,)))
    index = draw(tensors(shapes=st.just([2]), dtypes=(torch.int64,), low=-1, high=3))
    return (source, 0, index, torch.ones(2), *rest), {}


@st.composite
def put(draw):
    """A matrix, a mask, and a value that is broadcast."""
    source = draw(tensors(shapes=st.just([2, 3]), dtypes=(torch.float32,)))
    mask = draw(tensors(shapes=st.just([2]), dtypes=(torch.bool,)))
    index = draw(st.sampled_from((mask, torch.tensor([0, 1]), torch.tensor([-2]), torch.tensor([2]))))
    return (source, [index], torch.full(draw(st.sampled_from(([], [1], [3], [1, 3]))), 5.0)), {}


@st.composite
def segments(draw):
    lengths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    data = torch.ones(sum(lengths) + draw(st.sampled_from((0, 0, 1))), 2)
    return (data, draw(st.sampled_from(("sum", "max")))), {"lengths": torch.tensor(lengths), "axis": 0}


@st.composite
def recurrent(draw, cls, states):
    batch, steps = draw(small), draw(small)
    module = cls(3, 2, batch_first=True)
    hidden = [torch.zeros(1, batch, 2)] * states
    x = torch.ones(batch, steps, 3)
    return (x, hidden if states > 1 else hidden[0], list(module.parameters()), True, 1, 0.0, False, False, True), {}


def cut(ends):
    """A part of a dimension."""
    return with_dim(tensors(shapes=st.lists(small, min_size=1, max_size=2)), *ends).map(lambda found: (found, {}))


def normed(taken=9):
    stats = st.builds(lambda: (torch.zeros(1), torch.ones(1)))
    return st.tuples(pictures, stats, flags).map(
        lambda found: ((found[0], None, None, *found[1], found[2], 0.1, 1e-5, False)[:taken], {})
    )


guesses = st.integers(-5, 6)
_BY_NAME |= {
    "nonzero": given_as(anything),
    "masked_select": broadcast_mask() | _BY_NAME["masked_select"],
    "_unique2": given_as(anything, flags, flags, flags),
    "unique_dim": with_dim(anything, flags, flags, flags).map(lambda args: (args, {})),
    "unique_consecutive": runs(),
    "item": given_as(tensors(shapes=st.sampled_from(([], [1], [1, 1])))),
    "_local_scalar_dense": given_as(tensors(shapes=st.sampled_from(([], [1], [1, 1])))),
    "_padded_dense_to_jagged_forward": jagged(),
    "detach": given_as(anything),
    "alias": given_as(anything),
    "view": given_as(tensors(shapes=st.sampled_from(([2, 3], [0, 3], [4]))), st.sampled_from(([-1], [3, -1], [4]))),
    "_unsafe_view": given_as(tensors(shapes=st.just([2, 3])), st.sampled_from(([-1], [3, -1], [6, 1]))),
    "unsqueeze": given_as(anything, st.integers(-1, 0)),
    "squeeze.dim": with_dim(anything).map(lambda args: (args, {})),
    "squeeze.dims": with_dim(anything).map(lambda args: ((args[0], [args[1]]), {})),
    "squeeze": given_as(anything),
    **dict.fromkeys(("values", "values_copy", "indices", "indices_copy"), given_as(sparse)),
    **dict.fromkeys(("_values", "_values_copy", "_indices", "_indices_copy"), given_as(sparse)),
    **dict.fromkeys(("col_indices", "col_indices_copy"), given_as(matrices.map(lambda x: x.to_sparse_csr()))),
    **dict.fromkeys(("row_indices", "row_indices_copy"), given_as(matrices.map(lambda x: x.to_sparse_csc()))),
    "transpose.int": with_dim(anything, st.integers(-1, 1)).map(lambda args: (args, {})),
    "permute": anything.flatmap(lambda x: st.tuples(st.just(x), st.permutations(range(x.dim())))).map(
        lambda args: (args, {})
    ),
    "slice_copy.Tensor": cut((st.none() | guesses, st.none() | guesses, st.integers(1, 3))),
    "select_copy.int": cut((guesses,)),
    **dict.fromkeys(
        ("_upsample_bilinear2d_aa.vec", "_upsample_bicubic2d_aa.vec"),
        given_as(images, st.sampled_from(([3, 3], [2, 4])), flags, st.none()),
    ),
    "_upsample_nearest_exact2d.vec": given_as(images, st.sampled_from(([3, 3], [2, 4])), st.none()),
    "_upsample_nearest_exact1d.vec": given_as(images.map(lambda x: x[0]), st.sampled_from(([3], [2])), st.none()),
    "slice.Tensor": cut((st.none() | guesses, st.none() | guesses, st.integers(1, 3))),
    "select.int": cut((guesses,)),
    "reshape": given_as(tensors(shapes=st.sampled_from(([2, 3], [0, 3]))), st.sampled_from(([-1], [3, -1]))),
    "reshape_as": given_as(tensors(shapes=st.just([2, 3])), st.just(torch.ones(3, 2))),
    "contiguous": given_as(anything),
    "to.dtype": given_as(anything, st.sampled_from((torch.int64, torch.float32))),
    "to.other": given_as(anything, anything),
    "flatten.using_ints": given_as(anything),
    "_reshape_alias": given_as(tensors(shapes=st.just([2, 3])), st.just([3, 2]), st.just([2, 1])),
    "type_as": given_as(anything, anything),
    "view_as_real": given_as(st.builds(lambda x: torch.complex(x, x), floats)),
    "ravel": given_as(anything),
    "positive": given_as(floats),
    "resolve_conj": given_as(anything),
    "resolve_neg": given_as(anything),
    "sum_to_size": given_as(tensors(shapes=st.just([2, 3])), st.sampled_from(([2, 3], [1, 3]))),
    **dict.fromkeys(
        ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"),
        given_as(tensors(shapes=st.just([2, 3, 4]), dtypes=(torch.float32,)), st.just(0.5), flags),
    ),
    "repeat": given_as(anything, st.sampled_from(([1, 1, 1], [2, 1, 2, 1]))),
    "constant_pad_nd": given_as(vectors, st.sampled_from(([1, 2], [0, 0])), value=scalars),
    "pad": given_as(vectors, st.sampled_from(([1, 2], [0, 0]))),
    **{
        f"{kind}_pad{dims}d": given_as(
            tensors(shapes=st.just([1] + [3] * dims), dtypes=(torch.float32,)),
            st.sampled_from(([0] * (2 * dims), [1] * (2 * dims))),
        )
        for kind in ("reflection", "replication")
        for dims in (1, 2, 3)
    },
    "embedding": looked_up(first=False),
    "embedding_bag": looked_up(first=True),
    "embedding_bag.padding_idx": looked_up(first=True).map(
        lambda found: ((*found[0], False, 0, False, None, False, None), {})
    ),
    "segment_reduce": segments(),
    "index_select": indexed_along().map(lambda found: (found[0][:3], {})) | picked(),
    "gather": indexed_along().map(lambda found: (found[0][:3], {})) | picked(),
    "scatter_add": indexed_along(),
    "scatter_reduce.two": indexed_along("sum"),
    "index_add": indexed_along(),
    "index_put": put(),
    "index_put_": put(),
    **dict.fromkeys(("index_add_", "index_copy_", "scatter_add_", "scatter_.src"), indexed_along()),
    "put_": indexed_along().map(lambda found: ((found[0][0], *found[0][2:]), {})),
    "scatter_reduce_.two": indexed_along("sum"),
    "nanmedian.dim": with_dim(floats).map(lambda args: (args, {})),
    "batch_norm": normed(),
    "instance_norm": normed(),
    "_batch_norm_impl_index": normed(),
    "native_batch_norm": normed(8),
    "_native_batch_norm_legit": normed(8),
    "_batch_norm_with_update": normed(8).map(lambda found: ((*found[0][:5], *found[0][6:]), {})),
    "_scaled_dot_product_flash_attention_for_cpu": st.builds(lambda: ((torch.ones(1, 2, 3, 4),) * 3, {})),
    "_scaled_dot_product_flash_attention_for_cpu_backward": st.builds(
        lambda: ((*(torch.ones(1, 2, 3, 4),) * 5, torch.ones(1, 2, 3), 0.0, False), {})
    ),
    "native_batch_norm_backward": st.builds(
        lambda: ((*(torch.ones(4, 3),) * 2, *(torch.ones(3),) * 5, True, 1e-5, [True] * 3), {})
    ),
    "batch_norm_backward": st.builds(
        lambda: ((*(torch.ones(4, 3),) * 2, *(torch.ones(3),) * 5, True, 1e-5, [True] * 3, torch.ones(0)), {})
    ),
    "_adaptive_avg_pool2d_backward": st.builds(lambda: ((torch.ones(2, 3, 1, 1), torch.ones(2, 3, 4, 4)), {})),
    "_weight_norm_interface": st.builds(lambda: ((torch.ones(2, 3), torch.ones(2, 1)), {})),
    "_weight_norm_interface_backward": st.builds(
        lambda: ((torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 1), torch.ones(2, 1), 0), {})
    ),
    "lstm.input": recurrent(torch.nn.LSTM, 2),
    "gru.input": recurrent(torch.nn.GRU, 1),
    "rnn_tanh.input": recurrent(torch.nn.RNN, 1),
    "rnn_relu.input": recurrent(torch.nn.RNN, 1),
    "pixel_unshuffle": given_as(tensors(shapes=st.just([1, 1, 2, 2])), st.just(2)),
    **dict.fromkeys(
        ("multi_margin_loss", "multilabel_margin_loss", "multilabel_margin_loss_forward"),
        st.just(((torch.ones(2, 3), torch.zeros(2, dtype=torch.int64)), {})),
    ),
    "copy_": given_as(tensors(shapes=st.just([2, 3])), tensors(shapes=st.sampled_from(([3], [1, 3], [1, 1, 3])))),
    "resize_": st.builds(lambda: ((torch.ones(2), [5]), {})),
    "resize_as_": st.builds(lambda: ((torch.ones(2), torch.ones(5)), {})),
    "set_.source_Tensor": st.builds(lambda: ((torch.ones(2), torch.ones(5)), {})),
    **dict.fromkeys(
        ("as_strided", "as_strided_", "as_strided_copy"), st.builds(lambda: ((torch.rand(6), [2], [2], 1), {}))
    ),
    "as_strided_scatter": st.builds(lambda: ((torch.rand(6), torch.zeros(2), [2], [2], 1), {})),
    **dict.fromkeys(("view.dtype", "view_copy.dtype"), st.builds(lambda: ((torch.rand(2, 4), torch.int16), {}))),
    **dict.fromkeys(("view_as_complex", "view_as_complex_copy"), st.builds(lambda: ((torch.rand(3, 2),), {}))),
    "sym_size.int": with_dim(whole).map(lambda args: (args, {})),
    "sym_stride.int": with_dim(whole).map(lambda args: (args, {})),
    "sym_numel": whole.map(lambda x: ((x,), {})),
    "sym_storage_offset": whole.map(lambda x: ((x.flatten()[1:],), {})),
    "sym_constrain_range": given_as(small, min=st.just(0)),
    "sym_constrain_range_for_size": given_as(small, min=st.just(0)),
}
_UNARY = ("relu", "relu6", "silu", "gelu", "sigmoid", "tanh", "hardswish", "hardsigmoid", "leaky_relu", "elu", "mish")
_UNARY = (*_UNARY, "hardtanh", "selu", "softplus", "hardshrink")
_BY_NAME |= dict.fromkeys((*_UNARY, "exp", "log", "sqrt", "rsqrt", "sin", "cos", "erf"), given_as(floats))
for _name in ("neg", "abs"):
    _BY_NAME[_name] |= given_as(floats)
UNSAMPLED = {"aten.resize_as_sparse_"}
"""An operator on sparse tensors, which no rule reads."""


def full_name(name):
    return f"aten.{name}" if "." in name else f"aten.{name}.default"


SAMPLES = {full_name(name): arguments for name, arguments in _BY_NAME.items()}
for _func, _made in SHAPED.items():
    _shaped = st.randoms(use_true_random=False).map(lambda rng, made=_made: (made(rng), {}))
    SAMPLES[str(_func)] = SAMPLES[str(_func)] | _shaped if str(_func) in SAMPLES else _shaped
"""For each operator in the table, by overload: strategies for its arguments."""
