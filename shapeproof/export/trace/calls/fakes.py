"""Correct what torch's fakes note of a result: sizes of views, rows of sparse tensors, numbers of users' operators.

Some values a fake can only make up, and no graph can compute them. The program would keep them as constants, so they
are refused where the model reads them.

*Dropout that drops nothing.* Eager returns the operand itself, and torch's fake returns a copy. A write into the result
is then a write into the operand. A trace keeps the operator in the graph; if the graph writes where the difference
shows, a second trace returns the operand and has no operator.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.export.graph.aliasing import observes_aliasing
from shapeproof.export.ops import schemas
from shapeproof.export.ops.call import product
from shapeproof.export.ops.shapes.layouts import Size
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.callers import read_beside_torch, read_by_the_model
from shapeproof.export.shim.numbers.symbols import PLAIN, data_symbols
from shapeproof.export.shim.trees import map_all
from shapeproof.export.source.frames import at_users_line
from shapeproof.export.trace.shape_env import ProofShapeEnv

_HIDDEN = {
    "_nnz": "how many elements a sparse tensor holds (read `values().shape[0]`)",
    "is_coalesced": "whether a sparse tensor is coalesced (call `coalesce()`)",
    "._version": "how often a tensor was written into",
    "data_ptr": "where a tensor lies in memory",
    ".grad": "the gradient that a tensor has collected",
}
_STORAGES = {"untyped_storage", "_typed_storage", "storage"}
"""Torch's own functions read these, too, and keep no number."""
_FACTORIES = {f"sparse_{layout}_tensor" for layout in ("csr", "csc", "bsr", "bsc", "compressed")}


@functools.cache
def view_of_copy(func: Any) -> Any:
    """Return the viewing operator whose result an operator copies, if torch computes the copy's sizes from a hint."""
    name = known_of(func).copies_view
    return None if name is None else functools.reduce(getattr, name.split("."), torch.ops)


def as_asked(env: ProofShapeEnv, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Return the result; a view whose noted sizes may be undefined gets the sizes that the call asked for.

    Torch's rule for `view` splits dimensions one by one. It notes `x.view(-1, 2, 4)` of `x: [n, 4]` as `[n // 2, n //
    (n // 2), 4]`, which is right where there are elements and undefined at n = 0. Eager takes the sizes from the call
    and computes the last one from the number of elements: `[4*n // 8, 2, 4]`.
    """
    asked = known_of(func).as_asked
    if asked is None or all(env.read(size).total for size in result.shape):
        return result
    call = schemas.by_name(func, args, kwargs)
    sizes = _asked(call["self"], call[asked])
    strides = [math.prod(sizes[index + 1 :]) for index in range(len(sizes))]
    known = [*zip(result.shape, sizes, strict=True), *zip(result.stride(), strides, strict=True)]
    if not all(env.trial.settled(f.eq(env.read(noted), env.read(own))) for noted, own in known):
        return result
    return result.as_strided(sizes, strides, result.storage_offset())


def _asked(source: torch.Tensor, sizes: Sequence[Size]) -> list[Size]:
    """Return the sizes of a view, with the size -1 that is left to torch computed: eager checks that they fit."""
    given = [not isinstance(size, int) or size != -1 for size in sizes]
    others = math.prod(size for size, known in zip(sizes, given, strict=True) if known)
    return [size if known else source.numel() // others for size, known in zip(sizes, given, strict=True)]


def with_rows(env: ProofShapeEnv, func: Any, args: Sequence[Any], result: Any, *, nested: bool) -> Any:
    """Return the result; if it has one row per element of a sparse tensor, the number of rows becomes a fresh symbol.

    The fake of a sparse tensor stores no elements, so `values()`, `indices()` and similar operators return 0 rows.
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


def as_data(env: ProofShapeEnv, func: Any, result: Any) -> Any:
    """Return the result with an unbacked symbol in place of each number that a user's fake kernel claims or computes.

    When the operator runs, torch compares the sizes of its results with the real sizes. A number that was believed
    would leave no trace of the operator in the graph, and nothing to compare. The model may check what follows from the
    fake kernel (`torch._check`).
    """
    if isinstance(result, torch.Tensor) or result is NotImplemented or not schemas.is_foreign(func):
        return result
    fresh = set(env.pending_fresh_unbacked_symbols)
    return map_all(result, lambda value: value if _is_data(value, fresh) else _from_data(env, func, value))


def _is_data(value: Any, fresh: set[Any]) -> bool:
    if type(value) in PLAIN:
        return not fresh.isdisjoint(data_symbols(value))
    return not isinstance(value, int | float)


def _from_data(env: ProofShapeEnv, func: Any, value: Any) -> torch.SymInt:
    if isinstance(value, bool | float | torch.SymBool | torch.SymFloat):
        message = f"{func} gives a {'bool' if isinstance(value, bool | torch.SymBool) else 'float'}, which torch "
        message += "cannot keep symbolic: return a tensor instead"
        raise NotImplementedError(message)
    return env.create_unbacked_symint()


def refuse_hidden(func: Any) -> None:
    """Refuse a value that a fake makes up.

    Raises:
        UsageError: the model asks for such a value, or makes a tensor that has no usable fake; the message names the
            line.
    """
    name = _name(func)
    storage = "the storage of a tensor" if name in _STORAGES and read_beside_torch() else None
    hidden = _HIDDEN[name] if name in _HIDDEN and read_by_the_model() else storage
    if hidden is not None:
        raise UsageError(f"the model reads {hidden}{at_users_line()}: a program would keep what the trace found")
    if name in _FACTORIES:
        raise UsageError(f"torch cannot trace `{name}`{at_users_line()}: make the tensor outside the model, or use COO")
    if name.startswith(("nested", "_nested")):
        raise UsageError(f"torch cannot trace nested tensors{at_users_line()}: use padded tensors and lengths")


def _name(func: Any) -> str:
    """Return the name of a function of torch; for the getter of a property, its name behind a dot: `.grad`."""
    name = getattr(func, "__name__", "")
    return f".{getattr(getattr(func, '__self__', None), '__name__', name)}" if name == "__get__" else name


def drops_nothing(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if a call is a dropout that returns its operand; a probability that torch rejects is left to torch.

    >>> dropout, x = torch.ops.aten.dropout.default, torch.ones(2)
    >>> drops_nothing(dropout, (x, 0.5, False), {}), drops_nothing(dropout, (x, 0.5, True), {})
    (True, False)
    """
    if not known_of(func).drops:
        return False
    p, train = map(schemas.by_name(func, args, kwargs).get, ("p", "train"))
    return isinstance(p, int | float) and 0 <= p <= 1 and isinstance(train, bool) and (p == 0 or not train)


def hides_a_write(graph: torch.fx.Graph) -> bool:
    """True if a graph has a dropout that drops nothing, and writes so that a copy differs from the operand."""
    calls = (node for node in graph.nodes if node.op == "call_function")
    return any(drops_nothing(node.target, node.args, node.kwargs) for node in calls) and observes_aliasing(graph)
