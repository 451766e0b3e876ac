"""The lock file: the proved contract of each model, for comparison with later contracts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from shapeproof.ci.jobs import Accepted, Outcome
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.files import read_bounded, write_whole

NAME = "shapeproof.lock"
"""The name of the lock file, beside the spec."""


_SHOWN = 100
"""Number of characters shown of a path inside the file."""


class Locked(BaseModel):
    """The proved contract of a model: for every such input, the program behaves like the model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: Literal["proved", "undecided"]
    dtypes: dict[str, str]
    """The dtypes of the inputs that the spec declares."""
    contract: Accepted


class _Lock(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    models: dict[str, Locked]


def locked(outcome: Outcome) -> Locked | None:
    """The locked form of an outcome; None if there is no program."""
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
        UsageError: the file cannot be written, or two models have the same name.
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
    """Read the lock file of a folder, by model.

    Raises:
        UsageError: there is no lock file, or the file is invalid.
    """
    path = folder / NAME
    try:
        models = _Lock.model_validate(json.loads(read_bounded(path))).models
    except OSError:
        raise UsageError(f"{path} cannot be read; `shapeproof lock` writes it") from None
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))[:_SHOWN]
        raise UsageError(f"{path} is no lock file of this version (at {place or 'its beginning'})") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is no lock file of this version (at its beginning)") from None
    for name, each in models.items():
        _check_contract(each.contract, f"{path} is no lock file of this version (at models.{name[:_SHOWN]})")
    return models


def _check_contract(contract: Accepted, sentence: str) -> None:
    """Check that a contract can be parsed; the later comparison could not report the fault."""
    try:
        for text in contract.domain:
            parse_formula(text)
        for texts in contract.inputs.values():
            for text in texts:
                parse_term(text)
    except (ValueError, RecursionError):
        raise UsageError(sentence) from None
