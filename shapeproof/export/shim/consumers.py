"""What consumers make of a program: archives, compiled forms, structured results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch._dynamo.exc
import torch._functorch.config
import torch.utils._pytree as pytree
from torch.export.pt2_archive._package import load_pt2, package_pt2


def save_archive(path: str, programs: Mapping[str, torch.export.ExportedProgram], texts: Mapping[str, str]) -> None:
    """Write programs and texts by name as one PT2 archive."""
    package_pt2(path, exported_programs=dict(programs), extra_files=dict(texts))


def load_archive(path: str) -> tuple[dict[str, torch.export.ExportedProgram], dict[str, str]]:
    """The programs and the texts of a PT2 archive, by name."""
    return (found := load_pt2(path)).exported_programs, found.extra_files


def unflattened(results: Sequence[Any], program: torch.export.ExportedProgram) -> Any:
    """The flat results of a program in the structure that it returns."""
    return pytree.tree_unflatten(list(results), program.call_spec.out_spec)


def as_compiled(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """What AOTInductor takes a program apart into before it compiles it."""
    from torch._inductor.decomposition import select_decomp_table

    table = torch.export.default_decompositions().materialize() | select_decomp_table()
    return torch.export.ExportedProgram.run_decompositions(program, table)  # type: ignore[no-any-return]
