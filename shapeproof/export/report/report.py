"""The result of an export: the verdict, one diagnostic per cause, the decisions, and the domain of the program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import shapeproof
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.decisions import Decision, Question
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.contract import Answer, Contract, OutsideDomain
from shapeproof.contract.archives import NOTE
from shapeproof.export.declare.redeclare import Declarations, Deferred
from shapeproof.export.explore.findings import SharedFailure
from shapeproof.export.report.oblivious import Oblivious
from shapeproof.export.report.region_map import RegionMap
from shapeproof.export.report.render import WIDTH, pointers, render
from shapeproof.export.report.saved import fields_of, read_report, saved_report
from shapeproof.export.report.sizes import Bounds
from shapeproof.export.shim.numbers import symbols
from shapeproof.files import sha256, write_whole
from shapeproof.seen.plots import SeenSize
from shapeproof.solver.proofs.certificate import REPORT, VERDICT, Subject, write_certificate

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

    from shapeproof.export.build.program import ReportedProgram
    from shapeproof.export.build.regions import ReportedRegions


@dataclass(frozen=True, repr=False)
class Report:
    """The outcome of an export or a check.

    `status` is "proved", "refuted", "undecided" or "vacuous"; `str()` is the rendered text. `domain` lists, as
    text in the user's names, the formulas that hold for every input that the program accepts, and `inputs` the sizes of
    each input over the symbols of the domain.
    """

    status: str
    diagnostics: tuple[Diagnostic, ...] = ()
    decisions: tuple[Decision, ...] = ()
    domain: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    regions: RegionMap = field(default_factory=RegionMap)
    """For split branches: the formula of the sizes that each program serves, as texts that draw themselves. Without
    split branches it has the domain and the refuted sizes alone, for a drawing."""
    statistics: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, list[str]] = field(default_factory=dict)
    spent: Mapping[str, int] = field(default_factory=dict)
    """The cost of the solver: questions, Z3 queries, Z3's resource counter, points tried."""
    bounds: Bounds = field(default_factory=Bounds)
    """The tensors of the program with sizes from data, and upper bounds of these sizes."""
    peak_bytes_bound: int | None = None
    """An upper bound of the bytes that the program's tensors hold at once; None if some size has no bound."""
    shared_failures: tuple[SharedFailure, ...] = ()
    """Sizes from data at which eager and the program were both seen to raise; a note states each."""
    seen: tuple[SeenSize, ...] = field(default=(), compare=False)
    """The seen range of each varying size beside its served range, for a plot; empty without seen inputs."""
    oblivious: Oblivious = field(default_factory=Oblivious, compare=False)
    """The size-oblivious assumptions of the program, and which are proved harmless; empty in a loaded report, and for
    several programs: each has a separate report."""
    trusted: Mapping[str, int] = field(default_factory=dict)
    """The number of inputs at which the fake kernel of each custom operator was compared; without operators that
    `check_operator` has proved for all calls of the program."""
    questions: tuple[Question, ...] = ()
    """Each question about sizes, with how it was settled and the line that asks."""
    contract: Contract | None = None
    """The contract of the program's inputs, for users without torch; None if no program is returned."""
    program: ReportedProgram | ReportedRegions | None = field(default=None, compare=False)
    answers: Subject | None = field(default=None, compare=False)
    """All answers of the solver in this run; None in a loaded report."""
    raised: Exception | None = field(default=None, compare=False)
    """What eager raises for the example, if it does."""
    remedy: Deferred | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return render(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from shapeproof.export.report.colours import coloured

        yield coloured(render(self, min(WIDTH, options.max_width)))

    def _repr_html_(self) -> str:
        from shapeproof.export.report.page.page import fragment

        return fragment(self)

    def html(self, path: str | Path | None = None, *, dims: Sequence[str] = ()) -> str:
        """Return the report as a page: one file with the code, its questions and findings, and the domain drawn.

        Args:
            path: a file that the page is written to, too.
            dims: names of one or two dims over which the domain is drawn; without any, those that are said most of.

        Raises:
            UsageError: there is no such dim, or matplotlib, which draws them, is not installed.
            OSError: the file cannot be written.

        >>> import torch
        >>> from shapeproof.export import check
        >>> text = check(torch.nn.ReLU(), (torch.ones(3),)).html()
        >>> text.splitlines()[0], "http://" in text
        ('<!doctype html>', False)
        """
        from shapeproof.export.report.page.page import Section, page, title_of

        title = title_of(self)
        text = page(title, [Section(title, self, self.status)], dims)
        if path is not None:
            write_whole(Path(path), text)
        return text

    def repair(self) -> Declarations | None:
        """Return declarations with which the export is proved: the simplest that were found, valid for the example.

        None if none was found, and in a loaded report.

        >>> import torch
        >>> from shapeproof.export import check
        >>> mod, args = torch.nn.Flatten(0), (torch.randn(6, 4),)
        >>> report = check(mod, args, dynamic_shapes=({0: torch.export.Dim("n", max=8)},), constraints=("n != 3",))
        >>> found = report.repair()
        >>> check(mod, args, dynamic_shapes=found.dynamic_shapes, constraints=found.constraints).status
        'proved'
        """
        return None if self.remedy is None else self.remedy.declarations()

    def accepts(self, *args: Any, **kwargs: Any) -> Answer:
        """Check these inputs against the program's contract: tensors of any library, or sizes alone.

        Args:
            args: the inputs as the model takes them, or one mapping of names to inputs.
            kwargs: inputs by the names of the model's arguments.

        Returns:
            A true or false answer; `answer.why` names a violated requirement, and the value that violates it.

        >>> import torch
        >>> from shapeproof.export import Dim, check
        >>> report = check(torch.nn.ReLU(), (torch.randn(4, 8),), dynamic_shapes=({0: 4 * Dim("k", max=9)},))
        >>> report.accepts((40, 8)).why
        'input.shape[0] = 40, k = 10, but k <= 9 is declared; the nearest accepted: input.shape[0] = 36'
        >>> bool(report.accepts(input=torch.ones(8, 8)))
        True
        """
        if self.contract is None:
            return Answer(OutsideDomain(f"no program was given out: the domain is {self.status}", {}, "a program"))
        return self.contract.accepts(*args, **kwargs)

    def save(self, path: str | Path) -> None:
        """Write domain, contract, verdicts and versions as JSON, to go with a file that cannot carry assertions.

        Args:
            path: the file.

        Raises:
            OSError: the file cannot be written; an existing file stays as it was.
        """
        write_whole(Path(path), saved_report(self))

    def certificate(self, path: str | Path, progress: Callable[[str], None] = lambda _: None) -> dict[str, int]:
        """Write what the solver proved in this run as SMT-LIB, for `shapeproof recheck` or any SMT solver.

        Args:
            path: the file.
            progress: called with a few words on the next step.

        Returns:
            The numbers of claims that Z3 proves from the facts alone, refutes or leaves unknown, and of opaque claims.

        Raises:
            UsageError: the report was loaded from a file, which keeps the verdicts without the solver's answers.
        """
        if self.answers is None:
            raise UsageError("a loaded report does not keep the solver's answers: check the model again")
        installed = f"shapeproof {shapeproof.__version__}, torch {version('torch')}"
        domain = (f"for every input with {', '.join(self.domain)}",) if self.domain else ()
        of_report = f"{REPORT}{sha256(saved_report(self))}"
        about = (installed, *self.answers.about, of_report, f"{VERDICT}{self.status}", *domain)
        return write_certificate(dataclasses.replace(self.answers, about=about), path, progress)


def load_report(source: str | Path | torch.export.ExportedProgram) -> Report:
    """Read a saved report; the result has no program.

    Args:
        source: a file written by `Report.save`; or the .pt2 file of a program or regions exported by shapeproof; or a
            program that torch.export.load has read from such a file.

    Raises:
        UsageError: the file cannot be read, or is in another format than this release's.
    """
    if isinstance(source, str | Path):
        return Report(**read_report(source))
    text = source.graph_module.meta.get("custom", {}).get(NOTE)
    if not isinstance(text, str):
        raise UsageError("the program carries no report: it was not exported by this package")
    return Report(**fields_of(text, "what the program carries along"))


class ConstraintViolation(symbols.TorchConstraintError):
    """There is no program for the declared domain. `report` says why; the message is its text, with further reading."""

    def __init__(self, report: Report) -> None:
        super().__init__(symbols.CONSTRAINT_VIOLATION, f"{report}{pointers(report.diagnostics)}")
        self.report = report
