"""The lock file: the proved contract of each model, to compare later ones with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from shapeproof.ci.jobs import Contract, Outcome
from shapeproof.ci.spec import Status
from shapeproof.constraints.errors import UsageError
from shapeproof.files import write_whole

NAME = "shapeproof.lock"
"""The lock file, beside the spec."""


class Locked(BaseModel):
    """What was proved of a model: for every such input the program does what the model does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: Status
    dtypes: dict[str, str]
    """Of the inputs that the spec declares."""
    contract: Contract


class _Lock(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    models: dict[str, Locked]


def locked(outcome: Outcome) -> Locked | None:
    """What is to be locked of an outcome; None where there is no program."""
    result, inputs = outcome.result, outcome.check.job.inputs or {}
    if result.status not in {"proved", "undecided"}:
        return None
    return Locked(
        status=result.status,
        dtypes={name: given.dtype for name, given in inputs.items()},
        contract=result.contract,
    )


def write_lock(folder: Path, outcomes: Sequence[Outcome]) -> Path:
    """Write the lock file of a folder.

    Raises:
        UsageError: it cannot be written, or two models have the same name in it.
    """
    found: dict[str, Locked | None] = {}
    for name, outcome in ((outcome.check.name, outcome) for outcome in outcomes):
        if name in found:
            raise UsageError(f"two specs in {folder} have a model `{name}`; one lock file cannot hold both")
        found[name] = locked(outcome)
    lock = _Lock(models={name: each for name, each in found.items() if each is not None})
    path = folder / NAME
    try:
        write_whole(path, lock.model_dump_json(indent=1) + "\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    return path


def read_lock(folder: Path) -> dict[str, Locked]:
    """What is locked in a folder, by model.

    Raises:
        UsageError: there is no lock file, or it is none.
    """
    path = folder / NAME
    try:
        return _Lock.model_validate_json(path.read_bytes()).models
    except OSError:
        raise UsageError(f"{path} cannot be read; `shapeproof lock` writes it") from None
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise UsageError(f"{path} is no lock file of this version (at {place or 'its beginning'})") from None
