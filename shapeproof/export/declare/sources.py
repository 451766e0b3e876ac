"""`Sources`: torch.compile's list of dynamic sources as dynamic_shapes; the sizes that it names are Dim.AUTO.

Torch's syntax: entries separated by commas, each the name of a source or a regular expression that matches its
beginning, with `:N` for one dimension. A size that the model makes constant raises no error; an entry that names no
input gives a note. The environment is read only on request: a build must not silently depend on it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.declare.reading import Leaf
from shapeproof.export.shim.inputs.profiles import learned
from shapeproof.export.source.declared_at import Where
from shapeproof.seen.sources import marks_of, sources_served

VARIABLE = "TORCH_COMPILE_DYNAMIC_SOURCES"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the list: a pattern for sources, and the dimension that it names (None: all)."""

    text: str
    matches: Callable[[str], Any]
    dim: int | None

    @classmethod
    def of(cls, text: str) -> Entry:
        """Parse an entry.

        Raises:
            UsageError: the text is no regular expression.
        """
        name, colon, number = text.rpartition(":")
        pattern, dim = (name, int(number)) if colon and number.isdecimal() else (text, None)
        try:
            match = re.compile(pattern).match
        except re.error as error:
            raise UsageError(f"{text!r} is neither a source nor a regular expression: {error}") from None
        return cls(text, lambda source: source == pattern or match(source), dim)


class Sources:
    """The dynamic inputs, by torch's source names.

    >>> print(Sources("L['x']:0, L['n']"))
    L['x']:0,L['n']
    """

    def __init__(self, *texts: str) -> None:
        if not all(isinstance(text, str) for text in texts):
            raise UsageError(f"expected texts such as \"L['x']:0\", got {texts!r}")
        parts = ",".join(texts).replace(" ", "").split(",")
        self.entries = tuple(Entry.of(part) for part in dict.fromkeys(parts) if part)

    def __str__(self) -> str:
        return ",".join(entry.text for entry in self.entries)

    def __repr__(self) -> str:
        return f"Sources({str(self)!r})"

    @classmethod
    def from_environment(cls) -> Sources:
        """Read TORCH_COMPILE_DYNAMIC_SOURCES."""
        return cls(os.environ.get(VARIABLE, ""))

    @classmethod
    def of_torch(cls, model: torch.nn.Module) -> Sources:
        """Return the sources that torch.compile has seen to vary, in this process or in a profile it has loaded."""
        return cls(*learned(model))

    @classmethod
    def of_program(cls, program: Any) -> Sources:
        """Return the sizes that a proved program serves with several values, so that torch.compile need not guess.

        Raises:
            UsageError: the argument is not one program, or is not proved.
        """
        return cls(*sources_served(program))

    def marks(self) -> str:
        """Return the same as calls of mark_dynamic, one a line, for tensors with a dimension: an int takes no mark.

        Torch raises if its compiler makes a marked size constant; for a program proved to serve many sizes that should
        not happen.

        >>> print(Sources("L['x']:0, L['cache'][1]:2, L['n']").marks())
        mark_dynamic(x, 0)
        mark_dynamic(cache[1], 2)
        """
        return marks_of(entry.text for entry in self.entries)

    def names(self, leaf: Leaf, index: int) -> bool:
        """True if an entry names a size of an input.

        Args:
            leaf: the input.
            index: the dimension; of an int there is only one.
        """
        named = {entry.dim for entry in self.entries if entry.matches(leaf.source)}
        return bool(named & {None, index} if leaf.is_tensor else named)

    def in_vain(self, leaves: Iterable[Leaf]) -> list[str]:
        """Describe the entries that name no size.

        Args:
            leaves: the inputs.
        """
        sized = [leaf for leaf in leaves if leaf.terms]
        return [
            f"`{entry.text}` names no size of an input"
            for entry in self.entries
            if not any(entry.matches(leaf.source) and (entry.dim or 0) < len(leaf.terms) for leaf in sized)
        ]


def declare_sources(
    declaring: Callable[..., Inputs], sources: Sources, constraints: Sequence[str], where: Where
) -> Inputs:
    """Read a list of sources as declarations; `declaring`: `declare` of a model and its example.

    Raises:
        UsageError: the example or a constraint is invalid.
    """
    plain = declaring(None)
    inputs = declaring(plain.automatic(sources.names), constraints, where)
    return replace(inputs, notes=(*inputs.notes, *sources.in_vain(plain.leaves)))
