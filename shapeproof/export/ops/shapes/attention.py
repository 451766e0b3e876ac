"""The sizes of fused attention where eager on the CPU takes its flash kernel, whose result lies as the query does.

Law: the conditions are those of torch's `use_flash_attention_cpp`; eager's other kernel is left to torch, since its
result lies otherwise.
"""

from __future__ import annotations

import torch

from shapeproof.constraints.terms import ONE
from shapeproof.export.ops.layouts import Size, Sizes
from shapeproof.export.ops.shapes.dtypes import Named, is_real
from shapeproof.export.ops.shapes.shape_functions import Shape

_RANK = 4


def attention(named: Named, sizes: Sizes) -> Shape | None:
    """`scaled_dot_product_attention`: the query's shape."""
    query, key, value = (named[name] for name in ("query", "key", "value"))
    if not _is_flash(named) or not all(each.dim() == _RANK for each in (query, key, value)):
        return None
    batch, heads, length, width = query.shape
    others = (batch, heads, key.shape[2], width)
    alike = sizes.alike(key.shape, others) and sizes.alike(value.shape, others)
    there = all(sizes.at_least(size, 1) for size in (heads, length, key.shape[2], width))
    dense = all(sizes.read(each.stride(3)) is ONE for each in (query, key, value))
    mask = named["attn_mask"]
    taken = mask is None or mask.dtype in {torch.bool, query.dtype}
    fits = taken and _fits(mask, (batch, heads, length, key.shape[2]), sizes)
    return tuple(query.shape) if alike and there and dense and fits else None


def _is_flash(named: Named) -> bool:
    scale = named["scale"] is None or is_real(named["scale"])
    asked = type(named["dropout_p"]) in {int, float} and named["dropout_p"] == 0 and not named["enable_gqa"]
    causal = named["is_causal"] is False or (named["is_causal"] is True and named["attn_mask"] is None)
    return scale and asked and causal and torch.backends.cuda.flash_sdp_enabled()


def _fits(mask: torch.Tensor | None, shape: tuple[Size, ...], sizes: Sizes) -> bool:
    """True if a mask is missing, or has these sizes, or 1 but for the last; it is dense there."""
    if mask is None:
        return True
    if mask.dim() not in {2, _RANK} or mask.requires_grad or sizes.read(mask.stride(-1)) is not ONE:
        return False
    *outer, last = zip(mask.shape, shape[_RANK - mask.dim() :], strict=True)
    return sizes.equal(*last) and all(sizes.equal(size, 1) or sizes.equal(size, whole) for size, whole in outer)
