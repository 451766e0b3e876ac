"""The consumers of a program: how each converts it by its own tool, keeps its contract, and runs its file.

A file's callable takes what the program takes, and gives the results as a list, or in the program's own structure.
"""

from __future__ import annotations

import collections
import importlib
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError, nearest
from shapeproof.constraints.syntax.text import format_term
from shapeproof.constraints.terms import Term
from shapeproof.contract import Contract
from shapeproof.contract.archives import BESIDE, NOTE, PROPERTY, STARTS, kind_of
from shapeproof.contract.contract import contract_text
from shapeproof.contract.inputs import ConstantInput, TensorInput
from shapeproof.export.build.program import ReportedProgram
from shapeproof.export.report.saved import saved_report
from shapeproof.export.shim.trees import aot_loaded, aot_packaged, leaves, onnx_session, require
from shapeproof.ship.recurrence import in_loops
from shapeproof.solver.facts import Facts

Run = Callable[..., Any]


@dataclass(frozen=True)
class Target:
    """A consumer.

    Attributes:
        tool: what converts a program.
        convert: writes the file of a program, with the contract in it or beside it.
        load: returns the callable of a file; the contract tells how the inputs are called.
        made_by, run_by: the packages that convert, and that run the file.
        apart: its name in TARGETS, if its file takes flat inputs and is run in a process of its own.
    """

    tool: str
    convert: Callable[[ReportedProgram, Contract, Path], object]
    load: Callable[[Path, Contract], Run]
    made_by: tuple[str, ...] = ("torch",)
    run_by: str = "torch"
    apart: str = ""


def target_of(to: str | Target) -> Target:
    """Return the target that is meant.

    Raises:
        UsageError: there is none of that name, or a package that it needs is missing.
    """
    if not isinstance(to, Target) and to not in TARGETS:
        raise UsageError(f"unknown target {to!r}{nearest(str(to), TARGETS)}")
    found = to if isinstance(to, Target) else TARGETS[to]
    require(found.tool, dict.fromkeys((*found.made_by, found.run_by)))
    return found


def release(package: str) -> str:
    """Return a package with its release: `torch 2.13.0`."""
    return f"{package} {version(package)}"


def target_of_file(path: Path) -> Target:
    """Return the target whose file this is.

    Raises:
        UsageError: the file cannot be read, or is none of a known consumer.
    """
    try:
        with path.open("rb") as file:
            kind = kind_of(file.read(STARTS))
            names = zipfile.ZipFile(file).namelist() if kind == "archive" else []
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if kind in TARGETS:
        return target_of(kind)
    if not names:
        raise UsageError(f"{path} is no file of a consumer; there are {', '.join(TARGETS)}")
    return target_of("aoti" if any("/aotinductor/" in name for name in names) else "pt2")


# ---------------------------------------------------------------------- ONNX


def _to_onnx(program: ReportedProgram, contract: Contract, path: Path) -> None:
    made: Any = torch.onnx.export(in_loops(program, except_lstm=True), dynamo=True, verbose=False)
    _name_inputs(made.model.graph, contract)
    _name_dims(made.model.graph, contract)
    made.model.metadata_props[PROPERTY] = contract_text(contract)
    made.save(path)


def _name_inputs(graph: Any, contract: Contract) -> None:
    """Give the inputs of an ONNX graph their names in the contract: torch names one `x_orig` that is a result, too."""
    names = [each.graph_name for each in contract.inputs if not isinstance(each, ConstantInput)]
    for value, name in zip(graph.inputs, names, strict=True):
        for result in graph.outputs if value.name != name else ():
            result.name = f"{name}_result" if result.name == name else result.name
        value.name = name


