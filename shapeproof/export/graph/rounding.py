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
"""The largest factor of a product that keeps a small difference small, and of a quotient: its divisor is no smaller."""


def _of_gentle(named: Mapping[str, Any], _: Sequence[torch.fx.Node] = ()) -> bool:
    """True if no factor is large, and no divisor, nor the `eps` in one, is near 0."""
    numbers = (abs(each) for each in named.values() if type(each) in {int, float})
    return all(1 <= each * _MOST_GAIN <= _MOST_GAIN**2 for each in numbers)


def _of_quotient(named: Mapping[str, Any], reaching: Sequence[torch.fx.Node]) -> bool:
    return _of_gentle(named) and named["other"] not in reaching and named.get("rounding_mode") is None


def _of_power(named: Mapping[str, Any], reaching: Sequence[torch.fx.Node]) -> bool:
    """True for any base with a whole exponent, and for a positive constant base with any exponent."""
    base, exponent = named["self"], named["exponent"]
    if exponent in reaching:
        return isinstance(base, int | float) and 0 < base <= _MOST_GAIN
    return isinstance(exponent, int | float) and exponent >= 0 and float(exponent).is_integer()


_WHERE: Mapping[str, Callable[[Mapping[str, Any], Sequence[torch.fx.Node]], bool]] = {
    "mul(tiply)?|(native_)?(batch|instance|layer|group)_norm": _of_gentle,
    "(true_)?div(ide)?": _of_quotient,
    "pow": _of_power,
    "grid_sampler(_[23]d)?": lambda named, _: not named["interpolation_mode"],  # bilinear
    "(linalg_vector_)?norm": lambda *_: False,
}
"""Operators that are continuous for some arguments; each test gets the named arguments and the rounded operands."""


def jumps(graph: torch.fx.Graph, results: set[Any]) -> bool:
    """True if an operator may show how an operand was rounded; `results`: the storages of what is rounded."""
    rounded = set(results)
    for node in graph.nodes if rounded else ():
        reaching = [each for each in node.all_input_nodes if not rounded.isdisjoint(storages([each.meta.get("val")]))]
        if not reaching or node.op != "call_function" or _FRESH.fullmatch(_name(node.target)):
            continue
        if not _is_continuous(node, reaching):
            return True
        written = schemas.written(node.target, node.args, node.kwargs) if schemas.schema_of(node.target) else ()
        for value in (node.meta.get("val"), *(each.meta.get("val") for each in written)):
            rounded.update(storages([value]))
    return False


def _is_continuous(node: torch.fx.Node, reaching: Sequence[torch.fx.Node]) -> bool:
    """True if a small difference of these operands makes only a small difference of the result."""
    name, func = _name(node.target), node.target
    if not all(_are_floats(each.meta.get("val")) for each in (node, *reaching)):
        return False
    if name == "view" and node.meta["val"].dtype != reaching[0].meta["val"].dtype:
        return False
    for pattern, holds in _WHERE.items():
        if re.fullmatch(pattern, name):
            named = schemas.schema_of(func) and schemas.by_name(func, node.args, node.kwargs)
            return bool(named) and holds(named, reaching)
    known = known_of(func).moves or torch.Tag.reduction in getattr(func, "tags", ())
    return known or schemas.is_view_operator(func, pure=True) or _CONTINUOUS.fullmatch(name) is not None


def _name(target: Any) -> str:
    """Return the name of an aten operator without overload and in-place suffix."""
    space, _, name = str(target).partition(".")
    return name.partition(".")[0].removesuffix("_") if space == "aten" else str(getattr(target, "__name__", target))


def _are_floats(value: Any) -> bool:
    return all(isinstance(each, torch.Tensor) and each.is_floating_point() for each in leaves(value))
