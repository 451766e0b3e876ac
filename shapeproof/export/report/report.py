"""What an export found: the verdict, one diagnostic per cause, the decisions, and the domain of the program.

Everything said here was established elsewhere: this module words it, in the user's names, and keeps it.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shapeproof.constraints.decisions import Decision, Kind, SourceLocation
from shapeproof.constraints.diagnostics import Diagnostic, Help, Note
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.text import parse_formula
from shapeproof.export.build.bounds import Bound
from shapeproof.export.declare.redeclare import Declarations
from shapeproof.export.report.region_map import RegionMap
from shapeproof.export.report.render import render
from shapeproof.export.shim import symbols
from shapeproof.files import write_whole
from shapeproof.solver.certificate import Subject, write_certificate

FORMAT = 2
"""The version of the saved form."""


@dataclass(frozen=True)
class Report:
    """The outcome of an export or a check.

    `status` is "proved", "refuted", "undecided" or "vacuous"; `str()` is the rendered text. `domain` lists, as
    text in the user's names, what holds of every input that the program accepts, and `inputs` the sizes of each
    input over the symbols in it.
    """

    status: str
    diagnostics: tuple[Diagnostic, ...] = ()
    decisions: tuple[Decision, ...] = ()
    domain: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    regions: RegionMap = field(default_factory=RegionMap)
    """Where branches are split: what holds of the sizes that each program serves, as texts that draw themselves."""
    statistics: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, list[str]] = field(default_factory=dict)
    spent: Mapping[str, int] = field(default_factory=dict)
    """What the solver was asked and spent: questions, Z3 queries, Z3's resource counter, points tried."""
    bounds: tuple[Bound, ...] = ()
    """The tensors of the program whose sizes come out of data, and how large they get."""
    peak_bytes_bound: int | None = None
    """At most this many bytes are held at once by the tensors of the program; None where some size has no bound."""
    program: Any = field(default=None, repr=False, compare=False)
    answers: Subject | None = field(default=None, repr=False, compare=False)
    """Every answer of the solver in this run; None in a report that was loaded."""
    remedy: Declarations | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return render(self)

    def repair(self) -> Declarations | None:
        """What to export with so that it is proved: the weakest declarations that were found, the example included.

        None if none was found, and for a report that was loaded.

        >>> import torch
        >>> from shapeproof.export import check
        >>> mod, args = torch.nn.Flatten(0), (torch.randn(6, 4),)
        >>> report = check(mod, args, dynamic_shapes=({0: torch.export.Dim("n", max=8)},), constraints=("n != 3",))
        >>> found = report.repair()
        >>> check(mod, args, dynamic_shapes=found.dynamic_shapes, constraints=found.constraints).status
        'proved'
        """
        return self.remedy

    def save(self, path: str | Path) -> None:
        """Write domain, verdicts and versions as JSON: the contract for a file that cannot carry assertions.

        Raises:
            OSError: the file cannot be written; what was there stays.
        """
        versions = {name: importlib.metadata.version(name) for name in ("shapeproof", "torch", "z3-solver")}
        saved = {
            "format": FORMAT,
            "status": self.status,
            "domain": list(self.domain),
            "inputs": {name: list(sizes) for name, sizes in self.inputs.items()},
            "notes": list(self.notes),
            "regions": self.regions.saved(),
            "statistics": dict(self.statistics),
            "spent": dict(self.spent),
            "bounds": [dataclasses.asdict(bound) for bound in self.bounds],
            "peak_bytes_bound": self.peak_bytes_bound,
            "versions": versions,
            "diagnostics": [dataclasses.asdict(diagnostic) for diagnostic in self.diagnostics],
            "decisions": [_saved_decision(decision) for decision in self.decisions],
        }
        write_whole(Path(path), json.dumps(saved, indent=1) + "\n")

    def certificate(self, path: str | Path, progress: Callable[[str], None] = lambda _: None) -> dict[str, int]:
        """Write what the solver proved in this run as SMT-LIB, for `shapeproof recheck` or any SMT solver.

        Returns:
            How many claims Z3 proves from the facts alone, refutes, leaves unknown, and how many are opaque to it.

        Raises:
            UsageError: the report was loaded from a file, which keeps verdicts and not what they rest on.
        """
        if self.answers is None:
            message = "a loaded report does not keep what was asked of the solver: check the model again"
            raise UsageError(message)
        installed = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("shapeproof", "torch"))
        domain = (f"for every input with {', '.join(self.domain)}",) if self.domain else ()
        about = (installed, f"verdict of the run: {self.status}", *domain)
        return write_certificate(dataclasses.replace(self.answers, about=about), path, progress)


def load_report(path: str | Path) -> Report:
    """Read a saved report; it has no program.

    Raises:
        UsageError: the file cannot be read, or is not what this release saves.
    """
    try:
        saved = json.loads(Path(path).read_text(encoding="utf-8"))
        if saved["format"] == FORMAT:
            return _loaded(saved)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path} is not a saved report") from None
    raise UsageError(f"{path} is a report of format {saved['format']}; this release reads format {FORMAT}")


def _loaded(saved: dict[str, Any]) -> Report:
    return Report(
        saved["status"],
        tuple(map(_loaded_diagnostic, saved["diagnostics"])),
        tuple(map(_loaded_decision, saved["decisions"])),
        tuple(saved["domain"]),
        tuple(saved["notes"]),
        RegionMap.loaded(saved["regions"]),
        saved["statistics"],
        saved["inputs"],
        saved["spent"],
        tuple(map(_loaded_bound, saved["bounds"])),
        saved["peak_bytes_bound"],
    )


def _saved_decision(decision: Decision) -> dict[str, Any]:
    return {
        "formula": str(decision.formula),
        "kind": decision.kind.value,
        "outcome": decision.outcome,
        "where": decision.where and dataclasses.asdict(decision.where),
        "operator": decision.operator,
        "framework": decision.framework and dataclasses.asdict(decision.framework),
    }


def _loaded_decision(saved: dict[str, Any]) -> Decision:
    where, framework = (saved[key] and SourceLocation(**saved[key]) for key in ("where", "framework"))
    return Decision(
        parse_formula(saved["formula"]), Kind(saved["kind"]), saved["outcome"], where, saved["operator"], framework
    )


def _loaded_bound(saved: dict[str, Any]) -> Bound:
    return Bound(**(saved | {key: tuple(saved[key]) for key in ("sizes", "limits")}))


def _loaded_diagnostic(saved: dict[str, Any]) -> Diagnostic:
    notes = tuple(Note(n["label"], n["text"], n["where"] and SourceLocation(**n["where"])) for n in saved["notes"])
    help_ = tuple(Help(**entry) for entry in saved["help"])
    return Diagnostic(**(saved | {"notes": notes, "help": help_}))


class ConstraintViolation(symbols.TorchConstraintError):
    """There is no program for the declared domain. `report` says why; the message is its text."""

    def __init__(self, report: Report) -> None:
        super().__init__(symbols.CONSTRAINT_VIOLATION, str(report))
        self.report = report
