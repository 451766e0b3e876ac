"""Finds operators at which a program may visibly round differently from eager.

A few torch functions take no symbolic size and are decomposed (ops/decompositions.py); the result equals eager's up to
rounding. A continuous operator keeps a small difference small. At an operator that jumps (a sign, a comparison, a
rounding, an index) the program may fall on one side and eager on the other.

Law: `jumps` names every operator that such a value reaches and that is not known to be continuous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from shapeproof.export.ops import schemas
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves

_ARE_CONTINUOUS = """
    _adaptive_avg_pool2d _adaptive_avg_pool3d _log_softmax _scaled_dot_product_flash_attention_for_cpu _softmax
    _unsafe_view abs adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d add addbmm addcmul addmm addmv addr
    amax amin asinh atan avg_pool1d avg_pool2d avg_pool3d baddbmm bmm cat celu clamp clamp_max clamp_min clone
    column_stack constant_pad_nd conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution
    copy cos cosh cross cumprod cumsum deg2rad diag diag_embed dot dropout dstack einsum elu embedding erf erfc exp exp2
    expm1 fill flip gelu getitem glu gru hardsigmoid hardswish hardtanh hstack huber_loss hypot index index_add
    index_select inner kron l1_loss leaky_relu lerp lift_fresh_copy linear log_sigmoid log_softmax logaddexp
    logcumsumexp logsigmoid logsumexp lstm masked_fill matmul max_pool1d max_pool2d max_pool3d maximum mean meshgrid
    minimum mish mm mse_loss mv neg negative outer pad pixel_shuffle prelu prod rad2deg reflection_pad1d
    reflection_pad2d reflection_pad3d relu relu6 repeat replication_pad1d replication_pad2d replication_pad3d rnn_relu
    rnn_tanh roll rsub scaled_dot_product_attention scatter scatter_add selu sigmoid silu sin sinc sinh slice
    slice_scatter smooth_l1_loss softmax softplus softsign split square stack std std_mean sub subtract sum tanh tile
    tril triu unsafe_split upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
    upsample_nearest2d upsample_nearest3d upsample_trilinear3d var var_mean vstack where
"""
_CONTINUOUS = frozenset(_ARE_CONTINUOUS.split())
"""Aten operators that are continuous in their float operands, besides views."""
_LOOK_AT_NOTHING = """
    _assert_tensor_metadata empty_like full_like new_empty new_full new_ones new_zeros ones_like rand_like
    randn_like sym_numel sym_size sym_storage_offset sym_stride zeros_like
"""
_FRESH = frozenset(_LOOK_AT_NOTHING.split())
"""Operators that do not read elements."""
_MOST_GAIN = 2.0**20
"""The largest factor of a product that keeps a small difference small."""


def _is_gentle(number: Any) -> bool:
    return not isinstance(number, int | float) or abs(number) <= _MOST_GAIN


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


def _of_norm(named: Mapping[str, Any], _: Sequence[torch.fx.Node]) -> bool:
    order = named.get("ord", named.get("p"))
    return order is None or (isinstance(order, int | float) and order >= 1)


def _of_normalization(named: Mapping[str, Any], _: Sequence[torch.fx.Node]) -> bool:
    """True if `eps > 2**-20`, which keeps the divisor away from 0."""
    eps = named.get("eps")
    return isinstance(eps, float) and eps * _MOST_GAIN > 1


_WHERE: Mapping[str, Callable[[Mapping[str, Any], Sequence[torch.fx.Node]], bool]] = {
    **dict.fromkeys(("mul", "multiply"), lambda named, _: _is_gentle(named["other"])),
    **dict.fromkeys(("div", "divide", "true_divide"), _of_quotient),
    "pow": _of_power,
    **dict.fromkeys(("linalg_vector_norm", "norm"), _of_norm),
    **dict.fromkeys(("layer_norm", "native_layer_norm", "group_norm", "native_group_norm"), _of_normalization),
    **dict.fromkeys(("batch_norm", "instance_norm", "native_batch_norm"), _of_normalization),
    **dict.fromkeys(
        ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"),
        lambda named, _: named["interpolation_mode"] == _BILINEAR,
    ),
    **dict.fromkeys(("max", "min"), lambda named, _: "dim" not in named),  # without indices of elements
    **dict.fromkeys(("to", "_to_copy"), lambda *_: True),
}
"""Operators that are continuous for some arguments; each test gets the named arguments and the rounded operands."""
_BILINEAR = 0


def jumps(program: torch.export.ExportedProgram, results: Mapping[Any, str]) -> Iterator[tuple[torch.fx.Node, str]]:
    """Yield the operators that may show how an operand was rounded, each with the function that rounds.

    `results`: the name of each decomposed function, by the storages of its results.
    """
    rounded = dict(results)
    for node in program.graph.nodes if rounded else ():
        reaching = [operand for operand in node.all_input_nodes if _source(operand, rounded)]
        source = _source(reaching[0], rounded) if reaching else None
        if source is None or node.op != "call_function" or _name(node.target) in _FRESH:
            continue
        if not _is_continuous(node, reaching):
            yield node, source
        written = schemas.written(node.target, node.args, node.kwargs) if schemas.schema_of(node.target) else ()
        for value in (node.meta.get("val"), *(each.meta.get("val") for each in written)):
            if value is not None and _are_floats(value):
                rounded |= dict.fromkeys(storages([value]), source)


def _source(node: torch.fx.Node, rounded: Mapping[Any, str]) -> str | None:
    """Return the function that rounded elements of a float value; None if there is none."""
    value = node.meta.get("val")
    return next((rounded[each] for each in storages([value]) if each in rounded), None)


def _is_continuous(node: torch.fx.Node, reaching: Sequence[torch.fx.Node]) -> bool:
    """True if a small difference of these operands makes only a small difference of the result."""
    name, given = _name(node.target), node.meta.get("val")
    if not all(_are_floats(value) for value in (given, *(operand.meta.get("val") for operand in reaching))):
        return False
    if name == "view" and node.meta["val"].dtype != reaching[0].meta["val"].dtype:
        return False
    where = _WHERE.get(name)
    if where is None or schemas.schema_of(node.target) is None:
        return name in _CONTINUOUS or schemas.is_view_operator(node.target, pure=True)
    return where(schemas.by_name(node.target, node.args, node.kwargs), reaching)


def _name(target: Any) -> str:
    """Return the name of an aten operator without overload and in-place suffix."""
    space, _, name = str(target).partition(".")
    return name.partition(".")[0].removesuffix("_") if space == "aten" else str(getattr(target, "__name__", target))


def _are_floats(value: Any) -> bool:
    return all(isinstance(each, torch.Tensor) and each.is_floating_point() for each in leaves(value))
