"""Rewrites a program in core operators by operators that runtimes support at every size.

ExecuTorch's verifier admits Python's operators on numbers, and no torch functions. `torch.sym_float(n)` becomes
`n / 1`, which is the same double. The verifier also counts the rows of the first piece of a split, which specializes a
size; each piece becomes a separate slice instead. A minimum or maximum that is proved to be one of its operands becomes
that operand: metadata holds `min(128, past + step)` where `past + step <= 128` is enforced, so that memory planners see
the bound. One whose order is open is computed: with `t = (2*a + 1)//(a + b + 1)`, which is 1 where a >= b and else 0,
the minimum of two sizes is `a - t*(a - b)`; of numbers of at least -k, with `t = (2*a + 2*k + 1)//(a + b + 2*k + 1)`.
Operators that a runtime lacks altogether stay (`math.sqrt`).
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Container
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.terms import Term
from shapeproof.export.build.divisions import write_divisions
from shapeproof.export.graph import nodes
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.trace.known.known_sizes import proved_bounds
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Translator, Untranslatable
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied

_SPLIT = torch.ops.aten.split_with_sizes.default
_SLICE = torch.ops.aten.slice.Tensor
_EXTREMES = (torch.sym_min, torch.sym_max)


def write_core(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Rewrite the operators of a decomposed program in place, by the facts that hold for all its inputs."""
    translator = translator_of(program)
    for module in graph_modules(program.graph_module):
        checking = nodes.checking(module.graph)  # the facts rest on it
        for node in nodes.calls_of(module.graph, *_EXTREMES):
            _settle(node, translator, facts, checking)
        for node in module.graph.find_nodes(op="call_function", target=torch.sym_float):
            _divide_by_one(node)
        for node in module.graph.find_nodes(op="call_function", target=_SPLIT):
            _slice_each(node)
        module.recompile()
    write_divisions(program, facts)


def _settle(node: torch.fx.Node, translator: Translator, facts: Facts, kept: Container[torch.fx.Node]) -> None:
    """Replace a minimum or maximum of two sizes by the operand that it is proved to be, or else by arithmetic.

    The kept users are left unchanged.
    """
    first, *rest = node.args
    if len(rest) != 1:
        return
    (second,) = rest
    try:
        left, right = (_term(each, translator) for each in (first, second))
    except Untranslatable:
        return
    for least, greatest, ordered in ((first, second, f.le(left, right)), (second, first, f.le(right, left))):
        if implied(ordered, facts):
            _replace(node, least if node.target is torch.sym_min else greatest, kept)
            return
    ends = [end for each in (left, right) if (end := proved_bounds(each, facts).lower) is not None]
    if len(ends) == len(node.args):
        _replace(node, _computed(node, first, second, max(0, -min(ends))), kept)


def _computed(node: torch.fx.Node, one: Any, other: Any, below: int) -> Any:
    """Return the minimum or maximum of two numbers of at least `-below`, by operators that every runtime has."""
    call, more = functools.partial(nodes.call_beside, node), 2 * below + 1
    above = call(operator.add, call(operator.mul, one, 2), more)
    picked = call(operator.floordiv, above, call(operator.add, call(operator.add, one, other), more))
    step = call(operator.mul, picked, call(operator.sub, one, other))
    found = call(*((operator.sub, one) if node.target is torch.sym_min else (operator.add, other)), step)
    found.meta["val"] = node.meta["val"]
    return found


def _term(number: Any, translator: Translator) -> Term:
    """Return the term of an operand: of an integer, or of a node that gives one.

    Raises:
        Untranslatable: it is no integer that the solver knows.
    """
    value = nodes.metadata(number)
    if not isinstance(value, int | torch.SymInt):
        raise Untranslatable(str(value))
    return translator.size(value)


def _replace(node: torch.fx.Node, by: Any, kept: Container[torch.fx.Node]) -> None:
    """Replace a node by another one, or by a plain number, except as a result: the signature names results."""
    for user in [each for each in node.users if each.op != "output" and each not in kept]:
        user.args, user.kwargs = torch.fx.map_arg((user.args, user.kwargs), lambda arg: by if arg is node else arg)
    if not node.users:
        node.graph.erase_node(node)


def _divide_by_one(node: torch.fx.Node) -> None:
    """Rewrite `float(n)` of a size as `n / 1`."""
    number = node.args[0]
    if isinstance(nodes.metadata(number), torch.SymInt):
        node.target, node.args = operator.truediv, (number, 1)


def _slice_each(split: torch.fx.Node) -> None:
    """Rewrite a split as one slice per piece, if the lengths are constant and the first dimension is dynamic."""
    named = nodes.arguments(split)
    pieces, sizes = split.meta["val"], named["split_sizes"]
    users = list(split.users)
    if not all(isinstance(size, int) for size in sizes) or all(isinstance(each.shape[0], int) for each in pieces):
        return
    if any(user.target is not operator.getitem for user in users):
        return
    ends = list(itertools.accumulate(sizes))
    for user in users:
        index: Any = user.args[1]
        user.target = _SLICE
        user.args = (named["self"], named["dim"], ends[index] - sizes[index], ends[index], 1)
    split.graph.erase_node(split)
