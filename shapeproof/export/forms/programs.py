"""The programs that users get: those of the main path, with their other forms, each made on demand.

The main path builds a program without knowing of any form, since a form is verified by the main path itself.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export.build.program import ReportedProgram
from shapeproof.export.build.regions import ReportedRegions
from shapeproof.export.report.report import ConstraintViolation, Report
from shapeproof.export.shim.process.one_thread import one_thread
from shapeproof.wording import said_by

if TYPE_CHECKING:
    from shapeproof.export.forms.static.bounded import Count


class UndecidedWarning(UserWarning):
    """The solver's budget ran out: the program carries run-time checks in place of a proof."""


class VerifiedProgram(ReportedProgram):
    """An exported program with the report of what was proved about it."""

    def bounded(self) -> tuple[VerifiedProgram, tuple[Count, ...]]:
        """Replace each size from data by its proved bound, so that all sizes of the program are constant.

        Returns:
            The new program, which returns the results at their bounds and, after them, the counts; and for each count
            its bound and the results whose valid rows it counts. Rows beyond the count hold arbitrary values.

        Raises:
            UsageError: a size has no bound, or rows beyond a count would reach valid rows; the message names the node.

        >>> from shapeproof.export import export
        >>> class Model(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x[x > 0] * 2
        >>> static, counts = export(Model(), (torch.ones(4),)).bounded()
        >>> static.module()(torch.tensor([3.0, -1.0, 5.0, 0.0]))[1], *map(str, counts)
        (tensor(2), '<=4: result 0, dim 0')
        """
        from shapeproof.export.forms.static.bounded import bounded_report

        with one_thread:
            report, counts = bounded_report(self)
        return cast("VerifiedProgram", given_out(report)), counts

    def with_gradients(self) -> VerifiedProgram:
        """The joint program: what this one gives, and the gradients of its parameters and inputs, in one graph.

        It takes what this program takes and, as `tangents=`, the gradients of the results that autograd follows, in
        order; of a loss a list of one 1. It gives the results, and the gradients by name: those of the parameters that
        require them, and of inputs whose example does. What autograd asks about sizes is proved over the domain, and
        gradients are compared with eager's at its corners.

        Returns:
            The program; undecided questions warn once, and what they are about is refused at run time.

        Raises:
            UsageError: the model has gradients that are not in its operators, or there are none.
            ConstraintViolation: at some of the sizes the gradients are not eager's.

        >>> from shapeproof.export import Dim, export
        >>> program = export(torch.nn.Linear(2, 1), (torch.ones(3, 2),), dynamic_shapes=({0: Dim("n", min=0)},))
        >>> joint = program.with_gradients()
        >>> result, gradients = joint.module()(torch.ones(5, 2), tangents=[torch.ones(5, 1)])
        >>> gradients["weight"], gradients["bias"]
        (tensor([[5., 5.]]), tensor([5.]))
        """
        from shapeproof.export.forms.gradients import joint_report, refuse_divisions

        with one_thread:
            report = joint_report(self)
        joint = cast("VerifiedProgram", given_out(report))
        refuse_divisions(self, joint)
        joint.rely_on([self.contract])
        return self._audited(joint)

    def ship(self, path: str | Path, *, to: Any, model: torch.nn.Module | None = None) -> Any:
        """Write the program as the file of a consumer, once the file was run beside eager: see `shapeproof.ship.ship`.

        That room stands above this one and is found by its name.

        Args:
            path: the file.
            to: "onnx", "executorch", "aoti", "pt2", or a Target.
            model: the model that was exported, to compare with; without it, this program.

        Returns:
            The Verdict, which says at how many points the file was run.

        Raises:
            FileDiffers: the file does something else; nothing is written.
            UsageError: the consumer cannot convert the program, or is not installed; or the program is not proved.
        """
        return import_module("shapeproof.ship").ship(self, path, to=to, model=model)


class Regions(ReportedRegions):
    """Several programs that together serve the domain, each its own region of it.

    Attributes:
        programs: one torch.export.ExportedProgram for each region.
        holds: the formula of each program's region, over the sizes.
        contract: the requirements on all inputs, in any region.
        report: the report of the export.
    """

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
        from shapeproof.export.forms.merge import Merging

        if self.explored is None:
            message = "regions that were loaded from a file cannot be merged: merge them first and save the program"
            raise UsageError(message)
        if self.report is not None and self.report.status != "proved":
            message = "the regions cannot be merged into one program: it is undecided whether they cover the domain"
            raise UsageError(message)
        with one_thread:
            program = Merging(*self.explored).merged(self.programs)  # type: ignore[arg-type]  # nothing that was loaded
        with_forms(program.report)
        return program


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
            return Regions.read(file)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or said_by(error)}") from None
    except UsageError as error:
        raise UsageError(f"{path} holds {error}") from None


def with_forms(report: Report) -> Report:
    """Give the programs of a report their other forms; they stay the same objects, since reports refer to them."""
    match report.program:
        case ReportedRegions(programs=programs) as regions:
            regions.__class__ = Regions
        case program:
            programs = () if program is None else (program,)
    for each in programs:
        each.__class__ = VerifiedProgram
    return report


def given_out(report: Report) -> VerifiedProgram | Regions:
    """The program of a report; what is undecided warns.

    Raises:
        ConstraintViolation: there is none.
    """
    if report.program is None:
        raise ConstraintViolation(report) from report.raised
    if report.status == "undecided":
        warnings.warn(str(report), UndecidedWarning, stacklevel=3)
    return cast("VerifiedProgram | Regions", with_forms(report).program)
