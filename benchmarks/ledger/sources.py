"""The four collections of models, each a mapping of names to what makes a report.

models      those of the benchmarks
cases       reports of users: a folder of files with a `build()`, which is not a part of the repository
random      programs that Hypothesis drew once, kept as text: one program, and split by their branches
operators   each function of torch's own database on its first sample, every size dynamic from 0
"""

from __future__ import annotations

import functools
import importlib.util
import json
import lzma
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.ledger.lines import FOLDER
from benchmarks.models import MODELS
from benchmarks.operators.calls import Call, NotTextError
from benchmarks.operators.probing import Laid, dynamic, inputs_at
from benchmarks.recorded_models import MORE
from shapeproof.export import check
from shapeproof.export.report.report import Report

Collection = Mapping[str, Callable[[], Report]]

PROGRAMS = FOLDER / "programs.json.xz"
FILES = {
    "models": FOLDER / "models.jsonl",
    "cases": FOLDER / "cases.jsonl",
    "random": FOLDER / "random.jsonl.xz",
    "operators": FOLDER / "operators.jsonl.xz",
}
_GENERIC = 4
"""The example's size where a sample has 0 or 1."""


class NoSampleError(LookupError):
    """The database has no sample of a function that can be written as text."""


def collection(name: str, cases: Path) -> Collection:
    """Return a collection; that of the cases is empty where there is no such folder."""
    if name == "cases":
        return _cases(cases)
    return {"models": _models, "random": _random, "operators": _operators}[name]()


def _models() -> Collection:
    builds = MORE | MODELS
    return {name: functools.partial(_checked, build) for name, build in builds.items()}


def _cases(folder: Path) -> Collection:
    return {path.stem: functools.partial(_checked, _build_of(path)) for path in sorted(folder.glob("issue_*.py"))}


def _build_of(path: Path) -> Callable[[], Any]:
    def build() -> Any:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ImportError(str(path))
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # torch._dynamo imports the module of a function by its name
        spec.loader.exec_module(module)
        return module.build()

    return build


def _checked(build: Callable[[], Any]) -> Report:
    model, args, kwargs, shapes = build()
    if isinstance(model, torch.nn.Module):
        model.eval()
    with torch.no_grad():
        return check(model, args, kwargs, dynamic_shapes=shapes)


def _random() -> Collection:
    programs = json.loads(lzma.decompress(PROGRAMS.read_bytes()))
    made = ((f"{index:03}", program) for index, program in enumerate(programs))
    return dict(each for name, program in made for each in _both_ways(name, program))


def _both_ways(name: str, program: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[], Report]]]:
    yield f"{name}.one", functools.partial(_of_program, program)
    yield f"{name}.split", functools.partial(_of_program, program, branches="split")


def _of_program(program: Mapping[str, Any], **options: Any) -> Report:
    from tests.export import random_programs

    interface = {"one": random_programs.MATRIX, "two": random_programs.PAIR}[program["inputs"]]
    ranges = [range(low, high + 1) for low, high in program["ranges"]]
    made: Any = random_programs.Program(interface, program["body"], ranges, tuple(program["example"]))
    report: Report = made.check(**options)
    return report


def _operators() -> Collection:
    from benchmarks.operators import samples  # torch's database is slow to load

    return {name: functools.partial(_of_operator, name) for name in samples.names()}


def _of_operator(name: str) -> Report:
    call = _first_call(name)
    sizes = sorted({size for text in call.tensors for size in text["sizes"]})
    example = {size: _GENERIC if size < 2 else size for size in sizes}
    return check(Laid(call, "value"), inputs_at(call, example), dynamic_shapes=(dynamic(call, sizes),))


def _first_call(name: str) -> Call:
    """Return the first sample that can be written.

    Raises:
        NoSampleError: there is none.
    """
    from benchmarks.operators import samples

    for sample in samples.samples(name, 1):
        try:
            return Call.of(f"op_db.{name}", sample.args, sample.kwargs)
        except NotTextError:
            continue
    raise NoSampleError(name)
