"""`ship` writes the file of a program for a consumer; `verify` runs a file that exists.

Law: `ship` leaves a file at the path only if it was run at sizes of the domain and did at all of them what eager does.
It is made and run in a folder beside, and moved.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from shapeproof.constraints.errors import ShapeproofError, UsageError
from shapeproof.constraints.records.decisions import Decision
from shapeproof.constraints.syntax.text import format_formula, format_term
from shapeproof.constraints.terms import Term
from shapeproof.contract import Contract
from shapeproof.contract import load as load_contract
from shapeproof.contract.inputs import TensorInput, dtype_name
from shapeproof.export.build.program import ReportedProgram
from shapeproof.export.build.regions import ReportedRegions
from shapeproof.export.declare.inputs import Inputs, declare
from shapeproof.export.explore.beside_eager.forms import copied, fresh_modules, memory_shared
from shapeproof.export.shim.inputs.binding import read_collection
from shapeproof.export.shim.process.idle_work import quiet
from shapeproof.export.shim.process.modes import generators_restored
from shapeproof.export.shim.process.one_thread import one_thread
from shapeproof.files import writing
from shapeproof.ship.apart import Apart
from shapeproof.ship.beside import Beside
from shapeproof.ship.points import inputs_of, inside, outside
from shapeproof.ship.targets import Target, release, target_of, target_of_file
from shapeproof.ship.verdict import FileDiffers, Verdict
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied
from shapeproof.wording import first_line, with_kind


def ship(
    program: object,
    path: str | Path,
    *,
    to: str | Target,
    model: torch.nn.Module | None = None,
) -> Verdict:
    """Write a program as the file of a consumer, once the file was run beside eager and did the same.

    It is run at the example, at corners of the domain, and at sizes outside, to record whether the file refuses them.

    Args:
        program: what `export` returned.
        path: the file. Its contract is in it; of a program of ExecuTorch in `<path>.contract.json`.
        to: "onnx", "executorch", "aoti", "pt2", or a Target.
        model: the model that was exported, to compare with; without it, the program, which is proved to do the same.

    Returns:
        The verdict, whose status is "same".

    Raises:
        FileDiffers: the file does something else, or refuses sizes of the domain (see `verdict`); it is not written.
        UsageError: the program is not proved, the model is no module, or the consumer is missing or cannot convert it.

    >>> import tempfile
    >>> from shapeproof.export import Dim, export
    >>> n = Dim("n", min=1, max=8)
    >>> program = export(torch.nn.Linear(4, 2), (torch.ones(3, 4),), dynamic_shapes=({0: n},))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ship(program, f"{folder}/linear.pt2", to="pt2").status
    'same'
    """
    target, path = target_of(to), Path(path)
    proved, contract = _proved(program)
    if not isinstance(model, torch.nn.Module | None):
        raise UsageError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
    with _moved_from_a_folder(path) as made:
        with _told(f"{target.tool} cannot convert the program"), torch.no_grad():
            target.convert(proved, contract, made)
        eager = fresh_modules(proved) if model is None else functools.partial(copied, model)
        so_far = Verdict("", str(path), ", ".join(map(release, target.made_by)), beside=_EAGER if model else _PROGRAM)
        verdict = _run(target, made, contract, proved.taken_apart.inputs, eager, so_far, proved.report.decisions)
        if verdict.status == "same":
            return verdict
        raise FileDiffers(verdict)


def verify(  # noqa: PLR0913 - a file, then what export takes
    path: str | Path,
    mod: torch.nn.Module | None = None,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    constraints: Sequence[str] = (),
) -> Verdict:
    """Run a file that `ship` wrote beside eager, at sizes that its contract accepts and at some that it refuses.

    The file holds code, which is run: verify none of unknown origin.

    Args:
        path: the file.
        mod: the model; without it nothing is compared, and the file is only run.
        args: the example inputs, as they were given to `export`.
        kwargs: the example inputs that are passed by name.
        dynamic_shapes: the dynamic sizes, as they were given to `export`.
        constraints: the relations.

    Returns:
        The verdict: "same", "differs", "refuses" or "undecided".

    Raises:
        UsageError: the file cannot be read or has no contract, or the declarations are not those of its contract.
    """
    contract, target = load_contract(path), target_of_file(Path(path))
    so_far = Verdict("", str(path))
    if mod is None:
        return _run(target, Path(path), contract, inputs_of(contract), None, so_far)
    args, kwargs, dynamic_shapes = read_collection(mod, args, kwargs, dynamic_shapes)
    inputs = declare(mod, args, kwargs, dynamic_shapes, constraints)
    _refuse_others(inputs, contract)
    return _run(target, Path(path), contract, inputs, functools.partial(copied, mod), so_far)


_EAGER, _PROGRAM = "eager", "the proved program"


def _run(  # noqa: PLR0913, PLR0917 - a file, and what it is compared with
    target: Target,
    path: Path,
    contract: Contract,
    inputs: Inputs,
    eager: Callable[[], Callable[..., Any]] | None,
    so_far: Verdict,
    decisions: Sequence[Decision] = (),
) -> Verdict:
    def load() -> Callable[..., Any]:
        with _told(f"{target.run_by} cannot load the file"):
            return Apart(target.apart, path) if target.apart else target.load(path, contract)

    points = inside(inputs, contract, [each.formula for each in decisions])
    so_far = replace(so_far, run_by=release(target.run_by))
    with one_thread, memory_shared():
        if eager is not None and points and _draws(eager(), *inputs.at(points[-1], filled=True)):
            raise UsageError("the model draws random numbers, and its consumers draw others: nothing can be compared")
        return Beside(inputs, load, eager).verdict(points, outside(inputs, contract), so_far)


def _draws(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True if a call draws random numbers."""
    with generators_restored():
        before = torch.get_rng_state()
        with contextlib.suppress(Exception):  # it is told where results are compared
            call(*args, **kwargs)
        return not torch.equal(before, torch.get_rng_state())


