"""Find the pieces in which two runs differ, and run them with random operands: do they give the same?

A piece is a tensor that only one of two runs computes, with the calls that compute it from contents that both runs
have. Eager calls attention without a mask where a traced model passes a mask of zeros: two pieces of a call each.

Law: contents of the program count as those of eager if pieces with the same operands gave, for random operands, results
that are equal to the bit and that lie alike. What is given, as a weight is, has its own data there. What was compared
once is known of all pieces that are the same up to the names of their operands: of the next layer.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from shapeproof.export.declare.materialize import floats
from shapeproof.export.explore.beside_eager.hollow import (
    Call,
    Hollow,
    Lies,
    Made,
    Numbers,
    Run,
    Solid,
    changed,
    lying,
    operands,
    reach,
    reached,
)
from shapeproof.export.limits import RUNS
from shapeproof.export.ops import schemas
from shapeproof.export.shim.trees import tensors_in

SCALES = (1.0, 1e-4, 30.0, 1e4, 0.0)
"""The scales of random operands. They are finite: kernels of one operator treat infinities and NaN unlike."""

_LARGEST = 2 * RUNS
"""The most contents that a piece reads and makes: two larger ones differ in more than a detail."""


class _Differs(Exception):
    """A piece cannot be run, or does not lie as the runs without data say."""


@dataclass(slots=True)
class Pieces:
    """The pieces that were compared so far, each up to the names of its operands."""

    _known: dict[Hashable, bool] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of pieces that were found to give the same."""
        return sum(self._known.values())

    def renamed(self, mine: Run, theirs: Run) -> Callable[[Any], Any]:
        """Return a function that reads an operand of the second run with the numbers of the first."""
        names = _Matching(self._known, mine, theirs).names
        return lambda operand: _renamed(operand, names)


def _renamed(operand: Any, names: Mapping[int, int]) -> Any:
    if not isinstance(operand, Hollow):
        return operand
    return replace(operand, contents=names.get(operand.contents, operand.contents))


class _Matching:
    """Matches the contents that two runs compute, in the order of the second run.

    `names`: the number in the first run for each number of the second, as far as they are known to be the same.
    """

    def __init__(self, known: dict[Hashable, bool], mine: Run, theirs: Run) -> None:
        self._known, self._numbers = known, mine.numbers
        self._mine = {made.number: (call, made) for call in mine.calls for made in call.results}
        self._theirs: dict[int, tuple[Call, Made]] = {}
        """What only the second run computes, by its number."""
        self._both: set[int] = set()
        self._tries_left = RUNS
        self._lies = {number: made.lies for number, (_, made) in self._mine.items()}
        self.names: dict[int, int] = {}
        for call in theirs.calls:
            self._match(call)

    def _match(self, call: Call) -> None:
        """Give a call the numbers of its operands in the first run, and look for what it makes there."""
        again = replace(call, told=changed(call.told, functools.partial(_renamed, names=self.names)), results=[])
        number = again.number(self._numbers)
        again.results.extend(replace(made, number=self._numbers.of((number, made.part))) for made in call.results)
        for made, here in zip(call.results, again.results, strict=True):
            if made.number in self.names:
                continue
            found: Made | None = here
            if here.number not in self._mine:
                self._theirs[here.number] = again, here
                self._lies[here.number] = here.lies
                found = self._same_as(here)
            if found is not None:
                self._both.add(found.number)
            self.names[made.number] = (found or here).number

    def _same_as(self, theirs: Made) -> Made | None:
        """Return the contents of the first run that a piece computes, too."""
        piece = self._piece(self._theirs, theirs)
        only = (made for _, made in self._mine.values() if made.number not in self._both and _lie_alike(made, theirs))
        for made in itertools.islice(only, RUNS) if piece is not None else ():
            other = self._piece(self._mine, made)
            if self._tries_left and piece is not None and other is not None and piece.given == other.given:
                if self._are_same(other, piece):
                    return made
                self._tries_left -= 1
        return None

    def _piece(self, run: Mapping[int, tuple[Call, Made]], made: Made) -> _Piece | None:
        try:
            return _Piece(run, self._both, made)
        except _Differs:
            return None

    def _are_same(self, one: _Piece, other: _Piece) -> bool:
        """True if two pieces give the same; those that read data which are given have no like in another layer."""
        if one.given.keys() & self._numbers.solid.keys():
            return one.agrees_with(other, self._numbers, self._lies)
        names = {number: index for index, number in enumerate(one.given)}
        about = one.told(names, self._lies), other.told(names, self._lies)
        if about not in self._known:
            self._known[about] = one.agrees_with(other, self._numbers, self._lies)
        return self._known[about]