def _name_dims(graph: Any, contract: Contract) -> None:
    """Give the dims of an ONNX graph the names of the user's Dims: `batch` for `s77`, `8*batch` for `8*s77`.

    Dims that the contract proves to be equal have one name, that of a Dim if there is one.
    """
    declared = {each.graph_name: each.sizes for each in contract.inputs if isinstance(each, TensorInput)}
    given = ((value.shape or (), declared.get(value.name, ())) for value in graph.inputs)
    pairs = [pair for sizes in given for pair in zip(*sizes, strict=False)]
    reduced, alike = Facts(contract.formulas).reduce, collections.defaultdict[Term, list[str]](list)
    for _, term in pairs:
        alike[reduced(term)].append(format_term(term))
    names = {str(dim.value): min(alike[reduced(term)], key=_is_inferred) for dim, term in pairs if _words(dim)}
    values = [*graph.inputs, *graph.outputs, *(value for node in graph.all_nodes() for value in node.outputs)]
    words = {word for value in values for dim in value.shape or () for word in _words(dim)}
    if (words - names.keys()) & {word for name in names.values() for word in _WORD.findall(name)}:
        return  # one name would stand for two sizes, and ONNX Runtime takes these to be equal
    for value in values:
        if any(map(_words, value.shape or ())):
            value.shape = type(value.shape)([_named(dim, names) for dim in value.shape])


def _is_inferred(name: str) -> bool:
    return ".shape[" in name


_WORD = re.compile(r"[^\W\d]\w*")


def _words(dim: Any) -> list[str]:
    """Return the names in a dim; a number, and an unknown dim, have none."""
    return _WORD.findall(getattr(dim, "value", None) or "")


def _named(dim: Any, names: Mapping[str, str]) -> Any:
    if not _words(dim):
        return dim
    atoms = {word: name if name.isidentifier() else f"({name})" for word, name in names.items()}
    return names.get(dim.value) or _WORD.sub(lambda word: atoms.get(word[0], word[0]), dim.value)


def _of_onnx(path: Path, contract: Contract) -> Run:
    _, run = onnx_session(str(path))
    names = [each.graph_name for each in contract.inputs]
    return lambda *args, **kwargs: run(dict(zip(names, leaves((args, kwargs)), strict=True)))


# ---------------------------------------------------------------------- ExecuTorch


def _to_executorch(program: ReportedProgram, contract: Contract, path: Path) -> None:
    exir = importlib.import_module("executorch.exir")
    made = exir.to_edge_transform_and_lower(in_loops(program)).to_executorch()
    known = _executorch_runtime().operator_registry.operator_names
    for each in (each for plan in made.executorch_program.execution_plan for each in plan.operators):
        if (name := f"{each.name}.{each.overload}".removesuffix(".")) not in known:
            raise UsageError(f"its runtime has no {name}")
    path.write_bytes(made.buffer)
    contract.save(f"{path}{BESIDE}")


def _executorch_runtime() -> Any:
    return importlib.import_module("executorch.runtime").Runtime.get()


def _of_executorch(path: Path, _: Contract) -> Run:
    loaded = _executorch_runtime().load_program(path.read_bytes())
    method = loaded.load_method("forward")

    def run(*args: Any, **kwargs: Any) -> Any:
        results = method.execute([_dense(each) for each in leaves((args, kwargs))])
        return [each.clone() if isinstance(each, torch.Tensor) else each for each in results]

    vars(run)["program"] = loaded  # the method does not hold what it runs on
    return run


def _dense(value: Any) -> Any:
    return value.detach().contiguous() if isinstance(value, torch.Tensor) else value


# ---------------------------------------------------------------------- torch's own archives


def _to_aoti(program: ReportedProgram, _: Contract, path: Path) -> None:
    package = path.with_name(f"{path.stem}.pt2")  # torch takes no other name
    aot_packaged(program, str(package))
    with zipfile.ZipFile(package, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{root}/extra/{NOTE}", saved_report(program.report))
    package.replace(path)


def _of_aoti(path: Path, _: Contract) -> Run:
    return aot_loaded(str(path))


def _to_pt2(program: ReportedProgram, _: Contract, path: Path) -> None:
    torch.export.save(program, path)


def _of_pt2(path: Path, _: Contract) -> Run:
    return torch.export.load(path).module()


TARGETS = {
    "onnx": Target("torch.onnx", _to_onnx, _of_onnx, ("torch", "onnx", "onnxscript"), "onnxruntime", "onnx"),
    "executorch": Target(
        "executorch.exir", _to_executorch, _of_executorch, ("executorch",), "executorch", "executorch"
    ),
    "aoti": Target("AOTInductor", _to_aoti, _of_aoti),
    "pt2": Target("torch.export.save", _to_pt2, _of_pt2),
}
"""By name."""
