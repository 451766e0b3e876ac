"""The lock file: the proved contract of each model, for comparison with later contracts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from shapeproof.ci.jobs import Outcome, SavedContract
from shapeproof.constraints.errors import UsageError
from shapeproof.files import read_bounded, write_whole, writing

NAME = "shapeproof.lock"
"""The name of the lock file, beside the spec."""


_SHOWN = 100
"""Number of characters shown of a path inside the file."""


class Locked(BaseModel):
    """The proved contract of a model: for every such input, the program behaves like the model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: Literal["proved", "undecided"]
    contract: SavedContract | None
    """None if there is no program, which would accept nothing."""
    regions: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    peak_bytes_bound: int | None = None


class _Lock(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[2] = 2
    models: dict[str, Locked]


def locked(outcome: Outcome) -> Locked | None:
    """The locked form of an outcome; None if there is no program that could be locked."""
    status, accepted = outcome.result.status, outcome.result.contract
    if status not in {"proved", "undecided"}:
        return None
    return Locked(
        status=status,
        contract=accepted.shipped,
        regions=accepted.regions,
        bounds=accepted.bounds,
        peak_bytes_bound=accepted.peak_bytes_bound,
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
    with writing(path):
        write_whole(path, json.dumps(lock.model_dump(), indent=1) + "\n")
    return path


def read_lock(folder: Path) -> dict[str, Locked]:
    """Read the lock file of a folder, by model.

    Raises:
        UsageError: there is no lock file, or the file is invalid.
    """
    path = folder / NAME
    try:
        return _Lock.model_validate(json.loads(read_bounded(path))).models
    except OSError:
        raise UsageError(f"{path} cannot be read; `shapeproof lock` writes it") from None
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))[:_SHOWN] or "its beginning"
    except (ValueError, RecursionError):
        place = "its beginning"
    raise UsageError(f"{path} is no lock file of this version (at {place}): run `shapeproof lock` anew")
