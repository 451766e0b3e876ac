"""What a worker is asked and what it answers, as data that goes through pipes, caches and clusters as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter

from shapeproof.ci.specs.dims import demands, parse_size
from shapeproof.ci.specs.spec import Dim, Found, Input, Model, Operator, Spec, SpecFile
from shapeproof.constraints.records.diagnostics import Diagnostic

TIMEOUT = 3600.0
"""Seconds that a model may take where nothing else is said."""


class Job(BaseModel):
    """A model to check: all that the verdict depends on, apart from code and versions."""

    model_config = ConfigDict(frozen=True)

    root: str
    """The folder that imports start from: that of the spec."""
    target: str
    inputs: dict[str, Input] | None = None
    dims: dict[str, Dim] = {}
    relations: tuple[str, ...] = ()
    operator: bool = False
    """Whether the target returns an operator and not a model."""
    values: dict[str, bool | int | float | str] = {}
    """The arguments of an operator that are no tensors."""
    seen: str | None = None
    narrow: bool = False
    splitting: bool = False
    lines: dict[str, int] = {}
    """Where the spec says what: by the name of a dim, and by each claim as text (`n <= 8`, `x.shape[0] == 2*n`)."""
    spec: str = ""
    """The name of its file, in the folder."""
    model: str = ""
    """What the spec calls it."""
    timeout: float | None = TIMEOUT
    """Seconds after which the process is ended; None if never."""
    traceback: bool = False
    """Whether a sentence about what the user's code raised is followed by the whole traceback."""
    verbose: bool = False
    """Whether what was asked of the solver is told as progress."""

    @property
    def question(self) -> Job:
        """The job without what no verdict depends on."""
        return self.model_copy(update={"timeout": None, "traceback": False, "verbose": False})


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a program accepts: the sizes of each input over symbols, and what holds, as text in the user's names.

    `regions` are what holds where each of several programs serves, `bounds` the sizes that come out of data, as text,
    and the last says how many bytes are held at most.
    """

    inputs: dict[str, list[str]] = field(default_factory=dict)
    domain: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    peak_bytes_bound: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on a model. Without one, `status` is None and `text` the sentence that says why."""

    status: Found | None
    text: str
    diagnostics: tuple[Diagnostic, ...] = ()
    contract: Accepted = Accepted()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


Sources: TypeAlias = dict[str, str]
"""What a result depends on: path to digest of content."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A result, and what it depends on; None where that is not known for sure."""

    result: Result
    sources: Sources | None = None
    versions: dict[str, str] | None = None
    installed: dict[str, str] = field(default_factory=dict)
    """The files of what is installed that were read, each with its state (`identity.state`)."""


ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
JOB: TypeAdapter[Job] = TypeAdapter(Job)
T = TypeVar("T")


def to_json(form: TypeAdapter[T], value: T) -> str:
    """The value as JSON in ASCII: a path need not be UTF-8, and pydantic's own JSON must be."""
    return json.dumps(form.dump_python(value))


def from_json(form: TypeAdapter[T], text: str | bytes) -> T:
    """The value again.

    Raises:
        ValueError: the text is no such value (pydantic's ValidationError is one).
        RecursionError: it is nested too deeply.
    """
    return form.validate_python(json.loads(text))


@dataclass(frozen=True, slots=True)
class Check:
    """A model of a spec: what to ask, what is expected, and where that stands."""

    name: str
    file: Path
    line: int
    expected: Found
    accept_undecided: bool
    job: Job


@dataclass(frozen=True, slots=True)
class Outcome:
    """A model of a spec, and the verdict on it."""

    check: Check
    result: Result
    unchanged: bool = False
    """Whether the verdict is that of an earlier run on the same code, spec and versions."""
    skipped: bool = False
    """Whether it was not checked to the end, since the run was stopped before."""

    @property
    def passed(self) -> bool:
        """Whether the verdict is one that the spec accepts."""
        status = self.result.status
        if self.check.expected == "agrees":
            return status in {"agrees", "proved"}
        return status == self.check.expected or (status == "undecided" and self.check.accept_undecided)


def checks_of(
    file: SpecFile, timeout: float = TIMEOUT, *, traceback: bool = False, verbose: bool = False
) -> Iterator[Check]:
    """What a spec asks for, model by model; the time limit is for those that have none of their own."""
    root = str(file.path.resolve().parent)
    for name, model in file.spec.models.items():
        job = Job(
            root=root,
            target=model.target,
            inputs=model.inputs,
            dims=_dims_of(file.spec, model),
            relations=tuple(model.relations),
            seen=model.seen,
            narrow=model.narrow,
            splitting=model.branches == "split",
            lines=_lines(file, "models", name),
            spec=file.path.name,
            model=name,
            timeout=model.timeout or timeout or None,
            traceback=traceback,
            verbose=verbose,
        )
        yield Check(name, file.path, file.line("models", name), model.expect, model.accept_undecided, job)


def operator_checks_of(
    file: SpecFile, timeout: float = TIMEOUT, *, traceback: bool = False, verbose: bool = False
) -> Iterator[Check]:
    """What a spec asks for, operator by operator."""
    root = str(file.path.resolve().parent)
    for name, operator in file.spec.operators.items():
        job = Job(
            root=root,
            target=operator.target,
            inputs=operator.inputs,
            dims=_dims_of(file.spec, operator),
            relations=tuple(operator.relations),
            operator=True,
            values=operator.values,
            lines=_lines(file, "operators", name),
            spec=file.path.name,
            timeout=operator.timeout or timeout or None,
            traceback=traceback,
            verbose=verbose,
        )
        line = file.line("operators", name)
        yield Check(f"operators.{name}", file.path, line, operator.expect, accept_undecided=False, job=job)


def _dims_of(spec: Spec, model: Model | Operator) -> dict[str, Dim]:
    """The dims that the inputs name: a job holds what it is about, and not the whole spec."""
    sizes = (size for given in (model.inputs or {}).values() for size in given.dims)
    used = {parse_size(size).name for size in sizes if isinstance(size, str)}
    return {name: spec.dims[name] for name in sorted(used)}


def _lines(file: SpecFile, table: str, name: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    for text, keys in _claims(file.spec, table, name):
        lines.setdefault(text, file.line(*keys))
    return lines


def _claims(spec: Spec, table: str, name: str) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """What a spec declares of a model, piece by piece, each with its keys; a dim before what is claimed of it."""
    model: Model | Operator = spec.models[name] if table == "models" else spec.operators[name]
    for dim, bounds in _dims_of(spec, model).items():
        yield dim, ("dims", dim)
        if bounds.min is not None:
            yield f"{dim} >= {bounds.min}", ("dims", dim, "min")
        if bounds.max is not None:
            yield f"{dim} <= {bounds.max}", ("dims", dim, "max")
        yield from ((text, ("dims", dim, key)) for key, text in demands(dim, bounds))
    for index, text in enumerate(model.relations):
        yield text, (table, name, "relations", index)
    for key, given in (model.inputs or {}).items():
        for index, size in enumerate(given.dims):
            yield f"{key}.shape[{index}] == {size}", (table, name, "inputs", key, "dims", index)
