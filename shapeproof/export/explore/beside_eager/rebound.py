"""Run eager to find the line that rebinds what an input holds, and the contents before and after.

A trace says that the rebinding happens over a whole region; this is one run of it, at the exploration's first sizes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.explore.beside_eager import replay, runner
from shapeproof.export.explore.beside_eager.forms import copied
from shapeproof.export.shim.inputs.binding import bind
from shapeproof.export.shim.inputs.containers import Held, contents, differing, held
from shapeproof.export.source.errors import ChangedAt
from shapeproof.export.trace.rebinding import Left


@dataclass(frozen=True, slots=True)
class Seen:
    """The contents that one run of eager leaves in its inputs.

    Attributes:
        lines: the first line that changes each flat input (by name) or place (by the code that reads it).
        before: the flat inputs before the run.
        after: the flat inputs after the run.
    """

    lines: Mapping[Hashable, SourceLocation]
    before: Held
    after: Held


def seen_in_eager(eager: replay.Eager, point: Mapping[str, int], left: Left) -> Seen:
    """Return what eager leaves in its inputs at a point, for the inputs that a trace saw changed."""
    args, kwargs = eager.inputs.at(point, filled=True)
    mine = copied(eager.mod)
    bound = bind(mine, args, kwargs)
    before = contents(bound)

    def changed() -> set[Hashable]:
        now = contents(bound)
        leaves = {each.leaf for each in left.rebound}.intersection(differing(before.leaves, now.leaves))
        return {*leaves, *set(left.unseen).intersection(differing(before.places, now.places))}

    follow = ChangedAt(changed)

    def followed(*args: Any, **kwargs: Any) -> None:
        with follow.following():
            mine(*args, **kwargs)

    runner.outcome(followed, args, kwargs)
    return Seen(follow.lines, before, contents(bound))


def given_twice(eager: replay.Eager) -> tuple[str, str] | None:
    """Return two places where the example has one container: rebinding at one place is visible at the other."""
    first: dict[int, str] = {}
    for place, value in held(eager.mod, eager.inputs.args, eager.inputs.kwargs).containers.items():
        if first.setdefault(id(value), place) != place and not isinstance(value, tuple):
            return first[id(value)], place
    return None


def returning(mod: torch.nn.Module, arguments: Sequence[str]) -> torch.nn.Module:
    """Return the model, changed to return the final state of some inputs beside its result."""
    changed = copied(mod)

    def beside(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        bound = bind(mod, args, kwargs)
        return (result, *(bound[name] for name in arguments))

    changed.register_forward_hook(beside, with_kwargs=True)
    return changed
