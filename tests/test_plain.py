"""The plain way: nothing that only saves time is run, the verdicts are the same, and a page lists what is left."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given

from benchmarks.ledger.difference import plain_in_words
from benchmarks.ledger.running import lines_of
from benchmarks.ledger.sources import FILES, collection
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.syntax.text import parse_relation
from shapeproof.export import Dim, check
from shapeproof.plain import Saving, plain_way, saves_time
from tests.agreement import agree
from tests.export.random_programs import few, probing_programs, programs, wide_programs

PACKAGE = Path(__file__).parent.parent / "shapeproof"
PAGE = (PACKAGE.parent / "docs/decisions/0006-what-is-trusted.md").read_text().partition("\n## The plain way\n")[2]
WHOLE = (Saving.SETTLING, Saving.RESULTS, Saving.DATAFLOW, Saving.LENDING)
"""Those whose files do nothing else."""
SAMPLE = {"models": 13, "random": 60, "operators": 70}
"""Of each collection every so manieth model is exported both ways."""


def rows(heading):
    """The rows of the table with this heading, as lists of cells."""
    lines = itertools.takewhile(lambda line: line.startswith("|"), PAGE.partition(heading)[2].lstrip("\n").splitlines())
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines][1:]


RESTS = rows("| folder | files | lines |")
CANNOT = rows("| files | why |")


def named(cell):
    return re.findall(r"`([^`]+)`", cell)


def rests_on():
    """The files that a plain proof rests on, as the page lists them."""
    return [f"{folder.strip('`')}{name}.py" for folder, files, _ in RESTS[:-1] for name in named(files)]


def test_the_page_has_everything_that_saves_time():
    table = [[f"`{each.name}`", ", ".join(f"`{file}`" for file in each.files), each.instead] for each in Saving]
    assert rows("| what saves time | where | in the plain way |") == table
    assert all((PACKAGE / file).is_file() for each in Saving for file in each.files)


@pytest.mark.parametrize("how", Saving)
def test_everything_that_saves_time_is_asked_for(how):
    asking = f"saves_time(Saving.{how.name})"
    assert any(asking in path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "plain.py")


def test_the_page_counts_the_lines_that_a_proof_rests_on():
    """To a tenth: not every line that is added anywhere changes the page."""

    def lines(folder, files):
        return sum(len((PACKAGE / folder / f"{name}.py").read_text().splitlines()) for name in named(files))

    told = [int(count.replace(",", "")) for *_, count in RESTS]
    counts = [lines(folder.strip("`"), files) for folder, files, _ in RESTS[:-1]]
    assert told[:-1] == pytest.approx(counts, rel=0.1)
    assert (RESTS[-1][1], told[-1]) == (f"{len(rests_on())} files", sum(told[:-1]))


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)

    def forward(self, x, mask=None):
        if x.shape[0] > 2 and mask is not None:
            x = x * mask
        x = self.norm(self.layer(x)).reshape(x.shape[0], 4)
        return (x * x.shape[0])[:2].softmax(-1), x[(x > 0).sum(1) > 1]


def of_classifier():
    return check(Classifier(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: Dim("n", min=0, max=6)}})


def files_run(call):
    """The files of the package in which a function is called meanwhile; making an object is no call."""
    codes = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, *_: codes.add(frame.f_code))
    try:
        call()
    finally:
        sys.setprofile(before)
    called = (Path(code.co_filename) for code in codes if code.co_name not in {"<module>", "__init__"})
    return {str(path.relative_to(PACKAGE)) for path in called if path.is_relative_to(PACKAGE)}


@pytest.mark.thorough
def test_the_plain_way_runs_nothing_but_what_the_page_lists():
    of_classifier()  # modules are loaded
    with plain_way():
        run = files_run(of_classifier)
    saving = {file for each in WHOLE for file in each.files}
    assert run.isdisjoint(saving)
    others = tuple(file for files, _ in CANNOT for file in named(files))
    left = run - set(rests_on()) - {"plain.py", "lazily.py"}
    assert {file for file in left if not file.startswith(others)} == set()


@pytest.mark.thorough
def test_both_ways_prove_a_model_that_asks():
    fast = of_classifier()
    with plain_way():
        slow = of_classifier()
    assert (fast.status, slow.status) == ("proved", "proved")
    assert slow.statistics["traces"] > fast.statistics["traces"] == 1


class Scaled(torch.nn.Module):
    def forward(self, x):
        return (x * x.shape[1])[:2]


def test_the_plain_way_learns_no_assumption_of_an_operator():
    """The fault: the trace knew `n != 1` from the product, and noted 2 rows where there is 1 at n = 1: undecided."""
    shapes = ({0: Dim("n", min=1, max=4), 1: Dim("m", min=2, max=4)},)
    with plain_way():
        report = check(Scaled(), (torch.randn(3, 2),), dynamic_shapes=shapes)
    assert report.status == "proved"
    assert all(agree(Scaled(), report.program.module(), (torch.randn(n, 2),)) for n in range(1, 5))


def test_the_plain_way_ends_with_its_block():
    with plain_way():
        assert not saves_time(Saving.SETTLING)
    assert saves_time(Saving.SETTLING)


@pytest.mark.thorough
def test_a_sample_has_the_same_verdicts_both_ways(tmp_path):
    wanted = [(group, name) for group, step in SAMPLE.items() for name in list(collection(group, tmp_path))[::step]]
    fast, slow = ({line.name: line for line in lines_of(wanted, FILES["cases"], plainly=way)} for way in (False, True))
    assert plain_in_words(fast, slow) == []


def served(program, report):
    """The points of a program's box that a report's domain contains."""
    domain = list(map(parse_relation, report.domain))
    points = [dict(zip(program.interface.names, sizes, strict=True)) for sizes in program.box]
    return [point for point in points if all(true_at(each, point) for each in domain)]


@pytest.mark.thorough
@few(12)
@given(programs() | wide_programs() | probing_programs())
def test_a_random_program_has_the_same_verdict_both_ways(program):
    fast = program.check()
    with plain_way():
        slow = program.check()
    assert fast.status == slow.status
    assert fast.status == "refuted" or served(program, fast) == served(program, slow)