def _proved(program: object) -> tuple[ReportedProgram, Contract]:
    """Return the program and its contract.

    Raises:
        UsageError: it is no program that is proved.
    """
    if not isinstance(program, ReportedProgram):
        several = "; the programs of regions are shipped one by one" if isinstance(program, ReportedRegions) else ""
        raise UsageError(f"expected a program of shapeproof.export, got {type(program).__name__}{several}")
    contract = program.report.contract
    if program.report.status != "proved" or contract is None:
        raise UsageError(f"expected a proved program, but this one is {program.report.status}")
    return program, contract


def _refuse_others(inputs: Inputs, contract: Contract) -> None:
    """Raise UsageError unless declared inputs are those of a contract."""
    given = [(leaf.name, leaf.terms) for leaf in inputs.leaves]
    known = [(each.name, each.sizes) for each in contract.inputs]
    for mine, other in itertools.zip_longest(given, known):
        if mine is None or other is None or mine[0] != other[0] or (other[1] and mine[1] != other[1]):
            raise UsageError(f"the target declares {_shown(mine)}, but the contract of the file has {_shown(other)}")
    for leaf, each in zip(inputs.leaves, contract.inputs, strict=True):
        dtype = dtype_name(getattr(leaf.example, "dtype", None))
        if isinstance(each, TensorInput) and dtype != each.dtype:
            raise UsageError(f"the target declares {leaf.name}: {dtype}, but the contract of the file has {each.dtype}")
    shipped, declared = Facts(contract.formulas), inputs.facts()
    for formula in contract.declared:
        if not implied(formula, declared):
            said = format_formula(formula, rename=contract.names)
            raise UsageError(f"the contract of the file has {said}, but the target declares more sizes")
    for formula in inputs.domain.formulas:
        if not implied(formula, shipped):
            said = format_formula(formula, rename=inputs.user_names)
            raise UsageError(f"the target declares {said}, but the contract of the file has more sizes")


def _shown(declared: tuple[str, Sequence[Term]] | None) -> str:
    return "no further input" if declared is None else f"{declared[0]}: [{', '.join(map(format_term, declared[1]))}]"


@contextlib.contextmanager
def _moved_from_a_folder(path: Path) -> Iterator[Path]:
    """Yield a path of the same name in a folder beside; when the block ends, whatever is there moves to its place.

    A file that was there is replaced through links to it, and its permissions are kept.

    Raises:
        UsageError: the file cannot be written.
    """
    with writing(path), tempfile.TemporaryDirectory(dir=_place(path).parent, prefix=".shapeproof-") as folder:
        made = Path(folder) / path.name
        yield made
        files = sorted(Path(folder).iterdir(), key=made.__eq__)  # the file comes last
        for each, place in [(each, _place(path.parent / each.name)) for each in files]:
            if place.exists():
                each.chmod(stat.S_IMODE(place.stat().st_mode))
            shutil.move(each, place)


def _place(path: Path) -> Path:
    """Return where a file stands, through links to it.

    Raises:
        OSError: what stands there is no regular file: a device would be replaced by the file.
    """
    place = Path(os.path.realpath(path))
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if place.exists() and not place.is_file():
        raise OSError(errno.EINVAL, "it is no regular file")
    return place


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn what a consumer's tool raises inside the block into one sentence, with the first line of its first error."""
    try:
        with quiet():
            yield
    except Exception as error:
        first: BaseException = error
        while first.__cause__ is not None and not isinstance(first, ShapeproofError):
            first = first.__cause__
        said = first_line(first) if isinstance(first, ShapeproofError) else with_kind(first)
        raise UsageError(f"{what}: {said}") from error
