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
ROOMS = ("export/ops", "export/forms", "export/graph", "export/build", "export/explore", "export/trace")
FILES = [path for room in (*ROOMS, "operators", "serve") for path in sorted((HOME / room).rglob("*.py"))]
FILES = [path for path in FILES if path.parent.name != "python" and path.name != "__init__.py"]
"""Other rooms, and `trace/python`, name Python's functions of numbers, or what files for other programs are made of."""
PACKETS = frozenset(
    each.name.removeprefix("aten::") for each in torch._C._jit_get_all_schemas() if each.name.startswith("aten::")
)
_WORD = re.compile(r"(?:aten\.)?(\w+?)_?(?:\.\w*)?")
TABLE = "export/ops/table.py"
ALSO = {
    "export/build/assertions.py": {"permute"},  # raises for another rank, in a graph
    "export/explore/compare/literals.py": {"lift_fresh_copy", "scalar_tensor"},  # what torch records of an integer
    "export/explore/compare/uniform.py": {"ones_like", "zeros_like"},  # of the pointwise, these read no element
    "export/graph/emit.py": {"alias", "squeeze"},  # a squeeze in a graph, its dims named; an alias where none is left
    "export/trace/checks/failures.py": {"count_nonzero", "ge", "new_ones"},  # an assertion that uses a call's result
    "export/trace/known/exact_numbers.py": {  # the terms and the rounding of an element: the table knows of shapes
        *("_to_copy", "add", "div", "eq", "ge", "gt", "le", "lt", "ne", "rsub", "sub", "to", "true_divide", "where"),
    },
    "export/trace/size_symbols.py": {"eq"},  # of equal contents; this overload only
    "export/trace/tracer.py": {"as_strided", "clone", "contiguous"},  # what torch asks of a fake mode, and `x_copy`
}
"""Operators that one file calls or writes into graphs, beside the table, which has what is known of them."""


def packets(text: str) -> set[str]:
    """Return the operators in a list of operators: text of which most words name one, and which is no kind's name."""
    found = [match[1] for word in text.split() if (match := _WORD.fullmatch(word)) and match[1] in PACKETS]
    listed = len(text.split()) > 1 and 2 * len(found) > len(text.split()) and text not in KINDS
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
    for path in FILES:
        for name in named(ast.parse(path.read_text())):
            files[name].add(str(path.relative_to(HOME)))
    several = {name: paths for name, paths in files.items() if len(paths) > 1}
    allowed = {name: {TABLE} for names in ALSO.values() for name in names}
    for path, names in ALSO.items():
        for name in names:
            allowed[name].add(path)
    assert several == allowed


@pytest.mark.quick
@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("node.target is torch.ops.aten.sym_size.int", "sym_size"),
        ("_aten.detach_.default", "detach"),
        ("str(func) == 'aten.select.int'", "select"),
        ("_MOVES = 'permute transpose.int slice'", "permute transpose slice"),
        ("{'cat': 1, 'stack': 2, 'masked_select': 3}", "cat stack masked_select"),
        ("('permute', 'transpose', 'aten.view.')", "permute transpose view"),
        ("func.startswith(('aten.view.', 'aten.clone'))", "view clone"),
        ("{'cat': 1, 'slice': 2, 'softmax gradient': 3}", ""),
        ("f'a {dtype} tensor of {rank} dims'", ""),
        ("'size is not negative'", ""),
    ],
    ids=str,
)
def test_a_name_is_found_where_it_is_written(code, found):
    assert named(ast.parse(code)) == set(found.split())
