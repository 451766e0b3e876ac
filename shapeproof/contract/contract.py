"""The contract of a program: what its inputs must be, for whoever calls something that was made of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shapeproof.constraints.domain import ranges
from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.evaluate import true_at
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.intervals import Interval, bounds
from shapeproof.constraints.text import format_formula, format_term
from shapeproof.contract.fast import accepting
from shapeproof.contract.inputs import ConstantInput, Input, IntInput, Sizes, TensorInput
from shapeproof.contract.nearest import nearest_size
from shapeproof.contract.outside import OutsideDomain
from shapeproof.contract.sizes import Reading, SizeGuard
from shapeproof.contract.structure import Reader, Structure
from shapeproof.files import write_whole

if TYPE_CHECKING:
    from typing import ParamSpec

    _P = ParamSpec("_P")
    _R = TypeVar("_R")


@dataclass(frozen=True)
class Answer:
    """Whether inputs are accepted; false in an `if` where they are not.

    Attributes:
        outside: why they are not, as the error that `check` raises; None where they are accepted.
    """

    outside: OutsideDomain | None = None
    _search: Callable[[], Mapping[str, int]] = field(default=dict, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.outside is None

    def __str__(self) -> str:
        return self.why or "accepted"

    @functools.cached_property
    def nearest(self) -> Mapping[str, int]:
        """One size with the nearest value that is accepted, the others being as they are; empty if unknown."""
        return self._search()

    @property
    def why(self) -> str:
        """What is given and what is declared, in one sentence; empty where the inputs are accepted."""
        if self.outside is None:
            return ""
        near = ", ".join(f"{name} = {size}" for name, size in self.nearest.items())
        return f"{self.outside}; the nearest accepted: {near}" if near else str(self.outside)


@dataclass(frozen=True)
class Contract:
    """What the inputs of a program must be, in a form that needs no torch.

    Attributes:
        inputs: the flat inputs, in order.
        structure: how a call gives them.
        formulas: what holds of the symbols in their sizes.
        declared: those among them that the user wrote; the others were found to be needed.
        names: what the user calls the symbols.
        unchecked: what the program relies on or checks, and this contract does not look at, in sentences.
    """

    inputs: tuple[Input, ...]
    structure: Structure
    formulas: tuple[Formula, ...]
    declared: frozenset[Formula]
    names: Mapping[str, str]
    unchecked: tuple[str, ...] = ()

    @property
    def domain(self) -> tuple[str, ...]:
        """What holds of every input that is accepted, in the user's names."""
        return tuple(format_formula(formula, rename=self.names) for formula in self.formulas)

    def __str__(self) -> str:
        lines = [f"inputs {self.structure}", *(f"  {_described(each)}" for each in self.inputs)]
        lines += ["where", *(f"  {each}" for each in self.domain)] if self.formulas else []
        return "\n".join([*lines, *(f"not checked: {each}" for each in self.unchecked)])

    def accepts(self, *args: Any, **kwargs: Any) -> Answer:
        """Whether the program accepts these inputs.

        Args:
            args: the inputs as the model takes them, each a tensor of any library, or its sizes as a tuple; or one
                mapping of names to inputs (`{"x": (4, 37)}`); or one sequence of all inputs.
            kwargs: inputs by the names of the model's arguments.

        Returns:
            An answer that is true or false, and says why not. Of sizes given as a tuple no dtype is asked.
        """
        try:
            values = self._reader.flat(args, kwargs)
            return Answer() if self._accepting(values) else self._judged(values)
        except OutsideDomain as outside:
            return Answer(outside)

    def check(self, *args: Any, **kwargs: Any) -> None:
        """As `accepts`, for inputs that have to be accepted.

        Raises:
            OutsideDomain: they are not; the message says which requirement does not hold, and for which value.
        """
        values = self._reader.flat(args, kwargs)
        if not self._accepting(values):
            outside = self._judged(values).outside
            if outside is not None:
                raise outside

    def wrap(self, call: Callable[_P, _R]) -> Callable[_P, _R]:
        """The callable, which raises OutsideDomain for inputs that are not accepted, and is not called then.

        Args:
            call: takes the inputs as the model does; or a mapping of their names among its arguments, as the `run`
                of an ONNX Runtime session does; or one sequence of them, as the `execute` of an ExecuTorch method does.
        """
        check = self.check

        @functools.wraps(call, updated=())
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            check(*args, **kwargs)
            return call(*args, **kwargs)

        return checked

    def save(self, path: str | Path) -> None:
        """Write the contract as JSON.

        Raises:
            OSError: the file cannot be written; what was there stays.
        """
        from shapeproof.contract.saved import contract_text

        write_whole(Path(path), contract_text(self))

    def with_unchecked(self, *more: str) -> Contract:
        """The contract that says of more that it does not look at it."""
        return replace(self, unchecked=tuple(dict.fromkeys([*self.unchecked, *more])))

    @functools.cached_property
    def _reader(self) -> Reader:
        return Reader(self.structure, self.inputs)

    @functools.cached_property
    def _guard(self) -> SizeGuard:
        sizes = [each.sizes for each in self.inputs]
        return SizeGuard(sizes, self.formulas, self.declared, self.names, self._size_name)

    @functools.cached_property
    def _accepting(self) -> Callable[[list[Any]], bool]:
        return accepting(self.inputs, self._guard)

    def _size_name(self, leaf: int, index: int) -> str:
        declared = self.inputs[leaf]
        return f"{declared.name}.shape[{index}]" if isinstance(declared, TensorInput) else declared.name

    def _judged(self, values: list[Any]) -> Answer:
        """What the guards say, one after the other."""
        try:
            for declared, value in zip(self.inputs, values, strict=True):
                declared.check(value)
        except OutsideDomain as outside:
            return Answer(outside)
        try:
            self._guard.check(values)
        except OutsideDomain as outside:
            return Answer(outside, functools.partial(self._nearest, values))
        return Answer()

    def _nearest(self, values: list[Any]) -> dict[str, int]:
        """The nearest size that is accepted: of those that the first formula is about that does not hold."""
        guard, found = self._guard, []
        point = guard.point(values)
        failing = next(formula for formula in guard.formulas if true_at(formula, point) is not True)
        for place in (place for name, place in guard.places if name in failing.symbols):
            given = values[place.leaf]
            size = given if isinstance(given, int) else given.shape[place.index]
            near = nearest_size(size, self._bounds(place), functools.partial(self._serves, values, place))
            if near is not None:
                found.append((abs(near - size), self._size_name(place.leaf, place.index), near))
        return {name: near for _, name, near in sorted(found)[:1]}

    def _bounds(self, place: Reading) -> Interval:
        declared = self.inputs[place.leaf]
        within = bounds(declared.sizes[place.index], ranges(self.formulas))
        return within & Interval(0, None) if isinstance(declared, TensorInput) else within

    def _serves(self, values: list[Any], place: Reading, size: int) -> bool:
        """Whether sizes are accepted after a change of one of them."""
        changed = [value if isinstance(value, int) else Sizes(tuple(getattr(value, "shape", ()))) for value in values]
        given = values[place.leaf]
        shape = () if isinstance(given, int) else (*given.shape[: place.index], size, *given.shape[place.index + 1 :])
        changed[place.leaf] = size if isinstance(given, int) else Sizes(shape)
        try:
            self._guard.check(changed)
        except (OutsideDomain, Unevaluable):
            return False
        return True


def _described(declared: Input) -> str:
    match declared:
        case TensorInput():
            sizes = ", ".join(format_term(term) for term in declared.sizes)
            return f"{declared.name}: {declared.dtype}[{sizes}]"
        case IntInput():
            return f"{declared.name}: int"
        case ConstantInput(value=value):
            return f"{declared.name}: {value!r}"
        case _:
            return f"{declared.name}: an object"
