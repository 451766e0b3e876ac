"""The question to a worker and its answer, as data that travels through pipes, caches and clusters as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator, TypeAdapter

from shapeproof.ci.specs.dims import conditions, parse_size
from shapeproof.ci.specs.spec import Dim, Found, Input, Model, Operator, Spec, SpecFile
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.contract import Contract
from shapeproof.contract.contract import from_data, to_data

TIMEOUT = 3600.0
"""Default time limit for a model, in seconds."""


class Job(BaseModel):
    """A model to check: everything that the verdict depends on, apart from code and versions."""

    model_config = ConfigDict(frozen=True)

    root: str
    """The folder of the spec; imports start here."""
    target: str
    inputs: dict[str, Input] | None = None
    dims: dict[str, Dim] = {}
    relations: tuple[str, ...] = ()
    operator: bool = False
    """True if the target returns an operator, false if it returns a model."""
    values: dict[str, bool | int | float | str] = {}
    """The arguments of an operator that are not tensors."""
    seen: str | None = None
    narrow: bool = False
    splitting: bool = False
    lines: dict[str, int] = {}
    """The line of each declaration in the spec, by dim name or claim text (`n <= 8`, `x.shape[0] == 2*n`)."""
    spec: str = ""
    """The name of the spec file in the folder."""
    model: str = ""
    """The name of the model in the spec."""
    timeout: float | None = TIMEOUT
    """Seconds after which the process is killed; None for no limit."""
    traceback: bool = False
    """True to print the whole traceback when the user's code raises."""
    verbose: bool = False
    """True to report the solver's questions as progress."""

    @property
    def question(self) -> Job:
        """Return the job without the fields that no verdict depends on."""
        return self.model_copy(update={"timeout": None, "traceback": False, "verbose": False})


def _read(value: Any) -> Contract:
    return value if isinstance(value, Contract) else from_data(value, "it")


SavedContract: TypeAlias = Annotated[Contract, PlainValidator(_read), PlainSerializer(to_data)]
"""A program's contract; as JSON in the form of `Contract.save`."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The inputs that a program accepts, as text in the user's names: sizes over symbols, and conditions.

    `regions` holds one condition for each of several programs, `bounds` the tensors of data-dependent sizes
    (`nonzero: i64[<=25, 2]`), and `peak_bytes_bound` an upper bound of the memory in use. `shipped` is the whole
    contract of the program; None if there is no program.
    """

    inputs: dict[str, list[str]] = field(default_factory=dict)
    domain: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    peak_bytes_bound: int | None = None
    shipped: SavedContract | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on a model. Without a verdict, `status` is None and `text` gives the reason.

    `report` is the report as `Report.save` writes it; empty for an operator, and without a verdict.
    """

    status: Found | None
    text: str
    diagnostics: tuple[Diagnostic, ...] = ()
    contract: Accepted = Accepted()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    report: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A result with the digest of each dependency; None if these are not known for sure."""

    result: Result
    sources: dict[str, str] | None = None


ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
JOB: TypeAdapter[Job] = TypeAdapter(Job)
T = TypeVar("T")


def to_json(form: TypeAdapter[T], value: T) -> str:
    """Return the value as ASCII JSON: a path need not be UTF-8, but pydantic's own JSON must be."""
    return json.dumps(form.dump_python(value))


def from_json(form: TypeAdapter[T], text: str | bytes) -> T:
    """Read a value back from JSON.

    Raises:
        ValueError: the text is no such value (pydantic's ValidationError is a ValueError).
        RecursionError: the text is nested too deeply.
    """
    return form.validate_python(json.loads(text))


@dataclass(frozen=True, slots=True)
class Check:
    """A model of a spec: the job, the expected verdict, and its line in the spec."""

    name: str
    file: Path
    line: int
    expected: Found
    accept_undecided: bool
    job: Job


@dataclass(frozen=True, slots=True)
class Outcome:
    """A model of a spec with its verdict."""

    check: Check
    result: Result
    unchanged: bool = False
    """True if the verdict comes from an earlier run on the same code, spec and versions."""
    skipped: bool = False
    """True if the run stopped before this check ended."""

    @property
    def passed(self) -> bool:
        """True if the spec accepts the verdict."""
        status = self.result.status
        if self.check.expected == "agrees":
            return status in {"agrees", "proved"}
        return status == self.check.expected or (status == "undecided" and self.check.accept_undecided)


def checks_of(file: SpecFile, timeout: float = TIMEOUT, *, operators: bool = True, **shown: bool) -> Iterator[Check]:
    """The checks of the models and operators in a spec. `timeout` is for those without a limit; `shown`: see `Job`."""
    for name, model in file.spec.models.items():
        splitting = model.branches == "split"
        own = {"seen": model.seen, "narrow": model.narrow, "splitting": splitting, "model": name}
        job = _job(file, ("models", name), model, timeout, **own, **shown)
        yield Check(name, file.path, file.line("models", name), model.expect, model.accept_undecided, job)
    for name, operator in file.spec.operators.items() if operators else ():
        job = _job(file, ("operators", name), operator, timeout, operator=True, values=operator.values, **shown)
        line = file.line("operators", name)
        yield Check(f"operators.{name}", file.path, line, operator.expect, accept_undecided=False, job=job)


def _job(file: SpecFile, place: tuple[str, str], subject: Model | Operator, timeout: float, **more: Any) -> Job:
    lines: dict[str, int] = {}
    for text, keys in _claims(file.spec, place, subject):
        lines.setdefault(text, file.line(*keys))
    return Job(
        root=str(file.path.resolve().parent),
        target=subject.target,
        inputs=subject.inputs,
        dims=_dims_of(file.spec, subject),
        relations=tuple(subject.relations),
        lines=lines,
        spec=file.path.name,
        timeout=subject.timeout or timeout or None,
        **more,
    )


def _dims_of(spec: Spec, model: Model | Operator) -> dict[str, Dim]:
    """The dims that the inputs name: a job holds only the declarations that its model uses."""
    sizes = (size for given in (model.inputs or {}).values() for size in given.dims)
    used = {parse_size(size).name for size in sizes if isinstance(size, str)}
    return {name: spec.dims[name] for name in sorted(used)}


def _claims(spec: Spec, place: tuple[str, str], model: Model | Operator) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """The text of each declaration of a model, with its keys in the spec; each dim precedes the claims about it."""
    for dim, bounds in _dims_of(spec, model).items():
        yield dim, ("dims", dim)
        yield from ((text, ("dims", dim, key)) for key, text in conditions(dim, bounds))
    for index, text in enumerate(model.relations):
        yield text, (*place, "relations", index)
    for key, given in (model.inputs or {}).items():
        for index, size in enumerate(given.dims):
            yield f"{key}.shape[{index}] == {size}", (*place, "inputs", key, "dims", index)
