"""Torch's own tests: the kept list and the page's policies hold each other, and a run says who fails."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from upstream import kept
from upstream.kept import POLICY, Line, results, verdict
from upstream.suite import Found

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "torchs-own-tests.md"
PASSES, FAILS = Found("passes"), Found("fails", "AssertionError", "1 != 2")


def rows(title):
    """The first cells of the table below a title."""
    part = PAGE.read_text(encoding="utf-8").partition(title)[2].partition("\n## ")[0]
    return re.findall(r"(?m)^\| `([^`]+)` \|", part)


def test_each_test_that_we_alone_fail_names_a_policy_of_the_page_and_each_policy_is_named():
    named = {line.verdict.removeprefix(POLICY) for line in results().values() if line.verdict.startswith(POLICY)}
    assert named == set(rows("## Policies"))


def test_no_test_that_we_alone_fail_is_unexplained():
    assert [line.name for line in results().values() if line.verdict == "fails"] == []


def test_the_page_counts_and_explains_every_verdict():
    counts = Counter(re.sub(f"{POLICY}.*", f"{POLICY}...", line.verdict) for line in results().values())
    page = dict(re.findall(r"(?m)^\| `(\S+)` \| (\d+) \|", PAGE.read_text(encoding="utf-8")))
    assert {word: str(counts[word]) for word in page | counts} == page


@pytest.mark.parametrize(
    ("torchs", "ours", "said"),
    [
        (PASSES, PASSES, "passes"),
        (FAILS, PASSES, "only-torch-fails"),
        (FAILS, FAILS, "torch-fails"),
        (Found("skipped"), Found("skipped"), "skipped"),
        (PASSES, FAILS, "policy:checks"),
    ],
)
def test_a_policy_is_kept_only_while_ours_alone_fails(torchs, ours, said):
    assert verdict(torchs, ours, Line("TestExport.test_one", "policy:checks", "AssertionError")) == said


@pytest.mark.parametrize("before", [("passes",), ("policy:checks", "UsageError")])
def test_a_failure_that_is_not_the_one_of_before_is_not_explained(before):
    assert verdict(PASSES, FAILS, Line("TestExport.test_one", *before)) == "fails"


def test_lines_are_read_as_they_were_written(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "RESULTS", tmp_path / "results.txt")
    lines = [Line("TestExport.test_b", "fails", "ValueError"), Line("TestExport.test_a", "passes")]
    kept.keep({each.name: each for each in lines})
    assert list(results().values()) == lines[::-1]


OF_A_USER = """
import unittest
import testing
import torch
from torch.export import Dim, export

NON_STRICT_SUFFIX = "_non_strict"
DIMS = ({0: Dim("n", max=8)},)

class Branch(torch.nn.Module):
    def forward(self, x):
        return x * 100 if x.shape[0] == 1 else x

class TestDynamismExpression(unittest.TestCase):
    def test_name(self):
        self.assertTrue(self._testMethodName.endswith(NON_STRICT_SUFFIX))

class TestExport(unittest.TestCase):
    @testing.expectedFailureSerDer
    def test_by_full_name(self):
        torch.export.export(Branch(), (torch.ones(3),), dynamic_shapes=DIMS)

    def test_refused(self):
        with self.assertRaises(torch._dynamo.exc.UserError):
            export(Branch(), (torch.ones(3),), dynamic_shapes=DIMS)
"""


@pytest.mark.thorough
def test_a_run_says_which_tests_fail_with_ours_alone(tmp_path):
    (tmp_path / "test_export.py").write_text(OF_A_USER, encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from upstream import kept, __main__ as main; "
        f"kept.RESULTS = Path({str(tmp_path / 'results.txt')!r}); sys.exit(main.main())"
    )
    run = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False)
    said = {name: word for name, word, *_ in map(str.split, run.stdout.splitlines()[:-1])}
    assert said == {
        "TestDynamismExpression.test_name": "passes",
        "TestExport.test_by_full_name": "fails",
        "TestExport.test_refused": "only-torch-fails",
    }, run.stderr
    assert run.returncode == 1