class _Piece:
    """A tensor that one run computes, and the few calls that compute it from contents that both runs have.

    `given`: the numbers of those contents, in the order in which the calls read them.
    """

    def __init__(self, run: Mapping[int, tuple[Call, Made]], both: set[int], made: Made) -> None:
        self._made = made
        self._calls: dict[int, Call] = {}
        """By their identities, in the order in which they are run."""
        self.given: dict[int, None] = {}
        seen: set[int] = set()

        def visit(number: int) -> None:
            if number in seen:
                return
            seen.add(number)
            if number in both or number not in run:
                self.given[number] = None
                return
            call = run[number][0]
            if len(seen) > _LARGEST:
                raise _Differs
            for each in operands(call.told):
                if isinstance(each, Hollow):
                    visit(each.contents)
            self._calls.setdefault(id(call), call)

        visit(made.number)

    def told(self, given: Mapping[int, int], layouts: Mapping[int, Lies | None]) -> Hashable:
        """Describe the piece up to the names of its operands."""
        names: dict[int, Any] = dict(given)
        said = []

        def tell(operand: Any) -> Any:
            laid = replace(operand, lies=_layout(operand, layouts)) if isinstance(operand, Hollow) else operand
            return _renamed(laid, names)

        for call in self._calls.values():
            said.append((call.func, changed(call.told, tell), call.around))
            names |= {made.number: (len(said), made.part) for made in call.results}
        return (*said, self._made.part, self._made.lies)

    def _modes(self) -> set[Hashable]:
        return {call.around[0][0] for call in self._calls.values()}

    def agrees_with(self, other: _Piece, numbers: Numbers, layouts: Mapping[int, Lies | None]) -> bool:
        """True if both give the same, to the bit, for random operands; they are run in the modes of this process."""
        if self._modes() != other._modes():
            return False
        try:
            for scale in SCALES:
                given = dict(self._operands(scale, numbers, layouts, other))
                one, two = (_bits(piece.run(dict(given), numbers, layouts)) for piece in (self, other))
                if not torch.equal(one, two):
                    return False
        except Exception:  # noqa: BLE001 - what cannot be run is not known to be the same
            return False
        return True

    def _operands(
        self, scale: float, numbers: Numbers, layouts: Mapping[int, Lies | None], other: _Piece
    ) -> Iterator[tuple[int, torch.UntypedStorage]]:
        """Yield contents for each number that is given: its own, if its data are known, else random ones."""
        generator = torch.Generator(device="cpu").manual_seed(len(self.given))
        read: dict[int, list[Lies]] = {}
        for call in (*self._calls.values(), *other._calls.values()):
            for each in operands(call.told):
                if isinstance(each, Hollow) and each.contents in self.given:
                    read.setdefault(each.contents, []).append(_layout(each, layouts))
        for number, ways in read.items():
            if number in numbers.solid:
                yield number, numbers.solid[number].untyped_storage()
                continue
            (dtype,) = {lies[3] for lies in ways}
            if not dtype.is_floating_point:
                raise _Differs
            drawn = floats((max(map(reach, ways)),), generator) * scale
            yield number, drawn.to(dtype).untyped_storage()

    def run(
        self, memory: dict[int, torch.UntypedStorage], numbers: Numbers, layouts: Mapping[int, Lies | None]
    ) -> torch.Tensor:
        """Return the tensor that the calls compute from these contents, by their numbers."""
        with torch.no_grad():
            for call in self._calls.values():
                _run(call, memory, numbers, layouts)
            if self._made.lies is None:
                raise _Differs
            return _tensor(memory[self._made.number], self._made.lies)


def _run(
    call: Call, memory: dict[int, torch.UntypedStorage], numbers: Numbers, layouts: Mapping[int, Lies | None]
) -> None:
    """Run a call on contents, and put what it makes beside them; what it writes is a copy."""
    copies: dict[int, torch.UntypedStorage] = {}

    def given(operand: Any) -> Any:
        if isinstance(operand, Hollow):
            storage = memory[operand.contents]
            if schemas.is_mutable(call.func):
                storage = copies.setdefault(operand.contents, storage.clone())
            return _tensor(storage, _layout(operand, layouts))
        if isinstance(operand, Solid):
            return numbers.solid[operand].clone()
        return operand.value

    if call.around[1] is not None:
        raise _Differs  # it draws random numbers
    named = {name: changed(told, given) for name, told in call.told}
    made = tensors_in(call.func(**named))
    wrote = tensors_in(schemas.written(call.func, (), named))
    for each in call.results:
        is_written, index = each.part
        tensor = (wrote if is_written else made)[index]
        if each.lies is not None and reached(lying(tensor)) != reached(each.lies):
            raise _Differs
        memory[each.number] = tensor.untyped_storage()


def _lie_alike(one: Made, other: Made) -> bool:
    return one.lies is not None and other.lies is not None and reached(one.lies) == reached(other.lies)


def _layout(operand: Hollow, layouts: Mapping[int, Lies | None]) -> Lies:
    lies = operand.lies or layouts[operand.contents]
    if lies is None:
        raise _Differs
    return lies


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bits of a tensor; all NaN are one."""
    tensor = torch.where(tensor.isnan(), torch.nan, tensor) if tensor.is_floating_point() else tensor
    return tensor.contiguous().view(-1).view(torch.uint8)


def _tensor(memory: torch.UntypedStorage, lies: Lies) -> torch.Tensor:
    sizes, strides, offset, dtype, *_ = lies
    return torch.empty(0, dtype=dtype, device=memory.device).set_(memory, offset, sizes, strides)
