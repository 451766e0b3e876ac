"""Writes tables of a spec: the spec of one model, and tables of a help into a spec that there is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import tomlkit

from shapeproof.ci.specs.spec import Dim
from shapeproof.constraints.errors import UsageError


def dim_name(size: str) -> str:
    """Return the name of the dim that stands for a size.

    >>> dim_name("x.shape[0]")
    'x_0'
    """
    return re.sub(r"\W+", "_", size.replace(".shape[", "_")).strip("_")


def spec_of(
    target: str,
    dims: Mapping[str, Dim],
    relations: Sequence[str],
    inputs: Mapping[str, tuple[str, Sequence[int | str]]],
    comment: str,
) -> str:
    """Return the text of a spec of one model; `inputs`: dtype and sizes, by the parameters of forward."""
    lines = [f"# {comment}"]
    for name, dim in dims.items():
        entries = dim.model_dump(exclude_none=True).items()
        lines += [f"[dims.{name}]", *(f"{key} = {_toml(value)}" for key, value in entries), ""]
    model = re.sub(r"\W+", "_", target.rpartition(":")[2]).lower()
    lines += [f"[models.{model}]", f"target = {_toml(target)}"]
    lines += [f"relations = {_toml(relations)}"] if relations else []
    lines += ["", f"[models.{model}.inputs]"] if inputs else []
    lines += [f'{name} = {{ dtype = "{dtype}", dims = {_toml(sizes)} }}' for name, (dtype, sizes) in inputs.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    text: str = tomlkit.item(value).as_string()
    return text


def amended(text: str, helps: Sequence[Sequence[str]]) -> str:
    """Write the helps of each model into a spec; the rest of the file stays as it is.

    A help that would change what the help of another model has changed is left out: each was proved alone.

    Raises:
        UsageError: in this layout tomlkit would change more of the file than the helps say.
    """
    document, meant, taken = tomlkit.parse(text), tomllib.loads(text), set[str]()
    for model in helps:
        tables = [tomllib.loads(help_) for help_ in model]
        touched = {path for each in tables for path in _tables_in(each)}
        if taken.isdisjoint(touched):
            taken |= touched
            for each in tables:
                _merge(document, each)
                _merge(meant, each)
    written = tomlkit.dumps(document)
    if tomllib.loads(written) != meant:
        raise UsageError("the help cannot be written without a change to the rest: write it there yourself")
    return written


def _tables_in(tables: Mapping[str, Any], above: str = "") -> set[str]:
    """The tables that hold a value, by their keys."""
    found = {above} if any(not isinstance(each, dict) for each in tables.values()) else set()
    below = ((f"{above}\0{key}", each) for key, each in tables.items() if isinstance(each, dict))
    return found.union(*(_tables_in(each, path) for path, each in below))


def _merge(document: MutableMapping[str, Any], tables: Mapping[str, Any]) -> None:
    for key, value in tables.items():
        if isinstance(value, dict) and key in document:
            _merge(document[key], value)
        else:
            document[key] = value
