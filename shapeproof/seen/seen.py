"""`Seen`: what was observed of a model's inputs, in bounded memory.

Law: `|` is commutative, associative and idempotent, and adding a call is a join with what that call shows. So profiles
of runs and of ranks merge in any order, and merging one twice changes nothing. What was seen chooses between domains
that are proved; it proves nothing.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from shapeproof.files import given_file, write_whole
from shapeproof.seen.calls import Call, Kind, flattened, read_call, size_names
from shapeproof.seen.joint import Joint, seen_sizes
from shapeproof.seen.plots import plot_html
from shapeproof.seen.points import digest
from shapeproof.seen.relations import Relation, relations
from shapeproof.seen.saved import parsed, saved
from shapeproof.seen.sources import marks_of, sources_served, varied
from shapeproof.seen.text import rendered

MOST_KINDS = 64
"""How many kinds of calls (inputs, ranks, dtypes) are kept: those with the smallest hashes, in any order of calls."""


class Seen:
    """What was observed of a model's inputs.

    >>> seen = Seen()
    >>> for n in (4, 9, 6): seen.add((), {"n": n, "k": 2 * n, "mask": None})
    >>> print(seen)
    L['k']: scalar ?   8..18, % 2 == 0
    L['mask']: None
    L['n']: scalar ?   4..9
    >>> seen.covers((), {"n": 7, "k": 14, "mask": None}), seen.covers((), {"n": 7, "k": 15, "mask": None})
    (True, False)

    Attributes:
        joints: what was seen of each kind of calls.
        omitted: whether there were more kinds of calls than are kept.
    """

    def __init__(self, joints: Mapping[Kind, Joint] | None = None, *, omitted: bool = False) -> None:
        self.joints, self.omitted = _bounded(joints or {}, omitted=omitted)
        self._lock = threading.Lock()

    def add(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, names: Sequence[str] = ()) -> None:
        """Add a call, as AdditionalInputs does.

        Args:
            args: the positional inputs.
            kwargs: those given by name.
            names: of the model's positional parameters; without them an input is known by its place.

        Raises:
            UsageError: an input has a size that is not an int, or the inputs are too many.
        """
        self.add_call(read_call(flattened(args, kwargs or {}, names)))

    def add_call(self, call: Call) -> None:
        """Add a call that was read."""
        known = self.joints.get(call.kind)
        if known is None or not known.shows(call):
            self._take({call.kind: Joint.of(call)})

    def update(self, other: Seen) -> None:
        """Add all that another has seen.

        Args:
            other: the other, which stays as it is.
        """
        self._take(other.joints, omitted=other.omitted)

    def _take(self, joints: Mapping[Kind, Joint], *, omitted: bool = False) -> None:
        with self._lock:
            both = dict(self.joints)
            for kind, joint in joints.items():
                both[kind] = both[kind] | joint if kind in both else joint
            self.joints, self.omitted = _bounded(both, omitted=self.omitted or omitted)

    def __or__(self, other: Seen) -> Seen:
        if not isinstance(other, Seen):
            return NotImplemented
        both = Seen(self.joints, omitted=self.omitted)
        both.update(other)
        return both

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Seen):
            return NotImplemented
        return (self.joints, self.omitted) == (other.joints, other.omitted)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __bool__(self) -> bool:
        return bool(self.joints)

    def __str__(self) -> str:
        return rendered(self.joints, omitted=self.omitted)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>\n{plot_html(seen_sizes(self.joints))}"

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(Seen, omitted=self.omitted), (self.joints,)

    def named(self, names: Sequence[str]) -> Seen:
        """The same with positional arguments, which were known by their places, under the names of the parameters."""
        joints: dict[Kind, Joint] = {}
        for kind, joint in self.joints.items():
            renamed, moved = joint.renamed(kind, names)
            joints[renamed] = joints[renamed] | moved if renamed in joints else moved
        return Seen(joints, omitted=self.omitted)

    def covers(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, names: Sequence[str] = ()) -> bool:
        """Whether a call is like those seen: of a kind that was seen, within its bounds and on its lattice.

        Args:
            args: the positional inputs.
            kwargs: those given by name.
            names: of the model's positional parameters.
        """
        call = read_call(flattened(args, kwargs or {}, names))
        joint = self.joints.get(call.kind)
        return joint is not None and joint.covers(call.point)

    def relations(self) -> dict[Kind, list[Relation]]:
        """For each kind of calls, the relations that were true of all of them."""
        return {kind: relations(joint, size_names(kind)) for kind, joint in self.joints.items()}

    def sources(self, program: Any) -> str:
        """What torch.compile is to take for dynamic, as TORCH_COMPILE_DYNAMIC_SOURCES has it: `L['x']:0,L['n']`.

        The sizes that varied, as far as one proved program serves them with more than one value: with any other the
        advice could backfire. `Sources.of_program` names all that a program serves so, whether it was seen or not.

        Args:
            program: what `export` gave for what was seen.

        Raises:
            UsageError: it is not one program, or not proved.
        """
        return ",".join(self._sources(program))

    def marks(self, program: Any) -> str:
        """The same as calls of torch._dynamo.mark_dynamic, one a line; an int takes no mark.

        Args:
            program: what `export` gave for what was seen.

        Raises:
            UsageError: it is not one program, or not proved.
        """
        return marks_of(self._sources(program))

    def _sources(self, program: Any) -> list[str]:
        served = list(sources_served(program))
        named = self.named([*dict.fromkeys(re.split(r"\W", name)[0] for name in program.contract.inputs)])
        seen = {source for kind, joint in named.joints.items() for source in varied(kind, joint.varying)}
        return [each for each in served if each in seen]

    def save(self, path: str | Path) -> None:
        """Write what was seen as JSON.

        Args:
            path: the file.

        Raises:
            OSError: the file cannot be written; what was there stays.
        """
        write_whole(Path(path), self.dumps())

    def dumps(self) -> str:
        """What `save` writes."""
        return saved(self.joints, omitted=self.omitted)

    @classmethod
    def loads(cls, text: str, name: str = "the text") -> Seen:
        """What `load` reads; errors call the text by this name.

        Raises:
            UsageError: it is not what this release saves.
        """
        joints, omitted = parsed(text.encode(), name)
        return cls(joints, omitted=omitted)

    @classmethod
    def load(cls, path: str | Path) -> Seen:
        """Read what was saved.

        Raises:
            UsageError: the file cannot be read, or is not what this release saves.
        """
        joints, omitted = parsed(given_file(path), str(path))
        return cls(joints, omitted=omitted)

    @classmethod
    def merged(cls, parts: Iterable[Seen]) -> Seen:
        """The join of several."""
        return functools.reduce(Seen.__or__, parts, cls())


@functools.lru_cache(maxsize=1024)
def _digest(kind: Kind) -> tuple[int, Kind]:
    return digest(repr(kind).encode()), kind


def _bounded(joints: Mapping[Kind, Joint], *, omitted: bool) -> tuple[dict[Kind, Joint], bool]:
    """The kinds that are kept, in one order."""
    kept = sorted(joints, key=_digest)[:MOST_KINDS]
    return {kind: joints[kind] for kind in sorted(kept)}, omitted or len(joints) > len(kept)
