"""The contract of a program: what its inputs must be, for whoever calls something that was made of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shapeproof.constraints.compiled import compiled
from shapeproof.constraints.domain import ranges
from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.evaluate import evaluate, true_at
from shapeproof.constraints.formulas import Formula, ge
from shapeproof.constraints.intervals import Interval
from shapeproof.constraints.text import format_formula, format_term
from shapeproof.contract.fast import accepting
from shapeproof.contract.inputs import ConstantInput, Input, IntInput, TensorInput
from shapeproof.contract.nearest import nearest_value
from shapeproof.contract.outside import OutsideDomain
from shapeproof.contract.sizes import SizeGuard, size_of
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
        """The sizes to change for the nearest inputs that are accepted, all in one symbol; empty if none was found."""
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

        Args:
            args: the inputs, in any form that `accepts` takes.
            kwargs: inputs by the names of the model's arguments.

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

        Args:
            path: the file.

        Raises:
            OSError: the file cannot be written; what was there stays.
        """
        from shapeproof.contract.saved import contract_text

        write_whole(Path(path), contract_text(self))

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # nothing that was generated

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
        """The sizes that differ at the nearest accepted point, where one symbol of the failing formula is moved."""
        guard = self._guard
        point = guard.point(values)
        failing = next(formula for formula in guard.formulas if true_at(formula, point) is not True)
        symbols = {name: point[name] for name in self._symbols}
        within = ranges(self.formulas)
        found = []
        for name in sorted(failing.symbols & symbols.keys()):
            serves = functools.partial(self._serves, symbols, name)
            near = nearest_value(symbols[name], within.get(name, Interval()), serves)
            if near is not None:
                found.append((abs(near - symbols[name]), name, self._sizes_at({**symbols, name: near}, values)))
        return min(found)[-1] if found else {}

    @functools.cached_property
    def _symbols(self) -> tuple[str, ...]:
        return tuple(sorted(frozenset[str]().union(*(term.symbols for each in self.inputs for term in each.sizes))))

    @functools.cached_property
    def _inside(self) -> Callable[..., bool]:
        """Whether sizes that are made of symbols are accepted: no size is negative, and all formulas hold."""
        sizes = [ge(term, 0) for each in self.inputs if isinstance(each, TensorInput) for term in each.sizes]
        return compiled([*dict.fromkeys(sizes), *self.formulas], self._symbols)

    def _serves(self, symbols: Mapping[str, int], name: str, value: int) -> bool:
        try:
            return self._inside(*({**symbols, name: value}).values())
        except Unevaluable:
            return False

    def _sizes_at(self, symbols: Mapping[str, int], values: list[Any]) -> dict[str, int]:
        """The sizes at a point that are not as they are given, by name."""
        return {
            self._size_name(leaf, index): size
            for leaf, declared in enumerate(self.inputs)
            for index, term in enumerate(declared.sizes)
            if (size := evaluate(term, symbols)) != size_of(values[leaf], index)
        }


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
