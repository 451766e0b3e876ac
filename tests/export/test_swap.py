"""Swapping torch.export.export for ours breaks nothing that worked: torch's examples of what export supports.

Each example has the same outcome with both, or a better one that is explained in BETTER; where both export, the
programs do the same.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch._export.db.examples import all_examples

from shapeproof.export import export
from tests.agreement import agree

CASES = all_examples()

BETTER: dict[str, str] = {}
"""Examples whose outcome differs, and why ours is the better one."""

GAPS = {
    "dynamic_shape_round": "torch refuses round(n / 2); ours is undecided, and its checks refuse the example",
}
"""Examples whose outcome differs, and ours is not better yet."""


def exported(exporter, case):
    """The program, or None where the exporter refuses; an exporter works on its own copy of the model."""
    args, kwargs = copy.deepcopy((case.example_args, case.example_kwargs))
    try:
        return exporter(copy.deepcopy(case.model), args, kwargs, dynamic_shapes=case.dynamic_shapes)
    except Exception:  # noqa: BLE001 - however it refuses
        return None


def inputs_of(case):
    """The inputs of the example, and others where it brings some."""
    return [case.example_args, *([case.extra_args] if case.extra_args else [])]


def marked(name):
    """The example, expected to fail where it is a known gap."""
    return pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=GAPS[name])) if name in GAPS else name


@pytest.mark.parametrize("name", map(marked, sorted(CASES)))
def test_an_example_of_torchs_has_the_same_outcome(name):
    case = CASES[name]
    theirs, ours = exported(torch.export.export, case), exported(export, case)
    if name in BETTER:
        assert (theirs is None) != (ours is None)
        return
    assert (theirs is None) == (ours is None)
    if ours is None:
        return
    assert ours.report.status == "proved", str(ours.report)
    for args in inputs_of(case):
        in_domain = args is case.example_args or agree(case.model, theirs.module(), args, case.example_kwargs)
        assert agree(case.model, ours.module(), args, case.example_kwargs, may_refuse=not in_domain)
    assert ours.graph_signature == theirs.graph_signature
