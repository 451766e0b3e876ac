"""Runs a program beside the eager model on one concrete input, for tests that compare the two.

Written apart from shapeproof's own replay, which is under test. It never exports.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

RAISES = "raises"


def outcome(call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Any:
    """What a call returns, and its inputs afterwards; RAISES if it raises. The caller's random numbers go on as before.

    >>> outcome(lambda x: x // 0, (1,))
    'raises'
    >>> before = torch.get_rng_state()
    >>> _ = outcome(torch.rand, (3,))
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    args, kwargs = copy.deepcopy((args, dict(kwargs or {})))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            return call(*args, **kwargs), args, kwargs
    except Exception:  # noqa: BLE001 - whatever it raises, it refuses
        return RAISES


def same(want: Any, got: Any) -> bool:
    """Whether two outcomes are the same: structure, types, sizes, dtypes and values (NaN is itself).

    >>> same((torch.ones(2), 3), (torch.ones(2), 3)), same(torch.ones(1), torch.ones(()))
    (True, False)
    """
    wanted, want_tree = pytree.tree_flatten(want)
    found, got_tree = pytree.tree_flatten(got)
    return want_tree == got_tree and all(map(_same_leaf, wanted, found))


def _same_leaf(want: Any, got: Any) -> bool:
    if not isinstance(want, torch.Tensor) or not isinstance(got, torch.Tensor):
        return type(want) is type(got) and want == got
    alike = want.shape == got.shape and want.dtype == got.dtype
    return alike and torch.allclose(want, got, rtol=1e-4, atol=1e-5, equal_nan=True)


def agree(
    mod: torch.nn.Module,
    run: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    may_refuse: bool = False,
) -> bool:
    """Whether a program does what a fresh copy of the model does; `may_refuse`: or raises."""
    want = outcome(copy.deepcopy(mod), args, kwargs)
    got = outcome(run, args, kwargs)
    return (may_refuse and got == RAISES) if isinstance(got, str) and want != RAISES else same(want, got)


def is_true_of(report: Any, mod: torch.nn.Module, points: Iterable[tuple[Any, ...]]) -> bool:
    """Whether a report says of a model what is so: one that is not proved may refuse, and may have no program."""
    proved = report.status == "proved"
    if report.program is None:
        return not proved
    run = report.program.module()
    return all(agree(mod, run, args, may_refuse=not proved) for args in points)
