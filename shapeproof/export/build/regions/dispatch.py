"""Dispatches over the programs of a split model: the sizes of an input select the program.

Each program asserts its own region, so a program that is used alone refuses the other sizes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from shapeproof.export.shim.process.one_thread import one_thread
from shapeproof.wording import said_by

if TYPE_CHECKING:
    from shapeproof.export.build.regions.merge import Merging

FORMAT = 1
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
        """Write all programs, their regions and the report as one PT2 archive, which `load_regions` reads.

        Args:
            path: the file.
        """
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
        archives.save_archive(str(path), programs, {_MANIFEST: json.dumps(manifest), **report})


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
        programs, extra = archives.load_archive(str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or said_by(error)}") from None
    except Exception as error:  # noqa: BLE001 - torch raises what it likes on a damaged program
        raise UsageError(f"{path} holds no regions: {said_by(error)}") from None
    if _MANIFEST not in extra:
        raise UsageError(
            f"{path} holds programs, but not the regions that they serve: it was not written by Regions.save"
        )
    try:
        regions = _regions(programs, json.loads(extra[_MANIFEST]))
        if NOTE in extra:
            regions.report = Report(**fields_of(extra[NOTE], path))
    except _OtherFormatError as other:
        raise UsageError(f"{path} holds regions of format {other}; this release reads format {FORMAT}") from None
    except KeyError as missing:
        raise UsageError(f"{path} holds damaged regions: {missing} is missing") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} holds damaged regions: {error}") from None
    return regions


class _OtherFormatError(Exception):
    """Another release wrote the regions in another format; the message is the format."""


def _regions(programs: Mapping[str, torch.export.ExportedProgram], manifest: Mapping[str, Any]) -> Regions:
    """Read the regions; raise KeyError for a missing part, and ValueError or TypeError for an unreadable one."""
    if manifest["format"] != FORMAT:
        raise _OtherFormatError(manifest["format"])
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
        point = self._guards.point(args, kwargs)
        for program, holds in zip(self.programs, self._holds, strict=True):
            if holds_at(holds, point):
                return program(*args, **kwargs)
        sizes = {self._names[name]: point[name] for name in sorted(self._names)}
        raise refusal(sizes, " or ".join(self._domains), "required")
