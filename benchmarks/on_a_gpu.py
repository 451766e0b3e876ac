"""Exports models on a device in float32, bfloat16 and under autocast: the verdict, the time, and the peak memory.

    bash benchmarks/on_a_gpu.sh                  on CUDA
    bash benchmarks/on_a_gpu.sh --device cpu     tries the script; there is no peak memory to be read

Each program is run beside eager on the device, once more than the export does. The exit status is 1 if a model that is
proved on the CPU is not proved here, if a program differs, or if an export changes the device's generator.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from benchmarks.models import MODELS
from shapeproof.export import check

SIX = ("convnet", "transformer_encoder", "windowed_attention", "bert", "gpt2", "t5_encoder")
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2, "autocast": 5e-2}


def main() -> int:
    """Export each model in each way, and print a line on each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", nargs="*", default=SIX, metavar="MODEL")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    device = torch.device(given.device)
    failed = 0
    for name in given.models:
        for way in TOLERANCE:
            verdict, told = _tried(name, way, device)
            failed += verdict != "proved"
            print(f"{name:<20} {way:<9} {verdict:<10} {told}", flush=True)
    return min(failed, 1)


def _tried(name: str, way: str, device: torch.device) -> tuple[str, str]:
    """Return the verdict and what else is told of one export; an error is a verdict, too."""
    try:
        return _exported(name, way, device)
    except Exception as error:  # noqa: BLE001 - the other models are tried as well
        return "error", f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _exported(name: str, way: str, device: torch.device) -> tuple[str, str]:
    model, args, kwargs, shapes = _built(MODELS[name], way, device)
    before, started = _generator(device), time.perf_counter()
    with _measured(device) as peak, _mode(way, device), torch.no_grad():
        report = check(model, args, kwargs, dynamic_shapes=shapes)
        seconds = time.perf_counter() - started
        if not torch.equal(before, _generator(device)):
            return "changed", "the export has drawn from the device's generator"
        if report.program is not None:
            want, got = model(*args, **kwargs), report.program.module()(*args, **kwargs)
            near = TOLERANCE[way]
            torch.testing.assert_close(_tensors(got), _tensors(want), rtol=near, atol=near, equal_nan=True)
    notes = "".join(f"; {note}" for note in report.notes)
    return report.status, f"{seconds:6.1f} s   {peak[0] / 2**20:8.1f} MiB above the model{notes}"


def _built(build: Callable[[], Any], way: str, device: torch.device) -> tuple[Any, Any, Any, Any]:
    """Return the model on a device, without gradients and in the dtype of the way; its inputs likewise."""
    torch.manual_seed(0)
    model, args, kwargs, shapes = build()
    dtype = torch.bfloat16 if way == "bfloat16" else torch.float32

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device, dtype if tensor.is_floating_point() else tensor.dtype)

    args, kwargs = tree_map_only(torch.Tensor, moved, (args, kwargs))
    return model.to(device, dtype).eval(), args, kwargs, shapes


def _mode(way: str, device: torch.device) -> AbstractContextManager[Any]:
    autocast = torch.autocast(device.type, dtype=torch.bfloat16)
    return autocast if way == "autocast" else contextlib.nullcontext()


def _generator(device: torch.device) -> torch.Tensor:
    """Return the state of the device's generator."""
    return torch.get_rng_state() if device.type == "cpu" else torch.get_device_module(device).get_rng_state().cpu()


@contextlib.contextmanager
def _measured(device: torch.device) -> Iterator[list[int]]:
    """Give a list whose one number is, at the end, the most bytes that the block held on the device; 0 on the CPU."""
    peak, module = [0], torch.get_device_module(device)
    if device.type == "cpu":
        yield peak
        return
    module.synchronize()
    module.reset_peak_memory_stats()
    held = module.memory_allocated()
    yield peak
    module.synchronize()
    peak[0] = module.max_memory_allocated() - held


def _tensors(results: Any) -> list[torch.Tensor]:
    return [each for each in tree_leaves(results) if isinstance(each, torch.Tensor)]


if __name__ == "__main__":
    sys.exit(main())
