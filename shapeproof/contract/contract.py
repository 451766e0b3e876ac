"""The contract of a program: the requirements on its inputs, for callers of anything made from the program.

Saved as JSON. Loading checks each piece, and runs nothing from the file.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from shapeproof.constraints.errors import ShapeproofError, UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.syntax.text import format_formula, format_term, parse_formula, parse_term
from shapeproof.contract.archives import saved_text
from shapeproof.contract.holder import Answer, Holder
from shapeproof.contract.inputs import (
    HIDDEN,
    ConstantInput,
    Entries,
    Input,
    IntInput,
    Items,
    Misfit,
    ObjectInput,
    Opaque,
    Reader,
    Structure,
    TensorInput,
    Tree,
    leaves_of,
)
from shapeproof.contract.outside import OutsideDomain
from shapeproof.contract.sizes import SizeGuard
from shapeproof.files import write_whole

if TYPE_CHECKING:
    from typing import ParamSpec

    _P = ParamSpec("_P")
    _R = TypeVar("_R")


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

    def _repr_html_(self) -> str:
        from shapeproof.tables import table

        tables = [table(INPUTS, input_rows(self)), table(("where",), ((each,) for each in self.domain))]
        return "\n".join([*tables, table(("not checked",), ((each,) for each in self.unchecked))]).strip()

    def accepts(self, *args: Any, **kwargs: Any) -> Answer:
        """Check whether the program accepts these inputs.

        Args:
            args: the inputs as the model takes them, each a tensor of any library, or its sizes as a tuple; or one
                mapping of names to inputs (`{"x": (4, 37)}`); or one sequence of all inputs.
            kwargs: inputs by the names of the model's arguments.

        Returns:
            An answer that is true or false, with the reason. Sizes given as a tuple are checked without a dtype.
        """
        if self._fits(args, kwargs):
            return Answer()
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
        outside = None if self._fits(args, kwargs) else self._answer(self._reader.flat(args, kwargs)).outside
        if outside is not None:
            raise outside

    def wrap(self, call: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return the callable with a check before each call: OutsideDomain is raised for inputs that are not accepted.

        Args:
            call: takes the inputs as the model does; or a mapping of their names among its arguments, as the `run`
                of an ONNX Runtime session does; or one sequence of them, as the `execute` of an ExecuTorch method does.
        """
        fits, check = self._fits, self.check

        @functools.wraps(call, updated=())
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if not fits(args, kwargs):
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
        write_whole(Path(path), contract_text(self))

    def header(self, name: str) -> str:
        """Return a C++ header whose function `outside`, in the namespace `name`, checks the contract.

        It takes the sizes and dtypes of the tensors, and the ints; constants are built into a program. Numbers of more
        than 64 bits count as outside. What the contract does not check stands there as a comment.

        Args:
            name: the namespace.

        Raises:
            UsageError: the name is none of C++, or the contract has a dtype or a formula that no header checks.
        """
        from shapeproof.contract.header import header

        return header(self, name)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # without generated functions

    def with_unchecked(self, *more: str) -> Contract:
        """Return the contract with further sentences about requirements that it does not check."""
        return replace(self, unchecked=tuple(dict.fromkeys([*self.unchecked, *more])))

    @functools.cached_property
    def _reader(self) -> Reader:
        return Reader(self.structure, self.inputs)

    @functools.cached_property
    def _fits(self) -> Callable[[tuple[Any, ...], Mapping[str, Any]], bool]:
        """The test for calls in a usual form. It may be false for accepted inputs; the reader and the guards decide."""
        plain, accepts = self._reader.plain, self._whole.accepts

        def fits(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
            try:
                return accepts(*plain(args, kwargs))
            except (LookupError, TypeError, Misfit):
                return False

        return fits

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
        return Answer() if holder.accepts(*values) else holder.judged(values)


INPUTS = "input", "dtype", "sizes"
"""The titles of a table of inputs."""


def input_rows(contract: Contract) -> list[tuple[str, ...]]:
    """Return the rows of a table of inputs: the name, the dtype or kind, and the sizes or the value."""
    return [
        (each.name, each.dtype, ", ".join(map(format_term, each.sizes)))
        if isinstance(each, TensorInput)
        else (each.name, _described(each).removeprefix(f"{each.name}: "), "")
        for each in contract.inputs
    ]


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


FORMAT = 1
"""The version of the saved form."""
KIND = "shapeproof contract"


def load(path: str | Path | IO[Any]) -> Contract:
    """Read a contract from a file of `Contract.save` or `Report.save`, or of a program that has its contract with it.

    These are the .pt2 archives of `torch.export.save`, and whatever `shapeproof.ship` wrote.

    Args:
        path: the file, or its path. No code in it is run.

    Raises:
        UsageError: the file cannot be read, or holds no contract; the message says which.
    """
    return read_contract(*saved_text(path, "holds no contract"))


def read_contract(text: str | bytes, name: str) -> Contract:
    """Return the contract in the text of a contract or a report; `name` names the source in errors.

    Raises:
        UsageError: the text holds no contract.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"{name} holds no contract: it is no JSON") from None
    if isinstance(content, dict) and content.get("kind") != KIND and "contract" in content:
        content = content["contract"]
        if content is None:
            raise UsageError(f"{name} holds a report without a contract: it gave out no program")
    return from_data(content, name)


def contract_text(contract: Contract) -> str:
    """Return the text of the contract's file."""
    return json.dumps(to_data(contract), indent=1) + "\n"


def to_data(contract: Contract) -> dict[str, Any]:
    """Return the contract as JSON data."""
    structure = contract.structure
    return {
        "kind": KIND,
        "format": FORMAT,
        "inputs": [_saved_input(each) for each in contract.inputs],
        "args": [_saved_tree(each) for each in structure.args],
        "kwargs": {name: _saved_tree(each) for name, each in structure.kwargs.items()},
        "parameters": list(structure.parameters),
        "arguments": {name: _saved_tree(each) for name, each in structure.arguments.items()},
        "domain": [
            {"formula": format_formula(each), "declared": each in contract.declared} for each in contract.formulas
        ],
        "names": dict(contract.names),
        "unchecked": list(contract.unchecked),
    }


def from_data(content: Any, name: str) -> Contract:
    """Return the contract from JSON data.

    Raises:
        UsageError: the data is no contract, or has another format, or is damaged.
    """
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise UsageError(f"{name} holds no contract")
    if type(content.get("format")) is not int or content["format"] != FORMAT:
        raise UsageError(f"{name} holds a contract of another format than {FORMAT}, which this release reads")
    try:
        contract = _contract(content)
        contract.accepts()  # the generated function can be built
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SyntaxError, ShapeproofError):
        raise UsageError(f"{name} holds a damaged contract") from None
    return contract


