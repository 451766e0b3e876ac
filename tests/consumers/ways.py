"""How each consumer takes a program: from the program to a callable that takes the model's inputs.

A test of a consumer that is not installed is skipped: ExecuTorch and torchao are each built for one release of torch.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram

from shapeproof.export.shim.trees import aot_loaded, aot_packaged, onnx_session

Run = Callable[..., Any]


def saved(program: ExportedProgram) -> ExportedProgram:
    """The program, written and read again."""
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def reexported(program: ExportedProgram, example: Any, declared: Any, by: Any = torch.export.export) -> ExportedProgram:
    return by(program.module(), example, dynamic_shapes=declared)


def compiled(program: ExportedProgram) -> Run:
    torch.compiler.reset()
    return torch.compile(program.module(), backend="aot_eager", dynamic=True)


def packaged(program: ExportedProgram, folder: Path) -> Run:
    """AOTInductor's package."""
    path = str(folder / "model.pt2")
    aot_packaged(program, path)
    return aot_loaded(path)


def onnx_file(program: ExportedProgram) -> bytes:
    """What torch.onnx writes."""
    pytest.importorskip("onnxscript")
    made = torch.onnx.export(program, dynamo=True, verbose=False)
    content: bytes = made.model_proto.SerializeToString()
    return content


def onnx(program: ExportedProgram) -> Run:
    """A session of ONNX Runtime on what torch.onnx writes."""
    pytest.importorskip("onnxruntime")
    names, run = onnx_session(onnx_file(program))
    return lambda *args: run(dict(zip(names, args, strict=True)))


def openvino(program: ExportedProgram) -> Run:
    """OpenVINO on what torch.onnx writes, in 32 bits."""
    core = pytest.importorskip("openvino").Core()
    model = core.compile_model(core.read_model(onnx_file(program)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(*args: Any) -> Any:
        found = model([arg.numpy() for arg in args])
        return [torch.from_numpy(found[each].copy()) for each in model.outputs]

    return run


def lowered(program: ExportedProgram, partitioners: Any = ()) -> Any:
    """The program of ExecuTorch."""
    pytest.importorskip("executorch")
    from executorch.exir import to_edge_transform_and_lower

    return to_edge_transform_and_lower(program, partitioner=list(partitioners)).to_executorch()


def executorch(program: ExportedProgram, partitioners: Any = ()) -> Run:
    """A method of ExecuTorch's runtime."""
    content = lowered(program, partitioners).buffer
    from executorch.runtime import Runtime

    loaded = Runtime.get().load_program(content)
    method = loaded.load_method("forward")

    def run(*args: Any, _held: Any = (content, loaded)) -> Any:  # the method does not hold what it runs on
        assert method is not None
        return [each.clone() for each in method.execute([arg.contiguous() for arg in args])]

    return run


def xnnpack(program: ExportedProgram) -> Run:
    """ExecuTorch with what XNNPACK takes delegated to it."""
    pytest.importorskip("executorch")
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return executorch(program, [XnnpackPartitioner()])


def quantized(program: ExportedProgram, example: Any) -> Run:
    """The program after torchao's pt2e quantization, weights in int8."""
    pytest.importorskip("executorch")
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(program.module(), quantizer)
    prepared(*example)
    return convert_pt2e(prepared)  # type: ignore[no-any-return]


def copied(program: ExportedProgram) -> ExportedProgram:
    return copy.deepcopy(program)


def pickled(program: ExportedProgram) -> ExportedProgram:
    return pickle.loads(pickle.dumps(program))  # noqa: S301 - written here


WAYS: dict[str, Callable[[ExportedProgram, Any, Any], Run]] = {
    "module": lambda program, *_: program.module(),
    "save and load": lambda program, *_: saved(program).module(),
    "unflatten": lambda program, *_: torch.export.unflatten(program),
    "decomposed": lambda program, *_: program.run_decompositions().module(),
    "decomposed and saved": lambda program, *_: saved(program.run_decompositions()).module(),
    "deepcopy": lambda program, *_: copied(program).module(),
    "pickle": lambda program, *_: pickled(program).module(),
    "torch.compile": lambda program, *_: compiled(program),
    "torch.export again": lambda program, example, declared: reexported(program, example, declared).module(),
    "draft_export": lambda program, example, declared: reexported(
        program, example, declared, torch.export.draft_export
    ).module(),
    "ONNX Runtime": lambda program, *_: onnx(program),
    "OpenVINO": lambda program, *_: openvino(program),
    "ExecuTorch": lambda program, *_: executorch(program),
}
