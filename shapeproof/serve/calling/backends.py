"""Backends: functions from a program to a callable. The library of a backend is imported when the backend is chosen.

The dispatch calls a backend only with inputs in the proved domain of its program.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError, nearest
from shapeproof.export import VerifiedProgram
from shapeproof.export.shim.trees import aot_loaded, aot_packaged, onnx_session, require, tensors_in, unflattened

Run = Callable[..., Any]


@dataclass(frozen=True)
class Backend:
    """How a program is run.

    Attributes:
        make: takes the program, and its module, which uses the model's own tensors.
        keeps_weights: whether it has copies of the weights: it gives no gradients, and sees no later change of them.
        needs: the libraries that it imports.
    """

    make: Callable[[VerifiedProgram, torch.nn.Module], Run]
    keeps_weights: bool = False
    needs: tuple[str, ...] = ()


def resolved(backend: str | Callable[[VerifiedProgram], Run] | None) -> Backend:
    """The backend that is meant.

    Raises:
        UsageError: there is none of that name, or a library that it needs is missing.
    """
    if callable(backend):
        return Backend(lambda program, _: backend(program))
    name = "graph" if backend is None else backend
    if name not in BACKENDS:
        raise UsageError(f"unknown backend {name!r}{nearest(str(name), BACKENDS)}")
    require(f"backend={name!r}", BACKENDS[name].needs)
    return BACKENDS[name]


def _aot_inductor(program: VerifiedProgram, _: torch.nn.Module) -> Run:
    _refuse_writes("aot_inductor", program)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.pt2"
        aot_packaged(program, path)
        return aot_loaded(path)


def _onnxruntime(program: VerifiedProgram, _: torch.nn.Module) -> Run:
    _refuse_writes("onnxruntime", program)
    made: Any = torch.onnx.export(program, dynamo=True, verbose=False)
    names, run = onnx_session(made.model_proto.SerializeToString())
    taken, given = len(names), len(program.contract.memory.layouts)
    if taken != given:
        raise UsageError(f"backend='onnxruntime' takes models of tensors alone; torch.onnx wrote {taken} for {given}")
    return lambda *args, **kwargs: unflattened(run(dict(zip(names, tensors_in((args, kwargs)), strict=True))), program)


def _refuse_writes(name: str, program: VerifiedProgram) -> None:
    memory = program.contract.memory
    if memory.writes or memory.state:
        raise UsageError(f"backend={name!r} takes no model that writes into its inputs or buffers")


BACKENDS = {
    "graph": Backend(lambda _, module: module),
    "torch.compile": Backend(lambda _, module: torch.compile(module, dynamic=True)),
    "aot_inductor": Backend(_aot_inductor, keeps_weights=True),
    "onnxruntime": Backend(_onnxruntime, keeps_weights=True, needs=("onnx", "onnxscript", "onnxruntime")),
}
"""By name; `graph` is the program itself."""
