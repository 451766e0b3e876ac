"""Where a declaration is written: the Dim or the relation itself if the caller's file has it once, else the call."""

from __future__ import annotations

import functools
import importlib
import linecache

import torch

from shapeproof.export import Dim, check
from shapeproof.export.source.declared_at import in_the_call, in_the_file_of, nowhere

SOURCE = """
n = Dim("n", max=8)
twice = [Dim("m"), te.Dim("m", min=1)]
relations = [
    "n % 2 == 0", 'n != 4']


def where():
    return in_the_call(
    )
"""
CALL = 9


def defined(source, file, **names):
    """The names that a source defines; its lines can be shown."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"Dim": Dim, "te": torch.export, "in_the_call": in_the_call, **names}
    exec(compile(source, file, "exec"), space)  # noqa: S102 - written above
    return space


ASKED = ("n", "m", "n % 2 == 0", "n != 4", "x.shape[0]")


def lines(where):
    return {name: place and place.line for name in ASKED for place in [where(name)]}


def test_what_the_file_has_once_has_its_own_line_and_all_else_that_of_the_call():
    where = defined(SOURCE, "calling.py")["where"]()
    assert lines(where) == {"n": 2, "m": CALL, "n % 2 == 0": 5, "n != 4": 5, "x.shape[0]": CALL}
    assert where("n").file == "calling.py"


def test_of_a_function_that_declares_the_line_is_its_own():
    function = defined(SOURCE, "declaring.py")["where"]
    assert lines(in_the_file_of(function)) == {"n": 2, "m": 8, "n % 2 == 0": 5, "n != 4": 5, "x.shape[0]": 8}


def test_a_page_that_is_no_program_has_the_line_of_the_call():
    space = defined(SOURCE, "page.md")
    linecache.cache["page.md"] = (0, None, ["# A page\n", "```python\n"], "page.md")
    assert set(lines(space["where"]()).values()) == {CALL}


def test_what_is_in_no_file_or_installed_has_no_line():
    assert set(lines(defined(SOURCE, "<typed>")["where"]()).values()) == {None}
    assert in_the_file_of(functools.partial(print)) is nowhere
    assert in_the_file_of(torch.nn.Linear) is nowhere


class Rows(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 4)


class Both(torch.nn.Module):
    def forward(self, x, y):
        return x, y


def test_a_diagnostic_says_where_the_dim_is_made():
    report = check(Rows(), (torch.ones(8),), dynamic_shapes=({0: Dim("rows_of_four", min=1, max=64)},))
    (note,) = [note for note in report.diagnostics[0].notes if note.label == "declared"]
    line = linecache.getline(__file__, note.where.line)
    assert note.where.file == __file__
    assert 'Dim("rows_of_four"' in line
    assert note.text.endswith(f"at tests/export/source/test_written.py:{note.where.line}")


def test_declarations_that_clash_say_where_each_is_made():
    shapes = ({0: Dim("a", min=1, max=8)}, {0: Dim("b", min=16, max=64)})
    report = check(Both(), (torch.ones(8), torch.ones(16)), dynamic_shapes=shapes, constraints=["a == b"])
    assert report.status == "vacuous"
    assert [note.where.file for note in report.diagnostics[0].notes] == [__file__] * 3


def test_a_dim_that_another_file_makes_has_the_line_there(tmp_path, monkeypatch):
    """The fault: it was said to be declared in the line of the call."""
    (tmp_path / "made_sizes.py").write_text(
        'from torch.export import Dim\n\nDIMS = {"x": Dim("made_elsewhere", max=64)}\n'
    )
    (tmp_path / "made_again.py").write_text('from torch.export import Dim\nDim("made_twice")\nDim("made_twice")\n')
    monkeypatch.syspath_prepend(tmp_path)
    sizes, _ = importlib.import_module("made_sizes"), importlib.import_module("made_again")
    (found,) = check(Rows(), (torch.ones(8),), dynamic_shapes=({0: sizes.DIMS["x"]},)).diagnostics
    (where,) = (note.where for note in found.notes if note.label == "declared")
    assert (where.file, where.line) == (sizes.__file__, 3)
    call = in_the_call()
    assert call("made_twice").file == __file__
    assert call("x.shape[0]").file == __file__


def test_a_library_of_another_environment_on_the_path_is_not_searched(tmp_path, monkeypatch):
    """The fault: every file of torch and transformers was parsed where a `.pth` file named their environment."""
    library = tmp_path / "elsewhere" / "site-packages"
    library.mkdir(parents=True)
    (library / "installed_dims.py").write_text('from torch.export import Dim\nDim("made_by_a_library")\n')
    monkeypatch.syspath_prepend(library)
    importlib.import_module("installed_dims")
    assert in_the_call()("made_by_a_library").file == __file__
