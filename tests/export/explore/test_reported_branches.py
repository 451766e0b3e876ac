"""The cases that users reported whose model branches on a size: one program names the branch, several serve it all."""

from __future__ import annotations

import copy

import pytest
import torch

from shapeproof.export import check
from tests.agreement import agree
from tests.export.report.test_repairs import case_files, code_of, is_a_counterexample, loaded

BRANCHING = [path for path in case_files() if 'EXPECT = "regions"' in path.read_text(encoding="utf-8")]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BRANCHING, reason="the reported cases lie outside the repository, and are not here"),
    pytest.mark.parametrize("path", BRANCHING or [None], ids=lambda path: path.stem if path else "none"),
]


def test_one_program_is_refused_with_the_branch_and_sizes_at_which_it_would_be_wrong(path):
    mod, args, kwargs, shapes, _ = loaded(path)
    with torch.no_grad():
        report = check(copy.deepcopy(mod), args, kwargs, dynamic_shapes=shapes)
        assert report.status == "refuted"
        for diagnostic in report.diagnostics:
            assert diagnostic.file in code_of(mod) | {str(path)}
            assert diagnostic.line
            assert is_a_counterexample(mod, report, args, kwargs, diagnostic.witness)


def test_several_programs_do_what_eager_does_at_every_probe(path):
    mod, args, kwargs, shapes, probes = loaded(path)
    with torch.no_grad():
        report = check(copy.deepcopy(mod), args, kwargs, dynamic_shapes=shapes, branches="split")
        assert report.status == "proved", str(report)
        run = report.program.module()
        assert all(agree(mod, run, inputs) for inputs in probes)
