"""Which relations a proof does without: each is left out in turn, and the model checked again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export.api import check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.report.report import Report
from shapeproof.export.shim.inputs.binding import read_collection, spec_is_read, without_assumptions
from shapeproof.export.shim.modules import uncompiled
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


def needless_constraints(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    constraints: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the constraints, and the assumptions of a `ShapesSpec`, that can be left out, all together.

    Without them, the model is proved for every input for which it is proved with them. Each costs one more export. If
    one of two can be left out, but not both, the earlier one is returned.

    Args:
        mod: the model; this and the following as for `export`.
        args: the example inputs.
        kwargs: the example inputs that are passed by name.
        dynamic_shapes: the dynamic sizes.
        constraints: relations over dim names or sizes.

    Raises:
        UsageError: an entry is invalid, or the model is not proved with all of them.

    >>> rows = torch.export.Dim("rows", min=0, max=64)
    >>> said = {"dynamic_shapes": ({0: rows},), "constraints": ("rows % 2 == 0", "rows % 4 == 0")}
    >>> needless_constraints(torch.nn.Unflatten(0, (-1, 4)), (torch.ones(8, 3),), **said)
    ('rows % 2 == 0',)
    """
    mod = uncompiled(mod)
    args, kwargs, dynamic_shapes = read_collection(mod, args, kwargs, dynamic_shapes)
    said = declare(mod, args, kwargs, dynamic_shapes, constraints).constraints
    bare = without_assumptions(mod, dynamic_shapes)
    with spec_is_read(mod):
        kept = _needed(said, lambda rest: check(mod, args, kwargs, dynamic_shapes=bare, constraints=rest))
    return tuple(text for text in said if text not in kept)


def _needed(said: Sequence[str], checked: Callable[[Sequence[str]], Report]) -> Sequence[str]:
    """Return the relations without those that can be left out."""
    whole, kept = checked(said), said
    if whole.status != "proved":
        raise UsageError("the model is not proved with all of the constraints: `check` says why")
    domain = Facts(map(parse_formula, whole.domain))
    for text in said:
        rest = [each for each in kept if each != text]
        report = checked(rest)
        if report.status == "proved" and all(implied(parse_formula(each), domain) for each in report.domain):
            kept = rest
    return kept
