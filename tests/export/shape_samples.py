"""Random calls of the operators that have shape functions: sizes of 0 and 1, broadcasting, and every layout."""

from __future__ import annotations

import torch

ATEN = torch.ops.aten
SIZES = (0, 1, 1, 2, 3)
FLOATS = (torch.float32, torch.float32, torch.float32, torch.float64)
KINDS = (*FLOATS, torch.int64, torch.int32, torch.bool, torch.uint8, torch.bfloat16)


def made(rng, shape, kinds=FLOATS):
    """A tensor of any layout: row by row, permuted, expanded, with gaps, or a slice."""
    dtype, order = rng.choice(kinds), rng.sample(range(len(shape)), len(shape))
    if rng.random() < 0.6:
        return torch.ones(shape).to(dtype)
    if rng.random() < 0.2 and shape:
        return torch.ones([1, *shape[1:]]).to(dtype).expand(shape)
    if rng.random() < 0.2 and shape:
        return torch.ones([*shape[:-1], 2 * shape[-1] + 1]).to(dtype)[..., 1::2]
    return torch.ones([shape[at] for at in order]).to(dtype).permute([order.index(at) for at in range(len(shape))])


def shape(rng, low=0, high=4):
    return [rng.choice(SIZES) for _ in range(rng.randint(low, high))]


def nearly(rng, sizes):
    """The sizes, or others."""
    return [rng.choice(SIZES) if rng.random() < 0.05 else size for size in sizes]


def perhaps(rng, sizes):
    """A parameter, if any."""
    return made(rng, nearly(rng, sizes)) if rng.random() < 0.6 else None


def linear(rng):
    sizes, out = shape(rng, 1), rng.choice(SIZES)
    return made(rng, sizes), made(rng, nearly(rng, [out, sizes[-1]])), perhaps(rng, [out])


def product(rng):
    a, b, c = (rng.choice(SIZES) for _ in range(3))
    return made(rng, [a, b]), made(rng, nearly(rng, [b, c]))


def added_product(rng):
    factors = product(rng)
    return made(rng, nearly(rng, factors[1].shape[1:])), *factors


def gradient_of_elements(rng):
    sizes = shape(rng)
    gradient = [] if rng.random() < 0.7 else nearly(rng, sizes)
    return made(rng, gradient), made(rng, sizes), made(rng, nearly(rng, sizes)), rng.choice((0, 1, 2)), 0.5


def power(rng):
    return made(rng, shape(rng), KINDS), rng.choice((0, 1, 2, -1, 2.5, True))


def layer_norm(rng):
    sizes = shape(rng, 1)
    normed = nearly(rng, sizes[rng.randrange(len(sizes)) :])
    return made(rng, sizes), normed, perhaps(rng, normed), perhaps(rng, normed)


def group_norm(rng):
    sizes = shape(rng, 2)
    return made(rng, sizes), rng.choice((1, 2, 3)), perhaps(rng, sizes[1:2]), perhaps(rng, sizes[1:2])


def batch_norm(rng):
    sizes = shape(rng, 2)
    own = [perhaps(rng, sizes[1:2]) for _ in range(2)] + [made(rng, nearly(rng, sizes[1:2])) for _ in range(2)]
    return made(rng, sizes), *own, rng.random() < 0.2, 0.1, 1e-5, False


def convolution(spatial):
    def args(rng):
        groups, narrow, out = rng.choice((1, 1, 2)), rng.choice((1, 2)), rng.choice((2, 4))
        x = made(
            rng, nearly(rng, [rng.choice(SIZES), groups * narrow, *(rng.choice((0, 3, 4, 5)) for _ in range(spatial))])
        )
        kernel = [rng.choice((1, 2, 3)) for _ in range(spatial)]
        window = [[rng.choice(some)] * spatial for some in ((1, 1, 2), (0, 1, 2), (1, 1, 2))]
        return x, made(rng, nearly(rng, [out, narrow, *kernel])), perhaps(rng, [out]), *window, groups

    return args


def pooling(rng):
    x = made(rng, [rng.choice(SIZES), rng.choice(SIZES), rng.choice((0, 1, 3, 5)), rng.choice((1, 4))])
    kernel = [rng.choice((1, 2, 3)) for _ in range(2)]
    stride = rng.choice(([], [1, 1], [2, 2], [2]))
    return x, kernel, stride, [rng.choice((0, 0, 1))]


def pooled_to(rng):
    x = made(rng, [rng.choice(SIZES), rng.choice(SIZES), rng.choice((0, 1, 3, 5)), rng.choice((1, 4))])
    return x, rng.choice(([1, 1], [2, 3], [4, 7], [1, 0], [1]))


