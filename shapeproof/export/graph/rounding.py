"""Where a program may round otherwise than eager does, and it shows.

A few functions of torch take no symbolic size and are written in other operators (ops/decompositions.py), equal to
eager's up to rounding. By a continuous operator a small difference stays small. Ahead of one that jumps (a sign, a
comparison, a rounding, an index) the program may fall on one side and eager on the other.

Law: `jumps` names every operator that such a value reaches and that is not known to be continuous.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves

_CONTINUOUS = """
    _adaptive_avg_pool2d _adaptive_avg_pool3d _log_softmax _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
    _scaled_dot_product_flash_attention_for_cpu _softmax _unsafe_view abs acos acosh adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d add addbmm addcmul addmm addmv addr alias amax amin as_strided asin
    asinh atan avg_pool1d avg_pool2d avg_pool3d baddbmm batch_norm bmm broadcast_to cat celu chunk clamp clamp_max
    clamp_min clone column_stack constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d convolution copy cos cosh cross cumprod cumsum deg2rad detach diag diag_embed diagonal div
    divide dot dropout dstack einsum elu embedding erf erfc exp exp2 expand expand_as expm1 fill flatten flip gelu
    getitem glu group_norm gru hardsigmoid hardswish hardtanh hstack huber_loss hypot index index_add index_select
    inner instance_norm kron l1_loss layer_norm leaky_relu lerp lift_fresh_copy linalg_vector_norm linear log log10
    log1p log2 log_sigmoid log_softmax logaddexp logcumsumexp logsigmoid logsumexp lstm masked_fill matmul
    max_pool1d max_pool2d max_pool3d maximum mean meshgrid minimum mish mm moveaxis movedim mse_loss mul multiply mv
    narrow native_batch_norm native_group_norm native_layer_norm neg negative norm outer pad permute pixel_shuffle
    pow prelu prod rad2deg reciprocal reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 repeat
    replication_pad1d replication_pad2d replication_pad3d reshape rms_norm rnn_relu rnn_tanh roll rsqrt rsub
    scaled_dot_product_attention scatter scatter_add select selu sigmoid silu sin sinc sinh slice slice_scatter
    smooth_l1_loss softmax softplus softsign split split_with_sizes sqrt square squeeze stack std std_mean sub
    subtract sum swapaxes swapdims t tan tanh tile to transpose tril triu true_divide unbind unflatten unfold
    unsafe_split unsqueeze upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
    upsample_nearest2d upsample_nearest3d upsample_trilinear3d var var_mean view view_as vstack where xlogy
"""
"""Operators of aten that are continuous in their operands of floats."""
_FRESH = """
    _assert_tensor_metadata empty_like full_like new_empty new_full new_ones new_zeros ones_like rand_like
    randn_like sym_numel sym_size sym_storage_offset sym_stride zeros_like
"""
"""Those that do not look at elements."""
_POLES = frozenset({"div", "divide", "true_divide", "reciprocal", "log", "log2", "log10", "rsqrt", "xlogy", "pow"})
"""Those that jump at 0 in the last operand, where steps often are."""
_STEPS = frozenset({"torch.linspace", "torch.logspace"})


def jumps(program: torch.export.ExportedProgram, results: Mapping[Any, str]) -> Iterator[tuple[torch.fx.Node, str]]:
    """The operators that may show how an operand was rounded, each with the function whose rounding it is.

    Args:
        program: the program.
        results: the storages of what the functions gave, and their names.
    """
    rounded = dict(results)
    for node in program.graph.nodes if rounded else ():
        reaching = [operand for operand in node.all_input_nodes if _source(operand, rounded)]
        source = _source(reaching[0], rounded) if reaching else None
        if source is None or node.op != "call_function" or _name(node.target) in _FRESH.split():
            continue
        if not _is_continuous(node, reaching, source):
            yield node, source
        written = nodes.written(node.target, node.args, node.kwargs) if nodes.schema_of(node.target) else ()
        for value in (node.meta.get("val"), *(each.meta.get("val") for each in written)):
            if _holds_floats(value):
                rounded |= dict.fromkeys(storages([value]), source)


def _source(node: torch.fx.Node, rounded: Mapping[Any, str]) -> str | None:
    """Whose rounding is in the elements of a value of floats, if any is."""
    value = node.meta.get("val")
    return next((rounded[each] for each in storages([value]) if each in rounded), None)


def _is_continuous(node: torch.fx.Node, reaching: Sequence[torch.fx.Node], source: str) -> bool:
    """Whether a small difference of those operands makes a small difference of the result."""
    name = _name(node.target)
    if not all(_holds_floats(operand.meta.get("val")) for operand in reaching):
        return False
    if name in _POLES and source in _STEPS and node.args[-1] in reaching:
        return False
    if name in {"div", "divide"}:
        return node.kwargs.get("rounding_mode") is None
    if name.startswith("grid_sampler"):
        return node.args[2:3] == (0,)  # bilinear
    if name in {"to", "_to_copy"}:
        return _holds_floats(node.meta.get("val"))
    if name in {"max", "min"}:
        return isinstance(node.meta.get("val"), torch.Tensor)  # no places of elements
    return name in _CONTINUOUS.split()


def _name(target: Any) -> str:
    """Of an operator of aten without its overload, in place or not."""
    space, _, name = str(target).partition(".")
    return name.partition(".")[0].removesuffix("_") if space == "aten" else str(getattr(target, "__name__", target))


def _holds_floats(value: Any) -> bool:
    return any(isinstance(each, torch.Tensor) and each.is_floating_point() for each in leaves(value))
