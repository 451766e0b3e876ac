"""Threads that call a served model at once: each result is eager's, and one trace serves all who wait for it."""

from __future__ import annotations

import threading
from random import Random

import pytest
import torch

from shapeproof.serve import compile as served
from shapeproof.serve.calling.gate import Gate
from tests.serve.test_on_demand import Branches


def test_many_waiting_callers_wait_for_one_trace():
    model = torch.nn.Linear(3, 2)
    run = served(model)
    wrong = []

    def call(number):
        for rows in range(number, number + 6):
            x = torch.full((rows, 3), float(rows))
            if not torch.equal(run(x), model(x)):
                wrong.append(rows)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert run.traced <= 3


def test_the_gate_lets_nothing_run_while_one_traces():
    gate, order, inside = Gate(), [], threading.Event()

    def trace():
        inside.wait()
        with gate.closed():
            order.append("traced")

    thread = threading.Thread(target=trace)
    thread.start()
    gate.enter()
    gate.enter()
    inside.set()
    gate.leave()
    order.append("ran")
    gate.leave()
    thread.join()
    assert order == ["ran", "traced"]


@pytest.mark.slow
def test_100000_calls_of_changing_sizes_from_8_threads():
    soak(100_000)


@pytest.mark.thorough
def test_some_hundred_calls_of_changing_sizes_from_8_threads():
    soak(400)


def soak(calls):
    """Every result is eager's; no size is traced twice; what is kept of misses does not grow with the calls."""
    model = Branches()
    run, wrong = served(model), []
    expected = {n: model(torch.arange(float(n))) for n in range(60)}

    def call(seed):
        random = Random(seed)
        for _ in range(calls // 8):
            n = random.randrange(60)
            if not torch.equal(run(torch.arange(float(n))), expected[n]):
                wrong.append(n)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    traced = [tuple(miss.sizes.values()) for miss in run.misses if miss.outcome == "traced"]
    assert len(set(traced)) == len(traced) == run.traced - 1  # the first call is no miss of a program
    assert run.traced <= 4
