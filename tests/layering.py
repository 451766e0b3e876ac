"""What the source says about its own boundaries, read with `ast`; test_layering.py asks the questions."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOMS = ("constraints", "contract", "solver", "seen", "export", "operators", "serve", "ship", "ci")
"""From the bottom up: a room may import itself and what stands before it."""

PRIVATE_TORCH_ALLOWED = (
    "shapeproof/export/shim/",
    "shapeproof/export/trace/tracer.py",
    "shapeproof/export/trace/shape_env.py",
    "shapeproof/export/explore/compare/rerun.py",
)
"""The shim, and the three files that drive torch's tracer."""


@functools.cache
def imported_names(source: str, module: str) -> frozenset[str]:
    """The full dotted name of everything that a module imports, wherever in the file the import stands.

    `from a import b` gives both `a` and `a.b`, since b may be a module. `module` resolves relative imports; the
    name of a package must end in `.__init__`.

    >>> sorted(imported_names("from ...solver import prove", "shapeproof.export.explore.explorer"))
    ['shapeproof.solver', 'shapeproof.solver.prove']
    """
    return frozenset(_imported_names(source, module))


def _imported_names(source: str, module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level]) if node.level else ""
            origin = ".".join(part for part in (base, node.module) if part)
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


@functools.cache
def at_run_time(source: str) -> str:
    r"""A source text without what only type checkers import.

    >>> at_run_time("if TYPE_CHECKING:\n    import a\nimport b")
    'pass\nimport b'
    """
    return ast.unparse(_RunTime().visit(ast.parse(source)))


class _RunTime(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> ast.AST:
        return ast.Pass() if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)


def upward_imports(source: str, module: str) -> list[str]:
    """The imports of a module of some room that reach into a room above it.

    >>> upward_imports("import shapeproof.export", "shapeproof.solver.prove")
    ['shapeproof.export']
    """
    above = {f"shapeproof.{room}" for room in ROOMS[ROOMS.index(module.split(".")[1]) + 1 :]}
    return [name for name in sorted(imported_names(source, module)) if ".".join(name.split(".")[:2]) in above]


def private_torch_names(source: str) -> list[str]:
    """The private names of torch in a source text, as dotted names.

    The rule: a dotted name that begins at torch is private if one of its parts begins with an underscore (`__version__`
    and its like do not count) or if it passes through `torch.fx.experimental`. It is looked for in imports, and in
    attributes reached from an imported module or name of torch. What a variable holds is not followed. `torch._check`
    is documented for models to call, and does not count.

    >>> private_torch_names("import torch; torch._guards.tracing(torch.nn.Linear.__name__)")
    ['torch._guards', 'torch._guards.tracing']
    """
    if "torch" not in source:
        return []
    bound = dict(_torch_bindings(source))
    used = (_dotted(node, bound) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    named = {name for name in used if name} | imported_names(source, "")
    return sorted(name for name in named if _is_private(name))


def _is_private(name: str) -> bool:
    parts = name.split(".")
    if parts[0] != "torch" or parts == ["torch", "_check"]:
        return False
    hidden = any(part.startswith("_") and not part.endswith("__") for part in parts)
    return hidden or parts[:3] == ["torch", "fx", "experimental"]


def _torch_bindings(source: str) -> Iterator[tuple[str, str]]:
    """Local names that stand for torch or a part of it, with what they stand for."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    yield (alias.asname, alias.name) if alias.asname else ("torch", "torch")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch" and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted(node: ast.expr, bound: dict[str, str]) -> str | None:
    """The dotted name that an attribute chain spells, if it begins at a name that stands for torch."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in bound:
        return None
    return ".".join([bound[node.id], *parts])


def module_name(path: Path, root: Path) -> str:
    """The dotted name of a source file; a package keeps its `.__init__`.

    >>> module_name(Path("r/shapeproof/solver/__init__.py"), Path("r"))
    'shapeproof.solver.__init__'
    """
    return ".".join(path.relative_to(root).with_suffix("").parts)
