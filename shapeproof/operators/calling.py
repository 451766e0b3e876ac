"""Makes a model that only calls an operator, or the Python function that computes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from shapeproof.export.ops import schemas


def shown_names(operator: Any) -> dict[str, str]:
    """Map an operator's argument names to those in reports: no argument of a model can be named `self`.

    >>> shown_names(torch.ops.aten.relu.default), shown_names(torch.ops.aten.dot.default)
    ({'self': 'input'}, {'self': 'input', 'tensor': 'tensor'})
    """
    names = [each.name for each in schemas.schema_of(operator).arguments]
    free = "input" if "input" not in names else "self_"
    return {name: free if name == "self" else name for name in names}


class Calling(torch.nn.Module):
    """A model that calls one function.

    Args:
        function: the operator or its kernel.
        operator: the operator whose schema names the arguments.
    """

    def __init__(self, function: Callable[..., Any], operator: Any) -> None:
        super().__init__()
        self.forward = _with_names(function, operator)


def _with_names(function: Callable[..., Any], operator: Any) -> Callable[..., Any]:
    shown = shown_names(operator)

    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **by_schema(operator, kwargs))

    kind = inspect.Parameter
    parameters = [
        kind(
            shown[each.name],
            kind.KEYWORD_ONLY if each.kwarg_only else kind.POSITIONAL_OR_KEYWORD,
            default=each.default_value if each.has_default_value() else kind.empty,
        )
        for each in schemas.schema_of(operator).arguments
    ]
    vars(forward)["__signature__"] = inspect.Signature(parameters)
    return forward


def renamed(operator: Any, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return keyword arguments under the model's names instead of the schema's."""
    shown = shown_names(operator)
    return {shown.get(name, name): value for name, value in (kwargs or {}).items()}


def by_schema(operator: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments under the schema's names instead of the model's."""
    named = {shown: name for name, shown in shown_names(operator).items()}
    return {named[name]: value for name, value in kwargs.items()}
