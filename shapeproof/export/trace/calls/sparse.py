"""Sparse tensors: the number of stored elements comes from data, and some values in torch's fakes are made up.

The fake of a sparse tensor stores no elements, so `values()`, `indices()` and similar operators return 0 rows there.
This file replaces the number of rows by a fresh unbacked symbol. Some values a fake can only make up, and no graph can
compute them. The program would keep them as constants, so they are refused where the model reads them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.export.ops.call import product
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.callers import read_by_the_model
from shapeproof.export.source.frames import place
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.wording import line_text

_HIDDEN = {
    "_nnz": "how many elements a sparse tensor holds (read `values().shape[0]`)",
    "is_coalesced": "whether a sparse tensor is coalesced (call `coalesce()`)",
    "_version": "how often a tensor was written into",
    "data_ptr": "where a tensor lies in memory",
}
_FACTORIES = {f"sparse_{layout}_tensor" for layout in ("csr", "csc", "bsr", "bsc", "compressed")}


def with_rows(env: ProofShapeEnv, func: Any, args: Sequence[Any], result: Any, *, nested: bool) -> Any:
    """Return the result; if it has one row per element of a sparse tensor, the number of rows becomes a fresh symbol.

    `nested`: the operator is part of another operator, whose results need not show the symbol.
    """
    known, source = known_of(func), args[0] if args else None
    if known.stored is None or not isinstance(source, torch.Tensor) or source.layout == torch.strided:
        return result
    index = 1 if known.stored == "column" else source.dim() - source.sparse_dim() - source.dense_dim()
    with env.ignore_fresh_unbacked_symbols() if nested else contextlib.nullcontext():
        rows = env.create_unbacked_symint()
    env.trial.learn(f.ge(env.read(rows), 0))
    if known.coalesced and source.layout == torch.sparse_coo:
        env.trial.learn(f.le(env.read(rows), product(map(env.read, source.shape[: source.sparse_dim()]))))
    return result.new_empty([*result.shape[:index], rows, *result.shape[index + 1 :]])


def refuse_hidden(func: Any) -> None:
    """Refuse a value that a fake makes up.

    Raises:
        UsageError: the model asks for such a value, or makes a tensor that has no usable fake; the message names the
            line.
    """
    name = _name(func)
    if name in _HIDDEN and read_by_the_model():
        raise UsageError(f"the model reads {_HIDDEN[name]}{_where()}: a program would keep the number of the trace")
    if name in _FACTORIES:
        raise UsageError(f"torch cannot trace `{name}`{_where()}: make the tensor outside the model, or use COO")
    if name.startswith(("nested", "_nested")):
        raise UsageError(f"torch cannot trace nested tensors with dynamic sizes{_where()}: use padded tensors")


def _name(func: Any) -> str:
    """Return the name of a function of torch; for the getter of a property, the name of the property."""
    name = getattr(func, "__name__", "")
    return getattr(getattr(func, "__self__", None), "__name__", name) if name == "__get__" else name


def _where() -> str:
    user = place(None).user
    return f", at {line_text(user)}: {user.text}" if user else ""
