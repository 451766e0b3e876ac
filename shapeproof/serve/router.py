"""Finds the program of a call: one table of forms, and for each form one generated function of its sizes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from shapeproof.constraints.meaning.compiled import first_holding
from shapeproof.serve.domains import symbols
from shapeproof.serve.programs import Program


class Router:
    """The kept programs. A router is immutable, so threads use it without a lock."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = tuple(programs)
        groups: dict[Hashable, list[Program]] = {}
        for program in self.programs:
            groups.setdefault(program.key, []).append(program)
        self._groups = {
            key: (first_holding([each.flat.formulas for each in group], symbols(len(group[0].flat.names))), group)
            for key, group in groups.items()
        }

    def find(self, key: Hashable, sizes: Sequence[int], inputs: Sequence[Any]) -> Program | None:
        """Return the first program of this key whose domain contains the sizes and that takes the inputs."""
        finder, group = self._groups.get(key, _NONE)
        index = finder(*sizes)
        if index is None:
            return None
        if group[index].takes(inputs):
            return group[index]
        return next((each for each in group[index + 1 :] if each.serves(sizes, inputs)), None)


_NONE: tuple[Callable[..., int | None], list[Program]] = (lambda *_: None, [])
