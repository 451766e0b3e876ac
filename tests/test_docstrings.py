"""What a public function takes is said in its docstring, parameter by parameter."""

from __future__ import annotations

import importlib
import inspect

import pytest

MODULES = ("shapeproof.export", "shapeproof.contract", "shapeproof.operators", "shapeproof.serve", "shapeproof.seen")
EXEMPT = {"Dim", "Budget", "OutsideDomain", "ConstraintViolation", "UndecidedWarning"}
"""Torch's own, dataclasses whose fields are documented one by one, and errors, which nobody makes."""
OF_TERMS = {"divides", "eq", "ge", "gt", "implies", "le", "lt", "maximum", "minimum", "ne"}
"""Functions of terms, whose operands need no words."""
TORCHS = {"VerifiedProgram.module", "VerifiedProgram.run_decompositions"}
"""Methods of torch with torch's parameters."""


def public_functions():
    """Each public function, and each public method that takes anything."""
    for module in map(importlib.import_module, MODULES):
        for name in sorted(set(module.__all__) - EXEMPT - OF_TERMS):
            found = getattr(module, name)
            bases = inspect.getmro(found) if inspect.isclass(found) else ()
            ours = [each for each in bases if each.__module__.startswith("shapeproof.")]
            members = {f"{name}.{each}": member for of in ours for each, member in vars(of).items()}
            for full, member in (members or {name: found}).items():
                if inspect.isfunction(member) and not full.rpartition(".")[2].startswith("_") and full not in TORCHS:
                    yield pytest.param(member, id=full)


INSIDE = {
    "VerifiedProgram.of",
    "VerifiedProgram.rely_on",
    "VerifiedProgram.carry",
    "Regions.carry",
    "Regions.read",
    "Contract.with_unchecked",
    *("Program.serves", "Program.takes", "Program.misfit", "Program.covers"),
    *("Padding.pad", "Padding.call", "Buckets.corner_of", "Seen.add_call", "Seen.named"),
}
"""What the package calls itself."""


@pytest.mark.parametrize("function", list(public_functions()))
def test_every_parameter_is_documented(function, request):
    if request.node.callspec.id in INSIDE:
        pytest.skip("called inside alone")
    _, _, section = (inspect.getdoc(function) or "").partition("Args:\n")
    missing = [
        name for name in inspect.signature(function).parameters if name != "self" and f"    {name}: " not in section
    ]
    assert not missing, f"{function.__qualname__} does not say what {missing} are"
