"""An operator of torch is named by hand in one file of the package: what else is known of it follows from there."""

from __future__ import annotations

import ast
import collections
import pathlib
import re

import pytest
import torch

import shapeproof
from shapeproof.export.ops import table

KINDS = {part for each in table.KINDS.values() for part in each}
HOME = pathlib.Path(shapeproof.__file__).parent
ROOMS = ("export/ops", "export/forms", "export/graph", "export/build", "export/explore", "export/trace/calls")
ROOMS = (*ROOMS, "export/trace/checks", "export/trace/known", "operators", "serve")
"""Other rooms name Python's functions of numbers, or what files for other programs are made of."""
PACKETS = frozenset(
    each.name.removeprefix("aten::") for each in torch._C._jit_get_all_schemas() if each.name.startswith("aten::")
)
_WORD = re.compile(r"(?:aten\.)?(\w+?)_?(?:\.\w+)?")
MOST = 63
"""How many operators two or more files name. It may fall; it may not rise."""


def packets(text: str) -> set[str]:
    """Return the operators in a list of operators; none for any other text."""
    found = [match[1] for word in text.split() if (match := _WORD.fullmatch(word)) and match[1] in PACKETS]
    listed = len(text.split()) > 1 and 2 * len(found) >= len(text.split())
    return set(found) if listed or text.startswith("aten.") else set()


def columns(node: ast.AST) -> list[ast.expr]:
    """Return the entries of a display: a list, a tuple, a set or the keys of a dict."""
    entries = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    return [each for each in entries if each is not None]


def _last_name(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def named(tree: ast.Module) -> set[str]:
    """Return the operators that a file names, as attributes of `aten` and in tables of names."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _last_name(node.value).lower().endswith("aten"):
            found |= {node.attr.removesuffix("_")} & PACKETS
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n\n" not in node.value:
            found |= packets(node.value)
        texts = [each.value for each in columns(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        found |= packets(" ".join(texts)) if len(texts) > 2 and not KINDS.issuperset(texts) else set()
    return found


@pytest.mark.thorough
def test_an_operator_is_named_in_one_file():
    files = collections.defaultdict(set)
    for path in sorted(path for room in ROOMS for path in (HOME / room).rglob("*.py")):
        for name in named(ast.parse(path.read_text())):
            files[name].add(str(path.relative_to(HOME)))
    several = {name: paths for name, paths in files.items() if len(paths) > 1}
    assert len(several) <= MOST, sorted(several.items())
