"""Losses, and their gradients; invalid elements are masked first (masking.py).

*Law*: a loss with a reduction is the loss of each element, then a reduction with a form of its own (masked_values.py).
The gradient of a mean is that of a sum, divided by the number of valid elements. Among classes, an invalid row is one
whose class torch ignores.
"""

from __future__ import annotations

import functools
from typing import Any

from shapeproof.export.forms.static.masked_values import mean_of
from shapeproof.export.forms.static.masking import (
    Forms,
    Given,
    Operand,
    Refused,
    Tensor,
    broadcast_dims,
    dims_of,
    filled,
    number_of,
)

_NONE, _MEAN, _SUM = range(3)
"""The numbers of torch's reductions."""


def _loss(given: Given) -> Any:
    """A loss of elements."""
    dims, reduction = _broadcast(given), given["reduction"]
    each = Operand(given.run(reduction=_NONE), dims)
    if reduction == _NONE:
        return each.value
    return mean_of(each, dims_of(None, each.value.dim())) if reduction == _MEAN else filled(each, 0).sum()


def _broadcast(given: Given) -> dict[int, Tensor]:
    return broadcast_dims([each for each in given.arguments.values() if isinstance(each, Operand)])


# ---------------------------------------------------------------------- gradients


def _gradient(given: Given, *, divided_last: bool = False) -> Any:
    """The gradient of a loss of elements, which torch divides by their number first, or last."""
    _broadcast(given)
    if given["reduction"] != _MEAN:
        return given.run()
    number = number_of(given.tensor("self"))
    if divided_last:
        return given.run(reduction=_SUM) / number
    share = filled(given.tensor("grad_output"), 0) / number
    return given.run(reduction=_SUM, grad_output=share)


def _mse_gradient(given: Given) -> Any:
    """`mse_loss_backward`: torch divides 2 by the number; twice a difference may be infinite where its share is not."""
    _broadcast(given)
    if given["reduction"] != _MEAN:
        return given.run()
    value, target, gradient = (filled(given.tensor(name), 0) for name in ("self", "target", "grad_output"))
    difference = value - target
    return difference.new_full((), 2) / number_of(given.tensor("self")) * difference * gradient


# ---------------------------------------------------------------------- of classes


def _of_classes(given: Given) -> Any:
    """An operator that looks up the classes of rows; the classes of invalid rows are those that are ignored."""
    logits, target = given.tensor("self"), given.tensor("target")
    of_classes = min(1, logits.value.dim() - 1)
    if of_classes in logits.dims or (given["weight"] is not None and given["weight"].dims):
        raise Refused("the number of its classes comes from data")
    rows = {dim - (dim > of_classes): id(count) for dim, count in logits.dims.items()}
    if rows != {dim: id(count) for dim, count in target.dims.items()}:
        raise Refused("its classes have other sizes from data than its rows")
    return given.run(target=filled(Operand(target.value.long(), target.dims), given["ignore_index"]))


def _cross_entropy(given: Given) -> Any:
    if given.tensor("target").value.is_floating_point():
        return _of_probabilities(given)
    return _of_classes(given)


def _of_probabilities(given: Given) -> Any:
    """`cross_entropy` of probabilities: their smoothing comes first; torch divides its sum by the number of rows."""
    logits, target, smoothing = given.tensor("self"), given.tensor("target"), given["label_smoothing"]
    of_classes = min(1, logits.value.dim() - 1)
    if of_classes in broadcast_dims([logits, target]):
        raise Refused("the number of its classes comes from data")
    value = target.value
    if smoothing > 0:
        value = value * (1 - smoothing) + smoothing / value.shape[of_classes]
    run = functools.partial(given.run, target=filled(Operand(value, target.dims), 0), label_smoothing=0.0)
    if given["reduction"] != _MEAN:
        return run()
    rows = [dim for dim in range(value.dim()) if dim != of_classes]
    return run(reduction=_SUM) / number_of(logits, rows)


LOSSES: Forms = {
    **dict.fromkeys(("difference", "loss"), _loss),
    "gradient": _gradient,
    "gradient divided last": functools.partial(_gradient, divided_last=True),
    "square gradient": _mse_gradient,
    "classes": _of_classes,
    "cross entropy": _cross_entropy,
}
