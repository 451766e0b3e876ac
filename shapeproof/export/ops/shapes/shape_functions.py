"""Shape functions: the sizes of an operator's result, where its operands are contiguous, row by row.

Law: where a function gives sizes, eager on the CPU raises nothing about sizes. Its result is one fresh, contiguous
tensor with these sizes and the dtype that the table gives; strides that reach no element may differ. An operator on
images leaves channels last in memory if they are last there, and then the strides are given, too. A dropout that drops
nothing gives a copy, as in torch's fake kernel, although eager returns the operand (fakes.py). So the operator
need not be run. The solver answers a function's questions about sizes, for the whole region. A case that the solver
does not settle is left to torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.terms import ONE, modulo
from shapeproof.export.ops.shapes.layouts import Size, Sizes, lies_row_by_row
from shapeproof.export.ops.shapes.samples import KNOWN, WHOLE, DtypeRule, Named, dims_of, is_real, of_floats

Shape = tuple[Size, ...]


_PLANE = 2
_LARGEST_FACTOR = 2**10
"""Eager multiplies as doubles: far below 2**53, products are exact."""
Rule = Callable[[Named, Sizes], Shape | None]
Strides = tuple[Size, ...]
Result = tuple[Shape, torch.dtype, Strides | None]
"""Sizes, dtype and strides; no strides for a tensor that lies row by row."""


class Layout(Enum):
    """The operands that must be contiguous for a contiguous result."""

    ALL = "all"
    ONE = "one of them"
    NONE = "none"
    MADE = "there are no operands"
    IMAGE = "the only one, or its channels are last, and so are the result's"


@dataclass(frozen=True, slots=True)
class ShapeFunction:
    """The known properties of an operator's result.

    Attributes:
        shape: its sizes; without a rule, each of them is 1 or a size of the one operand, as in a sample.
        dtype: its dtype; without a rule, the one that all operands share, which are floats.
        layout: the operands that must be contiguous.
    """

    shape: Rule | None = None
    dtype: DtypeRule = of_floats
    layout: Layout = Layout.ALL


def result_like(
    func: Any, rule: ShapeFunction, named: Named, operands: Sequence[torch.Tensor], sizes: Sizes
) -> Result | None:
    """Return the sizes, the dtype and the strides of a call's result; None where torch must run the call.

    >>> from shapeproof.constraints.terms import constant
    >>> named = {"input": torch.ones(2, 3), "weight": torch.ones(5, 3), "bias": None}
    >>> func, operands = torch.ops.aten.linear.default, (named["input"], named["weight"])
    >>> result_like(func, ShapeFunction(linear), named, operands, Sizes(constant, lambda _: False))
    ((2, 5), torch.float32, None)
    """
    if (not operands) is not (rule.layout is Layout.MADE) or not _plain(operands):
        return None
    last = rule.layout is Layout.IMAGE and has_channels_last(operands[0], sizes)
    if not (last or _lie(operands, rule.layout, sizes)):
        return None
    floats = {each.dtype for each in operands if each.is_floating_point()}
    if len(floats) > 1 or not floats <= KNOWN:
        return None
    dtype = rule.dtype(func, named, operands)
    shape = None if dtype is None else rule.shape(named, sizes) if rule.shape else _sampled(func, named, operands)
    if dtype is None or shape is None:
        return None
    return shape, dtype, _with_channels_last(shape) if last else None


def _sampled(func: Any, named: Named, operands: Sequence[torch.Tensor]) -> Shape | None:
    found = dims_of(func, named)
    return None if found is None else tuple(1 if at is None else operands[0].shape[at] for at in found)


def has_channels_last(image: torch.Tensor, sizes: Sizes) -> bool:
    """True if an image has elements and several channels, and these are last in memory: its layout has one meaning.

    Between one image and the next there may be a gap.
    """
    if image.dim() != _PLANE + 2 or not all(map(sizes.at_least, image.shape, (1, 2, 1, 1))):
        return False
    step, *within = map(sizes.read, image.stride())
    dense, *expected = map(sizes.read, _with_channels_last(image.shape))
    return within == expected and sizes.at_least(step - dense, 0)


def _with_channels_last(shape: Sequence[Size]) -> Strides:
    _, channels, height, width = shape
    return (channels * height * width, 1, channels * width, channels)


def _lie(operands: Sequence[torch.Tensor], layout: Layout, sizes: Sizes) -> bool:
    if layout in {Layout.NONE, Layout.MADE}:
        return True
    lie = (lies_row_by_row(each, sizes.read) for each in operands)
    return all(lie) if layout is Layout.ALL else any(lie)


def _plain(operands: Sequence[torch.Tensor]) -> bool:
    """True if all operands are strided real tensors on the CPU, without autocast or inference mode."""
    real = all(each.layout is torch.strided and not each.is_complex() for each in operands)
    as_is = not torch.is_inference_mode_enabled() and not torch.is_autocast_enabled("cpu")
    return real and as_is and all(each.device.type == "cpu" for each in operands)


# ---------------------------------------------------------------------- sizes


def of_dims(signature: str, nonempty: str = "") -> Rule:
    """Return the rule of an operator whose operands have these dims, each by a letter that stands for one size.

    `*` stands for any dims, and a capital for as many as where it comes first. An operand may be left out.

    >>> from shapeproof.constraints.terms import constant
    >>> sizes = Sizes(constant, lambda _: False)
    >>> of_dims("self=mk mat2=kn -> mn")({"self": torch.ones(2, 3), "mat2": torch.ones(3, 4)}, sizes)
    (2, 4)
    """
    given, _, kept = signature.partition(" -> ")
    operands = [each.split("=") for each in given.split()]

    def rule(named: Named, sizes: Sizes) -> Shape | None:
        found: dict[str, Shape] = {}
        there: list[tuple[Any, str]] = [(named[name], letters) for name, letters in operands if named[name] is not None]
        if not all(_bind(found, letters, tuple(getattr(each, "shape", each)), sizes) for each, letters in there):
            return None
        plain = all(type(named.get(name, 1)) in {int, float} for name in ("alpha", "beta"))
        full = all(sizes.at_least(size, 1) for letter in nonempty for size in found[letter])
        return tuple(size for letter in kept for size in found[letter]) if plain and full else None

    return rule


def _bind(found: dict[str, Shape], letters: str, shape: Shape, sizes: Sizes) -> bool:
    """Give each letter its sizes; false unless they are known to be those that it has."""
    widths = {each: len(found[each]) if each in found else int(each.islower()) for each in letters}
    spare = len(shape) - sum(widths.values())
    widths |= {each: spare for each in letters if each not in found and not each.islower()}
    if spare < 0 or sum(widths.values()) != len(shape):
        return False
    for letter, width in widths.items():
        part, shape = shape[:width], shape[width:]
        if not sizes.alike(found.setdefault(letter, part), part) or (letter.isupper() and not part):
            return False
    return True


linear = of_dims("input=*k weight=mk bias=m -> *m")
mm = of_dims("self=mk mat2=kn -> mn")
addmm = of_dims("self=n mat1=mk mat2=kn -> mn")
layer_norm = of_dims("normalized_shape=N input=*N weight=N bias=N -> *N")
embedding = of_dims("weight=vd indices=* -> *d", nonempty="d")
_by_channel = of_dims("input=nc* weight=c bias=c running_mean=c running_var=c -> nc*", nonempty="c")


def group_norm(named: Named, sizes: Sizes) -> Shape | None:
    """`group_norm`: the operand's shape; the groups divide the channels. Torch 2.15 raises without places."""
    x, groups = named["input"], named["num_groups"]
    if x.dim() < 2 or groups < 1 or not all(sizes.at_least(size, 1) for size in x.shape[2:]):
        return None
    if not sizes.known(f.eq(modulo(sizes.read(x.shape[1]), groups), 0)):
        return None
    return _by_channel({"running_mean": None, "running_var": None, **named}, sizes)


