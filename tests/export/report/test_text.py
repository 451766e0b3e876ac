"""Reports as text: golden files, the width, and the two lines that ask, the user's and that of the library it calls."""

from __future__ import annotations

import linecache
import sysconfig

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.records.diagnostics import Diagnostic, Help, Note
from shapeproof.export import Report, check
from shapeproof.export.report.render import render

SOURCE = """
class Model(torch.nn.Module):
    def forward(self, x, y):
        return rows(x), torch.cat([x, y]) + torch.zeros(24)
"""
EXPORT = """
m = Dim("m", min=1, max=64)
report = check(
    model, (torch.ones(8), torch.ones(16)), dynamic_shapes=({0: Dim("n", min=1, max=64)}, {0: m})
)
"""
LIBRARY = """
def rows(x):
    return x.view(-1, 4)
"""


def defined(source, file, **names):
    """The names that a source defines; its lines can be shown."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"torch": torch, "Dim": Dim, "check": check, **names}
    exec(compile(source, file, "exec"), space)  # noqa: S102 - written above
    return space


@pytest.fixture(scope="module")
def report():
    """Two causes: one is asked for by a library, the other one by the model itself."""
    installed = sysconfig.get_paths()["purelib"] + "/layers/rows.py"
    rows = defined(LIBRARY, installed)["rows"]
    model = defined(SOURCE, "model.py", rows=rows)["Model"]()
    return defined(EXPORT, "export.py", model=model)["report"]


@pytest.mark.thorough
def test_a_report_of_two_causes(report, golden):
    golden.check("export/two_causes.txt", str(report))


REFUSING = """\
class Model(torch.nn.Module):
    def forward(self, x):
        return x.view(7)
"""


def test_an_example_that_the_model_refuses(golden):
    model = defined(REFUSING, "refusing.py")["Model"]()
    report = check(model, (torch.ones(6),), dynamic_shapes=({0: Dim("n", min=1, max=8)},))
    golden.check("export/example.txt", str(report))


TEN = """
class Model(torch.nn.Module):
    def forward(self, *a):
        t = [a[0].view(-1, 2), a[1].view(-1, 3), a[2] + torch.ones(4), a[3].view(5)]
        t += [a[4].reshape(-1, 5), a[5] @ torch.ones(6), a[6].view(7, -1), a[7][3], a[8].view(8)]
        total = sum(x.sum() for x in t)
        if a[9].shape[0] > 4:
            total = total * 2
        return total + a[10].sum()
"""
TEN_CALLED = """
args = tuple(torch.ones(n) for n in (4, 6, 4, 5, 10, 6, 7, 6, 8, 9, 3))
dims = tuple({0: Dim(f"d{number}", min=1, max=64)} for number in range(11))
report = check(model, args, dynamic_shapes={"a": dims})
"""


@pytest.mark.thorough
def test_a_report_of_ten_findings(golden):
    """The fault: each finding listed eleven sizes, and some showed the error of another one on the same line."""
    model = defined(TEN, "ten.py")["Model"]()
    report = defined(TEN_CALLED, "export.py", model=model)["report"]
    assert [len(found.witness) for found in report.diagnostics] == [11] * 10
    golden.check("export/ten_findings.txt", str(report))


def test_a_library_is_named_after_the_line_that_calls_it(report):
    (asked,) = [d for d in report.diagnostics if any(note.label == "asked in" for note in d.notes)]
    assert (asked.file, asked.line) == ("model.py", 4)
    note = next(note for note in asked.notes if note.label == "asked in")
    assert note.text == "layers/rows.py:3   return x.view(-1, 4)"
    assert note.where.line == 3


@pytest.mark.parametrize("width", [60, 100])
def test_the_width_is_kept_except_by_code(report, width):
    text = render(report, width)
    code = {line for diagnostic in report.diagnostics for help_ in diagnostic.help for line in help_.text.splitlines()}
    long = [line for line in text.splitlines() if len(line) > width]
    assert all(any(each in line for each in code) for line in long)


def test_every_part_of_a_diagnostic_has_its_place(golden):
    diagnostic = Diagnostic(
        id="divides",
        message="`x.shape[0]` must be a multiple of 4",
        notes=(Note("declared", 'x.shape[0] = Dim("n", min=2)'), Note("required", "x.shape[0] % 4 == 0")),
        witness={"x.shape[0]": 2},
        help=(
            Help('_n = Dim("_n", min=1)\nn = 4*_n', "proved: settles this"),
            Help("n = 4", "proved, with the other help: settles what only a line of more than sixty columns can say"),
        ),
    )
    more = Diagnostic("undecided", "could not be decided", severity="warning")
    report = Report("refuted", (diagnostic, more), notes=("a note that is long enough to be wrapped at this width",))
    golden.check("export/parts.txt", render(report, 60))


def test_plain_text_has_no_colour(report):
    assert "\x1b" not in str(report)


def thirty():
    """Findings of three ids at four lines, as a model with thirty-one inputs has them; some have help."""
    required = [
        *(("divides", 6, f"a[{i}].shape[0] % {i % 3 + 2} == 0") for i in range(12)),
        *(("bound", 8, f"a[{i}].shape[0] >= 4") for i in range(12, 20)),
        *(("relation", 10, f"a[{i}].shape[0] == 1 or a[{i}].shape[0] == 4") for i in range(20, 29)),
        ("equal", 17, "a[29].shape[0] + a[30].shape[0] == 12"),
    ]
    for number, (name, line, formula) in enumerate(required):
        notes = (
            Note("declared", f'a[{number}].shape[0] = Dim("d{number}", min=1, max=64)   at export.py:5'),
            Note("required", f"{formula}   by aten.view.default"),
            Note("fails at", f"a[{number}].shape[0] = 1 (and 30 sizes more, in its witness)   replayed; eager raises"),
        )
        help_ = (Help(f"d{number} = 12", "proved, with the other help: settles this"),) if number % 5 == 0 else ()
        yield Diagnostic(name, f"`{formula}` must hold", file="thirty.py", line=line, notes=notes, help=help_)


def test_thirty_findings_are_readable(golden):
    """The fault: two hundred lines, of which six were one cause twelve times."""
    report = Report("refuted", tuple(thirty()), statistics={"questions about sizes": 115})
    golden.check("export/thirty_findings.txt", str(report))
    assert len(str(report).splitlines()) <= 60


@pytest.mark.quick
@pytest.mark.parametrize("show", [0, 1, 2, 4, 29, 30, 31])
def test_in_short_or_whole_every_requirement_and_every_help_is_told(show):
    found = list(thirty())
    text = render(Report("refuted", tuple(found)), show=show)
    in_one_line = " ".join(text.split())
    for each in found:
        required = next(note.text for note in each.notes if note.label == "required").partition("   ")[0]
        assert required in in_one_line
        assert all(help_.text in text for help_ in each.help)
    whole = text.count("fails at")
    assert whole == (30 if show >= 30 else min(show, 4))
    assert ("in short" in text) is (show < 30)
    assert f"{30 - whole} findings in short" in text or show >= 30
