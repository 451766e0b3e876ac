"""The user's entry points `export` and `check`. verify.py does the work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export.declare.inputs import Inputs, declare
from shapeproof.export.forms.programs import Regions, VerifiedProgram, given_out, with_forms
from shapeproof.export.report.report import Report
from shapeproof.export.shim.inputs.binding import read_collection
from shapeproof.export.shim.modules import uncompiled
from shapeproof.export.shim.process.modes import without_fake_mode
from shapeproof.export.shim.process.one_thread import one_thread
from shapeproof.export.source.declared_at import Where, in_the_call
from shapeproof.export.verify import verified
from shapeproof.solver.budget import Budget


@overload
def export(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    constraints: Sequence[str] = (),
    narrow: bool = False,
    branches: Literal["error"] = "error",
    budget: Budget | None = None,
) -> VerifiedProgram: ...


@overload
def export(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    constraints: Sequence[str] = (),
    narrow: bool = False,
    branches: Literal["split"],
    budget: Budget | None = None,
) -> Regions: ...


def export(  # noqa: PLR0913 - torch.export.export's signature, then ours
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    constraints: Sequence[str] = (),
    narrow: bool = False,
    branches: str = "error",
    budget: Budget | None = None,
) -> VerifiedProgram | Regions:
    """Export a model and prove that the program works across the declared sizes, 0 and 1 included.

    Args:
        mod: the model.
        args: the example inputs; a TensorSpec stands for a tensor without an example.
        kwargs: the example inputs that are passed by name.
        dynamic_shapes: the dynamic sizes, in any form that torch.export takes, or a `Seen` or `Sources` that has them.
        strict: must be False: Dynamo, which a strict export begins with, decides on sizes before a solver can be asked.
        preserve_module_call_signature: paths of submodules whose calls `unflatten` must preserve.
        prefer_deferred_runtime_asserts_over_guards: has no effect: every check is in the graph already.
        constraints: relations over dim names, or over sizes such as `x.shape[0]`: `"batch*seq <= 65536"`.
        narrow: True to narrow the domain of every dim to the sizes that the model supports, where necessary.
        branches: "error", or "split" to return several programs if one does not serve the whole domain.
        budget: the limit for one question to the solver.

    Returns:
        A torch.export.ExportedProgram with `.report`; under `branches="split"` the `Regions`, which hold several.

    Raises:
        ConstraintViolation: the model does not support the declared domain, or sizes that are undecided (one warning
            otherwise) cannot be refused at run time; `.report` gives the reason.
        UsageError: an entry is invalid; the message names it.

    >>> import torch
    >>> batch = torch.export.Dim("batch", min=1, max=8)
    >>> program = export(torch.nn.Linear(4, 2), (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
    >>> program.report.status
    'proved'
    """
    return given_out(check(**locals()))


def check(  # noqa: PLR0913 - as above
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,  # noqa: ARG001 - every check is in the graph already
    constraints: Sequence[str] = (),
    narrow: bool = False,
    branches: str = "error",
    budget: Budget | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Check a model as `export` does, but return the report: `program` is None if the domain is refuted or empty.

    Args:
        mod: the model; this and the following as for export.
        args: the example inputs.
        kwargs: the example inputs that are passed by name.
        dynamic_shapes: the dynamic sizes.
        strict: must be False.
        preserve_module_call_signature: paths of submodules whose calls `unflatten` must preserve.
        prefer_deferred_runtime_asserts_over_guards: has no effect.
        constraints: relations over dim names or sizes.
        narrow: True to narrow the domain of every dim to the sizes that the model supports, where necessary.
        branches: "error" or "split".
        budget: the limit for one question to the solver.
        progress: receives a few words about each next step.

    Returns:
        The report, whose `program` is the result that export would return.

    Raises:
        UsageError: an entry is invalid; the message names it.
    """
    _refuse(strict=strict, branches=branches, budget=budget)
    where, mod = in_the_call(), uncompiled(mod)
    args, kwargs, dynamic_shapes = read_collection(mod, args, kwargs, dynamic_shapes)
    how: Any = {"narrow": narrow, "splitting": branches == "split", "budget": budget, "progress": progress}
    verify = functools.partial(verified, mod, preserve_module_call_signature=preserve_module_call_signature, **how)
    with one_thread, without_fake_mode():
        return with_forms(verdict(verify, mod, args, kwargs, dynamic_shapes, constraints, where))


def _refuse(*, strict: bool, branches: object, budget: object) -> None:
    if strict:
        raise UsageError("strict=True is refused: Dynamo decides on sizes before a solver can be asked; leave it out")
    if branches not in {"error", "split"}:
        raise UsageError(f"branches must be 'error' or 'split', not {branches!r}")
    if not isinstance(budget, Budget | None):
        raise UsageError(f"budget must be a Budget, such as Budget(rlimit=30_000_000), not {budget!r}")


def verdict(  # noqa: PLR0913, PLR0917 - as declare, and how to verify
    verify: Callable[[Inputs], Report],
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    dynamic_shapes: Any,
    constraints: Sequence[str],
    where: Where,
) -> Report:
    """Return the report on a model, for any form of declared sizes.

    Raises:
        UsageError: an entry is invalid; the message names it.
    """
    declaring = functools.partial(declare, mod, args, kwargs)
    if isinstance(dynamic_shapes, Mapping | Sequence | None):
        return verify(declaring(dynamic_shapes, constraints, where))
    from shapeproof.export.forms.seen.serving import verdict_on_seen

    return verdict_on_seen(verify, mod, declaring, dynamic_shapes, constraints, where)