def batch_norm(named: Named, sizes: Sizes) -> Shape | None:
    """`batch_norm` by running statistics: the operand's shape."""
    running = named["running_mean"] is not None and named["running_var"] is not None
    return _by_channel(named, sizes) if running and not named["training"] else None


def convolution(named: Named, sizes: Sizes) -> Shape | None:
    """`conv1d` to `conv3d` of a batch: `(n, c, *)` gives `(n, out, *)`."""
    x, weight, groups = named["input"], named["weight"], named["groups"]
    spatial = weight.dim() - 2
    constant = all(isinstance(size, int) and size > 0 for size in (*weight.shape, groups))
    if not constant or x.dim() != weight.dim() or weight.shape[0] % groups:
        return None
    channels = weight.shape[1] * groups
    if not sizes.equal(x.shape[1], channels) or not sizes.fits(named["bias"], weight.shape[:1]):
        return None
    found = _slid(named, x.shape[2:], weight.shape[2:], spatial, sizes)
    return None if found is None else (x.shape[0], weight.shape[0], *found)


def _slid(named: Named, shape: Sequence[Size], kernel: Sequence[Size], spatial: int, sizes: Sizes) -> Shape | None:
    """Return the number of kernel positions in each size; None if the kernel is not known to fit into a size."""
    stride, padding, dilation = (each_dim(named.get(name) or at, spatial) for name, at in _WINDOW)
    if any(len(each) != spatial for each in (shape, kernel, stride, padding, dilation)):
        return None
    if not all(isinstance(each, int) for each in (*kernel, *stride, *padding, *dilation)):
        return None
    if min(*kernel, *stride, *dilation) < 1 or min(padding) < 0:
        return None
    found = []
    for size, width, step, pad, apart in zip(shape, kernel, stride, padding, dilation, strict=True):
        beyond = apart * (width - 1) + 1 - 2 * pad
        if not sizes.at_least(size, max(1, beyond)):
            return None
        found.append((size - beyond) // step + 1)
    return tuple(found)


_WINDOW = (("stride", 1), ("padding", 0), ("dilation", 1))


def each_dim(value: Any, spatial: int) -> list[Any]:
    """Return an argument for each dim; it may be given once for all dims."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * spatial if len(values) == 1 else values


def pooling(named: Named, sizes: Sizes) -> Shape | None:
    """`max_pool2d`, `avg_pool2d` of a batch: one element for each position of the window."""
    x = named["self"]
    if x.dim() != 4 or named["ceil_mode"] or named.get("divisor_override") is not None:
        return None
    kernel, padding = (each_dim(named[name], _PLANE) for name in ("kernel_size", "padding"))
    if len(kernel) != _PLANE or len(padding) != _PLANE:
        return None
    if any(2 * pad > width for pad, width in zip(padding, kernel, strict=True)) or not sizes.at_least(x.shape[1], 1):
        return None
    found = _slid({**named, "stride": named["stride"] or kernel}, x.shape[2:], kernel, _PLANE, sizes)
    return None if found is None else (*x.shape[:2], *found)


def pooled_to(named: Named, sizes: Sizes) -> Shape | None:
    """`adaptive_avg_pool2d` of a batch: the output size as it is given."""
    x, found = named["self"], _asked_for(named["output_size"], sizes)
    if x.dim() != 4 or found is None or not all(sizes.at_least(each, 1) for each in x.shape[1:]):
        return None
    return (*x.shape[:2], *found) if len(found) == _PLANE else None


def interpolated(named: Named, sizes: Sizes) -> Shape | None:
    """`upsample_*` of a batch: the sizes that are asked for, or the operand's times whole factors."""
    x, asked, factors = named["input"], named["output_size"], named["scale_factors"]
    rank = x.dim() - 2
    if rank < 1 or (asked is None) is (factors is None) or not all(sizes.at_least(size, 1) for size in x.shape[1:]):
        return None
    found = _enlarged(x.shape[2:], factors) if asked is None else _asked_for(asked, sizes)
    return (*x.shape[:2], *found) if found is not None and len(found) == rank else None


def _enlarged(shape: Sequence[Size], factors: Sequence[float]) -> Shape | None:
    whole = all(type(each) is float and 1 <= each <= _LARGEST_FACTOR and each.is_integer() for each in factors)
    if not whole or len(factors) != len(shape):
        return None
    return tuple(size * int(factor) for size, factor in zip(shape, factors, strict=True))


def _asked_for(asked: Sequence[Size], sizes: Sizes, least: int = 1) -> Shape | None:
    known = all(type(each) in {int, torch.SymInt} and sizes.at_least(each, least) for each in asked)
    return tuple(asked) if known else None


def grid(named: Named, sizes: Sizes) -> Shape | None:
    """`affine_grid_generator`: a place in the image for each pixel of the result, by one matrix for each image."""
    matrices, (batch, *rest) = named["theta"], named["size"]
    places = _asked_for(rest[1:], sizes)
    rank = len(rest) - 1
    if rank not in {2, 3} or places is None or not sizes.alike(matrices.shape, (batch, rank, rank + 1)):
        return None
    return (batch, *places, rank)


def cat(named: Named, sizes: Sizes) -> Shape | None:
    """`cat`: the sizes add up along the dim, and are equal elsewhere."""
    tensors, dim = named["tensors"], named["dim"]
    rank = tensors[0].dim()
    if rank < 2 or any(each.dim() != rank for each in tensors) or not -rank <= dim < rank:
        return None
    at, first = dim % rank, tensors[0].shape
    for each in tensors[1:]:
        if not all(sizes.equal(first[i], each.shape[i]) for i in range(rank) if i != at):
            return None
    return (*first[:at], sum(each.shape[at] for each in tensors), *first[at + 1 :])


def indexed(named: Named, sizes: Sizes) -> Shape | None:
    """`index` of the first dims by integers: their sizes, broadcast, and the sizes of the other dims."""
    x, indices = named["self"], list(named["indices"])
    if len(indices) > x.dim():
        return None
    while indices and indices[-1] is None:
        indices.pop()
    known = bool(indices) and all(isinstance(each, torch.Tensor) for each in indices)
    if not known or not all(each.dtype in WHOLE for each in indices):
        return None
    shape = _broadcast(sizes, *(tuple(each.shape) for each in indices))
    if shape is None:
        return None
    nothing_taken = f.eq(math.prod(map(sizes.read, shape), start=ONE), 0)
    taken_from = (f.ge(sizes.read(size), 1) for size in x.shape[: len(indices)])
    there = all(sizes.known(f.disjunction(each, nothing_taken)) for each in taken_from)
    return (*shape, *x.shape[len(indices) :]) if there else None


def gathered(named: Named, sizes: Sizes) -> Shape | None:
    """`gather`: the shape of the index, which reaches beyond the operand along the dim at most."""
    x, dim, index = named["self"], named["dim"], named["index"]
    if not x.dim() or index.dim() != x.dim() or not -x.dim() <= dim < x.dim() or index.dtype != torch.int64:
        return None
    at = dim % x.dim()
    within = (f.ge(sizes.read(of), sizes.read(size)) for of, size in zip(x.shape, index.shape, strict=True))
    fit = all(d == at or sizes.known(formula) for d, formula in enumerate(within))
    return tuple(index.shape) if fit and sizes.at_least(x.shape[at], 1) else None


def counted(named: Named, sizes: Sizes) -> Shape | None:
    """`arange` of integers: the numbers from the start up to the end."""
    start, end, step = named.get("start", 0), named["end"], named.get("step", 1)
    whole = all(type(each) in {int, torch.SymInt} for each in (start, end))
    if not whole or type(step) is not int or step < 1 or not sizes.at_least(end - start, 0):
        return None
    return (end - start if step == 1 else (end - start + (step - 1)) // step,)


def asked(named: Named, sizes: Sizes) -> Shape | None:
    """`new_ones`, `new_zeros`: the sizes that are asked for."""
    return _asked_for(named["size"], sizes, 0)


def broadcast(*names: str) -> Rule:
    """Return the rule of operators of tensors and numbers: sizes are equal, or one of them is the constant 1."""

    def rule(named: Named, sizes: Sizes) -> Shape | None:
        given = [named[name] for name in names]
        shapes = [tuple(each.shape) for each in given if isinstance(each, torch.Tensor)]
        plain = all(isinstance(each, torch.Tensor) or is_real(each) for each in given)
        return _broadcast(sizes, *shapes) if plain else None

    return rule


def _broadcast(sizes: Sizes, *shapes: Shape) -> Shape | None:
    """Return shapes broadcast: sizes are known to be equal, or all but one of them are the constant 1."""
    rank = max(map(len, shapes))
    found = []
    for alike in zip(*((1,) * (rank - len(each)) + each for each in shapes), strict=True):
        first, *others = [size for size in alike if not (isinstance(size, int) and size == 1)] or [1]
        if not all(sizes.equal(first, other) for other in others):
            return None
        found.append(first)
    return tuple(found)


def like(named: Named, _: Sizes) -> Shape | None:
    """Return the operand's shape."""
    return tuple(named["self"].shape)


def dropped(named: Named, _: Sizes) -> Shape | None:
    """A dropout that drops nothing: the operand's shape; a probability that torch rejects is left to torch."""
    plain = type(named["p"]) in {int, float} and 0 <= named["p"] <= 1 and named["train"] is False
    return tuple(named["input"].shape) if plain else None


def gradient_of_elements(named: Named, sizes: Sizes) -> Shape | None:
    """The gradient of a loss of elements: the shape of the operand, to which the others are broadcast.

    Torch's fake kernel divides by the number of elements in Python, which raises for 0; eager does not.
    """
    x, *others = (tuple(named[name].shape) for name in ("self", "target", "grad_output"))
    found = _broadcast(sizes, x, *others)
    return x if found is not None and len(found) == len(x) and all(map(sizes.equal, found, x)) else None
