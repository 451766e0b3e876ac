"""Ranks agree on what was seen: by threads over one store where that is enough, by real processes where it is not."""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import sys
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from shapeproof.seen import Seen
from shapeproof.serve import agree, ranks, together

WORKER = """
import datetime, json, sys
import torch, torch.distributed as dist
from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from shapeproof.seen import Seen
from shapeproof.serve import agree, together

rank, world, store, mode = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]

class Model(torch.nn.Module):
    def forward(self, x):
        return x * x.size()[0] if mode != "other model" or rank == 0 else x - x.size()[0]

limit = datetime.timedelta(seconds=4 if mode == "one stays away" else 100)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
seen = Seen()
seen.add((torch.ones(10 + 10 * rank),), names=("x",))  # alone, each rank would take x for static
said = []
try:
    if mode != "one stays away" or rank < world - 1:
        both = agree(seen, timeout=limit)
        report = check(Model(), (torch.ones(10 + 10 * rank),), dynamic_shapes=both)
        said += [both.dumps(), report.status, report.domain]
        together(report, timeout=limit)
        said.append("together")
except UsageError as error:
    said.append(str(error))
print(json.dumps(said))
sys.stdout.flush()
import os
os._exit(0)  # a group with an absent rank cannot be taken down
"""


def run(world, mode, tmp_path):
    """What each rank of a group of processes says."""
    command = [str(world), str(tmp_path / "store"), mode]
    started = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(rank), *command], stdout=subprocess.PIPE, text=True)
        for rank in range(world)
    ]
    return [json.loads(each.communicate(timeout=300)[0]) for each in started]


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
def test_ranks_that_each_saw_one_size_agree_on_dynamic(world, tmp_path):
    first, *others = run(world, "ok", tmp_path)
    assert first[1:] == ["proved", ["x.shape[0] >= 0"], "together"]
    assert all(other == first for other in others)


@pytest.mark.slow
def test_a_rank_that_stays_away_is_named_by_all_others(tmp_path):
    *came, away = run(3, "one stays away", tmp_path)
    assert away == []
    assert came == [["rank 2 did not come to agree() in 4 s"]] * 2


@pytest.mark.slow
def test_a_rank_with_another_model_is_named(tmp_path):
    (_, _, _, first), (_, _, _, second) = run(2, "other model", tmp_path)
    assert first.startswith("rank 1 has a different graph: ")
    assert second.startswith("rank 0 has a different graph: ")


# ---------------------------------------------------------------------- the same logic, by threads over one store


def exchanged(texts, seconds=60, present=None):
    """What each present rank gets, or the sentence that it raises."""
    store = dist.HashStore()

    def come(rank):
        try:
            return ranks.exchanged(
                "agree()", texts[rank], store, rank, list(range(len(texts))), timedelta(seconds=seconds)
            )
        except UsageError as error:
            return str(error)

    with concurrent.futures.ThreadPoolExecutor(len(texts)) as pool:
        return list(pool.map(come, present or range(len(texts))))


def test_all_get_what_all_have_written():
    assert exchanged(["a", "b", "c"]) == [{0: "a", 1: "b", 2: "c"}] * 3


def test_who_is_absent_is_named():
    assert (
        exchanged(["a", "b", "c", "d"], seconds=0.2, present=[0, 2])
        == ["ranks 1, 3 did not come to agree() in 0.2 s"] * 2
    )


def test_a_group_of_one(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        seen = Seen()
        seen.add((torch.ones(3),), names=("x",))
        assert agree(seen) == seen == agree(seen)
        together(check(torch.nn.ReLU(), (torch.ones(3),)))
    finally:
        dist.destroy_process_group()


def test_without_a_group_it_is_one_sentence():
    with pytest.raises(UsageError, match=r"agree\(\) needs torch.distributed: call init_process_group first"):
        agree(Seen())
