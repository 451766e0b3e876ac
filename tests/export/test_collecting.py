"""Python's garbage collector during an export."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from shapeproof.export import check
from shapeproof.export.shim.process.collecting import only_new_garbage


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
    with pytest.raises(KeyError):
        check(model, (torch.ones(2),))
    assert gc.get_freeze_count() == 0
