"""The contract of a program: the requirements on its inputs, for callers of anything made from the program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.syntax.text import format_formula, format_term
from shapeproof.contract.holder import Answer, Holder
from shapeproof.contract.inputs import HIDDEN, ConstantInput, Input, IntInput, ObjectInput, TensorInput
from shapeproof.contract.outside import OutsideDomain
from shapeproof.contract.sizes import SizeGuard
from shapeproof.contract.structure import Reader, Structure, leaves_of
from shapeproof.files import write_whole

if TYPE_CHECKING:
    from typing import ParamSpec

    _P = ParamSpec("_P")
    _R = TypeVar("_R")


_ACCEPTED = Answer()


@dataclass(frozen=True)
class Contract:
    """The requirements on the inputs of a program, in a form that needs no torch.

    Attributes:
        inputs: the flat inputs, in order.
        structure: how a call nests them.
        formulas: the requirements on the symbols in their sizes.
        declared: the formulas that the user declared; the others were found to be required.
        names: symbol -> the user's name.
        unchecked: requirements of the program that this contract does not check, as sentences.
    """

    inputs: tuple[Input, ...]
    structure: Structure
    formulas: tuple[Formula, ...]
    declared: frozenset[Formula]
    names: Mapping[str, str]
    unchecked: tuple[str, ...] = ()

    @property
    def domain(self) -> tuple[str, ...]:
        """The formulas that every accepted input satisfies, in the user's names."""
        return tuple(format_formula(formula, rename=self.names) for formula in self.formulas)

    @property
    def guard(self) -> SizeGuard:
        """The guard of all sizes together."""
        return self._whole.guard

    def __str__(self) -> str:
        lines = [f"inputs {self.structure}", *(f"  {_described(each)}" for each in self.inputs)]
        lines += ["where", *(f"  {each}" for each in self.domain)] if self.formulas else []
        return "\n".join([*lines, *(f"not checked: {each}" for each in self.unchecked)])

    def accepts(self, *args: Any, **kwargs: Any) -> Answer:
        """Check whether the program accepts these inputs.

        Args:
            args: the inputs as the model takes them, each a tensor of any library, or its sizes as a tuple; or one
                mapping of names to inputs (`{"x": (4, 37)}`); or one sequence of all inputs.
            kwargs: inputs by the names of the model's arguments.

        Returns:
            An answer that is true or false, with the reason. Sizes given as a tuple are checked without a dtype.
        """
        try:
            return self._answer(self._reader.flat(args, kwargs))
        except OutsideDomain as outside:
            return Answer(outside)

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Raise unless the program accepts these inputs.

        Args:
            args: the inputs, in any form that `accepts` takes.
            kwargs: inputs by the names of the model's arguments.

        Raises:
            OutsideDomain: the inputs are not accepted; the message names the failing requirement and the value.
        """
        outside = self._answer(self._reader.flat(args, kwargs)).outside
        if outside is not None:
            raise outside

    def wrap(self, call: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return the callable with a check before each call: OutsideDomain is raised for inputs that are not accepted.

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
            OSError: the file cannot be written; its previous content stays.
        """
        from shapeproof.contract.saved import contract_text

        write_whole(Path(path), contract_text(self))

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # without generated functions

    def with_unchecked(self, *more: str) -> Contract:
        """Return the contract with further sentences about requirements that it does not check."""
        return replace(self, unchecked=tuple(dict.fromkeys([*self.unchecked, *more])))

    @functools.cached_property
    def _reader(self) -> Reader:
        return Reader(self.structure, self.inputs)

    @functools.cached_property
    def _whole(self) -> Holder:
        return Holder(self.inputs, self.formulas, self.declared, self.names)

    @functools.cached_property
    def _seen(self) -> Holder:
        """The holder for calls in which an opaque container hides some of the inputs."""
        hidden = self._hidden
        seen = [ObjectInput(each.name, each.graph_name) if i in hidden else each for i, each in enumerate(self.inputs)]
        known = frozenset[str]().union(*(term.symbols for each in seen for term in each.sizes))
        return Holder(seen, [each for each in self.formulas if each.symbols <= known], self.declared, self.names)

    @functools.cached_property
    def _hidden(self) -> frozenset[int]:
        trees = [*self.structure.args, *self.structure.kwargs.values()]
        return frozenset(leaf for tree in trees for leaf in leaves_of(tree, hidden=True))

    def _answer(self, values: list[Any]) -> Answer:
        """Check the flat inputs."""
        holder = self._seen if self._hidden and any(value is HIDDEN for value in values) else self._whole
        return _ACCEPTED if holder.accepts(values) else holder.judged(values)


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
