"""Traces models for tests that compare programs, and runs traced programs on concrete inputs."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.export.declare.inputs import Inputs, declare
from shapeproof.export.trace import tracer
from shapeproof.export.trace.python import loops
from shapeproof.export.trace.traced import env_of
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.witness import generic


def with_loops(function):
    """A function's code with its loops written over; None if there is none that can be."""
    return loops.written_over(function, loop=True, branch=False)


def serves(trial: Trial, point: Mapping[str, int]) -> bool:
    """Whether sizes take every decision on sizes as a trial did."""
    return all(holds_at(each, point) for each in trial.region.formulas if each.symbols <= point.keys())


def follows_data(trial: Trial) -> bool:
    """Whether a trial speaks for some data only."""
    return any(trial.about_data(decision.formula) for decision in trial.decisions)


@dataclass(frozen=True)
class Traced:
    """A program, and the trial that it was traced with."""

    inputs: Inputs
    program: torch.export.ExportedProgram
    trial: Trial


def traced(mod: torch.nn.Module, args: tuple[Any, ...], dynamic_shapes: Any) -> Traced:
    """Trace a model at a generic point of the declared domain."""
    inputs = declare(mod, args, None, dynamic_shapes)
    facts = inputs.facts()
    declared = sorted(inputs.domain.symbols)
    point = generic(facts, declared)
    assert isinstance(point, dict)
    sizes = {name: point[name] for name in declared}
    trial = Trial(facts, sizes, data=lambda name: name not in sizes)
    return Traced(inputs, tracer.trace(mod, inputs, trial), trial)


@contextlib.contextmanager
def asking_apart(traced: Traced) -> Iterator[Trial]:
    """Inside, questions about a program go to another trial, so that its own region stays as it is."""
    apart = copy.copy(traced.trial)
    apart.facts, apart.region = traced.trial.facts.fork(), traced.trial.region.fork()
    for name, value in vars(traced.trial).items():
        if isinstance(value, list | dict | set):
            setattr(apart, name, copy.copy(value))
    env = env_of(traced.program)
    env.trial = apart
    try:
        yield apart
    finally:
        env.trial = traced.trial


RAISES = "raises"


def outcome(program: torch.export.ExportedProgram, args: tuple[Any, ...]) -> Any:
    """What a program gives, what it leaves in its inputs, parameters and buffers, who shares memory, and gradients."""
    given = iter(args)
    operands = []
    for spec in program.graph_signature.input_specs:
        name = spec.target or ""
        value = (
            next(given)
            if spec.kind is InputKind.USER_INPUT
            else program.state_dict[name]
            if name in program.state_dict
            else program.constants[name]
        )
        operands.append(_own(value) if isinstance(value, torch.Tensor) else value)
    wanted = [each for each in operands if isinstance(each, torch.Tensor) and each.requires_grad]
    try:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            results = pytree.tree_leaves(program.graph_module(*operands))
            tensors = [each for each in [*results, *operands] if isinstance(each, torch.Tensor)]
            gradients = _gradients(results, wanted)
    except Exception:  # noqa: BLE001 - whatever it raises, it refuses
        return RAISES
    return [*results, *operands], gradients, [each.requires_grad for each in tensors], _sharing(tensors)


def _own(value: torch.Tensor) -> torch.Tensor:
    """A copy of an input, a parameter or a buffer, that lies as it does."""
    made = copy.deepcopy(value.detach())
    return made.requires_grad_(value.requires_grad)


def _gradients(results: list[Any], wanted: list[torch.Tensor]) -> list[Any]:
    """What autograd gives for the inputs that require it, where it can."""
    floats = [each for each in results if isinstance(each, torch.Tensor) and each.requires_grad]
    if not floats or not wanted:
        return []
    whole = sum((each.abs() * (index + 1)).sum() for index, each in enumerate(floats))
    try:
        return list(torch.autograd.grad(whole, wanted, allow_unused=True))  # type: ignore[arg-type]
    except RuntimeError:  # a parameter that is written into: eager can not either
        return [RAISES]


def _sharing(tensors: list[torch.Tensor]) -> list[int]:
    seen: dict[int, int] = {}
    return [
        seen.setdefault(each.untyped_storage().data_ptr(), at) if each.numel() else -1
        for at, each in enumerate(tensors)
    ]


def alike(mine: Any, other: Any) -> bool:
    """Whether two outcomes are the same: sizes, dtypes, strides that reach an element, values, signs of zeros."""
    a, left = pytree.tree_flatten(mine)
    b, right = pytree.tree_flatten(other)
    return left == right and all(map(_alike, a, b))


def _alike(mine: Any, other: Any) -> bool:
    if not isinstance(mine, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(mine) is type(other) and (mine == other or mine != mine)  # noqa: PLR0124 - NaN
    if (mine.shape, mine.dtype) != (other.shape, other.dtype):
        return False
    steps = zip(mine.shape, mine.stride(), other.stride(), strict=True)
    if mine.numel() and any(size > 1 and a != b for size, a, b in steps):
        return False
    mine, other = (each.detach().resolve_conj().resolve_neg() for each in (mine, other))
    if mine.is_complex():
        mine, other = torch.view_as_real(mine), torch.view_as_real(other)
    close = torch.allclose(mine.double(), other.double(), rtol=1e-6, atol=1e-6, equal_nan=True)
    zeros = (mine == 0) & (other == 0)
    return close and torch.equal(mine.signbit()[zeros], other.signbit()[zeros])
