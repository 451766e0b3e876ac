"""Find sizes from data at which eager and the program both raise: `boxes.min(0)` where nothing is detected.

The promise holds there, and a caller still wants to know. Only observed failures are reported: the program runs on
generated data until an operator fails whose demand on a size from data is violated, and eager raises on the same data.
Errors that the model itself states (an assert, a torch._check) are not repeated.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.materialize import integers
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.beside_eager.forms import fresh_modules
from shapeproof.export.explore.beside_eager.kernels import Known, Walk
from shapeproof.export.explore.demands.graph_demands import requirements
from shapeproof.export.explore.findings import Exploration, SharedFailure
from shapeproof.export.graph import nodes
from shapeproof.export.limits import TRIES
from shapeproof.export.shim.trees import leaves, map_tensors
from shapeproof.export.source.errors import is_stated, led_to, users_variables
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.simplify import in_few_words
from shapeproof.solver.prove import implied
from shapeproof.wording import line_text, with_kind

_FILLS = (float("nan"), -1000.0, 0.0, 1000.0)
"""Data that all pass a threshold, or all fail it. Comparisons with NaN are false, even after a network."""


@dataclass(frozen=True, slots=True)
class _Demand:
    """A requirement on sizes from data: the operator that demands it, and the user's names of the sizes there."""

    formula: Formula
    operator: str | None
    where: SourceLocation | None
    names: Mapping[str, str]


def shared_failures(eager: replay.Eager, found: Exploration) -> tuple[SharedFailure, ...]:
    """Return the failures that eager and the program are seen to share, one per demand."""
    program, trial = found.main.exported, found.main.trial
    by_node = dict(_of_nodes(program, trial))
    checks = [
        _Demand(each.formula, each.place.operator, each.place.user, each.place.names)
        for each in trial.learned.checks
        if not each.inside
    ]
    if eager.missing or not (by_node or checks):
        return ()
    fresh, seen = fresh_modules(program), dict[Formula, SharedFailure]()
    for args, kwargs in _made_up(eager.inputs, found.start):
        if len(seen) == len(by_node) + len(checks):
            break
        known = Known(translator_of(program).size, dict(found.start))
        walk = _UpToFailure(fresh(), known)
        walk.walk(leaves((args, kwargs)))
        possible = [by_node[walk.failed]] if walk.failed in by_node else checks if walk.failed is not None else []
        broken = next((each for each in possible if known.denies(each.formula)), None)
        if broken is None or broken.formula in seen:
            continue
        error = eager.error_on(args, kwargs)
        if error is not None and not is_stated(error):
            seen[broken.formula] = _described(broken, error, found, known, eager.inputs)
    return tuple(seen.values())


def _of_nodes(program: torch.export.ExportedProgram, trial: Trial) -> Iterator[tuple[str, _Demand]]:
    """Yield the unchecked demands of operators on sizes from data, with the names of the operators' nodes."""
    for node, formula in requirements(program):
        if trial.about_data(formula) and not implied(formula, trial.facts):
            yield node.name, _Demand(formula, str(node.target), nodes.line_of(node), {})


def _made_up(inputs: Inputs, point: Mapping[str, int]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield inputs with the sizes of a point: filled with one value, then random."""
    for value in _FILLS:
        yield map_tensors(inputs.at(point, filled=True), functools.partial(_filled, value))
    for seed in range(TRIES):
        drawn = torch.Generator(device="cpu").manual_seed(seed)
        yield map_tensors(inputs.at(point, filled=True), functools.partial(_drawn, drawn))


def _filled(value: float, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_floating_point():
        return torch.full_like(tensor, value)
    return torch.full_like(tensor, value > 0) if tensor.dtype == torch.bool else tensor


def _drawn(generator: torch.Generator, tensor: torch.Tensor) -> torch.Tensor:
    """Randomize the signs of floats, and bools; integers stay, since they may be indices."""
    sign = integers(2, tensor.shape, generator).to(tensor.device)
    if tensor.is_floating_point():
        return torch.where(sign == 1, tensor, -tensor)
    return sign == 1 if tensor.dtype == torch.bool else tensor


class _UpToFailure(Walk):
    """Remembers the node that raises."""

    failed: str | None = None

    def step(self, n: torch.fx.Node) -> Any:
        """Run one node."""
        try:
            return super().step(n)
        except Exception:
            self.failed = n.name
            raise


def _described(demand: _Demand, error: Exception, found: Exploration, known: Known, inputs: Inputs) -> SharedFailure:
    program, trial = found.main.exported, found.main.trial
    broken = in_few_words(f.negate(demand.formula), trial.known.assuming(*trial.learned.promised))
    where = led_to(error) or demand.where
    names, sources = inputs.user_names | dict(demand.names), list[str]()
    for name in sorted(broken.symbols - names.keys() - inputs.user_names.keys()):
        made = _made_at(name, program)
        said = None if made is None else _assigned(name, made, users_variables(error), known)
        if said is not None:
            names[name] = said
        elif made is not None and (line := nodes.line_of(made)) is not None:
            sources.append(f" ({name} is taken from data at {line_text(line)})")
    return SharedFailure(
        format_formula(broken, rename=names),
        with_kind(error),
        demand.operator,
        where.file if where else None,
        where.line if where else None,
        "".join(sources),
    )


def _made_at(name: str, program: torch.export.ExportedProgram) -> torch.fx.Node | None:
    """Return the last node with a size, of the line that takes the size from data."""
    read = translator_of(program).size
    having = [node for node in program.graph.nodes if _dimension(name, node, read) is not None]
    same_line = [node for node in having if nodes.line_of(node) == nodes.line_of(having[0])]
    return same_line[-1] if same_line else None


def _dimension(name: str, node: torch.fx.Node, read: Callable[[Any], Term]) -> int | None:
    """Return the first dimension of a tensor that has a size, given by its symbol."""
    value = node.meta.get("val")
    shape = value.shape if isinstance(value, torch.Tensor) else ()
    sizes = map(read, shape)
    return next((index for index, term in enumerate(sizes) if term is symbol(name)), None)


def _assigned(name: str, node: torch.fx.Node, variables: Mapping[str, Any], known: Known) -> str | None:
    """Describe the size by the variable that the node's line assigns, if the two agree in a run of eager."""
    where = nodes.line_of(node)
    index = _dimension(name, node, known.read)
    try:
        match ast.parse(where.text if where else "").body:
            case [ast.Assign(targets=[ast.Name(target)])]:
                tensor = variables.get(target)
                size = tensor.shape[index] if isinstance(tensor, torch.Tensor) and index is not None else None
                return None if size is None or known.denies(f.eq(symbol(name), size)) else f"{target}.shape[{index}]"
    except (SyntaxError, IndexError):
        pass
    return None
