"""What a process costs: the most memory that one export holds, and the start of the command line.

    python -m benchmarks.footprint torch|shapeproof MODEL     exports it, for `peak_bytes`

Each is measured in a process of its own.
"""

from __future__ import annotations

import importlib
import os
import resource
import subprocess
import sys
import warnings
from typing import Any


def in_child(*command: str) -> tuple[float, int, str]:
    """Run Python with these arguments; return its processor's seconds, its peak memory in bytes, and its errors."""
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        errors = child.stderr.read() if child.stderr else ""
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(errors)
    return used.ru_utime + used.ru_stime, _bytes(used), errors


def _bytes(used: resource.struct_rusage) -> int:
    return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_bytes(model: str) -> dict[str, int]:
    """The most memory of a process that exports a model, with each exporter."""
    return {name: in_child("-m", "benchmarks.footprint", name, model)[1] for name in ("torch", "shapeproof")}


def start_of_help() -> dict[str, Any]:
    """The processor's seconds of `shapeproof --help`, the best of five, and whether it imports torch."""
    seconds = min(in_child("-m", "shapeproof", "--help")[0] for _ in range(5))
    imported = in_child("-X", "importtime", "-m", "shapeproof", "--help")[2]
    return {"seconds": seconds, "imports_torch": any(line.endswith(" torch") for line in imported.splitlines())}


def main() -> None:
    """Export one model with one exporter; the process of torch.export imports nothing of shapeproof."""
    import torch

    from benchmarks.models import MODELS

    exporter, model = sys.argv[1:]
    warnings.simplefilter("ignore")
    export = importlib.import_module("shapeproof.export" if exporter == "shapeproof" else "torch.export").export
    torch.manual_seed(0)
    mod, args, kwargs, dynamic_shapes = MODELS[model]()
    with torch.no_grad():
        export(mod, args, kwargs, dynamic_shapes=dynamic_shapes)


if __name__ == "__main__":
    main()
