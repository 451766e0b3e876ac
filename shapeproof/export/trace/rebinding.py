"""What a model leaves in the containers among its inputs: a cache whose tensors it rebinds, a list that it appends to.

An exported program is given the values in a container and not the container, so it never rebinds what is in one. Where
eager does, the caller sees a difference, unless what the container now holds is an output of the program, too.

Law: `Left` speaks of every input of the trace's region. It is compared wherever two traces are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from shapeproof.export.shim.inputs.containers import (
    Given,
    Held,
    argument_of,
    given,
    held,
    is_container,
    is_same,
    lies_in,
)


@dataclass(frozen=True, slots=True)
class Rebinding:
    """A flat input that is another after the model has run, was added or taken away.

    Attributes:
        leaf: its name among the inputs: the same in each trace.
        place: the code that reads it.
        output: the output that is what it has become; None where there is none.
        copied: whether it holds what it held before.
        sometimes: whether another program of the same model leaves it otherwise.
    """

    leaf: str
    place: str
    output: str | None = None
    copied: bool = False
    sometimes: bool = False

    @property
    def argument(self) -> str:
        """The argument of the model in which it lies."""
        return argument_of(self.leaf)

    @property
    def is_lost(self) -> bool:
        """Whether a caller of the program cannot have what eager leaves there."""
        return self.output is None and not self.copied


@dataclass(frozen=True, slots=True)
class Left:
    """What a traced model leaves in its inputs.

    Attributes:
        rebound: what is otherwise than before.
        outputs: for each flat input the positions of the flat outputs that are what it holds in the end.
        returned: the containers that are returned, and as what.
        unseen: what else objects hold otherwise than before, where torch does not flatten it.
    """

    rebound: tuple[Rebinding, ...] = ()
    outputs: Mapping[str, frozenset[int]] = field(default_factory=dict)
    returned: Mapping[str, str] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()

    def serves(self, other: Left) -> bool:
        """Whether what is said of these rebindings is so where another trace leaves what the other says."""
        kept = [{each.leaf for each in left.rebound if not each.copied} for left in (self, other)]
        lost = {each.leaf for each in self.rebound if each.is_lost}  # which is refuted as it is
        return all(self._same_output(leaf, other) for leaf in kept[0].union(kept[1]) - lost)

    def beside(self, others: Sequence[Left]) -> Left:
        """What is left by one of several programs for one model: an output speaks for what all of them leave."""
        rebound = (
            replace(each, output=None, sometimes=True)
            if each.output is not None and not all(self._same_output(each.leaf, other) for other in others)
            else each
            for each in self.rebound
        )
        return replace(self, rebound=tuple(rebound))

    def _same_output(self, leaf: str, other: Left) -> bool:
        if self.outputs.get(leaf, frozenset()) & other.outputs.get(leaf, frozenset()):
            return True
        return any(lies_in(leaf, at) and other.returned.get(at) == name for at, name in self.returned.items())


class Watched:
    """Sees what the inputs of a model hold before and after it runs."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._given: tuple[Any, Any] = ((), {})
        self.before = self.after = Held({}, {})
        self.result: Any = None
        model.register_forward_pre_hook(self._begin, with_kwargs=True, prepend=True)
        model.register_forward_hook(self._end)

    def _begin(self, _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._given = args, kwargs
        self.before = held(self._model, args, kwargs)

    def _end(self, _: torch.nn.Module, __: Any, result: Any) -> None:
        self.after, self.result = held(self._model, *self._given), result

    def left(self, holds_the_same: Callable[[torch.Tensor, torch.Tensor], bool]) -> Left:
        """What the model has left, once its trace is over."""
        if not self.before.places:
            return Left()
        result = given(self.result, {id(value) for value in self.before.containers.values()})
        whole = self.before.containers
        returned = {place: result.read(value) for place, value in whole.items() if id(value) in result.containers}
        outputs = {leaf: result.positions(value) for leaf, value in self.after.leaves.items()}
        rebound = (self._rebinding(leaf, result, returned, holds_the_same) for leaf in self._changed())
        return Left(tuple(rebound), outputs, returned, tuple(self._unseen(returned)))

    def _changed(self) -> list[str]:
        before, after = self.before.leaves, self.after.leaves
        return [leaf for leaf in before | after if not is_same(before.get(leaf, _NOTHING), after.get(leaf, _NOTHING))]

    def _rebinding(
        self,
        leaf: str,
        result: Given,
        returned: Mapping[str, str],
        holds_the_same: Callable[[torch.Tensor, torch.Tensor], bool],
    ) -> Rebinding:
        held = self.after if leaf in self.after.leaves else self.before
        place, old, new = held.place_of(leaf), self.before.leaves.get(leaf), self.after.leaves.get(leaf)
        whole = next((read for at, read in returned.items() if lies_in(place, at)), None)
        if whole is None and leaf in self.after.leaves and result.positions(new):
            whole = result.read(new)
        copied = isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor) and holds_the_same(old, new)
        return Rebinding(leaf, place, whole, copied)

    def _unseen(self, returned: Mapping[str, str]) -> Iterator[str]:
        """Places that torch does not flatten and that hold something else, outside of what is returned."""
        before, after = self.before.places, self.after.places
        flat = {
            (argument_of(leaf), id(value)) for held in (self.before, self.after) for leaf, value in held.leaves.items()
        }
        for place in before | after:
            values = [places[place] for places in (before, after) if place in places]
            same = len(values) > 1 and is_same(*values)
            told = place in self._changed() or any(
                is_container(each) or (argument_of(place), id(each)) in flat for each in values
            )
            if not same and not told and not any(lies_in(place, at) for at in returned):
                yield place


_NOTHING = object()
