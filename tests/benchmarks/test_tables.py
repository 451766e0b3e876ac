from __future__ import annotations

import io

from rich.console import Console

from benchmarks import tables
from benchmarks.peers.worker import Answer
from benchmarks.scoring import Scored


def scored(answer, step="", seconds=0.0, wrong=None):
    return Scored("n >= 1", Answer(answer, step, (), seconds, seconds), wrong)


RESULTS = {
    "ours": {
        "guards": [scored("always", "facts", 0.5), scored("depends", "evaluation")],
        "net": [scored("never", "z3"), scored("unknown")],
    },
    "theirs": {
        "guards": [scored("always", seconds=8.0), scored("late")],
        "net": [scored("never", wrong={"n": 1}), scored("unsupported")],
    },
}


def shown(table):
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(table)
    lines = [line.strip("│") for line in console.export_text().splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.split("│")] for line in lines]


def test_what_is_counted():
    recordings, steps, guards, rest = map(shown, tables.all_tables(RESULTS, "ours", "guards", "textbook"))
    assert [row[:6] for row in recordings] == [
        ["guards", "2", "1", "0", "1", "0"],
        ["net", "2", "0", "1", "0", "1"],
        ["all", "4", "1", "1", "1", "1"],
    ]
    assert recordings[0][6:] == ["1000", "500.00", "1000.00", "1000.00"]
    assert steps == [
        ["facts", "1", "0", "0", "0"],
        ["evaluation", "0", "0", "1", "0"],
        ["z3", "0", "1", "0", "0"],
        ["none", "0", "0", "0", "1"],
    ]
    assert guards == [
        ["ours", "2", "1", "0", "1", "0", "0", "0.50 s", "1.00 s"],
        ["theirs", "2", "1", "0", "0", "0", "1", "8.00 s +", "16.00 s +"],
    ]
    assert [row[1:7] for row in rest] == [["2", "1", "0", "0", "1", "0"], ["2", "0", "1", "0", "1", "0"]]


def test_the_guards_are_compared_in_a_sentence():
    assert list(tables.findings(RESULTS, "ours", "guards")) == [
        "guards: theirs took deciding 16 times, in all 16 times as long as ours; 1 not asked"
    ]
    assert not list(tables.findings({"ours": {"net": []}}, "ours", "guards"))
