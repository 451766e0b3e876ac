"""Operators that reduce, order or multiply what has sizes from data; invalid elements are masked first (masking.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from shapeproof.export.build.static.masking import (
    Given,
    Operand,
    Refused,
    Tensor,
    dims_of,
    filled,
    meant,
    rows_of,
    valid_first,
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


def _mean(given: Given) -> Tensor:
    operand = given.tensor("self")
    total = _sum(given)
    number: Tensor | int = 1
    for dim in dims_of(given["dim"], operand.value.dim()):
        number = operand.dims.get(dim, operand.value.shape[dim]) * number
    return total / number


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
        if not operand.value.is_floating_point():
            raise Refused("it is of integers")
        (dim,) = dims_of(given["dim"], operand.value.dim())
        value = filled(operand, float("-inf"), [dim])
        return getattr(torch, name)(value, dim, given["dtype"])  # type: ignore[no-any-return]

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
    "logsumexp.default": _reducing(float("-inf"), torch.logsumexp),
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
