"""The forms in which a program is run: as it is, and taken apart as its consumers take it apart.

Also deep copies of models for replays. A model's parameters are copied once for all replays of an export; the copies
share that memory until one of them is written into. It is torch's storage that is copied when it is written, so that no
way of writing is missed, and it is never the model's own: its memory stays where it is.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.graph.aliasing import observes_aliasing
from shapeproof.export.shim.modules import deep_copied, fakes_copied
from shapeproof.export.shim.process.idle_work import quiet
from shapeproof.export.shim.replaced import bound, replaced
from shapeproof.export.shim.storages import copied_when_written, holds_floats, is_copied_when_written, writes
from shapeproof.export.trace.closed_trial import without_specializing
from shapeproof.export.trace.rebinding import Left
from shapeproof.export.trace.traced import env_of, left_in
from shapeproof.export.trace.trial import Trial


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A form in which a program is run.

    Attributes:
        fresh: returns a callable of the program in its state before any call; the same one while it is in that state.
        name: a description of the form, empty for the program itself.
        left: what the model left in its inputs when it was traced, and the program does not leave there.
        relaid: true if the memory layout of results may differ from eager's: consumers, and torch.cond, copy.
        module: the program, which is copied before it is called; None if only `fresh` can make a callable.
    """

    fresh: Callable[[], Callable[..., Any]]
    name: str = ""
    left: Left = field(default_factory=Left)
    relaid: bool = False
    module: torch.fx.GraphModule | None = None


def forms_of(program: torch.export.ExportedProgram | None) -> list[Form]:
    """Return the program, and its decomposed form where the graph can observe the difference.

    A program that torch cannot decompose (for every size, or at all) is run only in its own form.
    """
    if program is None:
        raise ValueError("there is no program to run")
    own = module_of(program)
    found = [Form(_fresh(own), left=left_in(program), module=own)]
    if observes_aliasing(program.graph):
        with contextlib.suppress(Exception):  # torch itself fails at some: `resize_` to a dynamic size
            apart = module_of(decomposed(program))
            found.append(replace(found[0], fresh=_fresh(apart), name=_DECOMPOSED, relaid=True, module=apart))
    return found


_DECOMPOSED = "after run_decompositions, "


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Decompose a program into functional core operators, as consumers do."""
    with quiet(), asking(program, without_specializing):
        return torch.export.ExportedProgram.run_decompositions(program)


@contextlib.contextmanager
def asking(program: torch.export.ExportedProgram, other: Callable[[Trial], Trial]) -> Iterator[Trial | None]:
    """Inside this block, questions go to another trial, which is about another form of the program.

    Yields that trial, or None if nothing was traced with symbolic sizes.
    """
    env = env_of(program)
    if env is None:
        yield None
        return
    with replaced(env, trial=other(env.trial)):
        yield env.trial


def fresh_modules(program: torch.export.ExportedProgram) -> Callable[[], torch.nn.Module]:
    """Return a factory of callables; each starts from the program's initial state and shares none with the model.

    An earlier callable is returned again if nothing was written into its state: many programs write into what they
    computed themselves.
    """
    return _fresh(module_of(program))


def _fresh(module: torch.fx.GraphModule) -> Callable[[], torch.nn.Module]:
    if not nodes.mutates(module.graph):
        return functools.cache(lambda: copied_state(module))
    watching = nodes.counts_writes(module)
    last: list[tuple[torch.nn.Module, list[int | None]]] = []

    def fresh() -> torch.nn.Module:
        if not (watching and last and None not in last[0][1] and _writes(last[0][0]) == last[0][1]):
            made = copied_state(module)
            last[:] = [(made, _writes(made))]
        return last[0][0]

    return fresh


def _writes(module: torch.nn.Module) -> list[int | None]:
    """Return how often each tensor of a module was written into."""
    held = (each for part in module.modules() for each in vars(part).values())
    state = itertools.chain(module.parameters(), module.buffers(), held)
    return [writes(each) for each in state if isinstance(each, torch.Tensor)]


def module_of(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    """Return the program as a module, without torch's guards on its inputs."""
    with quiet():
        module = program.module(check_guards=False)
    module.meta = {}  # torch.export.unflatten leaves a module there, which cannot be copied
    return module


_ModuleT = TypeVar("_ModuleT", bound=torch.nn.Module)


@dataclass(frozen=True, slots=True)
class _Copied:
    """A parameter, how often it had been written into, and the copy of its data."""

    own: torch.nn.Parameter
    writes: int | None
    data: torch.Tensor


_copies: ContextVar[dict[int, _Copied] | None] = ContextVar("copies", default=None)


def parameters_copied_once() -> AbstractContextManager[object]:
    """Inside this block, copies share the memory of parameters that no copy has written into."""
    return bound(_copies, {})


def copied(module: _ModuleT) -> _ModuleT:
    """Return a deep copy: what is written into one of the two is not seen in the other.

    >>> layer = torch.nn.Linear(2, 2)
    >>> with parameters_copied_once(), torch.no_grad():
    ...     other = copied(layer)
    ...     _ = other.weight.zero_()
    ...     bool(layer.weight.any())
    True
    """
    return deep_copied(module, _parameters(module))[0]


def copied_state(program: torch.fx.GraphModule, known: Mapping[int, Any] | None = None) -> torch.fx.GraphModule:
    """Return a copy of a program that nobody changes: its state is copied, and its graphs are not.

    `known`: the copies of tensors to take, by the ids of what they are copies of.
    """
    parts = (each for each in program.modules() if isinstance(each, torch.fx.GraphModule))
    state = {**fakes_copied(program), **(_parameters(program) if known is None else known)}
    memo = {**state, **{id(each.graph): each.graph for each in parts}}
    with quiet():
        return copy.deepcopy(program, memo)


def _parameters(module: torch.nn.Module) -> dict[int, Any]:
    """The copies of the parameters, by their ids, as `copy.deepcopy` takes them; none outside of a block."""
    known = _copies.get()
    if known is None:
        return {}
    return {
        id(each): _copy(each, known)
        for each in module.parameters()
        if type(each) is torch.nn.Parameter and holds_floats(each)
    }


def _copy(parameter: torch.nn.Parameter, known: dict[int, _Copied]) -> torch.nn.Parameter:
    """As the parameter would copy itself: its data, in dense memory, and whether it requires gradients."""
    return torch.nn.Parameter(copied_when_written(_source(parameter, known)), parameter.requires_grad)


def _source(parameter: torch.nn.Parameter, known: dict[int, _Copied]) -> torch.Tensor:
    if is_copied_when_written(parameter):
        return parameter.data
    found = known.get(id(parameter))
    if found is None or found.writes is None or found.writes != writes(parameter):
        data = parameter.data.clone(memory_format=torch.preserve_format)
        found = known[id(parameter)] = _Copied(parameter, writes(parameter), data)
    return found.data
