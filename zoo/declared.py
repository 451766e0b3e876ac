"""The forms in which sizes of an entry are declared: Dims, AUTO, torch's spec language; and its spec file."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from shapeproof.ci.specs import spec, tables
from zoo.entry import Entry, Sized


def by_dims(entry: Entry, _: nn.Module, __: Mapping[str, Any]) -> dict[str, Any]:
    """A Dim for each name, and the relations of the architecture beside them."""
    return {"dynamic_shapes": entry.dynamic_shapes(), "constraints": entry.constraints}


def by_auto(entry: Entry, _: nn.Module, __: Mapping[str, Any]) -> dict[str, Any]:
    """AUTO for each size that varies: what it may be is inferred."""
    shapes = pytree.tree_map(lambda dim: None if dim is None else Dim.AUTO, entry.dynamic_shapes())
    return {"dynamic_shapes": shapes}


def by_specs(entry: Entry, model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A ShapeVar for each name, and the relations as assumptions; torch has them from 2.14 on."""
    as_spec: Any = importlib.import_module("tests.spec_language").as_spec

    def assumptions(**variables: Any) -> list[Any]:
        return [eval(each, {}, variables) for each in entry.constraints]  # noqa: S307 - written in families/

    return {"dynamic_shapes": as_spec(model, (), inputs, entry.dynamic_shapes(), assumptions)}


FORMS: Mapping[str, Callable[[Entry, nn.Module, Mapping[str, Any]], dict[str, Any]]] = {
    "dims": by_dims,
    "auto": by_auto,
    "specs": by_specs,
}
"""By name: what is declared of an entry, as keywords of `check`."""


def spec_text(name: str, entry: Entry, comment: str) -> str:
    """The spec file of an entry, for a target of the reader's own.

    An input that is no tensor has no place in a spec: such a target declares its sizes in Python.

    >>> from zoo.families import ENTRIES
    >>> print(spec_text("bert", ENTRIES["bert"], "proved"))
    # proved
    [dims.batch]
    min = 1
    max = 64
    <BLANKLINE>
    [dims.length]
    min = 1
    max = 512
    <BLANKLINE>
    [models.bert]
    target = "model:bert"
    <BLANKLINE>
    [models.bert.inputs]
    input_ids = { dtype = "int64", dims = ["batch", "length"] }
    attention_mask = { dtype = "int64", dims = ["batch", "length"] }
    <BLANKLINE>
    """
    target, inputs = f"model:{name}", {key: each for key, each in entry.inputs.items() if isinstance(each, Sized)}
    if len(inputs) < len(entry.inputs):
        said = f"{comment}\n# The target returns (model, args, kwargs, dynamic_shapes)."
        return tables.spec_of(target, {}, (), {}, said)
    dims = {each: spec.Dim(min=bounds.least, max=bounds.most) for each, bounds in entry.ranges.items()}
    dtypes = {key: str(each.fill([1] * len(each.sizes.split())).dtype) for key, each in inputs.items()}
    sized = {key: (dtypes[key].removeprefix("torch."), each.listed()) for key, each in inputs.items()}
    return tables.spec_of(target, dims, entry.constraints, sized, comment)
