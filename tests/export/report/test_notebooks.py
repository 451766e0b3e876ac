"""A report in IPython: places are cells, as in its tracebacks, and rich prints in colour what print prints."""

from __future__ import annotations

import io
import linecache
import sys
import types

import pytest
import torch
from rich.console import Console
from torch.export import Dim

from shapeproof.export import check
from shapeproof.wording import file_text, place_text

FIRST = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 4)
"""
SECOND = """
from torch.export import Dim
from shapeproof.export import check
n = Dim("n", min=1, max=9)
report = check(Model(), (torch.ones(8),), dynamic_shapes=({0: n},))
"""


class Kernel:
    """What ipykernel does with a cell: a file name for its code, which its compiler knows by number."""

    def __init__(self):
        self.compile, self.cells, self.space = self, {}, {"__name__": "__main__"}

    def format_code_name(self, name):
        return ("Cell", f"In[{self.cells[name]}]") if name in self.cells else None

    def run_cell(self, source):
        name = f"/tmp/ipykernel_71/{abs(hash(source))}.py"  # noqa: S108 - ipykernel's own choice
        self.cells[name] = len(self.cells) + 1
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec"), self.space)  # noqa: S102 - written above


@pytest.fixture
def kernel(monkeypatch):
    shell = Kernel()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell, version_info=(9, 0)))
    return shell


def test_places_are_cells(kernel):
    """The fault: `/tmp/ipykernel_71/1234.py:5`, a file that is not there."""
    kernel.run_cell(FIRST)
    kernel.run_cell(SECOND)
    report = kernel.space["report"]
    assert "  --> Cell In[1], line 5   return x.view(-1, 4)" in str(report)
    assert "at Cell In[2], line 4" in str(report)
    assert "ipykernel" not in str(report)
    assert "Cell In[1]" in report._repr_html_()
    assert "ipykernel" not in report._repr_html_()


def test_places_are_cells_in_ipython_itself():
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell.instance()
    try:
        shell.run_cell(FIRST).raise_error()
        shell.run_cell(SECOND).raise_error()
        text = str(shell.user_ns["report"])
    finally:
        type(shell).clear_instance()
    assert "  --> Cell In[" in text
    assert "], line 4   return x.view(-1, 4)" in text  # IPython drops the empty first line
    assert "], line 3" in text


def test_a_file_is_a_file_beside_a_notebook(kernel):
    kernel.run_cell("x = 1")
    assert place_text("/a/model.py", 3) == "/a/model.py:3"
    assert file_text("/a/site-packages/lib/model.py") == "lib/model.py"


@pytest.mark.parametrize("width", [60, 200])
def test_rich_prints_in_colour_what_print_prints(width):
    shapes = ({0: Dim("n", min=1, max=9)},)
    report = check(torch.nn.Unflatten(0, (-1, 4)), (torch.ones(8),), dynamic_shapes=shapes)
    plain, colour = (
        Console(
            file=io.StringIO(), width=width, force_terminal=terminal, color_system="truecolor" if terminal else None
        )
        for terminal in (False, True)
    )
    for console in (plain, colour):
        console.print(report)
    said, in_colour = (console.file.getvalue() for console in (plain, colour))
    assert all(len(line) <= width for line in said.splitlines())
    if width > 100:
        assert said == f"{report}\n"
    assert "\x1b[1;31merror\x1b[0m[divides]" in in_colour
    assert "\x1b[1;31mrefuted\x1b[0m" in in_colour
