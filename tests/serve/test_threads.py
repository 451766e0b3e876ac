"""Threads that call a served model at once: each result is eager's, and one trace serves all who wait for it."""

from __future__ import annotations

import contextlib
import gc
import threading
import tracemalloc
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


KEPT = 64 * 1024
"""Bytes that half of the calls may leave: caches of the interpreter, and none for each call."""


@contextlib.contextmanager
def traced_memory():
    """How many bytes of what is allocated inside are kept, under "kept"."""
    memory = {}
    gc.collect()
    tracemalloc.start()
    try:
        yield memory
        gc.collect()
        memory["kept"] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def in_parallel(call):
    """Call it with 0 to 7, in 8 threads."""
    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def some_calls(run, expected, wrong, seed, number):
    """Call a served model so many times; note the sizes at which the result is not the expected one."""
    random = Random(seed)
    for _ in range(number):
        n = random.randrange(60)
        if not torch.equal(run(torch.arange(float(n))), expected[n]):
            wrong.append(n)


def soak(calls):
    """Every result is eager's; no size is traced twice; memory is flat: what is kept does not grow with the calls."""
    model = Branches()
    run, wrong = served(model), []
    expected = {n: model(torch.arange(float(n))) for n in range(60)}
    in_parallel(lambda seed: some_calls(run, expected, wrong, seed, calls // 16))
    for n in expected:  # all that there is to learn is learned
        run(torch.arange(float(n)))
    with traced_memory() as memory:
        in_parallel(lambda seed: some_calls(run, expected, wrong, seed, calls // 16))
    assert memory["kept"] < KEPT
    assert wrong == []
    traced = [tuple(miss.sizes.values()) for miss in run.misses if miss.outcome == "traced"]
    assert len(set(traced)) == len(traced) == run.traced - 1  # the first call is no miss of a program
    assert run.traced <= 4
