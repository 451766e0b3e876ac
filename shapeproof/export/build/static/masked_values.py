"""Operators that reduce, order or multiply what has sizes from data; invalid elements are masked first (masking.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from shapeproof.export.build.static.masking import (
    Given,
    Operand,
    Refused,
    Tensor,
    broadcast_dims,
    dims_of,
    filled,
    meant,
    number_of,
    rows_of,
    valid_first,
    wide,
    zeroed,
)
from shapeproof.export.shim.guarding import assert_all

# ---------------------------------------------------------------------- reductions


def _reducing(value: float, packet: Callable[..., Any]) -> Callable[[Given], Tensor]:
    """Return the form of a reduction with this neutral element."""

    def form(given: Given) -> Tensor:
        operand = given.tensor("self")
        rest = {name: each for name, each in given.arguments.items() if name != "self"}
        return packet(filled(operand, value), **rest)  # type: ignore[no-any-return]

    return form


_sum = _reducing(0, torch.sum)


def mean_of(operand: Operand, dims: list[int], *, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    """Return the mean of the valid elements; torch rounds it once, not its sum."""
    total = filled(operand, 0).sum(dims, keepdim, dtype=wide(dtype or operand.value.dtype))
    return total / number_of(operand, dims)


def _mean(given: Given) -> Tensor:
    operand = given.tensor("self")
    dims = dims_of(given["dim"], operand.value.dim())
    return mean_of(operand, dims, keepdim=bool(given["keepdim"]), dtype=given["dtype"])


def _logsumexp(given: Given) -> Tensor:
    operand = given.tensor("self")
    real = operand.value if operand.value.is_floating_point() else operand.value.to(torch.get_default_dtype())
    return filled(Operand(real, operand.dims), float("-inf")).logsumexp(given["dim"], given["keepdim"])


def _norm(given: Given) -> Tensor:
    """`norm`: of one element torch gives the magnitude, whose power may be infinite or 0."""
    operand, order = given.tensor("self"), given["ord"] if "ord" in given.arguments else given["p"]
    if order is not None and not 0 < order < math.inf:
        raise Refused("its order is not positive, or infinite")
    dims, keepdim = dims_of(given["dim"], operand.value.dim()), bool(given["keepdim"])
    one, power = (
        torch.linalg.vector_norm(filled(operand, 0), each, dims, keepdim, dtype=given["dtype"])
        for each in (math.inf, 2 if order is None else order)
    )
    return torch.where(torch.as_tensor(number_of(operand, dims) == 1, device=one.device), one, power)


def _variance(given: Given) -> Tensor:
    """`var`: torch adds squares in double, whose results for large or close numbers others have not."""
    operand = given.tensor("self")
    if operand.value.is_complex():
        raise Refused("it is of complex numbers")
    dims, keepdim = dims_of(given["dim"], operand.value.dim()), bool(given["keepdim"])
    value = Operand(operand.value.double(), operand.dims)
    squares = Operand((value.value - mean_of(value, dims, keepdim=True)).square(), operand.dims)
    correction = given["correction"] if given["unbiased"] is None else int(given["unbiased"])
    freedom = number_of(operand, dims) - (1 if correction is None else correction)
    return filled(squares, 0).sum(dims, keepdim) / torch.as_tensor(freedom).clamp(min=0)


def _deviation(given: Given) -> Tensor:
    return _variance(given).sqrt()


def _copied(operand: Operand, dims: Sequence[int]) -> Tensor:
    """Replace invalid rows by the first row; assert that a row exists, since the result is one of the elements."""
    value = operand.value
    for dim in dims:
        mask = meant(operand, [dim])
        if mask is not None:
            if not value.shape[dim]:
                raise Refused("there is nothing to choose from")
            assert_all(operand.dims[dim] > 0, "expected a reduction dim with at least one element")
            value = torch.where(mask, value, value.narrow(dim, 0, 1))
    return value


def _chosen(name: str) -> Callable[[Given], Any]:
    """Return the form of `amax`, `max` and their like, which return one of the elements."""

    def form(given: Given) -> Any:
        operand = given.tensor("self")
        dims = dims_of(given["dim"], operand.value.dim())
        value = _copied(operand, dims)
        if given["dim"] is None or name.startswith("am"):
            return getattr(value, name if name.startswith("am") else f"a{name}")(dims, bool(given["keepdim"]))
        found = getattr(value, name)(dims[0], bool(given["keepdim"]))
        return found.values, _within(found.indices, operand, dims[0])

    return form


def _within(index: Tensor, operand: Operand, dim: int) -> Tensor:
    """Return a valid index: an invalid row is a copy of the first, so 0 replaces its index."""
    return torch.where(index < operand.dims[dim], index, 0) if dim in operand.dims else index


def _placed(name: str) -> Callable[[Given], Tensor]:
    """Return the form of `argmax`, which returns the index of an element."""

    def form(given: Given) -> Tensor:
        operand = given.tensor("self")
        if given["dim"] is None and operand.value.dim() != 1:
            raise Refused("it counts elements of all dims")
        (dim,) = dims_of(given["dim"], operand.value.dim())
        found = getattr(_copied(operand, [dim]), name)(dim, bool(given["keepdim"]))
        return _within(found, operand, dim)

    return form


def _soft(name: str) -> Callable[[Given], Tensor]:
    """Return the form of `softmax`: invalid elements get no weight."""

    def form(given: Given) -> Tensor:
        operand = given.tensor("self")
        dtype = given["dtype"] or operand.value.dtype
        if not dtype.is_floating_point:
            raise Refused("it is of integers")
        (dim,) = dims_of(given["dim"], operand.value.dim())
        value = filled(Operand(operand.value.to(dtype), operand.dims), float("-inf"), [dim])
        return getattr(torch, name)(value, dim, given["dtype"])  # type: ignore[no-any-return]

    return form


def _soft_below(name: str) -> Callable[[Given], Tensor]:
    """Return the form of what autograd calls for `softmax`."""

    def form(given: Given) -> Tensor:
        operand = given.tensor("self")
        value = filled(operand, float("-inf"), dims_of(given["dim"], operand.value.dim()))
        return getattr(torch.ops.aten, name)(value, given["dim"], given["half_to_float"])  # type: ignore[no-any-return]

    return form


def _soft_gradient(name: str) -> Callable[[Given], Tensor]:
    """Return the form of the gradient of `softmax`: it adds the gradients of the results."""

    def form(given: Given) -> Tensor:
        broadcast_dims([given.tensor("grad_output"), given.tensor("output")])
        return getattr(torch.ops.aten, name)(**zeroed(given))  # type: ignore[no-any-return]

    return form


# ---------------------------------------------------------------------- order


def _counts(operand: Operand, dims: Any) -> list[int]:
    """Return the counts of the dims by identity, so that they compare: one count is one tensor."""
    return [id(operand.dims.get(dim)) for dim in dims]


def _cat(given: Given) -> Tensor:
    operands = [each for each in given["tensors"] if isinstance(each, Operand)]
    (dim,) = dims_of(given["dim"], operands[0].value.dim())
    first = {other: count for other, count in operands[0].dims.items() if other != dim}
    if any(_counts(each, first) != _counts(operands[0], first) for each in operands):
        raise Refused("its operands have other sizes from data")
    value = torch.cat([each.value for each in operands], dim)
    masks = [
        rows_of(each, dim)
        if dim in each.dims
        else torch.ones(each.value.shape[dim], dtype=torch.bool, device=each.value.device)
        for each in operands
    ]
    return value.index_select(dim, valid_first(torch.cat(masks))[: given.limits[0][dim]])


def _in_order(operand: Operand, dim: int, *, descending: bool) -> tuple[Tensor, Tensor]:
    values, places = operand.value.sort(dim=dim, descending=descending, stable=True)
    mask = meant(operand, [dim])
    if mask is not None:
        order = valid_first(mask.expand_as(values).gather(dim, places), dim)
        values, places = values.gather(dim, order), places.gather(dim, order)
    return values, places


def _sort(given: Given) -> tuple[Tensor, Tensor]:
    operand = given.tensor("self")
    (dim,) = dims_of(given["dim"], operand.value.dim())
    return _in_order(operand, dim, descending=bool(given["descending"]))


def _argsort(given: Given) -> Tensor:
    return _sort(given)[1]


def _topk(given: Given) -> tuple[Tensor, Tensor]:
    operand, k = given.tensor("self"), given["k"]
    (dim,) = dims_of(given["dim"], operand.value.dim())
    limit = given.limits[0][dim]
    if limit > operand.value.shape[dim]:
        raise Refused("it may choose more than there are")
    if dim in operand.dims:
        assert_all(operand.dims[dim] >= k, "selected index k out of range")
    values, places = _in_order(operand, dim, descending=bool(given["largest"]))
    return values.narrow(dim, 0, limit), places.narrow(dim, 0, limit)


# ---------------------------------------------------------------------- products


def _product(given: Given) -> Tensor:
    """A product of matrices; invalid elements of the inner dim are zeroed."""
    left = given.tensor("self")
    right = given.tensor("mat2" if "mat2" in given.arguments else "other")
    inner = left.dims.get(left.value.dim() - 1), right.dims.get(max(0, right.value.dim() - 2))
    if inner[0] is not inner[1]:
        raise Refused("it sums over sizes from data that are not one")
    if left.value.dim() > 2 or right.value.dim() > 2:
        raise Refused("it is of a batch")
    return torch.matmul(filled(left, 0), filled(right, 0))


def _attention(given: Given) -> Tensor:
    """`scaled_dot_product_attention` of a set with itself; invalid keys get no weight."""
    query, key, value = (given.tensor(name) for name in ("query", "key", "value"))
    mask = meant(key, [key.value.dim() - 2])
    rank = key.value.dim()
    if {id(each.dims.get(rank - 2)) for each in (query, key, value)} != {id(key.dims.get(rank - 2))}:
        raise Refused("it looks from one set at another")
    if any(set(each.dims) != {rank - 2} for each in (query, key, value)):
        raise Refused("it has more than one size from data")
    if mask is None or any(given[name] for name in ("is_causal", "dropout_p", "enable_gqa")):
        raise Refused("it is causal, drops elements or groups heads")
    if given["attn_mask"] is not None:
        raise Refused("it has a mask of its own")
    return torch.nn.functional.scaled_dot_product_attention(
        query.value, filled(key, 0), filled(value, 0), attn_mask=mask.transpose(-1, -2), scale=given["scale"]
    )


VALUES: Mapping[str, Callable[[Given], Any]] = {
    "sum.default": _sum,
    "sum.dim_IntList": _sum,
    "mean.default": _mean,
    "mean.dim": _mean,
    "prod.default": _reducing(1, torch.prod),
    "prod.dim_int": _reducing(1, torch.prod),
    "any.default": _reducing(0, torch.any),
    "any.dim": _reducing(0, torch.any),
    "all.default": _reducing(1, torch.all),
    "all.dim": _reducing(1, torch.all),
    "any.dims": _reducing(0, torch.any),
    "all.dims": _reducing(1, torch.all),
    **dict.fromkeys(("count_nonzero.default", "count_nonzero.dim_IntList"), _reducing(0, torch.count_nonzero)),
    "nansum.default": _reducing(0, torch.nansum),
    "logsumexp.default": _logsumexp,
    **dict.fromkeys(
        ("linalg_vector_norm.default", "norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype"), _norm
    ),
    **dict.fromkeys(("var.default", "var.dim", "var.correction"), _variance),
    **dict.fromkeys(("std.default", "std.dim", "std.correction"), _deviation),
    "amax.default": _chosen("amax"),
    "amin.default": _chosen("amin"),
    "max.default": _chosen("max"),
    "min.default": _chosen("min"),
    "max.dim": _chosen("max"),
    "min.dim": _chosen("min"),
    "argmax.default": _placed("argmax"),
    "argmin.default": _placed("argmin"),
    "softmax.int": _soft("softmax"),
    "log_softmax.int": _soft("log_softmax"),
    **{f"{name}.default": _soft_below(name) for name in ("_softmax", "_log_softmax")},
    **{f"{name}.default": _soft_gradient(name) for name in ("_softmax_backward_data", "_log_softmax_backward_data")},
    "cat.default": _cat,
    "sort.default": _sort,
    "sort.stable": _sort,
    "argsort.default": _argsort,
    "argsort.stable": _argsort,
    "topk.default": _topk,
    "mm.default": _product,
    "matmul.default": _product,
    "scaled_dot_product_attention.default": _attention,
}