def interpolated(spatial, *aligned):
    def args(rng):
        x = made(rng, [rng.choice(SIZES) for _ in range(2 + spatial)], (*FLOATS, torch.bfloat16, torch.uint8))
        if spatial == 2 and rng.random() < 0.4:
            x = x.contiguous(memory_format=torch.channels_last)[:: rng.choice((1, 2))]
        asked = rng.choice((None, [rng.choice((0, 1, 2, 3, 4, 5)) for _ in range(spatial + (rng.random() < 0.05))]))
        factors = [rng.choice((2.0, 2.0, 1.0, 3.0, 1.5, 0.5)) for _ in range(spatial)]
        return x, asked, *aligned, factors if asked is None or rng.random() < 0.05 else None

    return args


def grid(rng):
    rank = rng.choice((2, 2, 3))
    asked = [rng.choice(SIZES) for _ in range(2 + rank + (rng.random() < 0.05))]
    return made(rng, nearly(rng, [asked[0], rank, rank + 1])), asked, rng.random() < 0.5


def cat(rng):
    sizes = shape(rng, 1)
    dim = rng.randrange(len(sizes))
    several = [nearly(rng, [*sizes[:dim], rng.choice(SIZES), *sizes[dim + 1 :]]) for _ in range(rng.randint(1, 3))]
    return [made(rng, each) for each in several], rng.choice((dim, dim - len(sizes)))


def embedding(rng):
    weight = made(rng, [4, rng.choice(SIZES)])
    return weight, made(rng, shape(rng), (torch.int64, torch.int32, torch.uint8))


def indexed_by_one(rng):
    x = made(rng, shape(rng, 1), KINDS)
    indices = made(rng, shape(rng, 0, 3), (torch.int64, torch.int64, torch.int32, torch.bool))
    others = [None, None, made(rng, [1], (torch.int64,)) * 0]
    if indices.dtype != torch.bool:
        indices = indices * 0
    return x, [*rng.choice(((), (), (), (None,))), indices, *rng.sample(others, rng.choice((0, 0, 0, 1, 2)))]


def broadcast(rng):
    sizes = shape(rng)
    others = [1 if rng.random() < 0.2 else size for size in nearly(rng, sizes[rng.randint(0, len(sizes)) :])]
    both = [made(rng, sizes, KINDS), made(rng, others, KINDS)]
    rng.shuffle(both)
    return both[0], rng.choice((both[1], both[1], 2, 1.5, True))


def compared(rng):
    x, other = broadcast(rng)
    return x, other if isinstance(other, torch.Tensor) else made(rng, [], KINDS)


def of_bools(rng):
    kind = rng.choice((torch.bool, torch.bool, torch.bool, torch.int64))
    return tuple(each.to(torch.bool if rng.random() < 0.95 else kind) for each in compared(rng))


def with_a_number(rng):
    return made(rng, shape(rng), KINDS), rng.choice((0, 1, 2.5, False))


def softmax(rng):
    return made(rng, shape(rng), KINDS), rng.randint(-3, 3)


def clamp(rng):
    return made(rng, shape(rng), KINDS), rng.choice((0, 1.5, None, True)), rng.choice((None, 2, 2.5))


def reduced(rng):
    sizes = shape(rng)
    dims = rng.sample(range(-len(sizes), len(sizes)), rng.randint(0, min(2, 2 * len(sizes))))
    return made(rng, sizes, KINDS), dims, rng.random() < 0.5


def norm(rng):
    x, *rest = reduced(rng)
    return x, rng.choice((2, 1, 0, -1, float("inf"), 2.5)), *rest


def conversion(rng):
    """The arguments of `to` that its overloads share."""
    dtype, memory = rng.choice((*KINDS, None)), rng.choice((None, torch.preserve_format, torch.contiguous_format))
    return made(rng, shape(rng), KINDS), dtype, {"copy": rng.random() < 0.3, "memory_format": memory}


def to_dtype(rng):
    x, dtype, how = conversion(rng)
    return x, dtype or torch.float32, how


def to_device(rng):
    x, dtype, how = conversion(rng)
    return x, torch.device("cpu"), dtype or torch.float32, how


def to_layout(rng):
    x, dtype, how = conversion(rng)
    given = {"dtype": dtype, "device": rng.choice((None, torch.device("cpu"))), "layout": rng.choice((None, x.layout))}
    return x, how | given


def dropout(rng):
    return made(rng, shape(rng)), rng.choice((0, 0.5, 1, 1.5)), rng.random() < 0.2


def chosen(rng):
    sides = broadcast(rng)
    condition = made(rng, nearly(rng, sides[0].shape[rng.randint(0, sides[0].dim()) :]), (torch.bool,))
    return condition, *sides


def chosen_of_tensors(rng):
    condition, x, other = chosen(rng)
    return condition, x, other if isinstance(other, torch.Tensor) else made(rng, [], KINDS)


def chosen_or_number(rng):
    condition, x, _ = chosen(rng)
    return condition, x, rng.choice((2, 1.5, True))


def gathered(rng):
    x = made(rng, shape(rng, 1), KINDS)
    sizes = [rng.randint(0, size) if rng.random() < 0.3 else size for size in nearly(rng, x.shape)]
    return x, rng.randrange(-x.dim(), x.dim()), made(rng, sizes, (torch.int64, torch.int64, torch.int32)) * 0


