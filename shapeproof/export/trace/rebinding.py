"""What a model leaves in its input containers: a cache whose tensors it rebinds, a list that it appends to.

An exported program receives the values in a container, not the container, so it cannot rebind an entry. Where eager
rebinds an entry, the caller sees a difference, unless the new entry is also an output of the program.

Law: `Left` holds for every input of the trace's region. Wherever two traces are compared, their `Left` is compared,
too.
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
    differing,
    given,
    held,
    is_container,
    lies_in,
)


@dataclass(frozen=True, slots=True)
class Rebinding:
    """A flat input that the model replaces, adds or removes.

    Attributes:
        leaf: its name among the inputs, the same in each trace.
        place: the code that reads it.
        output: the output that it has become; None if there is none.
        copied: True if it holds what it held before.
        sometimes: True if another program of the same model leaves it differently.
    """

    leaf: str
    place: str
    output: str | None = None
    copied: bool = False
    sometimes: bool = False

    @property
    def argument(self) -> str:
        """The model's argument that contains the input."""
        return argument_of(self.leaf)

    @property
    def is_lost(self) -> bool:
        """True if a caller of the program cannot get what eager leaves there."""
        return self.output is None and not self.copied


@dataclass(frozen=True, slots=True)
class Left:
    """What a traced model leaves in its inputs.

    Attributes:
        rebound: the inputs that changed.
        outputs: for each flat input, the positions of the flat outputs that equal its final value.
        returned: the containers that are returned, each with the code that reads it from the result.
        unseen: other values in objects that changed, where torch does not flatten the objects.
    """

    rebound: tuple[Rebinding, ...] = ()
    outputs: Mapping[str, frozenset[int]] = field(default_factory=dict)
    returned: Mapping[str, str] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()

    def serves(self, other: Left) -> bool:
        """True if the statements about these rebindings also hold for a trace that leaves `other`."""
        kept = [{each.leaf for each in left.rebound if not each.copied} for left in (self, other)]
        lost = {each.leaf for each in self.rebound if each.is_lost}  # a lost rebinding is refuted anyway
        return all(self._same_output(leaf, other) for leaf in kept[0].union(kept[1]) - lost)

    def beside(self, others: Sequence[Left]) -> Left:
        """Return what one of several programs of a model leaves; an output counts only if all programs agree."""
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
    """Observes what the inputs of a model hold before and after it runs."""

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
        """Return what the model has left, after its trace."""
        if not self.before.places:
            return Left()
        result = given(self.result, {id(value) for value in self.before.containers.values()})
        whole = self.before.containers
        returned = {place: result.read(value) for place, value in whole.items() if id(value) in result.containers}
        outputs = {leaf: result.positions(value) for leaf, value in self.after.leaves.items()}
        changed = differing(self.before.leaves, self.after.leaves)
        rebound = (self._rebinding(leaf, result, returned, holds_the_same) for leaf in changed)
        return Left(tuple(rebound), outputs, returned, tuple(self._unseen(returned, changed)))

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

    def _unseen(self, returned: Mapping[str, str], leaves: Sequence[str]) -> Iterator[str]:
        """Yield changed places that torch does not flatten into `leaves`, outside of the returned containers."""
        before, after = self.before.places, self.after.places
        flat = {
            (argument_of(leaf), id(value)) for held in (self.before, self.after) for leaf, value in held.leaves.items()
        }
        for place in differing(before, after):
            values = (places[place] for places in (before, after) if place in places)
            flattened = ((argument_of(place), id(each)) in flat or is_container(each) for each in values)
            if place not in leaves and not any(flattened) and not any(lies_in(place, at) for at in returned):
                yield place
