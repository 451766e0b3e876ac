"""Operators whose result lies row by row without gaps where their operands do: it is known without a run.

Of a product of matrices that is so however these lie.

Law: for every size, 0 and 1 included, eager's result on the CPU is a tensor of its own with these sizes and the
operands' dtype, and it lies row by row (up to strides that reach no element); and eager does not raise for the sizes or
kinds of its operands. What is not known to be so is left to torch: nothing is decided here, and no size is asked about,
sizes are equal only where their terms are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints.terms import ONE, Term, maximum
from shapeproof.export.ops import schemas

Size = int | torch.SymInt
Read = Callable[[Size], Term]

_aten = torch.ops.aten
_DTYPES = frozenset({torch.float32, torch.float64, torch.bfloat16})
_PRODUCTS = frozenset({_aten.linear.default, _aten.mm.default, _aten.addmm.default})
_NUMBERS = ("alpha", "beta", "exponent")
_MATRIX = 2


def lies_row_by_row(x: torch.Tensor, read: Read) -> bool:
    """Whether each stride is the product of the sizes behind it, a size of 0 counting as 1 or as itself."""
    elements = counted = ONE
    for size, stride in zip(reversed(x.shape), reversed(x.stride()), strict=True):
        term = read(stride)
        if term is not elements and term is not counted:
            return False
        elements, counted = elements * read(size), counted * maximum(ONE, read(size))
    return True


def result_sizes(func: Any, arguments: tuple[Any, Any], operands: Sequence[torch.Tensor], read: Read) -> Any:
    """The sizes of what a call gives; None where no rule says them."""
    rule = _RULES.get(func)
    if rule is None or torch.is_inference_mode_enabled() or torch.is_autocast_enabled("cpu"):
        return None
    if not all(x.device.type == "cpu" and (_is_factor(func, x) or lies_row_by_row(x, read)) for x in operands):
        return None
    named = schemas.by_name(func, *arguments)
    floats = [x for name, x in named.items() if isinstance(x, torch.Tensor) and name != "indices"]
    numbers = all(type(named[name]) in {int, float} for name in _NUMBERS if name in named)
    if not (numbers and floats and floats[0].dtype in _DTYPES and len({x.dtype for x in floats}) == 1):
        return None
    return rule(named, read)


def _is_factor(func: Any, x: torch.Tensor) -> bool:
    """Whether it is a matrix of a product, whose result is a new matrix however the factors lie."""
    return func in _PRODUCTS and x.dim() <= _MATRIX


def _same(read: Read, mine: Sequence[Size], others: Sequence[Size]) -> bool:
    return len(mine) == len(others) and all(read(a) is read(b) for a, b in zip(mine, others, strict=True))


def _vectors(read: Read, vectors: Sequence[torch.Tensor | None], length: Size) -> bool:
    """Whether each is a vector of this length, or missing."""
    return all(each is None or _same(read, each.shape, [length]) for each in vectors)


def _linear(named: Mapping[str, Any], read: Read) -> Any:
    x, weight, bias = (named[name] for name in ("input", "weight", "bias"))
    if x.dim() < _MATRIX or weight.dim() != _MATRIX or not _same(read, x.shape[-1:], weight.shape[1:]):
        return None
    return (*x.shape[:-1], weight.shape[0]) if _vectors(read, [bias], weight.shape[0]) else None


def _product(named: Mapping[str, Any], read: Read) -> Any:
    a, b = (named[name] for name in (("mat1", "mat2") if "mat1" in named else ("self", "mat2")))
    if a.dim() != _MATRIX or b.dim() != _MATRIX or not _same(read, a.shape[1:], b.shape[:1]):
        return None
    added = [named["self"]] if "mat1" in named else []
    return (a.shape[0], b.shape[1]) if _vectors(read, added, b.shape[1]) else None


def _layer_norm(named: Mapping[str, Any], read: Read) -> Any:
    x, normalized = named["input"], list(named["normalized_shape"])
    if not (normalized and len(normalized) <= x.dim() and all(type(size) is int and size > 0 for size in normalized)):
        return None
    scales = [each.shape for each in (named["weight"], named["bias"]) if each is not None]
    fits = all(_same(read, sizes, normalized) for sizes in (x.shape[x.dim() - len(normalized) :], *scales))
    return tuple(x.shape) if fits else None


def _batch_norm(named: Mapping[str, Any], read: Read) -> Any:
    x, statistics = named["input"], (named["running_mean"], named["running_var"])
    if named["training"] is not False or x.dim() < _MATRIX or type(x.shape[1]) is not int or x.shape[1] < 1:
        return None
    known = all(each is not None for each in statistics)
    fits = known and _vectors(read, [*statistics, named["weight"], named["bias"]], x.shape[1])
    return tuple(x.shape) if fits else None


def _embedding(named: Mapping[str, Any], read: Read) -> Any:  # noqa: ARG001 - every length will do
    weight, indices = named["weight"], named["indices"]
    whole = indices.dtype in {torch.int64, torch.int32} and weight.dim() == _MATRIX and named["sparse"] is False
    return (*indices.shape, weight.shape[1]) if whole else None


def _of_two(named: Mapping[str, Any], read: Read) -> Any:
    """Element by element; what is broadcast has sizes of 1 as numbers, or fewer dimensions."""
    a, b = named["self"], named["other"]
    if isinstance(a, torch.Tensor) and type(b) in {int, float}:
        return tuple(a.shape)
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return None
    wide, other = (b, a) if a.dim() < b.dim() else (a, b)
    pairs = zip(reversed(wide.shape), reversed(other.shape), strict=False)
    return tuple(wide.shape) if all(read(size) in {read(mine), ONE} for mine, size in pairs) else None


def _of_one(named: Mapping[str, Any], read: Read) -> Any:  # noqa: ARG001 - every size will do
    return tuple(named["self"].shape)


def _reduced(named: Mapping[str, Any], read: Read) -> Any:  # noqa: ARG001 - every size will do
    x, dims = named["self"], named["dim"]
    if named["dtype"] is not None or not isinstance(dims, list | tuple) or not dims or x.dim() == 0:
        return None
    if not all(type(dim) is int and -x.dim() <= dim < x.dim() for dim in dims):
        return None
    over = {dim % x.dim() for dim in dims}
    if len(over) < len(dims):
        return None
    sizes = (1 if dim in over else size for dim, size in enumerate(x.shape) if named["keepdim"] or dim not in over)
    return tuple(sizes)


_RULES: dict[Any, Callable[[Mapping[str, Any], Read], Any]] = {
    _aten.linear.default: _linear,
    _aten.mm.default: _product,
    _aten.addmm.default: _product,
    _aten.layer_norm.default: _layer_norm,
    _aten.batch_norm.default: _batch_norm,
    _aten.embedding.default: _embedding,
    _aten.add.Tensor: _of_two,
    _aten.sub.Tensor: _of_two,
    _aten.mul.Tensor: _of_two,
    _aten.div.Tensor: _of_two,
    _aten.pow.Tensor_Scalar: _of_one,
    _aten.mean.dim: _reduced,
    _aten.sum.dim_IntList: _reduced,
}