def rolled(rng):
    x, count = made(rng, shape(rng), KINDS), rng.randint(0, 2)
    dims = [rng.randint(-x.dim() - 1, x.dim()) for _ in range(count)]
    return x, [rng.randint(-4, 4) for _ in nearly(rng, dims)], dims if rng.random() < 0.95 else [*dims, 0]


def indexed(rng):
    return rng.choice((indexed_by_one, indexed_by_several))(rng)


def indexed_by_several(rng):
    x, several = made(rng, shape(rng, 1), KINDS), []
    sizes = shape(rng)
    for _ in range(rng.randint(1, x.dim() + (rng.random() < 0.1))):
        own = [1 if rng.random() < 0.3 else size for size in nearly(rng, sizes[rng.randint(0, len(sizes)) :])]
        several.append(made(rng, own, (torch.int64, torch.int64, torch.int64, torch.int32)) * 0)
    return x, [None if rng.random() < 0.05 else each for each in several]


def counted(*names):
    def args(rng):
        given = [rng.choice((-1, 0, 1, 2, 5)) for _ in names]
        return *given, {"dtype": rng.choice((None, *KINDS)), "device": rng.choice((None, torch.device("cpu")))}

    return args


def filled(rng):
    size = [rng.choice((-1, *SIZES, *SIZES)) for _ in range(rng.randint(0, 3))]
    return made(rng, shape(rng), KINDS), size, {"dtype": rng.choice((None, *KINDS))}


ARGUMENTS = {
    ATEN.to.dtype: to_dtype,
    ATEN.to.device: to_device,
    ATEN.to.dtype_layout: to_layout,
    ATEN.dropout.default: dropout,
    ATEN.where.self: chosen_of_tensors,
    ATEN.where.ScalarOther: chosen_or_number,
    ATEN.gather.default: gathered,
    ATEN.roll.default: rolled,
    ATEN.index.Tensor: indexed,
    ATEN.arange.default: counted("end"),
    ATEN.arange.start: counted("start", "end"),
    ATEN.arange.start_step: counted("start", "end", "step"),
    ATEN.new_ones.default: filled,
    ATEN.new_zeros.default: filled,
    ATEN.abs.default: lambda rng: (made(rng, shape(rng), KINDS),),
    ATEN.neg.default: lambda rng: (made(rng, shape(rng), KINDS),),
    **dict.fromkeys((ATEN.minimum.default, ATEN.maximum.default, ATEN.min.other, ATEN.max.other), compared),
    ATEN.linear.default: linear,
    ATEN.mm.default: product,
    ATEN.addmm.default: added_product,
    ATEN.mse_loss_backward.default: lambda rng: gradient_of_elements(rng)[:-1],
    ATEN.smooth_l1_loss_backward.default: gradient_of_elements,
    ATEN.huber_loss_backward.default: gradient_of_elements,
    ATEN.pow.Tensor_Scalar: power,
    ATEN.layer_norm.default: layer_norm,
    ATEN.group_norm.default: group_norm,
    ATEN.batch_norm.default: batch_norm,
    ATEN.conv1d.default: convolution(1),
    ATEN.conv2d.default: convolution(2),
    ATEN.conv3d.default: convolution(3),
    ATEN.max_pool2d.default: pooling,
    ATEN.avg_pool2d.default: pooling,
    ATEN.adaptive_avg_pool2d.default: pooled_to,
    ATEN.upsample_nearest1d.vec: interpolated(1),
    ATEN.upsample_nearest2d.vec: interpolated(2),
    ATEN.upsample_nearest3d.vec: interpolated(3),
    ATEN.upsample_linear1d.vec: interpolated(1, False),
    ATEN.upsample_bilinear2d.vec: interpolated(2, True),
    ATEN.upsample_bicubic2d.vec: interpolated(2, False),
    ATEN.upsample_trilinear3d.vec: interpolated(3, False),
    ATEN.affine_grid_generator.default: grid,
    ATEN.cat.default: cat,
    ATEN.embedding.default: embedding,
    **dict.fromkeys((ATEN.add.Tensor, ATEN.sub.Tensor, ATEN.mul.Tensor, ATEN.div.Tensor), broadcast),
    **{getattr(ATEN, name).Tensor: compared for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{getattr(ATEN, name).Tensor: of_bools for name in ("__and__", "__or__", "bitwise_and", "bitwise_or")},
    **dict.fromkeys((ATEN.logical_and.default, ATEN.logical_or.default), of_bools),
    **{getattr(ATEN, name).Scalar: with_a_number for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    ATEN.softmax.int: softmax,
    ATEN.log_softmax.int: softmax,
    ATEN.clamp.default: clamp,
    ATEN.clamp_min.default: with_a_number,
    ATEN.sum.dim_IntList: reduced,
    ATEN.mean.dim: reduced,
    ATEN.linalg_vector_norm.default: norm,
}
