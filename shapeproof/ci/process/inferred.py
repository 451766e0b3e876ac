"""The spec of a model from an example: every size is varied, and what is proved of the sizes is declared."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from shapeproof.ci.process.spec_help import narrowed
from shapeproof.ci.process.subjects import Subject, call_target, check_subject
from shapeproof.ci.specs.spec import Dim
from shapeproof.ci.specs.tables import dim_name, spec_of
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.syntax.text import format_formula, format_term, parse_formula
from shapeproof.contract import Contract
from shapeproof.contract.inputs import TensorInput

if TYPE_CHECKING:
    import torch

    from shapeproof.export import Report


def inferred_spec(target: str, example: str, progress: Callable[[str], None]) -> tuple[Report, str]:
    """Check a model at all sizes that it supports; return the report, and the spec if the model is proved.

    Raises:
        UsageError: a target cannot be called, is no model or no tensors, or the model cannot be traced.
    """
    model, given = call_target(target), call_target(example)
    inputs = _by_name(target, model, example, given)
    from shapeproof.export import Dim as TorchDim

    shapes = {name: dict.fromkeys(range(tensor.dim()), TorchDim.AUTO) for name, tensor in inputs.items()}
    progress("checking")
    report = check_subject(Subject(model, (), inputs, shapes), progress)
    proved = report.status == "proved" and report.contract is not None
    return report, _spec(target, report.contract) if proved and report.contract else ""


def _by_name(target: str, model: Any, example: str, given: Any) -> dict[str, torch.Tensor]:
    """The tensors of an example by the parameters of forward."""
    import torch

    from shapeproof.export.forms.seen.from_seen import parameters

    if not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"`{target}` must return a torch.nn.Module where there is an example, not a {type(model).__name__}"
        )
    if not isinstance(given, Mapping):
        given = given if isinstance(given, tuple | list) else (given,)
        names = parameters(model)
        if len(names) < len(given):
            raise UsageError(f"`{example}` returned {len(given)} tensors, and forward names {len(names)} parameters")
        given = dict(zip(names, given, strict=False))
    for name, value in given.items():
        if not isinstance(value, torch.Tensor):
            raise UsageError(
                f"`{name}` of `{example}` is a {type(value).__name__}: a spec declares tensors; "
                "for other inputs write a target that returns (model, args, kwargs, dynamic_shapes)"
            )
    return dict(given)


def _spec(target: str, contract: Contract) -> str:
    """The spec that declares the domain of a contract."""
    names = _shared(contract, {symbol: dim_name(name) for symbol, name in contract.names.items()})
    parts = [part for formula in contract.formulas for part in parse_formula(format_formula(formula, names)).conjuncts]
    dims, relations = {}, [part for part in parts if len(part.symbols) > 1]
    for name in dict.fromkeys(names.values()):
        dims[name], left = narrowed(name, Dim(), [part for part in parts if part.symbols == {name}])
        relations += left
    related = {name for part in relations for name in part.symbols}
    fixed = {name: dim.one_of[0] for name, dim in dims.items() if dim.one_of and not dim.one_of[1:]}
    dims = {name: dim for name, dim in dims.items() if name not in fixed or name in related}
    said = {symbol: name if name in dims else str(fixed[name]) for symbol, name in names.items()}
    inputs = {
        each.name: (each.dtype, [_size(format_term(size, said)) for size in each.sizes])
        for each in contract.inputs
        if isinstance(each, TensorInput)
    }
    return spec_of(target, dims, list(map(format_formula, relations)), inputs, "Inferred from an example, and proved.")


def _shared(contract: Contract, names: dict[str, str]) -> dict[str, str]:
    """The names of dims where sizes that are equal share one."""
    for formula in contract.formulas:
        equal = re.fullmatch(r"(\w+) == (\w+)", format_formula(formula, names))
        if equal and set(equal.groups()) <= set(names.values()):
            first, other = sorted(equal.groups(), key=list(names.values()).index)
            names = {symbol: first if name == other else name for symbol, name in names.items()}
    return names


def _size(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