def _contract(content: Mapping[str, Any]) -> Contract:
    inputs = tuple(map(_loaded_input, _typed(list, content["inputs"])))
    structure = Structure(
        tuple(map(_loaded_tree, _typed(list, content["args"]))),
        {name: _loaded_tree(each) for name, each in _typed(dict, content["kwargs"]).items()},
        tuple(_typed(str, each) for each in content["parameters"]),
        {name: _loaded_tree(each) for name, each in _typed(dict, content["arguments"]).items()},
    )
    for tree in [*structure.args, *structure.kwargs.values(), *structure.arguments.values()]:
        if not all(0 <= leaf < len(inputs) for leaf in leaves_of(tree)):
            raise ValueError(tree)
    formulas = [(parse_formula(each["formula"]), each["declared"]) for each in _typed(list, content["domain"])]
    return Contract(
        inputs,
        structure,
        tuple(formula for formula, _ in formulas),
        frozenset(formula for formula, declared in formulas if _typed(bool, declared)),
        {name: _typed(str, shown) for name, shown in _typed(dict, content["names"]).items()},
        tuple(_typed(str, each) for each in content["unchecked"]),
    )


def _typed(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(value)
    return value


def _saved_input(declared: Input) -> dict[str, Any]:
    named = {"name": declared.name, "graph_name": declared.graph_name}
    sizes = [format_term(term) for term in declared.sizes]
    match declared:
        case TensorInput(dtype=dtype, device=device, layout=layout):
            return named | {"kind": "tensor", "dtype": dtype, "device": device, "layout": layout, "sizes": sizes}
        case IntInput():
            return named | {"kind": "int", "sizes": sizes}
        case ConstantInput(value=float() as value):
            return named | {"kind": "float", "value": repr(value)}
        case ConstantInput(value=value):
            return named | {"kind": "constant", "value": value, "sizes": sizes}
        case _:
            return named | {"kind": "object"}


def _loaded_input(saved: Any) -> Input:
    named = _typed(str, saved["name"]), _typed(str, saved["graph_name"])
    match saved["kind"]:
        case "tensor":
            dtype, device, layout = (_typed(str, saved[each]) for each in ("dtype", "device", "layout"))
            return TensorInput(*named, dtype, device, layout, tuple(map(parse_term, saved["sizes"])))
        case "int":
            (term,) = map(parse_term, saved["sizes"])
            return IntInput(*named, (term,))
        case "float":
            return ConstantInput(*named, float(saved["value"]))
        case "constant" if isinstance(saved["value"], bool | int | str | None):
            return ConstantInput(*named, saved["value"], tuple(map(parse_term, saved["sizes"])))
        case "object":
            return ObjectInput(*named)
    raise ValueError(saved)


def _saved_tree(tree: Tree) -> Any:
    match tree:
        case int():
            return tree
        case Items(kind, parts):
            return {kind.__name__: [_saved_tree(each) for each in parts]}
        case Entries(keys, parts, is_object, kind):
            pairs = [[key, _saved_tree(each)] for key, each in zip(keys, parts, strict=True)]
            return {"object" if is_object else "mapping": pairs} | _class(kind)
        case Opaque(leaves, kind):
            return {"opaque": list(leaves)} | _class(kind)


def _class(kind: str) -> dict[str, str]:
    return {"class": kind} if kind else {}


def _loaded_tree(saved: Any) -> Tree:
    if type(saved) is int:
        return saved
    (kind, parts), *more = _typed(dict, saved).items()
    own = _typed(str, dict(more).get("class", ""))
    match kind:
        case "list" | "tuple":
            return Items(list if kind == "list" else tuple, tuple(map(_loaded_tree, parts)))
        case "mapping" | "object":
            keys = tuple(key for key, _ in parts)
            hash(keys)
            return Entries(keys, tuple(_loaded_tree(tree) for _, tree in parts), is_object=kind == "object", kind=own)
        case "opaque":
            return Opaque(tuple(_typed(int, each) for each in parts), own)
    raise ValueError(kind)
