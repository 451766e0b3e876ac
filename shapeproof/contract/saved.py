"""Contracts to JSON and back. Loading checks each piece, and runs nothing from the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from shapeproof.constraints.errors import ShapeproofError, UsageError
from shapeproof.constraints.syntax.text import format_formula, format_term, parse_formula, parse_term
from shapeproof.contract.archives import saved_text
from shapeproof.contract.contract import Contract
from shapeproof.contract.inputs import ConstantInput, Input, IntInput, ObjectInput, TensorInput
from shapeproof.contract.structure import Entries, Items, Opaque, Structure, Tree, leaves_of

FORMAT = 1
"""The version of the saved form."""
KIND = "shapeproof contract"


def load(path: str | Path | IO[Any]) -> Contract:
    """Read a contract from a file of `Contract.save` or `Report.save`, or from the .pt2 archive of a saved program.

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
