"""Runs eager to see which line rebinds what an input holds, and what is there before and after.

A trace says that it happens, over a whole region; this is one run of it, at the sizes with which the exploration began.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.shim.inputs.binding import bind
from shapeproof.export.shim.inputs.containers import Held, held, is_same
from shapeproof.export.source.changed_at import ChangedAt
from shapeproof.export.trace.rebinding import Left


@dataclass(frozen=True, slots=True)
class Seen:
    """What one run of eager leaves in its inputs.

    Attributes:
        lines: by the name of a flat input, or the code that reads a place, the line that changes it first.
        before: what the flat inputs were.
        after: what they are.
    """

    lines: Mapping[Hashable, SourceLocation]
    before: Held
    after: Held


def seen_in_eager(mod: torch.nn.Module, inputs: Inputs, point: Mapping[str, int], left: Left) -> Seen:
    """What eager leaves at a point, of what a trace has left."""
    args, kwargs = inputs.at(point, filled=True)
    mine = copy.deepcopy(mod)
    before = held(mine, args, kwargs)

    def changed() -> set[Hashable]:
        now = held(mine, args, kwargs)
        leaves = {each.leaf for each in left.rebound if not _same(before.leaves, now.leaves, each.leaf)}
        return leaves | {place for place in left.unseen if not _same(before.places, now.places, place)}

    follow = ChangedAt(changed)

    def followed(*args: Any, **kwargs: Any) -> None:
        with follow.following():
            mine(*args, **kwargs)

    replay.run(followed, args, kwargs)
    return Seen(follow.lines, before, held(mine, args, kwargs))


def _same(before: Mapping[str, Any], now: Mapping[str, Any], name: str) -> bool:
    return is_same(before.get(name, _NOTHING), now.get(name, _NOTHING))


_NOTHING = object()


def given_twice(mod: torch.nn.Module, inputs: Inputs) -> tuple[str, str] | None:
    """Two places at which the example has one container: what is rebound by one way is seen by the other."""
    first: dict[int, str] = {}
    for place, value in held(mod, inputs.args, inputs.kwargs).containers.items():
        if first.setdefault(id(value), place) != place and not isinstance(value, tuple):
            return first[id(value)], place
    return None


def returning(mod: torch.nn.Module, arguments: Sequence[str]) -> torch.nn.Module:
    """The model with some of its inputs returned beside its result, as they are in the end."""
    changed = copy.deepcopy(mod)

    def beside(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        bound = bind(mod, args, kwargs)
        return (result, *(bound[name] for name in arguments))

    changed.register_forward_hook(beside, with_kwargs=True)
    return changed
