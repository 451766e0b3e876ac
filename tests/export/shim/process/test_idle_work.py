"""Python's garbage collector and the threads of kernels during an export."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, export
from shapeproof.export.declare.inputs import declare
from shapeproof.export.explore.beside_eager.forms import Form, forms_of
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.limits import THREADS_WORK
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
    with few_threads():
        assert (torch.get_num_threads(), threads()) == (1, before[1])
    assert (torch.get_num_threads(), threads()) == before


def test_a_run_that_multiplies_much_has_all_threads_again() -> None:
    before = torch.get_num_threads()
    with few_threads():
        with few_threads(THREADS_WORK + 1):
            assert torch.get_num_threads() == before
        with few_threads(THREADS_WORK):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1


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


def large() -> Noting:
    Noting.seen.clear()
    model = Noting()
    model.register_buffer("table", torch.zeros(1).expand(2**27 + 1))
    return model


def test_a_large_model_has_one_thread_if_its_runs_are_small() -> None:
    """The fault: above so many elements, all kernels of an export ran on all threads, which wait for each other."""
    assert check(large(), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("n", min=1, max=8)},)).status == "proved"
    assert Noting.seen == {1}


@pytest.mark.parametrize("work", [0, THREADS_WORK, THREADS_WORK + 1])
def test_a_comparison_has_threads_by_the_work_of_its_program(work: int) -> None:
    before, model = torch.get_num_threads(), large()
    eager = Eager(model, declare(model, (torch.ones(4, 3),), None, {"x": {}}))
    with few_threads():
        assert eager.compare([Form(lambda: model.layer, work=lambda _: work)], {}).agrees
    assert Noting.seen == {before if work > THREADS_WORK else 1}


def test_a_form_knows_how_much_a_run_multiplies() -> None:
    program = export(torch.nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("n", min=1, max=8)},))
    assert [forms_of(program)[0].work({"n": size}) for size in (1, 5)] == [6, 30]
