"""What consumers make of a program: compiled forms, structured results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._dynamo.exc
import torch._functorch.config
import torch.utils._pytree as pytree


def unflattened(results: Sequence[Any], program: torch.export.ExportedProgram) -> Any:
    """The flat results of a program in the structure that it returns."""
    return pytree.tree_unflatten(list(results), program.call_spec.out_spec)


def as_compiled(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """What AOTInductor takes a program apart into before it compiles it."""
    from torch._inductor.decomposition import select_decomp_table

    table = select_decomp_table()  # torch's own table less what the compiler keeps whole, and with its own rules
    return torch.export.ExportedProgram.run_decompositions(program, table)  # type: ignore[no-any-return]


def aot_compiled(program: torch.export.ExportedProgram, folder: str) -> Callable[..., Any]:
    """The program as AOTInductor compiles it, with weights of its own; the package is written to a folder."""
    import torch._inductor

    path = torch._inductor.aoti_compile_and_package(program, package_path=f"{folder}/model.pt2")
    loaded: Callable[..., Any] = torch._inductor.aoti_load_package(path)
    return loaded
