"""Exports in several threads: each gives what it gives alone, and leaves nothing behind for the next."""

from __future__ import annotations

import itertools
import threading

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, export
from tests.agreement import agree

SHAPES = {"x": {0: Dim("n", min=0, max=6)}}


class Settles(torch.nn.Module):
    """Its assumptions are settled where they are made."""

    def forward(self, x):
        return (x @ x.t()).softmax(-1) + 1


class Doubtful(torch.nn.Module):
    """What is written into may be an alias or a copy: nothing of it is settled in place."""

    def forward(self, x):
        return x.t().contiguous().add_(1) + x.sum()


class Refuted(torch.nn.Module):
    """It does something else at one size."""

    def forward(self, x):
        return x * 100 if x.shape[0] == 1 else x + 1


MODELS = (Settles, Doubtful, Refuted)


def verdict(model, **options):
    report = check(model(), (torch.ones(3, 4),), dynamic_shapes=SHAPES, **options)
    return report.status, report.domain, dict(report.statistics), [str(each.message) for each in report.diagnostics]


def in_threads(tasks):
    """What the tasks return, each run in a thread of its own; they start together."""
    start, found = threading.Barrier(len(tasks)), [None] * len(tasks)

    def run(index):
        start.wait()
        found[index] = tasks[index]()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.thorough
def test_exports_in_threads_give_what_they_give_alone():
    alone = {model: verdict(model) for model in MODELS}
    order = [*MODELS, *reversed(MODELS)]
    together = in_threads([lambda model=model: verdict(model) for model in order])
    assert together == [alone[model] for model in order]
    assert {model: verdict(model) for model in MODELS} == alone


@pytest.mark.thorough
@pytest.mark.parametrize(("outer", "inner"), list(itertools.permutations(MODELS, 2)))
def test_an_export_within_another_gives_what_it_gives_alone(outer, inner):
    """Wherever the outer one is: what it has switched off for itself is off for nobody else."""
    alone = verdict(inner)
    within = []
    assert verdict(outer, progress=lambda _: within.append(verdict(inner))) == verdict(outer)
    assert within
    assert all(each == alone for each in within)


@pytest.mark.thorough
def test_one_thread_exports_at_a_time():
    """Torch's tracer keeps its state in globals: what one thread runs of its model is not mixed with another's."""
    seen = []

    class Seen(torch.nn.Module):
        def forward(self, x):
            seen.append(threading.get_ident())
            return x.squeeze(0).relu() if x.shape[0] == 1 else x.relu()

    in_threads([lambda: verdict(Seen)] * 3)
    assert len([thread for thread, _ in itertools.groupby(seen)]) == len(set(seen)) == 3


@pytest.mark.thorough
def test_programs_are_taken_apart_in_threads():
    programs = [export(Settles(), (torch.ones(3, 4),), dynamic_shapes=SHAPES) for _ in range(2)]
    tasks = [program.run_decompositions for program in programs] + [lambda: verdict(Doubtful)]
    *apart, _ = in_threads(tasks)
    assert all(agree(Settles(), each.module(), (torch.randn(n, 4),)) for each in apart for n in range(7))


def test_an_export_leaves_the_random_numbers_as_they_are():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    verdict(Settles)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    "forward", [lambda x: x + torch.initial_seed() % 7919, lambda x: x + torch.get_rng_state().sum() % 7919]
)
def test_a_seed_that_the_model_reads_is_no_constant(forward):
    torch.manual_seed(0)
    model = type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})
    assert verdict(model)[0] != "proved"
