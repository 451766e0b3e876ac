"""Forms of a program for its consumers: compiled, decomposed, with structured results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._dynamo.exc
import torch._functorch.config
import torch.utils._pytree as pytree


def unflattened(results: Sequence[Any], program: torch.export.ExportedProgram) -> Any:
    """Return the flat results of a program in the structure that the program returns."""
    return pytree.tree_unflatten(list(results), program.call_spec.out_spec)


def as_compiled(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the program decomposed as AOTInductor decomposes it before compilation."""
    from torch._inductor.decomposition import select_decomp_table

    table = select_decomp_table()  # torch's table, less operators kept whole, and the compiler's rules
    return torch.export.ExportedProgram.run_decompositions(program, table)


def aot_compiled(program: torch.export.ExportedProgram, folder: str) -> Callable[..., Any]:
    """Return the program as AOTInductor compiles it, with its own copy of the weights; the package goes to a folder."""
    import torch._inductor

    path = torch._inductor.aoti_compile_and_package(program, package_path=f"{folder}/model.pt2")
    loaded: Callable[..., Any] = torch._inductor.aoti_load_package(path)
    return loaded
