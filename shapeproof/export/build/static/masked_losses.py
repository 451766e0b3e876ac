"""Losses, and their gradients; invalid elements are masked first (masking.py).

*Law*: a loss with a reduction is the loss of each element, then a reduction with a form of its own (masked_values.py).
The gradient of a mean is that of a sum, divided by the number of valid elements. Among classes, an invalid row is one
whose class torch ignores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from shapeproof.export.build.static.masked_values import mean_of
from shapeproof.export.build.static.masking import (
    Given,
    Operand,
    Refused,
    Tensor,
    broadcast_dims,
    dims_of,
    filled,
    number_of,
    zeroed,
)

_NONE, _MEAN, _SUM = range(3)
"""The numbers of torch's reductions."""


def _reduced(each: Operand, reduction: int) -> Tensor:
    if reduction == _NONE:
        return each.value
    return mean_of(each, dims_of(None, each.value.dim())) if reduction == _MEAN else filled(each, 0).sum()


def _loss(name: str) -> Callable[[Given], Tensor]:
    """Return the form of a loss of elements."""
    packet = getattr(torch.ops.aten, name)

    def form(given: Given) -> Tensor:
        dims = _broadcast(given)
        return _reduced(Operand(packet(**zeroed(given) | {"reduction": _NONE}), dims), given["reduction"])

    return form


def _broadcast(given: Given) -> dict[int, Tensor]:
    return broadcast_dims([each for each in given.arguments.values() if isinstance(each, Operand)])


# ---------------------------------------------------------------------- gradients


def _of_a_sum(given: Given) -> tuple[dict[str, Any], Tensor | int]:
    """Return the arguments of the gradient of a sum, and the number by which that of a mean is divided."""
    _broadcast(given)
    if given["reduction"] != _MEAN:
        return zeroed(given), 1
    return zeroed(given) | {"reduction": _SUM}, number_of(given.tensor("self"))


def _gradient(name: str, *, divided_last: bool = False) -> Callable[[Given], Tensor]:
    """Return the form of the gradient of a loss of elements, which torch divides by their number first, or last."""
    packet = getattr(torch.ops.aten, name)

    def form(given: Given) -> Tensor:
        named, number = _of_a_sum(given)
        if divided_last:
            return packet(**named) / number  # type: ignore[no-any-return]
        return packet(**named | {"grad_output": named["grad_output"] / number})  # type: ignore[no-any-return]

    return form


def _mse_gradient(given: Given) -> Tensor:
    """`mse_loss_backward`: torch divides 2 by the number; twice a difference may be infinite where its share is not."""
    named, number = _of_a_sum(given)
    difference = named["self"] - named["target"]
    return difference.new_full((), 2) / number * difference * named["grad_output"]  # type: ignore[no-any-return]


# ---------------------------------------------------------------------- of classes


def _with_ignored(given: Given) -> dict[str, Any]:
    """Return the arguments; the classes of invalid rows are those that are ignored."""
    logits, target = given.tensor("self"), given.tensor("target")
    of_classes = min(1, logits.value.dim() - 1)
    if of_classes in logits.dims or (given["weight"] is not None and given["weight"].dims):
        raise Refused("the number of its classes comes from data")
    rows = {dim - (dim > of_classes): id(count) for dim, count in logits.dims.items()}
    if rows != {dim: id(count) for dim, count in target.dims.items()}:
        raise Refused("its classes have other sizes from data than its rows")
    classes = Operand(target.value.long(), target.dims)
    return zeroed(given) | {"target": filled(classes, given["ignore_index"])}


def _of_classes(name: str) -> Callable[[Given], Any]:
    """Return the form of an operator that looks up the classes of rows."""
    packet = getattr(torch.ops.aten, name)
    return lambda given: packet(**_with_ignored(given))


def _cross_entropy(given: Given) -> Tensor:
    if given.tensor("target").value.is_floating_point():
        return _of_probabilities(given)
    return torch.ops.aten.cross_entropy_loss(**_with_ignored(given))  # type: ignore[no-any-return]


def _of_probabilities(given: Given) -> Tensor:
    """`cross_entropy` of probabilities: their smoothing comes first; torch divides its sum by the number of rows."""
    logits, target, smoothing = given.tensor("self"), given.tensor("target"), given["label_smoothing"]
    of_classes = min(1, logits.value.dim() - 1)
    if of_classes in broadcast_dims([logits, target]):
        raise Refused("the number of its classes comes from data")
    value = target.value
    if smoothing > 0:
        value = value * (1 - smoothing) + smoothing / value.shape[of_classes]
    named = zeroed(given) | {"target": filled(Operand(value, target.dims), 0), "label_smoothing": 0.0}
    if given["reduction"] != _MEAN:
        return torch.ops.aten.cross_entropy_loss(**named)  # type: ignore[no-any-return]
    rows = [dim for dim in range(value.dim()) if dim != of_classes]
    total = torch.ops.aten.cross_entropy_loss(**named | {"reduction": _SUM})
    return total / number_of(logits, rows)  # type: ignore[no-any-return]


_ELEMENTS = (
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
    "soft_margin_loss poisson_nll_loss hinge_embedding_loss margin_ranking_loss"
)
_CLASSES = "nll_loss_nd nll_loss nll_loss2d nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward"
LOSSES: Mapping[str, Callable[[Given], Any]] = {
    **{f"{name}.default": _loss(name) for name in _ELEMENTS.split()},
    **{
        f"{name}_backward.default": _gradient(f"{name}_backward")
        for name in ("smooth_l1_loss", "huber_loss", "soft_margin_loss")
    },
    "mse_loss_backward.default": _mse_gradient,
    "binary_cross_entropy_backward.default": _gradient("binary_cross_entropy_backward", divided_last=True),
    **{f"{name}.default": _of_classes(name) for name in _CLASSES.split()},
    "cross_entropy_loss.default": _cross_entropy,
}
