"""Python's garbage collector and the threads of kernels during an export."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.limits import LARGE_ELEMENTS
from shapeproof.export.shim.process.idle_work import few_threads, only_new_garbage


class Ring:
    """Garbage as soon as nobody has it, that only a collection finds."""

    def __init__(self) -> None:
        self.me = self


def dropped() -> weakref.ref[Ring]:
    return weakref.ref(Ring())


@pytest.mark.thorough
def test_only_what_is_made_meanwhile_is_collected() -> None:
    gc.disable()
    try:
        before = dropped()
        with only_new_garbage():
            meanwhile = dropped()
            gc.collect()
            assert before() is not None
            assert meanwhile() is None
        gc.collect()
        assert before() is None
    finally:
        gc.enable()


def test_what_was_frozen_before_stays_frozen() -> None:
    gc.disable()
    try:
        before = dropped()
        gc.freeze()
        with only_new_garbage():
            pass
        gc.collect()
        assert before() is not None
    finally:
        gc.unfreeze()
        gc.enable()


def test_an_export_leaves_nothing_frozen_even_where_it_raises() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise KeyError(x.shape[0])

    model = type("Model", (torch.nn.Module,), {"forward": staticmethod(fails)})()
    assert check(model, (torch.ones(2),)).status == "refuted"
    assert gc.get_freeze_count() == 0


def threads() -> int:
    """The threads of a kernel that another thread of the process runs."""
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start()
    other.join()
    return found[0]


def test_only_the_exporting_thread_is_limited() -> None:
    before = torch.get_num_threads(), threads()
    with few_threads(1):
        assert (torch.get_num_threads(), threads()) == (1, before[1])
    assert (torch.get_num_threads(), threads()) == before


def test_a_large_model_keeps_its_threads() -> None:
    before = torch.get_num_threads()
    with few_threads(LARGE_ELEMENTS + 1):
        assert torch.get_num_threads() == before


class Noting(torch.nn.Module):
    """Notes on how many threads its kernels run."""

    seen: set[int] = set()  # noqa: RUF012 - copies of the model share it on purpose

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.LazyLinear(2)
        self.layer(torch.ones(1, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add(torch.get_num_threads())
        return self.layer(x)


def test_replays_of_a_small_model_run_on_one_thread() -> None:
    before = torch.get_num_threads()
    report = check(Noting(), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("n", min=1, max=8)},))
    assert (report.status, Noting.seen, torch.get_num_threads()) == ("proved", {1}, before)
