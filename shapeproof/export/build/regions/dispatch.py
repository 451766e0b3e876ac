"""Dispatches over the programs of a split model: the sizes of an input select the program.

Each program asserts its own region, so a program that is used alone refuses the other sizes.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.syntax.text import format_formula, format_term, parse_formula, parse_term
from shapeproof.contract.archives import NOTE
from shapeproof.contract.outside import refusal
from shapeproof.export.build.accepted.contract import InputGuards, Requirements
from shapeproof.export.report.report import Report
from shapeproof.export.report.saved import fields_of, saved_report
from shapeproof.export.shim import archives
from shapeproof.export.shim.modules import registered
from shapeproof.export.shim.process.one_thread import one_thread
from shapeproof.files import whole_file
from shapeproof.wording import said_by

if TYPE_CHECKING:
    from shapeproof.export.build.regions.merge import Merging

FORMAT = 2
"""The version of the saved form."""
_MANIFEST = "shapeproof_regions"


@dataclass
class Regions:
    """Several programs that together serve the domain, each its own region of it.

    Attributes:
        programs: one torch.export.ExportedProgram for each region.
        holds: the formula of each program's region, over the sizes.
        contract: the requirements on all inputs, in any region.
        report: the report of the export.
    """

    programs: tuple[torch.export.ExportedProgram, ...]
    holds: tuple[Formula, ...]
    contract: Requirements
    report: Report | None = None
    merging: Merging | None = field(default=None, repr=False)
    """The data that `merged` needs; None for regions loaded from a file."""

    def carry(self, report: Report) -> None:
        """Attach the report, also to the file when the programs are saved."""
        self.report = report

    @property
    def domains(self) -> tuple[str, ...]:
        """The formula of each region, in the user's names."""
        return tuple(format_formula(formula, rename=self.contract.names) for formula in self.holds)

    def module(self) -> torch.nn.Module:
        """Return the programs as one module with the model's signature."""
        return _Dispatch(self)

    def merged(self) -> torch.export.ExportedProgram:
        """Merge the programs into one that dispatches by torch.cond, so one AOTInductor package serves all regions.

        The merged program is proved, compiled and saved like any program.

        Raises:
            UsageError: the programs cannot be the branches of a torch.cond; the message says why.

        >>> from shapeproof.export import Dim, export
        >>> class Model(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x * 2 if x.shape[0] <= 30 else x - 1
        >>> shapes = {"x": {0: Dim("n", min=0, max=100)}}
        >>> regions = export(Model(), (torch.randn(5),), dynamic_shapes=shapes, branches="split")
        >>> regions.merged().module()(torch.ones(31)).sum()
        tensor(0.)
        """
        if self.merging is None:
            message = "regions that were loaded from a file cannot be merged: merge them first and save the program"
            raise UsageError(message)
        if self.report is not None and self.report.status != "proved":
            message = "the regions cannot be merged into one program: it is undecided whether they cover the domain"
            raise UsageError(message)
        with one_thread:
            return self.merging.merged(self.programs)  # type: ignore[arg-type]  # nothing that was loaded

    def save(self, path: str | Path) -> None:
        """Write all programs, their regions and the report as one archive, which `load_regions` reads.

        Args:
            path: the file.

        Raises:
            UsageError: something that the programs hold cannot be written.
        """
        with whole_file(Path(path)) as file:
            self._write(file)

    def _write(self, file: IO[bytes]) -> None:
        manifest = {
            "format": FORMAT,
            "holds": [str(formula) for formula in self.holds],
            "sizes": [[format_term(term) for term in terms] for terms in self.contract.sizes],
            "inputs": list(self.contract.inputs),
            "domain": [str(formula) for formula in self.contract.formulas],
            "declared": [str(formula) for formula in self.contract.declared],
            "names": dict(self.contract.names),
        }
        programs = {f"region{index}": program for index, program in enumerate(self.programs)}
        report = {} if self.report is None else {NOTE: saved_report(self.report)}
        archives.save_archive(file, programs, {_MANIFEST: json.dumps(manifest), **report})

    def __reduce__(self) -> tuple[Callable[[IO[bytes]], Regions], tuple[IO[bytes]]]:
        """Pickle in the format of `save`: the state of a trace cannot be pickled."""
        file = io.BytesIO()
        self._write(file)
        return _read, (file,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Regions:
        return replace(self, programs=copy.deepcopy(self.programs, memo))


def load_regions(path: str | Path) -> Regions:
    """Read a file of `Regions.save`.

    The file contains programs, which are code: run none of unknown origin. Reading a file executes none of its code:
    compiled code is refused, and pickles of anything but data.

    Args:
        path: the file.

    Raises:
        UsageError: the file holds no regions, or something in addition.
    """
    try:
        with Path(path).open("rb") as file:
            return _read(file)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or said_by(error)}") from None
    except UsageError as error:
        raise UsageError(f"{path} holds {error}") from None


