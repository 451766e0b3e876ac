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
from typing import IO, Any, Self

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.syntax.text import format_formula, format_term, parse_formula, parse_term
from shapeproof.contract.archives import NOTE
from shapeproof.contract.outside import refusal
from shapeproof.export.build.accepted.contract import InputGuards, Requirements
from shapeproof.export.build.accepted.guards import TensorGuard
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.regions import Split
from shapeproof.export.report.report import Report
from shapeproof.export.report.saved import fields_of, saved_report
from shapeproof.export.shim import archives
from shapeproof.export.shim.modules import registered
from shapeproof.files import whole_file
from shapeproof.wording import said_by

FORMAT = 2
"""The version of the saved form."""
_MANIFEST = "shapeproof_regions"


@dataclass
class ReportedRegions:
    """Several programs that together serve the domain, each its own region of it; to users, Regions.

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
    explored: tuple[torch.nn.Module, Inputs, Split] | None = field(default=None, repr=False)
    """The model, its inputs and its regions; None for programs that are loaded or put together."""

    def _repr_html_(self) -> str:
        from shapeproof.tables import table

        rows = ((str(number), text) for number, text in enumerate(self.domains, 1))
        return table(("region", "where"), rows) if self.report is None else self.report._repr_html_()

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
        for name, each in zip(self.contract.inputs, self.contract.guards(self.programs[0]).values(), strict=True):
            if isinstance(each, TensorGuard) and each.layout != torch.strided:
                raise UsageError(f"an archive forgets that `{name}` is {each.layout}: save the programs one by one")
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

    @classmethod
    def read(cls, file: IO[bytes]) -> Self:
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
            regions = cls(*_fields(programs, manifest))
            if NOTE in texts:
                regions.report = Report(**fields_of(texts[NOTE], "its report"))
        return regions

    def __reduce__(self) -> tuple[Callable[[IO[bytes]], Self], tuple[IO[bytes]]]:
        """Pickle in the format of `save`: the state of a trace cannot be pickled."""
        file = io.BytesIO()
        self._write(file)
        return self.read, (file,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return replace(self, programs=copy.deepcopy(self.programs, memo))


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


def _fields(
    programs: Mapping[str, torch.export.ExportedProgram], manifest: Mapping[str, Any]
) -> tuple[tuple[torch.export.ExportedProgram, ...], tuple[Formula, ...], Requirements]:
    """Return the programs of an archive, their regions and what they require together."""
    programs_in_order = tuple(programs[f"region{index}"] for index in range(len(manifest["holds"])))
    contract = Requirements(
        tuple(manifest["inputs"]),
        tuple(tuple(map(parse_term, terms)) for terms in manifest["sizes"]),
        tuple(map(parse_formula, manifest["domain"])),
        frozenset(map(parse_formula, manifest["declared"])),
        manifest["names"],
    )
    return programs_in_order, tuple(map(parse_formula, manifest["holds"])), contract


class _Dispatch(torch.nn.Module):
    """Runs the program of the region that the inputs lie in."""

    def __init__(self, regions: ReportedRegions) -> None:
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
