"""The forms in which a program is run: as it is, and taken apart as its consumers take it apart.

Also deep copies of models for replays. They share the model's memory until they are written into. It is torch's storage
that is copied when it is written, so that no way of writing is missed; the model's own memory stays where it is.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.graph.aliasing import observes_aliasing
from shapeproof.export.graph.work import Work
from shapeproof.export.shim.lending import Lending, lending
from shapeproof.export.shim.modules import deep_copied, tensors_of
from shapeproof.export.shim.process.idle_work import quiet
from shapeproof.export.shim.replaced import bound, replaced
from shapeproof.export.shim.storages import writes
from shapeproof.export.trace.closed_trial import without_specializing
from shapeproof.export.trace.rebinding import Left
from shapeproof.export.trace.traced import env_of, left_in, translator_of
from shapeproof.export.trace.trial import Trial
from shapeproof.plain import Saving, saves_time


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A form in which a program is run.

    Attributes:
        fresh: returns a callable of the program in its state before any call; the same one while it is in that state.
        name: a description of the form, empty for the program itself.
        left: what the model left in its inputs when it was traced, and the program does not leave there.
        relaid: true if the memory layout of results may differ from eager's: consumers, and torch.cond, copy.
        module: the program, which is copied before it is called; None if only `fresh` can make a callable.
        work: returns the number of multiplications of a run at a point, 0 if unknown.
    """

    fresh: Callable[[], Callable[..., Any]]
    name: str = ""
    left: Left = field(default_factory=Left)
    relaid: bool = False
    module: torch.fx.GraphModule | None = None
    work: Callable[[Mapping[str, int]], int] = field(default=lambda _: 0)


def forms_of(program: torch.export.ExportedProgram) -> list[Form]:
    """Return the program, and its decomposed form where the graph can observe the difference.

    A program that torch cannot decompose (for every size, or at all) is run only in its own form.
    """
    own = module_of(program)
    work = functools.cache(lambda: Work(program.graph, translator_of(program).read))
    found = [Form(_fresh(own), left=left_in(program), module=own, work=lambda at: work().at(at))]
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


def fresh_modules(program: torch.export.ExportedProgram, *, stated: bool = False) -> Callable[[], torch.nn.Module]:
    """Return a factory of callables; each starts from the program's initial state and shares none with the model.

    An earlier callable is returned again if nothing was written into its state: many programs write into what they
    computed themselves. `stated`: the caller finds what a custom operator writes beyond its schema.
    """
    return _fresh(module_of(program), stated=stated)


def _fresh(module: torch.fx.GraphModule, *, stated: bool = False) -> Callable[[], torch.nn.Module]:
    reads, counts = not nodes.mutates(module.graph), nodes.counts_writes(module, stated=stated)
    last: list[tuple[torch.nn.Module, list[int | None], Lending | None]] = []

    def is_fresh(made: torch.nn.Module, before: list[int | None], lent: Lending | None) -> bool:
        return lent is _lent.get() and (reads or (counts and None not in before and _writes(made) == before))

    def fresh() -> torch.nn.Module:
        if not (last and is_fresh(*last[0])):
            made = copied_state(module)
            last[:] = [(made, _writes(made), _lent.get())]
        return last[0][0]

    return fresh


def _writes(module: torch.nn.Module) -> list[int | None]:
    """Return how often each tensor of a module was written into."""
    return list(map(writes, tensors_of(module)))


def module_of(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    """Return the program as a module, without torch's guards on its inputs."""
    with quiet():
        module = program.module(check_guards=False)
    module.meta = {}  # torch.export.unflatten leaves a module there, which cannot be copied
    return module


_ModuleT = TypeVar("_ModuleT", bound=torch.nn.Module)


_lent: ContextVar[Lending | None] = ContextVar("lent", default=None)


@contextlib.contextmanager
def memory_shared() -> Iterator[None]:
    """Inside this block, copies share the memory of what is copied, until one of them is written into."""
    with contextlib.ExitStack() as stack:
        if saves_time(Saving.LENDING):
            stack.enter_context(bound(_lent, stack.enter_context(lending())))
        yield


def copied(module: _ModuleT) -> _ModuleT:
    """Return a deep copy: what is written into one of the two is not seen in the other.

    >>> layer = torch.nn.Linear(2, 2)
    >>> with memory_shared(), torch.no_grad():
    ...     other = copied(layer)
    ...     _ = other.weight.zero_()
    ...     bool(layer.weight.any())
    True
    """
    return deep_copied(module, _memo(module))[0]


def copied_state(program: torch.fx.GraphModule, known: Mapping[Any, Any] | None = None) -> torch.fx.GraphModule:
    """Return a copy of a program that nobody changes: its state is copied, and its graphs are not.

    `known`: the memo that holds the copies of tensors to take.
    """
    parts = [each for each in program.modules() if isinstance(each, torch.fx.GraphModule)]
    state = _memo(program) if known is None else known
    with quiet():
        made, _ = deep_copied(program, {**state, **{id(each.graph): each.graph for each in parts}})
    for each in parts:
        each.graph.owning_module = each  # the copy took its graph over, and may be emptied
    lent = _lent.get()
    if lent is not None:
        lent.emptied.add(made)
    return made


def _memo(module: torch.nn.Module) -> dict[Any, Any]:
    """The memo with which `copy.deepcopy` copies a module whose memory is shared; none outside of a block.

    A parameter would copy its data itself: it is told its copy.
    """
    lent = _lent.get()
    if lent is None:
        return {}
    memo = lent.memo(tensors_of(module))
    for each in module.parameters():
        if type(each) is torch.nn.Parameter:
            memo[id(each)] = torch.nn.Parameter(copy.deepcopy(each.data, memo), each.requires_grad)
    return memo
