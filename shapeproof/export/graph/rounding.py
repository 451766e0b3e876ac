"""Find whether a program may visibly round differently from eager.

A few torch functions take no symbolic size and are decomposed (ops/decompositions.py); the result equals eager's up to
rounding. A continuous operator keeps a small difference small. At an operator that jumps (a sign, a comparison, a
rounding, an index) the program may fall on one side and eager on the other; torch's function is kept instead.

Law: `jumps` is true if such a value reaches any operator that is not known to be continuous.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves

_ARE_CONTINUOUS = r"""
    abs add addcmul asinh atan celu clamp clamp_m(ax|in) clone copy cosh? deg2rad elu erfc? exp2? expm1 fill gelu
    hard(sigmoid|swish|tanh) hypot leaky_relu lerp lift_fresh_copy log_?sigmoid logaddexp masked_fill m(ax|in)imum mish
    neg negative prelu rad2deg relu6? rsub selu sigmoid silu sinc? sinh softplus softsign square sub subtract tanh where
    addr cross diag diag_embed dot einsum inner kron linear matmul outer (addb?|badd?b?|baddb|b)?m[mv]
    cumprod cumsum dropout embedding flip getitem glu index_add logcumsumexp meshgrid pixel_shuffle repeat roll slice
    tile (unsafe_)?split (column_|d|h|v)?stack (slice_)?scatter scatter_add _?(log_)?softmax
    conv(\dd|_transpose\dd|olution) (_?adaptive_avg|avg|max)_pool\dd ((reflection|replication)_)?pad(\dd)?
    constant_pad_nd upsample_\w+ (mse|huber|(smooth_)?l1)_loss (gru|lstm|rnn_relu|rnn_tanh)
    scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu
"""
_CONTINUOUS = re.compile("|".join(_ARE_CONTINUOUS.split()))
"""The names of aten operators that are continuous in their float operands, besides views, reductions and moves."""
_FRESH = re.compile(r"_assert_tensor_metadata|new_\w+|\w+_like|sym_\w+")
"""The names of operators that do not read elements."""
_MOST_GAIN = 2.0**20
"""The largest factor of a product that keeps a small difference small."""


def _of_product(named: Mapping[str, Any], _: Sequence[torch.fx.Node]) -> bool:
    return not isinstance(named["other"], int | float) or abs(named["other"]) <= _MOST_GAIN


def _of_quotient(named: Mapping[str, Any], reaching: Sequence[torch.fx.Node]) -> bool:
    divisor = named["other"]
    gentle = not isinstance(divisor, int | float) or abs(divisor) >= 1 / _MOST_GAIN
    return gentle and divisor not in reaching and named.get("rounding_mode") is None


def _of_power(named: Mapping[str, Any], reaching: Sequence[torch.fx.Node]) -> bool:
    """True for any base with a whole exponent, and for a positive constant base with any exponent."""
    base, exponent = named["self"], named["exponent"]
    if exponent in reaching:
        return isinstance(base, int | float) and 0 < base <= _MOST_GAIN
    return isinstance(exponent, int | float) and exponent >= 0 and float(exponent).is_integer()


def _of_normalization(named: Mapping[str, Any], _: Sequence[torch.fx.Node]) -> bool:
    """True if `eps > 2**-20`, which keeps the divisor away from 0."""
    eps = named.get("eps")
    return isinstance(eps, float) and eps * _MOST_GAIN > 1


_WHERE: Mapping[str, Callable[[Mapping[str, Any], Sequence[torch.fx.Node]], bool]] = {
    **dict.fromkeys(("mul", "multiply"), _of_product),
    **dict.fromkeys(("div", "divide", "true_divide"), _of_quotient),
    "pow": _of_power,
    **dict.fromkeys(("linalg_vector_norm", "norm"), lambda *_: False),
    **dict.fromkeys(("layer_norm", "native_layer_norm", "group_norm", "native_group_norm"), _of_normalization),
    **dict.fromkeys(("batch_norm", "instance_norm", "native_batch_norm"), _of_normalization),
    **dict.fromkeys(
        ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"),
        lambda named, _: named["interpolation_mode"] == _BILINEAR,
    ),
}
"""Operators that are continuous for some arguments; each test gets the named arguments and the rounded operands."""
_BILINEAR = 0


def jumps(graph: torch.fx.Graph, results: set[Any]) -> bool:
    """True if an operator may show how an operand was rounded; `results`: the storages of what is rounded."""
    rounded = set(results)
    for node in graph.nodes if rounded else ():
        reaching = [operand for operand in node.all_input_nodes if _are_rounded(operand, rounded)]
        if not reaching or node.op != "call_function" or _FRESH.fullmatch(_name(node.target)):
            continue
        if not _is_continuous(node, reaching):
            return True
        written = schemas.written(node.target, node.args, node.kwargs) if schemas.schema_of(node.target) else ()
        for value in (node.meta.get("val"), *(each.meta.get("val") for each in written)):
            rounded.update(storages([value]))
    return False


def _are_rounded(node: torch.fx.Node, rounded: set[Any]) -> bool:
    return not rounded.isdisjoint(storages([node.meta.get("val")]))


def _is_continuous(node: torch.fx.Node, reaching: Sequence[torch.fx.Node]) -> bool:
    """True if a small difference of these operands makes only a small difference of the result."""
    name, func = _name(node.target), node.target
    if not all(_are_floats(each.meta.get("val")) for each in (node, *reaching)):
        return False
    if name == "view" and node.meta["val"].dtype != reaching[0].meta["val"].dtype:
        return False
    where = _WHERE.get(name)
    if where is None or schemas.schema_of(func) is None:
        tags, moves = getattr(func, "tags", ()), known_of(func).moves
        known = moves or torch.Tag.reduction in tags or schemas.is_view_operator(func, pure=True)
        return known or _CONTINUOUS.fullmatch(name) is not None
    return where(schemas.by_name(func, node.args, node.kwargs), reaching)


def _name(target: Any) -> str:
    """Return the name of an aten operator without overload and in-place suffix."""
    space, _, name = str(target).partition(".")
    return name.partition(".")[0].removesuffix("_") if space == "aten" else str(getattr(target, "__name__", target))


def _are_floats(value: Any) -> bool:
    return all(isinstance(each, torch.Tensor) and each.is_floating_point() for each in leaves(value))
