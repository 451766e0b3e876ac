"""What a traced program knows of its sizes: the ShapeEnv of its trace, which its metadata holds.

When the program is built, its trace is closed: from then on, compilers and consumers ask.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import symbol
from shapeproof.export.ops.call import ANYTHING, Span
from shapeproof.export.shim.numbers.symbols import shape_envs, value_range
from shapeproof.export.trace.closed_trial import closed
from shapeproof.export.trace.known.known_sizes import KnownSizes, note_sizes, proved_bounds
from shapeproof.export.trace.rebinding import Left
from shapeproof.export.trace.shape_env import ProofShapeEnv
from shapeproof.export.trace.translate import Translator
from shapeproof.solver.facts import Facts


def env_of(program: torch.export.ExportedProgram) -> ProofShapeEnv | None:
    """Return the ShapeEnv that a program was traced with; None if it was not traced here."""
    return next((env for env in shape_envs(program) if isinstance(env, ProofShapeEnv)), None)


def translator_of(program: torch.export.ExportedProgram) -> Translator:
    """Return the translator for a program's sizes; a program that was not traced here gets a fresh one."""
    env = env_of(program)
    return Translator(lambda free: symbol(free.name)) if env is None else env.translator


def span_of(program: torch.export.ExportedProgram, value: torch.Tensor) -> Span:
    """Return the bounds of the integers in a tensor of a program's metadata."""
    env = env_of(program)
    return ANYTHING if env is None else env.span(value)


def left_in(program: torch.export.ExportedProgram) -> Left:
    """Return what the model left in its input containers, if the program was traced here."""
    env = env_of(program)
    return Left() if env is None else env.left


def close_trace(
    program: torch.export.ExportedProgram,
    enforced: Iterable[Formula],
    names: Mapping[str, str],
    taken_apart: Callable[[], Facts],
) -> Facts:
    """End the trace: from now on, compilers ask, for every input of the program and not only the trace's region.

    Compilers are told what the solver knows about sizes on that domain. `taken_apart` is a method of what holds the
    program, so the ShapeEnv must not hold it.

    Returns:
        The facts that hold for every input of the program.
    """
    env = env_of(program)
    if env is None:  # there is nothing to ask
        return Facts(enforced)
    env.trial = closed(env.trial, enforced, names, functools.partial(_asked, weakref.WeakMethod(taken_apart)))
    refine = functools.partial(_refine_range, env)
    for free in env.var_to_range:
        refine(free)
    known = KnownSizes(env, refine)
    env.operators.known_sizes = known
    env.keep_written(known.has_written)
    return env.trial.facts


def _asked(taken_apart: weakref.WeakMethod[Callable[[], Facts]]) -> Facts:
    """Return the facts that a compiler's decomposition is valid for.

    Raises:
        UsageError: the program is no longer held, so its decomposition cannot be tested.
    """
    held = taken_apart()
    if held is None:
        raise UsageError("what is left of a program is compiled, and the program is gone: keep it until then")
    return held()


def _refine_range(env: ProofShapeEnv, free: Any) -> None:
    """Tell torch the range of a symbol over all inputs that the program takes: compilers plan memory by ranges.

    Torch gives every int input a lower bound of 0, although it may be negative; there the proved range replaces
    torch's.
    """
    if free.is_integer and free in env.terms:
        proved = value_range(proved_bounds(env.terms[free], env.trial.facts))
        env.var_to_range[free] = proved if proved.lower < 0 else env.var_to_range[free] & proved


def note_known_sizes(program: torch.export.ExportedProgram) -> None:
    """Write the known sizes into the metadata of a finished program."""
    env = env_of(program)
    if env is None:
        return
    if env.operators.known_sizes is not None:
        note_sizes(program, env.operators.known_sizes)
    for free in program.range_constraints.keys() & env.var_to_range.keys():
        program.range_constraints[free] &= env.var_to_range[free]
