"""Find whether a program may visibly round differently from eager.

A few torch functions take no symbolic size and are decomposed (ops/decompositions.py); the result equals eager's up to
rounding. A continuous operator keeps a small difference small. At an operator that jumps (a sign, a comparison, a
rounding, an index) the program may fall on one side and eager on the other; torch's function is kept instead.

Law: `jumps` is true if such a value reaches any operator that is not known to be continuous.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import is_continuous, kind_of, known_of
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves

_FRESH = re.compile(r"aten\.(_assert_tensor_metadata|new_\w+|\w+_like|sym_\w+)\..*")
"""Operators that do not read elements."""
_MOST_GAIN = 2.0**20
"""The largest factor of a product that keeps a small difference small, and of a quotient: its divisor is no smaller."""


def _of_gentle(named: Mapping[str, Any], _: Sequence[torch.fx.Node] = ()) -> bool:
    """True if no factor is large, and no divisor, nor the `eps` in one, is near 0."""
    numbers = (abs(each) for each in named.values() if type(each) in {int, float})
    return all(1 <= each * _MOST_GAIN <= _MOST_GAIN**2 for each in numbers)


def _of_power(named: Mapping[str, Any], reaching: Sequence[torch.fx.Node]) -> bool:
    """True for any base with a whole exponent, and for a positive constant base with any exponent."""
    base, exponent = named["self"], named["exponent"]
    if exponent in reaching:
        return isinstance(base, int | float) and 0 < base <= _MOST_GAIN
    return isinstance(exponent, int | float) and exponent >= 0 and float(exponent).is_integer()


_WHERE: Mapping[str, Callable[[Mapping[str, Any], Sequence[torch.fx.Node]], bool]] = {
    **dict.fromkeys(("factor", "batch norm", "instance norm", "layer norm", "group norm"), _of_gentle),
    "quotient": lambda named, reaching: _of_gentle(named) and named["other"] not in reaching,
    "power": _of_power,
    "grid": lambda named, _: not named["interpolation_mode"],  # bilinear
    "norm": lambda *_: False,
}
"""Kinds that are continuous for some arguments; each test gets the named arguments and the rounded operands."""


def jumps(graph: torch.fx.Graph, results: set[Any]) -> bool:
    """True if an operator may show how an operand was rounded; `results`: the storages of what is rounded."""
    rounded = set(results)
    for node in graph.nodes if rounded else ():
        reaching = [each for each in node.all_input_nodes if not rounded.isdisjoint(storages([each.meta.get("val")]))]
        if not reaching or node.op != "call_function" or _FRESH.fullmatch(str(node.target)):
            continue
        if not _is_continuous(node, reaching):
            return True
        written = schemas.written(node.target, node.args, node.kwargs) if schemas.schema_of(node.target) else ()
        for value in (node.meta.get("val"), *(each.meta.get("val") for each in written)):
            rounded.update(storages([value]))
    return False


def _is_continuous(node: torch.fx.Node, reaching: Sequence[torch.fx.Node]) -> bool:
    """True if a small difference of these operands makes only a small difference of the result."""
    func: Any = node.target
    if not all(_are_floats(each.meta.get("val")) for each in (node, *reaching)):
        return False
    if kind_of(func) == "reinterpreted" and node.meta["val"].dtype != reaching[0].meta["val"].dtype:
        return False
    holds = _WHERE.get(kind_of(func))
    if holds is not None:
        return holds(schemas.by_name(func, node.args, node.kwargs), reaching)
    if is_continuous(func) or func is operator.getitem or known_of(func).moves:
        return True
    return torch.Tag.reduction in getattr(func, "tags", ()) or schemas.is_view_operator(func, pure=True)


def _are_floats(value: Any) -> bool:
    return all(isinstance(each, torch.Tensor) and each.is_floating_point() for each in leaves(value))