def _read(file: IO[bytes]) -> Regions:
    """Read the regions of an archive.

    Raises:
        UsageError: there are none, or none that can be read; the message says what the archive holds instead.
    """
    with _held_instead("no regions"):
        texts = archives.texts_in(file)
        if _MANIFEST not in texts:
            raise UsageError("it was not written by Regions.save")
    with _held_instead("damaged regions"):
        manifest = json.loads(texts[_MANIFEST])
        found = manifest["format"]
    if found != FORMAT:
        raise UsageError(f"regions of format {found}; this release reads format {FORMAT}")
    with _held_instead("no regions"):
        programs = archives.programs_in(file)
    with _held_instead("damaged regions"):
        regions = _regions(programs, manifest)
        if NOTE in texts:
            regions.report = Report(**fields_of(texts[NOTE], "its report"))
    return regions


@contextlib.contextmanager
def _held_instead(what: str) -> Iterator[None]:
    """Raise each error inside the block as a UsageError that begins with what an archive holds instead of regions."""
    try:
        yield
    except OSError:
        raise
    except KeyError as missing:
        raise UsageError(f"{what}: {missing} is missing") from None
    except Exception as error:  # noqa: BLE001 - torch raises what it likes on a damaged program
        raise UsageError(f"{what}: {said_by(error)}") from None


def _regions(programs: Mapping[str, torch.export.ExportedProgram], manifest: Mapping[str, Any]) -> Regions:
    programs_in_order = tuple(programs[f"region{index}"] for index in range(len(manifest["holds"])))
    contract = Requirements(
        tuple(manifest["inputs"]),
        tuple(tuple(map(parse_term, terms)) for terms in manifest["sizes"]),
        tuple(map(parse_formula, manifest["domain"])),
        frozenset(map(parse_formula, manifest["declared"])),
        manifest["names"],
    )
    return Regions(programs_in_order, tuple(map(parse_formula, manifest["holds"])), contract)


class _Dispatch(torch.nn.Module):
    """Runs the program of the region that the inputs lie in."""

    def __init__(self, regions: Regions) -> None:
        super().__init__()
        self._holds, self._domains, self._names = regions.holds, regions.domains, regions.contract.names
        self.programs = torch.nn.ModuleList(program.module() for program in regions.programs)
        self._guards = InputGuards(regions.contract, regions.programs[0], of_several=True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program of the inputs' region.

        Raises:
            OutsideDomain: the inputs lie in no region.
        """
        args, kwargs = self._guards.arranged(args, kwargs)
        point = self._guards.point(args, kwargs)
        for program, holds in zip(self.programs, self._holds, strict=True):
            if holds_at(holds, point):
                return program(*args, **kwargs)
        sizes = {self._names[name]: point[name] for name in sorted(self._names)}
        raise refusal(sizes, " or ".join(self._domains), "required")

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        """Like torch's: what `to`, `double` and their like do."""
        with self._sharing():
            return super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Like torch's."""
        with self._sharing():
            return super().load_state_dict(*args, **kwargs)

    @contextlib.contextmanager
    def _sharing(self) -> Iterator[None]:
        """Inside this block torch may replace the tensors of each program; those that were one are one after it."""
        shared: dict[int, list[tuple[dict[str, Any], str]]] = {}
        for held in (each for module in self.programs.modules() for each in registered(module)):
            for name, tensor in held.items():
                shared.setdefault(id(tensor), []).append((held, name))
        try:
            yield
        finally:
            for (first, own), *others in shared.values():
                for held, name in others:
                    held[name] = first[own]
